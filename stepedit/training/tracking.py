"""TensorBoard (extra `[track]`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def summary_writer(folder: Path, step: int) -> Any:
    """Return a writer into a folder; what was written after this step is removed."""
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(folder, purge_step=step + 1)
