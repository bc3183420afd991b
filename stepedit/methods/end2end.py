"""End2end: write the whole target, token by token, and an end symbol.

source   8 2 8 4 2
output   - 8 * 2 / 8 + 4 == 2 <end>
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from stepedit.data.states import States
from stepedit.editing.sequences import PAD, IntArray, Sequences
from stepedit.methods.base import END, SinglePassMethod, before_end, indices

FIRST_TOKEN = END + 1


class End2end(SinglePassMethod):
    """Write the target."""

    name: ClassVar[str] = "end2end"
    title: ClassVar[str] = "write the whole target"
    scores_end_symbol: ClassVar[bool] = True

    def output_symbols(self) -> list[str]:
        """Return the end symbol and every token of a target."""
        return ["<end>", *map(self.task.vocabulary.name, self.task.target_tokens)]

    def output_tokens(self) -> list[int]:
        """Return the token of each output that has one."""
        return [PAD] * FIRST_TOKEN + [*self.task.target_tokens]

    @property
    def max_output_length(self) -> int:
        """The longest text and the end symbol."""
        return self.task.max_length + 1

    def targets(self, states: States) -> tuple[IntArray, IntArray]:
        """Return the targets, whatever the state."""
        lengths = states.targets.lengths
        ids = states.targets.widened(int(lengths.max(initial=0)) + 1).ids
        outputs = self._outputs_of[np.minimum(ids, len(self._outputs_of) - 1)]
        outputs[np.arange(len(outputs)), lengths] = END
        return outputs, lengths + 1

    def rewrite(self, texts: Sequences, symbols: IntArray) -> Sequences:
        """Return the tokens before the end symbol."""
        tokens = np.array(self.output_tokens())[symbols]
        return Sequences.keep(np.where(before_end(symbols), tokens, PAD))

    @cached_property
    def _outputs_of(self) -> IntArray:
        return indices(self.task.target_tokens, FIRST_TOKEN, self.task.vocabulary)
