"""What a run would take, told by a few steps of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from stepedit import checkpoints, results
from stepedit.errors import DataError, UserError, located
from stepedit.experiments.grid import Cell
from stepedit.experiments.worker import differs
from stepedit.runs import Wanted, make_trainer
from stepedit.training import LEFT_FOR_STEPS, seconds_per_step

State = Literal["finished", "begun", "to do"]
SMALL = 4  # batches of data that are enough to time a step


@dataclass(frozen=True)
class Cost:
    """What is left to do of a run."""

    cell: Cell
    state: State
    epochs: int
    minutes: float


def state(cell: Cell, out: Path) -> State:
    """How far a run is; a folder that is damaged or another run's is left to the worker, which says so."""
    folder = out / cell.name
    try:
        if not (folder / checkpoints.CONFIG).exists() or differs(checkpoints.read_run(folder), cell.wanted().run):
            return "to do"
        result = results.read(folder)
        return "finished" if result and result.ended else "begun"
    except DataError:
        return "to do"


def estimate(cells: Sequence[Cell], out: Path, progress: Callable[[int, int], None] | None = None) -> list[Cost]:
    """What is left of each run; runs that differ only in seed, size or length are timed once."""
    times: dict[str, float] = {}
    costs = []
    for number, cell in enumerate(cells):
        asked, now = cell.wanted(), state(cell, out)
        if now == "begun":
            asked = Wanted(checkpoints.read_run(out / cell.name))
        shape = asked.run.model_dump_json(exclude={"seed", "size", "data", "epochs", "validate_every"})
        if now != "finished" and shape not in times:
            with located(cell.name):
                times[shape] = step_time(asked)
        costs.append(_cost(cell, now, asked, times.get(shape, 0.0), out))
        if progress:
            progress(number + 1, len(cells))
    return costs


def _cost(cell: Cell, now: State, asked: Wanted, seconds: float, out: Path) -> Cost:
    run = asked.run
    epoch = seconds * max(1, int(0.7 * run.size) // run.options.batch) / 60
    if now == "finished":
        return Cost(cell, now, 0, 0.0)
    epochs = run.epochs
    if asked.minutes is not None:
        epochs = max(1, min(epochs, int(asked.minutes * LEFT_FOR_STEPS / epoch)))
    epochs -= _done(out / cell.name) if now == "begun" else 0
    return Cost(cell, now, epochs, epochs * epoch / LEFT_FOR_STEPS)


def _done(folder: Path) -> int:
    """Epochs up to a run's last validation."""
    reports = checkpoints.read_reports(folder)
    return int(reports[-1]["epoch"]) if reports else 0


def step_time(asked: Wanted) -> float:
    """Seconds of a step of such a run, tried on little data of the same kind."""
    run = asked.run.model_copy(update={"size": SMALL * asked.run.options.batch, "data": None, "epochs": 1})
    with TemporaryDirectory() as folder:
        return seconds_per_step(make_trainer(Wanted(run, every=1), Path(folder), begun=True))


def minutes_of(budget: str) -> float:
    """`4h`, `90m`, `1h30m`, `45s` in minutes."""
    units = {"h": 60.0, "m": 1.0, "s": 1 / 60}
    total, number = 0.0, ""
    for letter in budget.strip().lower():
        if letter in units and number:
            total, number = total + float(number) * units[letter], ""
        elif letter in "0123456789" or (letter == "." and number and "." not in number):
            number += letter
        else:
            total, number = -1.0, ""
            break
    if number or total <= 0:
        raise UserError(f"--budget takes a time like 4h, 90m or 1h30m, not {budget!r}")
    return total
