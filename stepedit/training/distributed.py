"""Several processes on one run, started by torchrun; without it, a world of one."""

from __future__ import annotations

import os

import torch
from torch import Tensor, distributed


def init_from_environment() -> None:
    """Join the process group that torchrun describes, if any."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not distributed.is_initialized():
        distributed.init_process_group("gloo")


def rank() -> int:
    """Return the number of this process."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def world_size() -> int:
    """Return the number of processes."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def broadcast_from_rank0(values: list[float]) -> list[float]:
    """Return rank 0's values on every rank."""
    tensor = torch.tensor(values, dtype=torch.float64)
    if distributed.is_initialized():
        distributed.broadcast(tensor, 0)
    return tensor.tolist()


def sum_over_ranks(value: Tensor) -> float:
    """Return the sum of a value over all ranks."""
    if distributed.is_initialized():
        distributed.all_reduce(value)
    return value.item()
