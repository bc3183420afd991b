"""Settings of the numeric runtime that commands make for their process; library calls leave them alone."""

from __future__ import annotations

import torch


def set_num_threads(count: int) -> None:
    """Set the number of threads that PyTorch uses."""
    torch.set_num_threads(count)


def flush_denormals() -> None:
    """Treat denormal numbers as zero in this thread: they would make a step three times as slow."""
    torch.set_flush_denormal(True)
