"""End2end: write the whole target, token by token, and an end symbol.

source   8 2 8 4 2
output   - 8 * 2 / 8 + 4 == 2 <end>
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from stepedit.data.states import States
from stepedit.editing.sequences import PAD, IntArray, Sequences
from stepedit.methods.base import END, SinglePassMethod, before_end


class End2end(SinglePassMethod):
    """Write the target."""

    name: ClassVar[str] = "end2end"
    title: ClassVar[str] = "write the whole target"

    def output_symbols(self) -> list[str]:
        """Return the end symbol and every token."""
        return ["<end>", *self.task.vocabulary.tokens[1:]]

    def output_tokens(self) -> list[int]:
        """Return the token of each output that has one."""
        return [PAD, PAD, *range(1, len(self.task.vocabulary))]

    @property
    def max_output_length(self) -> int:
        """The longest text and the end symbol."""
        return self.task.max_length + 1

    def targets(self, states: States) -> tuple[IntArray, IntArray]:
        """Return the targets, whatever the state."""
        lengths = states.targets.lengths
        ids = states.targets.widened(int(lengths.max(initial=0)) + 1).ids
        outputs = np.where(ids != PAD, ids + 1, PAD)
        outputs[np.arange(len(outputs)), lengths] = END
        return outputs, lengths + 1

    def rewrite(self, texts: Sequences, symbols: IntArray) -> Sequences:
        """Return the tokens before the end symbol."""
        return Sequences.keep(np.where(before_end(symbols) & (symbols > END), symbols - 1, PAD))
