"""Checkpoints: all that resuming needs, as named tensors and a few facts, written atomically."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from stepedit.editing.sequences import PAD, Pairs, Sequences
from stepedit.errors import DataError
from stepedit.files import write_atomic
from stepedit.inference.model_folder import METRICS, Tensors, read_metrics


@dataclass
class TrainerState:
    """Where a run stands, and what is planned for the rest of it."""

    step: int = 0
    best: float = -1.0
    best_epoch: float = 0
    validated: float = 0  # epochs at the last validation
    seconds: float = 0.0
    finished: bool = False  # the training has reached its end
    total_steps: int = 0  # with a time budget as last planned; 0: not planned yet
    progress: float = 0.0  # share of the learning-rate schedule that is done
    next_plan: int = 0  # step
    next_validation: int = 0  # step
    seconds_per_step: float = 0.0
    validation_seconds: float = 0.0  # that a validation takes
    validated_at: float = 0.0  # seconds at the end of the last validation


@dataclass(frozen=True)
class Report:
    """One validation: a line of metrics.jsonl."""

    epoch: float  # whole, or within an epoch
    step: int
    total_steps: int  # with a time budget as last planned
    loss: float
    metrics: dict[str, float]
    copy: dict[str, float]  # metrics of copying the source: what doing nothing scores
    best: float
    learning_rate: float
    seconds: float
    steps_per_second: float


def pack_optimizers(optimizers: Sequence[torch.optim.Optimizer]) -> Tensors:
    """Return the state of optimizers as named tensors."""
    return {
        f"optimizer.{number}.{index}.{key}": value.detach().cpu().numpy()
        for number, optimizer in enumerate(optimizers)
        for index, parts in optimizer.state_dict()["state"].items()
        for key, value in parts.items()
    }


def unpack_optimizers(optimizers: Sequence[torch.optim.Optimizer], tensors: Tensors) -> None:
    """Restore the state of optimizers."""
    states: list[dict[int, dict[str, torch.Tensor]]] = [{} for _ in optimizers]
    for name, tensor in tensors.items():
        number, index, key = name.split(".")
        states[int(number)].setdefault(int(index), {})[key] = torch.from_numpy(tensor)
    for optimizer, state in zip(optimizers, states, strict=True):
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def pack_pairs(name: str, pairs: Pairs) -> Tensors:
    """Return pairs as named tensors."""
    return {f"{name}.{side}": texts.ids for side, texts in (("sources", pairs.sources), ("targets", pairs.targets))}


def unpack_pairs(tensors: Tensors) -> Pairs:
    """Return the packed pairs."""
    sides = (tensors[side].astype(np.int64) for side in ("sources", "targets"))
    return Pairs(*(Sequences(ids, (ids != PAD).sum(1)) for ids in sides))


def with_prefix(tensors: Tensors, prefix: str) -> Tensors:
    """Return the tensors whose names start with a prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def unpack_facts(path: Path, facts: Mapping[str, Any]) -> tuple[TrainerState, int]:
    """Return where a run stood, and the epoch of its buffer; DataError if a checkpoint does not say."""
    state, buffer_epoch = facts.get("state"), facts.get("buffer_epoch")
    if isinstance(state, dict) and isinstance(buffer_epoch, int):
        with suppress(TypeError):  # another field
            if all(isinstance(value, int | float) for value in state.values()):
                return TrainerState(**state), buffer_epoch
    raise DataError(f"{path}: damaged (it does not say where the run stood)")


def append_report(folder: Path, report: Report) -> None:
    """Append a line to metrics.jsonl."""
    with (folder / METRICS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(report)) + "\n")


def truncate_reports(folder: Path, epoch: float) -> None:
    """Remove the reports after an epoch that a run is resumed from."""
    kept = [report for report in read_metrics(folder) if report["epoch"] <= epoch]
    lines = "".join(json.dumps(report) + "\n" for report in kept)
    write_atomic(folder / METRICS, lines.encode())
