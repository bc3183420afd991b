"""End2end: write the whole target, token by token, and an end.

    source   8 2 8 4 2
    output   - 8 * 2 / 8 + 4 == 2 <end>

Nothing is kept from the source but what the programmer copies.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from stepedit.batches import States
from stepedit.interpreter import tensors
from stepedit.methods.method import END, OneShot, before_end, close_gaps
from stepedit.sequences import PAD


class End2end(OneShot):
    """Write the target."""

    name: ClassVar[str] = "end2end"
    title: ClassVar[str] = "write the whole target"

    def symbols(self) -> list[str]:
        """The end, and every token."""
        return ["<end>", *self.task.vocabulary.tokens[1:]]

    def token_of(self) -> list[int]:
        """The token of each output that has one."""
        return [PAD, PAD, *range(1, len(self.task.vocabulary))]

    @property
    def longest(self) -> int:
        """The longest text and the end."""
        return self.task.longest + 1

    def render(self, states: States) -> tuple[Tensor, Tensor]:
        """The targets, whatever the state."""
        ids, lengths = tensors(states.targets.widened(int(states.targets.lengths.max(initial=0)) + 1))
        outputs = torch.where(ids != PAD, ids + 1, PAD)
        return outputs.scatter(1, lengths[:, None], END), lengths + 1

    def realise(self, ids: Tensor, lengths: Tensor, symbols: Tensor) -> tuple[Tensor, Tensor]:
        """The tokens before the end."""
        return close_gaps(torch.where(before_end(symbols) & (symbols > END), symbols - 1, PAD))
