"""Data sets: splits of pairs, in a folder, from a file, or generated.

A data set is a folder of `{train,val,test}_{x,y}.txt`, one text a line, tokens separated by spaces, and a
`dataset.json` that says how it was made. A single file of pairs becomes a data set by splitting it by family
(`data.families`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from stepedit import __version__
from stepedit.config import RunSettings
from stepedit.data.families import families
from stepedit.data.readers import Lines, read_pairs, read_parallel
from stepedit.editing.sequences import Pairs
from stepedit.errors import DataError, located
from stepedit.files import read_lines
from stepedit.registry import TASKS
from stepedit.tasks.base import Progress, Task

SPLITS = ("train", "val", "test")
CARD = "dataset.json"
MIN_SIZE = 4  # below that a split would be empty


class Card(BaseModel):
    """The content of `dataset.json`: how a data set was made."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: Literal[2] = 2
    stepedit: str = __version__
    task: str | None = None
    task_args: dict[str, Any] = {}
    num_examples: int | None = None
    seed: int | None = None
    splits: dict[str, int] = {}


@dataclass(frozen=True)
class Dataset:
    """Named splits, and their card, if there is one."""

    splits: dict[str, Lines]
    card: Card | None = None
    path: str = field(default="", compare=False)


def split_slices(size: int) -> dict[str, slice]:
    """Return which of `size` generated pairs belong to each split: 70 % train, 15 % validation, 15 % test."""
    if size < MIN_SIZE:
        raise DataError(f"num_examples must be at least {MIN_SIZE}, so that no split is empty; not {size}")
    first, second = size * 70 // 100, size * 85 // 100
    return dict(zip(SPLITS, (slice(0, first), slice(first, second), slice(second, size)), strict=True))


# writing


def write(folder: Path, splits: Mapping[str, Lines], card: Card, replace: bool = False) -> None:
    """Write a data set atomically: it is made in a temporary folder and renamed."""
    refuse_existing(folder, replace)
    path = folder.absolute()
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        temporary = Path(mkdtemp(prefix=f".{path.name}.partial-{os.getpid()}-", dir=path.parent))
        _write_splits(temporary / "new", splits, card)
        if replace and path.exists():
            path.rename(temporary / "old")  # in one step, so that no half of it is ever left
        (temporary / "new").rename(path)  # fails if another process has put something there meanwhile
    except OSError as error:
        raise DataError(f"{folder} cannot be written: {error.strerror}") from None
    finally:
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)


def _write_splits(folder: Path, splits: Mapping[str, Lines], card: Card) -> None:
    folder.mkdir()
    for name, lines in splits.items():
        _write_file(folder / f"{name}_x.txt", "".join(f"{line}\n" for line in lines.sources))
        _write_file(folder / f"{name}_y.txt", "".join(f"{line}\n" for line in lines.targets))
    sizes = {name: len(lines) for name, lines in splits.items()}
    _write_file(folder / CARD, card.model_copy(update={"splits": sizes}).model_dump_json(indent=2) + "\n")


def _write_file(path: Path, text: str) -> None:
    """Write a file and flush it to disk before its folder is renamed."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def refuse_existing(folder: Path, replace: bool) -> None:
    """Raise DataError if the folder exists and must not be replaced, or is not a data set of ours."""
    if folder.absolute() == Path.cwd() or not folder.name:
        raise DataError(f"{folder} is the current folder; name one inside it, to be created")
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not replace:
        raise DataError(f"{folder} exists already; choose another folder, or --force to replace it")
    ours = {CARD, *(f"{name}_{side}.txt" for name in SPLITS for side in "xy")}
    if not (folder / CARD).is_file() or any(path.name not in ours for path in folder.iterdir()):
        raise DataError(f"{folder} contains something other than a data set of stepedit, and is not replaced")


def _remove_leftovers(folder: Path) -> None:
    """Remove temporary folders of killed processes; those of live processes stay."""
    for leftover in folder.parent.glob(f".{folder.name}.partial-*"):
        pid = leftover.name.removeprefix(f".{folder.name}.partial-").partition("-")[0]
        if pid.isdecimal() and (int(pid) == os.getpid() or not _is_alive(int(pid))):
            shutil.rmtree(leftover, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


# reading


def read(
    path: Path,
    source_column: str | None = None,
    target_column: str | None = None,
    target_file: Path | None = None,
) -> Dataset:
    """Read a folder of splits, or a file of pairs as one split called `all`; named columns must exist.

    With `target_file`, sources and targets are two files, line by line.
    """
    if target_file is not None:
        return Dataset({"all": read_parallel(path, target_file)}, path=f"{path}, {target_file}")
    if path.is_dir():
        return _read_folder(path)
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    return Dataset({"all": read_pairs(path, source_column, target_column)}, path=str(path))


def read_splits(
    data: str, target_file: str | None = None, source_column: str | None = None, target_column: str | None = None
) -> Dataset:
    """Read a data set in splits; pairs without splits are split by family, always in the same way."""
    dataset = read(Path(data), source_column, target_column, Path(target_file) if target_file else None)
    if set(dataset.splits) != {"all"}:
        return dataset
    return Dataset(split_by_family(dataset.splits["all"]), dataset.card, dataset.path)


def split_by_family(lines: Lines) -> dict[str, Lines]:
    """Split pairs about 80/10/10 by a hash of each family's smallest text; a family is in one split as a whole."""
    groups: dict[int, list[int]] = {}
    for row, group in enumerate(families(lines)):
        groups.setdefault(group, []).append(row)
    if len(groups) < len(SPLITS):
        raise DataError(
            f"{lines.file}: number of families (pairs that share a text or a stem): {len(groups)}; train, val and test "
            "need one each at least: add pairs, or give a folder of splits"
        )
    parts: dict[str, list[list[int]]] = {name: [] for name in SPLITS}
    for rows in groups.values():
        name = min(min(lines.sources[row], lines.targets[row]) for row in rows)
        share = int.from_bytes(sha256(name.encode()).digest()[:4], "big") / 2**32
        held_out = share < 0.2 and len(rows) <= max(1, len(lines) // 20)  # a very large family is for training
        parts["train" if not held_out else "val" if share < 0.1 else "test"].append(rows)
    for name in SPLITS:  # with few pairs a split may still be empty
        if not parts[name]:
            largest = max(parts.values(), key=len)
            parts[name].append(largest.pop(min(range(len(largest)), key=lambda at: len(largest[at]))))
    return {name: lines.take(sorted(row for rows in kept for row in rows)) for name, kept in parts.items()}


def task_for(dataset: Dataset, task: str, args: Mapping[str, Any]) -> Task:
    """Return a task for a data set: as its card says, with these arguments, or fitted to its training pairs."""
    card = dataset.card
    if card and card.task == task and not args:
        with located(CARD):
            return TASKS[task].from_args(card.task_args)
    parts = list(dataset.splits.values())
    if TASKS[task].open_vocabulary:
        parts = [dataset.splits[name] for name in ("train", "all") if name in dataset.splits] or parts
    sources, targets = ([line for part in parts for line in getattr(part, side)] for side in ("sources", "targets"))
    return TASKS[task].for_data(sources, targets, args)


def task_of(dataset: Dataset, name: str | None = None) -> Task | None:
    """Return the task of a data set: the one named, or the card's; None if neither is known."""
    name = name or (dataset.card.task if dataset.card else None)
    return None if name is None else task_for(dataset, name, {})


def load_splits(run: RunSettings, progress: Progress | None = None, whole: str | None = None) -> dict[str, Pairs]:
    """Return the splits of a run, read or generated again from its seed; the lines of split `whole` are not cut."""
    task = TASKS[run.task].from_args(run.task_args)
    if run.data is not None:
        if not Path(run.data).exists():
            raise DataError(
                f"{run.data}: the training pairs of this run are not here; `evaluate` takes other pairs with --data"
            )
        dataset = read_splits(run.data, run.target_file, run.source_column, run.target_column)
        return {name: lines.encode(task, name == whole) for name, lines in dataset.splits.items()}
    pairs = task.generate(run.num_examples, np.random.default_rng(run.seed), progress)
    return {name: pairs.take(part) for name, part in split_slices(run.num_examples).items()}


def _read_folder(folder: Path) -> Dataset:
    names = [name for name in SPLITS if any((folder / f"{name}_{side}.txt").exists() for side in "xy")]
    if not names:
        raise DataError(f"{folder}: no data set here (expected files like train_x.txt and train_y.txt)")
    card = _read_card(folder / CARD) if (folder / CARD).exists() else None
    splits = {name: _read_split(folder, name) for name in names}
    for name, size in (card.splits if card else {}).items():
        found = len(splits[name]) if name in splits else 0
        if found != size:
            raise DataError(f"{folder}: {name} has {found} pairs, but {CARD} says {size}: the data set is damaged")
    return Dataset(splits, card, str(folder))


def _read_split(folder: Path, name: str) -> Lines:
    sources, targets = (list(read_lines(folder / f"{name}_{side}.txt")) for side in "xy")
    if len(sources) != len(targets):
        x, y = folder / f"{name}_x.txt", folder / f"{name}_y.txt"
        line = min(len(sources), len(targets)) + 1
        raise DataError(f"{x} has {len(sources)} lines but {y} has {len(targets)}: line {line} has no counterpart")
    return Lines(sources, targets, str(folder / f"{name}_{{x,y}}.txt"))


def _read_card(path: Path) -> Card:
    try:
        return Card.model_validate_json("\n".join(read_lines(path)))
    except ValidationError as error:
        first = error.errors()[0]
        if first["loc"] == ("format",):
            raise DataError(f"{path}: a data set of another version of stepedit; generate it again") from None
        location = ".".join(map(str, first["loc"]))
        raise DataError(f"{path}: {f'{location}: ' if location else ''}{first['msg']}") from None
