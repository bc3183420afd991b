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

from stepedit.config import EditOrder
from stepedit.data.states import States
from stepedit.editing import actions, interpreter
from stepedit.editing.actions import NOTHING, OPERATION, POSITION, TOKEN, Operation
from stepedit.editing.edits import Scripts
from stepedit.editing.interpreter import AppliedAction, StepResult
from stepedit.editing.sequences import PAD, BoolArray, IntArray, Pairs, Sequences
from stepedit.methods.base import START, Method, indices
from stepedit.tasks.base import Task


class Recurrence(Method):
    """Predict one action at a time."""

    name: ClassVar[str] = "recurrence"
    title: ClassVar[str] = "predict one action, apply it, read again"
    iterative: ClassVar[bool] = True
    default_programmer: ClassVar[str] = "pointer"
    end: ClassVar[int | None] = None

    def __init__(self, task: Task, *, max_actions: int | None = None, edit_order: EditOrder = "left-to-right") -> None:
        super().__init__(task, max_actions=max_actions, edit_order=edit_order)
        operations, tokens = self._operations(), self._tokens()
        symbols = [NOTHING, NOTHING, *map(actions.operation, operations)]
        self._first_position = len(symbols)
        symbols += map(actions.position, range(self._num_positions))
        self._token_outputs = indices(tokens, len(symbols), task.vocabulary)
        self._symbols = np.array([*symbols, *map(actions.token, tokens)])
        self._operation_outputs = np.zeros(len(Operation), np.int64)
        self._operation_outputs[operations] = np.arange(START + 1, START + 1 + len(operations))

    @property
    def _num_positions(self) -> int:
        """From left to right, everything before an edit is final; in other orders it can be anywhere in a text."""
        return self.task.num_positions if self.edit_order == "left-to-right" else self.task.max_length + 1

    def _tokens(self) -> list[int]:
        return sorted(self.task.template.tokens)

    def _operations(self) -> list[Operation]:
        template = self.task.template
        return [Operation.DONE, *(template.operations if "operation" in template.fields else ())]

    def output_symbols(self) -> list[str]:
        """Return operations, positions and the tokens that an action may insert."""
        operations = [f"<{operation.name.lower()}>" for operation in self._operations()]
        positions = (f"<pos_{position}>" for position in range(self._num_positions))
        return [*operations, *positions, *map(self.task.vocabulary.name, self._tokens())]

    def output_tokens(self) -> list[int]:
        """Return the token of each output that has one."""
        return [PAD] * (len(self._symbols) - len(self._tokens())) + self._tokens()

    @property
    def max_output_length(self) -> int:
        """The number of fields of an action."""
        return len(self.task.template.fields)

    @property
    def max_steps(self) -> int:
        """The limit given or twice as many actions as the longest script has, so that mistakes can be corrected."""
        return self.max_actions or 2 * self.task.max_edits + 2

    def expressible(self, pairs: Pairs, scripts: Scripts) -> BoolArray:
        """Return (B,) whether actions can name all edits."""
        return self.task.expressible(pairs, scripts)

    def targets(self, states: States) -> tuple[IntArray, IntArray]:
        """Return the next action of each state."""
        wanted = states.actions(self.task.template)
        kind, payload = wanted & 3, wanted >> 2
        operation = self._operation_outputs[np.where(kind == OPERATION, payload, 0)]
        outputs = np.where(kind == POSITION, self._first_position + payload, operation)
        token = self._token_outputs[np.where(kind == TOKEN, np.minimum(payload, len(self._token_outputs) - 1), 0)]
        outputs = np.where(kind == TOKEN, token, outputs)
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
