"""The contract of a programmer: made for a method, taught with states whose way is known, asked about states.

States come in and what is said goes out on the CPU; a programmer may live on another device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import torch
from torch import Tensor, nn

from stepedit.batches import States
from stepedit.config import Options
from stepedit.methods.method import Method, Said
from stepedit.programmers.layers import Draw


class Programmer(nn.Module, ABC):
    """A net that reads states and says what its method understands."""

    @classmethod
    @abstractmethod
    def for_method(cls, method: Method, options: Options) -> Self:
        """One of the sizes that the options say, with fresh weights; UserError if the method is none for it."""

    @abstractmethod
    def forward(self, states: States, draw: Draw | None = None) -> Tensor:
        """The mean loss on these states, or that part of it which comes from the rows that are drawn for."""

    @abstractmethod
    def write(self, ids_BT: Tensor, lengths_B: Tensor) -> Said:
        """What it says about some states."""

    @abstractmethod
    def propose(self, ids_BT: Tensor, lengths_B: Tensor, width: int) -> tuple[Tensor, Tensor]:
        """Its likeliest actions (B, K, F) and their log-probabilities (B, K); for methods that say actions."""

    @abstractmethod
    def says(self, states: States) -> Tensor:
        """(B,) the log-probability of what should be said about each state."""

    def speed_up(self) -> bool:
        """Compile what can be, where a compiler is present; whether anything was. What is said stays the same."""
        return False

    @property
    def device(self) -> torch.device:
        """Where it lives."""
        return next(self.parameters()).device
