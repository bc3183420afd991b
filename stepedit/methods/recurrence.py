"""Recurrence: predict one action, apply it, read the text again; until DONE.

    state    8 2 8 4 2          output   pos_0 -
    state    - 8 2 8 4 2        output   pos_2 *
    ...
    state    - 8 * 2 / 8 + 4 == 2   output   <done> <done>

Outputs are the symbols of the task's action template, so all outputs have the same short length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from stepedit.data.states import States
from stepedit.editing import actions, interpreter
from stepedit.editing.actions import NOTHING, OPERATION, POSITION, TOKEN, Operation
from stepedit.editing.edits import Scripts
from stepedit.editing.interpreter import AppliedAction, StepResult
from stepedit.editing.sequences import PAD, BoolArray, IntArray, Pairs, Sequences
from stepedit.methods.base import Method
from stepedit.tasks.base import Task


class Recurrence(Method):
    """Predict one action at a time."""

    name: ClassVar[str] = "recurrence"
    title: ClassVar[str] = "predict one action, apply it, read again"
    iterative: ClassVar[bool] = True
    default_programmer: ClassVar[str] = "pointer"
    end: ClassVar[int | None] = None

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        operations, positions = self._operations(), range(task.max_length + 1)
        symbols = [NOTHING, *map(actions.operation, operations), *map(actions.position, positions)]
        self._first_position = 1 + len(operations)
        self._first_token = len(symbols) - 1  # the token with id 1 comes next
        self._symbols = np.array([*symbols, *map(actions.token, range(1, len(task.vocabulary)))])
        self._operation_outputs = np.zeros(len(Operation), np.int64)
        self._operation_outputs[operations] = np.arange(1, 1 + len(operations))

    def _operations(self) -> list[Operation]:
        template = self.task.template
        return [Operation.DONE, *(template.operations if "operation" in template.fields else ())]

    def output_symbols(self) -> list[str]:
        """Return operations, positions (those of the longest text and the one behind it) and tokens."""
        operations = [f"<{operation.name.lower()}>" for operation in self._operations()]
        positions = (f"<pos_{position}>" for position in range(self.task.max_length + 1))
        return [*operations, *positions, *self.task.vocabulary.tokens[1:]]

    def output_tokens(self) -> list[int]:
        """Return the token of each output that has one."""
        return [PAD] * (self._first_token + 1) + [*range(1, len(self.task.vocabulary))]

    @property
    def max_output_length(self) -> int:
        """The number of fields of an action."""
        return len(self.task.template.fields)

    @property
    def max_steps(self) -> int:
        """Twice as many actions as the longest script has, so that a mistake can be corrected, and DONE."""
        return 2 * self.task.max_edits + 2

    def expressible(self, pairs: Pairs, scripts: Scripts) -> BoolArray:
        """Return (B,) whether actions can name all edits."""
        return self.task.expressible(pairs, scripts)

    def targets(self, states: States) -> tuple[IntArray, IntArray]:
        """Return the next action of each state."""
        wanted = states.actions(self.task.template)
        kind, payload = wanted & 3, wanted >> 2
        operation = self._operation_outputs[np.where(kind == OPERATION, payload, 0)]
        outputs = np.where(kind == POSITION, self._first_position + payload, operation)
        outputs = np.where(kind == TOKEN, self._first_token + payload, outputs)
        return outputs, np.full(len(states), self.max_output_length)

    def decode_outputs(self, outputs: IntArray) -> IntArray:
        """Return the actions (B, F) that outputs stand for."""
        return self._symbols[outputs]

    def apply(self, texts: Sequences, symbols: IntArray) -> StepResult:
        """Apply one action to each text."""
        return interpreter.step_batch(texts, symbols, self.task.template)

    def step(self, text: Sequence[int], symbols: Sequence[int]) -> tuple[tuple[int, ...], bool]:
        """Apply one action to one text, in plain Python: for a single text that is ten times as fast as arrays."""
        after, done, _ = interpreter.step(text, symbols, self.task.template)
        return after, done

    def describe(
        self, before: Sequence[int], symbols: Sequence[int], after: Sequence[int], confidence: float
    ) -> AppliedAction:
        """Return a record of the action."""
        return interpreter.describe(before, symbols, self.task.template, confidence)
