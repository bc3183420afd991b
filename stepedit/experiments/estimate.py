"""How long the runs of a sweep would take, estimated from a few steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from stepedit.config import Limits, RunConfig
from stepedit.errors import DataError, UserError, located
from stepedit.evaluation.scores import read_scores
from stepedit.experiments.grid import Cell
from stepedit.experiments.worker import difference
from stepedit.inference.model_folder import CONFIG, read_config, read_metrics
from stepedit.tasks.base import Progress
from stepedit.training.request import VALIDATION_SHARE, RunRequest

State = Literal["finished", "begun", "to do"]
TIMED_BATCHES = 4  # of data that are enough to time a step


@dataclass(frozen=True)
class Cost:
    """What remains to be done of a run."""

    cell: Cell
    state: State
    epochs: int
    minutes: float


def state(cell: Cell, out: Path) -> State:
    """Return how far a run is; a folder that is damaged or another run's is left to the worker, which reports it."""
    folder = out / cell.name
    try:
        if not (folder / CONFIG).exists() or difference(read_config(folder), cell.request()):
            return "to do"
        scores = read_scores(folder)
        return "finished" if scores and scores.training_finished else "begun"
    except DataError:
        return "to do"


def estimate(cells: Sequence[Cell], out: Path, threads: int, progress: Progress | None = None) -> list[Cost]:
    """Return the remaining cost of each run; runs that differ only in seed or data are timed once."""
    from stepedit.programmers import runtime

    runtime.set_num_threads(threads)
    times: dict[str, float] = {}
    costs = []
    for number, cell in enumerate(cells):
        request, now = cell.request(), state(cell, out)
        shape = request.settings.model_dump_json(exclude={"seed", "num_examples", "data", "data_hash"})
        if now != "finished" and shape not in times:
            with located(cell.name):
                times[shape] = step_time(request, threads)
        costs.append(_cost(cell, now, request, times.get(shape, 0.0), out))
        if progress:
            progress(number + 1, len(cells))
    return costs


def _cost(cell: Cell, now: State, request: RunRequest, seconds: float, out: Path) -> Cost:
    """Return what remains until the first limit of a run is reached; validations take a share of the time."""
    if now == "finished":
        return Cost(cell, now, 0, 0.0)
    settings = request.settings
    batches = max(1, int(0.7 * settings.num_examples) // settings.training.batch_size)
    epoch = seconds * batches / 60 / (1 - VALIDATION_SHARE)
    limits: RunConfig | Limits = read_config(out / cell.name) if now == "begun" else request.limits
    done = _last_report(out / cell.name) if now == "begun" else {"epoch": 0, "step": 0, "seconds": 0}
    remaining = [
        limits.max_epochs - done["epoch"] if limits.max_epochs is not None else inf,
        (limits.max_steps - done["step"]) / batches if limits.max_steps is not None else inf,
        (limits.max_minutes - done["seconds"] / 60) / epoch if limits.max_minutes is not None else inf,
    ]
    return Cost(cell, now, max(1, round(min(remaining))), max(0.0, min(remaining)) * epoch)


def _last_report(folder: Path) -> dict[str, Any]:
    """Return the last validation of a run."""
    reports = read_metrics(folder)
    return reports[-1] if reports else {"epoch": 0, "step": 0, "seconds": 0}


def step_time(request: RunRequest, threads: int) -> float:
    """Return the seconds of a step of such a run, tried on little data of the same kind."""
    from stepedit.training.budget import seconds_per_step
    from stepedit.training.run import trainer_for

    run: RunConfig = request.config(max_epochs=1, eval_every=1, threads=threads)
    size = TIMED_BATCHES * run.training.batch_size
    with TemporaryDirectory() as folder:
        small = run.model_copy(update={"num_examples": size, "data": None})
        return seconds_per_step(trainer_for(small, Path(folder)))


def parse_minutes(budget: str) -> float:
    """Return `4h`, `90m`, `1h30m` or `45s` in minutes."""
    units = {"h": 60.0, "m": 1.0, "s": 1 / 60}
    total, number = 0.0, ""
    for character in budget.strip().lower():
        if character in units and number:
            total, number = total + float(number) * units[character], ""
        elif character in "0123456789" or (character == "." and number and "." not in number):
            number += character
        else:
            total, number = -1.0, ""
            break
    if number or total <= 0:
        raise UserError(f"--budget takes a time like 4h, 90m or 1h30m, not {budget!r}")
    return total
