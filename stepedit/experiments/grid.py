"""What a sweep runs: lists of values for any option of a run, in all combinations."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from stepedit.config import RunSettings
from stepedit.data import dataset as datasets
from stepedit.errors import DataError, UserError, located
from stepedit.evaluation.paper import settings_along
from stepedit.registry import TASKS, did_you_mean
from stepedit.training.request import LIMITS, RunRequest, default_mode, option_names, read_options, resolve

MAX_RUNS = 1_000  # of a sweep, unless a higher limit is set
SETTING = ("numbers", "length")
MAX_NAME = 120  # characters for the options in a name
PAPER_TASKS = ("aor", "aes", "aec")
PAPER_METHODS = ("end2end", "tagging", "recurrence")
UNNAMED = (
    "task",
    "method",
    "mode",
    "numbers",
    "length",
    "num_examples",
    "seed",
    "data",
    "generation",
    "device",
    *LIMITS,
)

Grid = Mapping[str, Any]  # option -> a value, or a list of values


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    name: str  # also of its folder
    values: dict[str, Any]

    def request(self) -> RunRequest:
        """Return the run it stands for."""
        with located(self.name):
            return resolve(self.values)


def _cells(task: str | list[str]) -> Grid:
    """Return every method and mode of the paper; data that are generated are generated as the authors do."""
    return {"task": task, "method": list(PAPER_METHODS), "mode": ["offline", "online"], "generation": "authors"}


def _table(tasks: Sequence[str]) -> list[Grid]:
    return [_cells(list(tasks))]


def _one_network(tasks: Sequence[str]) -> list[Grid]:
    """Return the table with one encoder-decoder for the three methods, and Recurrence with the pointer."""
    (table,) = _table(tasks)
    pointer = {"method": "recurrence", "mode": ["online", "augmented"], "programmer": "pointer"}
    return [{**table, "programmer": "seq2seq"}, {**table, **pointer}]


def _paper_curves(tasks: Sequence[str]) -> list[Grid]:
    """Return the table with the network and training that the authors ran, for their validation curves."""
    (table,) = _table(tasks)
    return [{**table, "preset": "paper"}]


def _along(axis: str) -> Callable[[Sequence[str]], list[Grid]]:
    def grids(tasks: Sequence[str]) -> list[Grid]:
        return [{**_cells(task), **setting} for task in tasks for setting in settings_along(task, axis)]

    return grids


def _edit_order(tasks: Sequence[str]) -> list[Grid]:
    return [{"task": list(tasks), "edit_order": ["left-to-right", "right-to-left", "random"]}]


SWEEPS: dict[str, Callable[[Sequence[str]], list[Grid]]] = {
    "table": _table,
    "table-one-network": _one_network,
    "paper-curves": _paper_curves,
    "numbers": _along("numbers"),
    "length": _along("length"),
    "num-examples": _along("num_examples"),
    "edit-order": _edit_order,
}


def grids(name: str, tasks: Sequence[str]) -> list[Grid]:
    """Return the grids of a named sweep, or of a file."""
    if name in SWEEPS:
        for task in tasks:
            if task not in PAPER_TASKS and name != "edit-order":
                raise UserError(f"the paper has no task {task!r}; it has {', '.join(PAPER_TASKS)}")
        return SWEEPS[name](tasks or PAPER_TASKS)
    if not Path(name).exists():
        raise UserError(did_you_mean("sweep", name, SWEEPS) + ", or a YAML file")
    return [read_options(Path(name)) | ({"task": list(tasks)} if tasks else {})]


def expand(grids: Sequence[Grid], fixed: Grid, max_runs: int = MAX_RUNS) -> list[Cell]:
    """Return every combination once; UserError if there is none, there are too many, or one is not a valid run."""
    cells: dict[str, Cell] = {}
    total = 0
    generated = fixed.get("data") is None  # existing data are as they are
    for grid in grids:
        chosen = {name: value for name, value in grid.items() if generated or name != "generation"} | dict(fixed)
        axes = {name: value if isinstance(value, list) else [value] for name, value in chosen.items()}
        total += _count(axes)
        if total > max_runs:
            raise UserError(f"that is {total:,} runs or more, and {max_runs:,} is the limit; raise it with --max-runs")
        varied = {name for name, values in axes.items() if len(values) > 1}
        for values in product(*axes.values()):
            cell = _cell(dict(zip(axes, values, strict=True)), varied)
            if cells.setdefault(cell.name, cell) != cell:
                raise UserError(f"two runs of this grid would have the same name, {cell.name}")
    if not cells:
        raise UserError("there is no run in this grid")
    for cell in cells.values():
        cell.request()
    return list(cells.values())


def _count(axes: Mapping[str, list[Any]]) -> int:
    count = 1
    for name, values in axes.items():
        count *= len(values)
        if not values:
            raise UserError(f"there is no run in this grid: {name} is an empty list")
    return count


def _cell(values: dict[str, Any], varied: set[str]) -> Cell:
    """Return a combination with its defaults filled in, and a name."""
    if "task" not in values:
        raise DataError(f"a grid needs `task`: one of {', '.join(TASKS)}")
    for name in ("task", "method", "mode", "preset", "programmer", "data"):
        if not isinstance(values.get(name), str | None):
            raise UserError(f"{name}: expected a name, not {values[name]!r}")
    known = option_names(values["task"])
    for name, value in values.items():
        if name not in known:
            raise UserError(did_you_mean("option", name, known))
        if isinstance(value, dict | list):
            raise UserError(f"{name}: expected a value or a list of values, not {value!r}")
    defaults = {name: RunSettings.model_fields[name].default for name in ("method", "num_examples")}
    defaults["mode"] = default_mode(values)
    whole = {**defaults, "seed": 0, **_task_setting(values["task"]), **values}
    if whole.get("data") is not None:
        template, whole["data"] = whole["data"], _filled(whole["data"], whole)
        if whole["data"] == template and not set(SETTING) & set(values):
            whole |= _data_setting(whole["task"], Path(template))
        elif not Path(whole["data"]).exists():
            raise DataError(f"{whole['data']}: no such file or folder")
    return Cell(_name(whole, values, varied), whole)


def _data_setting(task: str, data: Path) -> dict[str, int]:
    """Return N, L and D of existing data."""
    splits = datasets.read(data)
    found = datasets.task_of(splits, task)
    size = sum(map(len, splits.splits.values()))
    return {name: getattr(found, name) for name in SETTING if hasattr(found, name)} | {"num_examples": size}


def _task_setting(task: str) -> dict[str, Any]:
    """Return the task's default N and L."""
    standard = TASKS[task].from_args({})
    return {name: getattr(standard, name) for name in SETTING if hasattr(standard, name)}


def _filled(template: str, values: Mapping[str, Any]) -> str:
    """Fill in a folder template: `data/{task}/{numbers}N/{length}L/{num_examples}D`."""
    try:
        return template.format(**values)
    except (KeyError, IndexError, ValueError, AttributeError):
        raise UserError(f"data: {template!r} has a placeholder that is not an option") from None


def _name(whole: Mapping[str, Any], given: Mapping[str, Any], varied: set[str]) -> str:
    """Return a name that identifies a run within a sweep and fits any file system."""
    parts = [whole["task"], whole["method"], whole["mode"]]
    parts += [f"{whole[name]}{name[0].upper()}" for name in SETTING if name in whole]
    parts += [f"{whole['num_examples']}D", f"seed{whole['seed']}"]
    parts += [f"files{_digest(whole['data'])}"] if whole.get("data") is not None else []
    also = varied & {*LIMITS, "generation", "device"}
    rest = [f"{name}={given[name]}" for name in sorted(given) if name not in UNNAMED or name in also]
    parts += rest if len("-".join(rest)) < MAX_NAME else [_digest("-".join(rest))]
    return re.sub(r"[^\w.=-]+", "_", "-".join(map(str, parts)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
