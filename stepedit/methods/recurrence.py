"""Recurrence: say one action, have it applied, look again; until DONE.

    state    8 2 8 4 2          output   pos_0 -
    state    - 8 2 8 4 2        output   pos_2 *
    ...
    state    - 8 * 2 / 8 + 4 == 2   output   <done> <done>

The outputs are the symbols of the task's action template, so every output has the same short length.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from stepedit import actions
from stepedit.actions import NOTHING, OPERATION, POSITION, TOKEN, Operation
from stepedit.batches import States
from stepedit.interpreter import Outcome, run
from stepedit.methods.method import Method, Writer
from stepedit.sequences import PAD, Sequences
from stepedit.tasks.task import Task


class Recurrence(Method):
    """Say one action at a time."""

    name: ClassVar[str] = "recurrence"
    title: ClassVar[str] = "say one action, look again"
    programmer: ClassVar[str] = "pointer"
    end: ClassVar[int | None] = None

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        template, words = task.template, task.vocabulary
        operations = [Operation.DONE, *(template.operations if "operation" in template.fields else ())]
        meaning = [NOTHING, *map(actions.operation, operations), *map(actions.position, range(self.positions))]
        self._first_position = 1 + len(operations)
        self._first_token = len(meaning) - 1  # the token with id 1 comes next
        self._meaning = torch.tensor([*meaning, *map(actions.token, range(1, len(words)))])
        self._operation_ids = torch.zeros(len(Operation), dtype=torch.long)
        self._operation_ids[operations] = torch.arange(1, 1 + len(operations))

    @property
    def positions(self) -> int:
        """How many places can be named: those of the longest text, and the one behind it."""
        return self.task.longest + 1

    def symbols(self) -> list[str]:
        """Operations, positions, tokens."""
        template = self.task.template
        named = template.operations if "operation" in template.fields else ()
        operations = [f"<{operation.name.lower()}>" for operation in (Operation.DONE, *named)]
        return [*operations, *(f"<pos_{place}>" for place in range(self.positions)), *self.task.vocabulary.tokens[1:]]

    def token_of(self) -> list[int]:
        """The token of each output that has one."""
        return [PAD] * (self._first_token + 1) + [*range(1, len(self.task.vocabulary))]

    @property
    def longest(self) -> int:
        """The number of fields."""
        return len(self.task.template.fields)

    def render(self, states: States) -> tuple[Tensor, Tensor]:
        """The next action of each state."""
        said = states.actions(self.task.template)
        kind, payload = said & 3, said >> 2
        operation = self._operation_ids[torch.where(kind == OPERATION, payload, 0)]
        outputs = torch.where(kind == POSITION, self._first_position + payload, operation)
        outputs = torch.where(kind == TOKEN, self._first_token + payload, outputs)
        return outputs, torch.full((len(states),), self.longest)

    def meaning(self, symbols: Tensor) -> Tensor:
        """(B, F) the actions that outputs stand for."""
        return self._meaning[symbols]

    def run(self, sources: Sequences, writer: Writer, trace: bool = False) -> list[Outcome]:
        """Edit each source until the programmer says DONE, goes in a circle or says more than any text should need."""

        def programmer(ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
            said = writer(ids, lengths)
            return said.symbols, said.confidence

        return run(sources, programmer, self.task.template, self.limit, trace, stop_circles=True)

    @property
    def limit(self) -> int:
        """Actions at the most: twice what the longest script needs, so that a slip can be made good."""
        return 2 * self.task.most_edits + 2
