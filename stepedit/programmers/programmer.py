"""The contract of a programmer: made for a method, taught with outputs that are known, asked to say its own.

Shapes: B texts, T tokens, O symbols said, V symbols there are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from torch import Tensor, nn

from stepedit.config import Options
from stepedit.methods.method import Method, Said
from stepedit.programmers.layers import Draw


class Programmer(nn.Module, ABC):
    """A net that reads states and says symbols of its method's outputs."""

    @classmethod
    @abstractmethod
    def for_method(cls, method: Method, options: Options) -> Self:
        """A programmer of the sizes that the options say, with fresh weights."""

    @abstractmethod
    def forward(
        self,
        ids_BT: Tensor,
        lengths_B: Tensor,
        outputs_BO: Tensor,
        forcing: float = 1.0,
        draw: Draw | None = None,
    ) -> Tensor:
        """Logits (B, O, V) for outputs that are known; a symbol sees the true one before it at a rate of `forcing`."""

    @abstractmethod
    def write(self, ids_BT: Tensor, lengths_B: Tensor, longest: int, end: int | None) -> Said:
        """What it says about some states."""
