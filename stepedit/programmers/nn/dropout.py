"""Dropout, with one mask per sequence or per token, drawn from a generator that is passed in.

Shapes: B texts, T tokens, M tokens of all texts, H hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn


class DropoutRng(NamedTuple):
    """The source of randomness of dropout: a generator, and which rows of a batch are processed here.

    A process that has a part of a batch draws numbers for the whole batch and uses its part, so that the result does
    not depend on how a batch is distributed.
    """

    generator: torch.Generator
    rows: Tensor  # (B,) of the whole batch
    batch_size: int

    def rand(self, *shape: int) -> Tensor:
        """Return (B, *shape) uniform numbers."""
        drawn = torch.rand((self.batch_size, *shape), generator=self.generator)
        return drawn if len(self.rows) == self.batch_size else drawn[self.rows]

    def coin(self, probability: float) -> bool:
        """Return true with this probability, the same for all rows of the batch."""
        return float(torch.rand((), generator=self.generator)) < probability


class Dropout(nn.Module):
    """Drop features of whole sequences, because one mask for all positions costs a tenth of one per position.

    `per_token` is plain dropout: a mask for every position.
    """

    def __init__(self, rate: float, per_token: bool = False) -> None:
        super().__init__()
        self.rate, self.per_token = rate, per_token
        self.rng: DropoutRng | None = None

    def forward(self, hidden_BTH: Tensor) -> Tensor:
        """Zero some features and scale the others; in training only."""
        positions = hidden_BTH.shape[1] if self.per_token else 1
        scale = self._scale(hidden_BTH, positions)
        return hidden_BTH if scale is None else hidden_BTH * scale

    def packed(self, hidden_MH: Tensor, rows: Callable[[], Tensor]) -> Tensor:
        """Do the same for packed sequences; `rows` returns the sequence (M,) of each token."""
        scale_B1H = self._scale(hidden_MH, 1)
        return hidden_MH if scale_B1H is None else hidden_MH * scale_B1H[:, 0][rows()]

    def _scale(self, hidden: Tensor, positions: int) -> Tensor | None:
        """Return factors (B, positions, H): 0 for what is dropped."""
        if not self.training or self.rate == 0 or self.rng is None:
            return None
        return (self.rng.rand(positions, hidden.shape[-1]).to(hidden.device) >= self.rate) / (1 - self.rate)


@contextmanager
def dropout_rng(module: nn.Module, rng: DropoutRng | None) -> Iterator[None]:
    """Let all dropout inside a module draw from this generator; without one, nothing is dropped."""
    layers = [part for part in module.modules() if isinstance(part, Dropout)]
    for layer in layers:
        layer.rng = rng
    try:
        yield
    finally:
        for layer in layers:
            layer.rng = None
