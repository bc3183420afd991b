"""What a sweep runs: lists of values for any option of a run, all combinations of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from stepedit import datasets
from stepedit.config import Options, Run
from stepedit.errors import DataError, UserError, located
from stepedit.reference import line
from stepedit.registry import METHODS, TASKS, did_you_mean
from stepedit.runs import LIMITS, RUN, Wanted, read_values, task_options, wanted

LIMIT = 1_000  # runs in a sweep, unless a higher limit is said
SETTING = ("numbers", "length")
LONGEST = 120  # letters of a name for options
PAPER = ("aor", "aes", "aec")  # the tasks of the paper
UNNAMED = ("task", "method", "mode", "numbers", "length", "size", "seed", "data", "threads", "device", *LIMITS)

Grid = Mapping[str, Any]  # an option's name -> a value, or a list of values


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    name: str  # also its folder's
    values: dict[str, Any]

    def wanted(self) -> Wanted:
        """The run it stands for."""
        with located(self.name):
            return wanted(self.values)


def _table(tasks: Sequence[str]) -> list[Grid]:
    return [{"task": list(tasks), "method": list(METHODS), "mode": ["offline", "online"]}]


def _along(axis: str) -> Callable[[Sequence[str]], list[Grid]]:
    def grids(tasks: Sequence[str]) -> list[Grid]:
        common = {"method": list(METHODS), "mode": ["offline", "online"]}
        return [{"task": task, **common, **setting} for task in tasks for setting in line(task, axis)]

    return grids


def _order(tasks: Sequence[str]) -> list[Grid]:
    return [{"task": list(tasks), "order": ["left", "right", "random"]}]


SWEEPS: dict[str, Callable[[Sequence[str]], list[Grid]]] = {
    "table": _table,
    "numbers": _along("numbers"),
    "length": _along("length"),
    "size": _along("size"),
    "order": _order,
}


def grids(name: str, tasks: Sequence[str]) -> list[Grid]:
    """The grids of a sweep that has a name, or of a file."""
    if name in SWEEPS:
        for task in tasks:
            if task not in PAPER and name != "order":
                raise UserError(f"the paper has no task {task!r}; it has {', '.join(PAPER)}")
        return SWEEPS[name](tasks or PAPER)
    if not Path(name).exists():
        raise UserError(did_you_mean("sweep", name, SWEEPS) + ", or a YAML file")
    return [read_values(Path(name)) | ({"task": list(tasks)} if tasks else {})]


def expand(grids: Sequence[Grid], fixed: Grid, limit: int = LIMIT) -> list[Cell]:
    """Every combination, once; UserError if there is none, if there are too many, or if one is no run."""
    cells: dict[str, Cell] = {}
    total = 0
    for grid in grids:
        axes = {name: value if isinstance(value, list) else [value] for name, value in {**grid, **fixed}.items()}
        total += _count(axes)
        if total > limit:
            raise UserError(f"that is {total:,} runs or more, and {limit:,} is the limit; set another with --limit")
        varied = {name for name, values in axes.items() if len(values) > 1}
        for values in product(*axes.values()):
            cell = _cell(dict(zip(axes, values, strict=True)), varied)
            if cells.setdefault(cell.name, cell) != cell:
                raise UserError(f"two runs of this grid would have the same name, {cell.name}")
    if not cells:
        raise UserError("no run is in this grid")
    for cell in cells.values():
        cell.wanted()
    return list(cells.values())


def _count(axes: Mapping[str, list[Any]]) -> int:
    count = 1
    for name, values in axes.items():
        count *= len(values)
        if not values:
            raise UserError(f"no run is in this grid: {name} is an empty list")
    return count


def _cell(values: dict[str, Any], varied: set[str]) -> Cell:
    """A combination with its defaults filled in, and a name."""
    if "task" not in values:
        raise DataError(f"a grid must say `task`: one of {', '.join(TASKS)}")
    for name in ("task", "method", "mode", "preset", "programmer", "data"):
        if not isinstance(values.get(name), str | None):
            raise UserError(f"{name}: a name was expected, not {values[name]!r}")
    known = (*RUN, *LIMITS, *Options.model_fields, *task_options(values["task"]))
    for name, value in values.items():
        if name not in known:
            raise UserError(did_you_mean("option", name, known))
        if isinstance(value, dict | list):
            raise UserError(f"{name}: a value or a list of values was expected, not {value!r}")
    defaults = {name: field.default for name, field in Run.model_fields.items() if name in ("method", "mode", "size")}
    whole = {**defaults, "seed": 0, **_defaults(values["task"]), **values}
    if whole.get("data") is not None:
        template, whole["data"] = whole["data"], _placed(whole["data"], whole)
        if whole["data"] == template and not set(SETTING) & set(values):
            whole |= _fitted(whole["task"], Path(template))
        elif not Path(whole["data"]).exists():
            raise DataError(f"{whole['data']}: no such file or folder")
    return Cell(_name(whole, values, varied), whole)


def _fitted(task: str, data: Path) -> dict[str, int]:
    """The setting that existing data are of."""
    splits = datasets.read(data)
    found = datasets.task_of(splits, task)
    size = sum(map(len, splits.splits.values()))
    return {name: getattr(found, name) for name in SETTING if hasattr(found, name)} | {"size": size}


def _defaults(task: str) -> dict[str, Any]:
    """The task's own setting."""
    standard = TASKS[task].from_options({})
    return {name: getattr(standard, name) for name in SETTING if hasattr(standard, name)}


def _placed(template: str, values: Mapping[str, Any]) -> str:
    """A folder of splits, its name filled in: `data/{task}/{numbers}N/{length}L/{size}D`."""
    try:
        return template.format(**values)
    except (KeyError, IndexError, ValueError, AttributeError):
        raise UserError(f"data: {template!r} has a place to fill in that no option is called") from None


def _name(whole: Mapping[str, Any], said: Mapping[str, Any], varied: set[str]) -> str:
    """A name that tells a run from all others of a sweep, short enough for any file system."""
    parts = [whole["task"], whole["method"], whole["mode"]]
    parts += [f"{whole[name]}{name[0].upper()}" for name in SETTING if name in whole]
    parts += [f"{whole['size']}D", f"seed{whole['seed']}"]
    parts += [f"files{_digest(whole['data'])}"] if whole.get("data") is not None else []
    also = varied & {*LIMITS, "threads", "device"}
    rest = [f"{name}={said[name]}" for name in sorted(said) if name not in UNNAMED or name in also]
    parts += rest if len("-".join(rest)) < LONGEST else [_digest("-".join(rest))]
    return re.sub(r"[^\w.=-]+", "_", "-".join(map(str, parts)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
