"""Settings of the numeric runtime that commands make for their process; library calls restore them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def set_num_threads(count: int) -> None:
    """Set the number of threads that PyTorch uses."""
    torch.set_num_threads(count)


def flush_denormals() -> None:
    """Treat denormal numbers as zero in this thread: they would make a step three times as slow."""
    torch.set_flush_denormal(True)


def flushes_denormals() -> bool:
    """Whether denormal numbers are zero in this thread."""
    smallest = sys.float_info.min
    return smallest / 2 == 0


@contextmanager
def restored() -> Iterator[None]:
    """Restore the number of threads and the treatment of denormals at the end."""
    threads, flushes = torch.get_num_threads(), flushes_denormals()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushes)


def multiplies_bfloat16() -> bool:
    """Whether this processor has instructions for it; then a training step takes three fifths of the time."""
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
