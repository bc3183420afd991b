"""An exponential moving average of the weights: what is validated and kept."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import nn

Net = TypeVar("Net", bound=nn.Module)


def make_average(net: Net, decay: float) -> Net:
    """Return a copy of the network that holds the average or, without decay, the network itself."""
    return copy.deepcopy(net).requires_grad_(False).eval() if decay else net


def update_average(average: nn.Module, net: nn.Module, decay: float, step: int) -> None:
    """Move the average towards the weights, faster in the first steps, so that the start is forgotten."""
    if average is net:
        return
    weight = 1 - min(decay, (1 + step) / (10 + step))
    pairs = zip(average.parameters(), net.parameters(), strict=True)
    trained = [(mean, parameter) for mean, parameter in pairs if parameter.requires_grad]
    with torch.no_grad():
        torch._foreach_lerp_([mean for mean, _ in trained], [parameter for _, parameter in trained], weight)


@contextmanager
def evaluation_mode(net: nn.Module) -> Iterator[None]:
    """Put a network into evaluation mode and back."""
    training = net.training
    net.eval()
    try:
        yield
    finally:
        net.train(training)
