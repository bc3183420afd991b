"""Data sets: splits of pairs, in a folder, from a file, or generated.

A data set is a folder of `{train,val,test}_{x,y}.txt`, one text a line, tokens separated by spaces, and a
`dataset.json` that says how it was made. A single file of pairs becomes a data set by splitting it by family
(`data.families`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from stepedit import __version__
from stepedit.config import RunSettings, explain
from stepedit.data import location
from stepedit.data.families import families, overlap
from stepedit.data.readers import Lines, read_pairs, read_parallel
from stepedit.editing.sequences import Pairs
from stepedit.errors import DataError, located
from stepedit.files import new_folder, read_lines
from stepedit.registry import TASKS
from stepedit.tasks.base import Progress, Task

SPLITS = ("train", "val", "test")
CARD = "dataset.json"
SPACE_SHARE = 0.01  # of the targets that have white space around them, from which there is a warning
MIN_SIZE = 4  # below that a split would be empty


class Card(BaseModel):
    """The content of `dataset.json`: how a data set was made."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: Literal[2] = 2
    stepedit: str = __version__
    task: str | None = None
    task_args: dict[str, Any] = {}
    num_examples: int | None = None
    disjoint_sources: bool = False
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


def split_pairs(pairs: Pairs, seed: int, disjoint_sources: bool = False) -> dict[str, Pairs]:
    """Return generated pairs in splits; with `disjoint_sources`, all pairs of a source are in the same split."""
    parts = split_slices(len(pairs))
    if not disjoint_sources:
        return {name: pairs.take(part) for name, part in parts.items()}
    _, groups = np.unique(pairs.sources.keys(), return_inverse=True)
    ranks = np.random.default_rng([seed, 1]).permutation(int(groups.max()) + 1)[groups]
    rows = np.argsort(ranks, kind="stable")
    # a split ends with the last pair of a source
    first, second = (
        int(np.searchsorted(ranks[rows], ranks[rows[parts[name].stop - 1]], "right")) for name in SPLITS[:2]
    )
    bounds = dict(zip(SPLITS, (slice(0, first), slice(first, second), slice(second, len(pairs))), strict=True))
    if any(part.start == part.stop for part in bounds.values()):
        raise DataError("there are too few different sources for splits that share none; generate more examples")
    return {name: pairs.take(rows[part]) for name, part in bounds.items()}


# writing


def write(folder: Path, splits: Mapping[str, Lines], card: Card, replace: bool = False) -> None:
    """Write a data set atomically: it is made in a temporary folder and renamed."""
    refuse_existing(folder, replace)
    try:
        with new_folder(folder, replace) as temporary:
            _write_splits(temporary, splits, card)
    except OSError as error:
        raise DataError(f"{folder} cannot be written: {error.strerror}") from None


def _write_splits(folder: Path, splits: Mapping[str, Lines], card: Card) -> None:
    folder.mkdir(exist_ok=True)
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


# reading


def read(
    path: Path,
    source_column: str | None = None,
    target_column: str | None = None,
    target_files: Sequence[Path] = (),
    strip: bool = False,
) -> Dataset:
    """Read a folder of splits, or a file of pairs as one split called `all`; named columns must exist.

    With `target_files`, sources and the references of each are files of their own, line by line. `strip` removes white
    space at both ends of texts.
    """
    if strip:
        plain = read(path, source_column, target_column, target_files)
        return replace(plain, splits={name: lines.stripped() for name, lines in plain.splits.items()})
    if (source_column is not None or target_column is not None) and not has_columns(path, target_files):
        raise DataError(f"{path}: M2, parallel files and folders of splits have no columns to name")
    if target_files:
        if path.suffix.lower() in (".jsonl", ".m2"):
            raise DataError(f"{path}: has targets of its own, as its name says; --target-file is for a file of sources")
        return Dataset({"all": read_parallel(path, target_files)}, path=", ".join(map(str, (path, *target_files))))
    if path.is_dir():
        return _read_folder(path)
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    return Dataset({"all": read_pairs(path, source_column, target_column)}, path=str(path))


def has_columns(path: Path, target_files: Sequence[Path] = ()) -> bool:
    """Whether a data set has columns with names."""
    return not target_files and not path.is_dir() and path.suffix.lower() != ".m2"


def read_splits(
    data: str,
    target_files: Sequence[str | Path] | None = None,
    source_column: str | None = None,
    target_column: str | None = None,
    strip: bool | None = False,
) -> Dataset:
    """Read a data set in splits; pairs without splits are split by family, always in the same way."""
    dataset = read(Path(data), source_column, target_column, [Path(file) for file in target_files or ()], bool(strip))
    if set(dataset.splits) != {"all"}:
        return dataset
    return Dataset(split_by_family(dataset.splits["all"]), dataset.card, dataset.path)


def read_run_splits(run: RunSettings, place: location.Location) -> Dataset:
    """Read the data set of a run, in splits; columns that it names count only where its data have columns."""
    named = run.source_column, run.target_column
    columns = named if has_columns(place.data, place.target_files) else (None, None)
    return read_splits(str(place.data), place.target_files, *columns, run.strip)


def overlap_warning(dataset: Dataset, text: bool, scored: str | None = None) -> str | None:
    """Return one line about held-out pairs that are in another split, too, if there are any. Families are for text.

    They are compared with train, and test also with val, which chooses checkpoints and thresholds; with `scored`, this
    split alone.
    """
    parts = list[str]()
    for one, other in (("train", "val"), ("train", "test"), ("val", "test")):
        if one in dataset.splits and other in dataset.splits and scored in (None, other):
            found = overlap(dataset.splits[one], dataset.splits[other], text)
            parts += [found.describe(other, one)] if found else []
    return f"{dataset.path}: {'; '.join(parts)}" if parts else None


def space_warning(lines: Lines) -> str | None:
    """Return one line about white space at the ends of targets that their sources do not have, if there is much."""
    sides = zip(lines.sources, lines.targets, strict=True)
    count = sum(source == source.strip() and target != target.strip() for source, target in sides)
    if count < SPACE_SHARE * len(lines):
        return None
    return (
        f"{lines.file}: {count / len(lines):.1%} of the targets begin or end with white space, unlike their sources; "
        "if that is by mistake, use --strip"
    )


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


@dataclass(frozen=True)
class Loaded:
    """The splits of a run, encoded by a task; an open vocabulary knows the unknown tokens of its own pairs only."""

    task: Task
    pairs: dict[str, Pairs]
    read: dict[str, Lines] = field(default_factory=dict)  # nothing if they were generated

    @classmethod
    def encode(cls, task: Task, splits: Mapping[str, Lines], whole: str | None = None) -> Loaded:
        """Encode splits; in split `whole` lines are not cut, and a source with several references is one pair."""
        encoded = {
            name: lines.texts().encode(task, whole=True) if name == whole else lines.encode(task)
            for name, lines in splits.items()
        }
        return cls(task, encoded, dict(splits))

    def lines(self, name: str) -> Lines:
        """Return a split as text; where tokens are separated by spaces, by one each."""
        if self.task.open_vocabulary and name in self.read:
            return self.read[name]
        pairs, decode = self.pairs[name], self.task.vocabulary.decode
        return Lines(decode(pairs.sources), decode(pairs.targets))

    def references(self, name: str) -> list[list[str]] | None:
        """Return all references of each pair of a split that is whole; None if every pair has one, its target."""
        lines = self.read.get(name)
        if lines is None or lines.groups is None:
            return None
        references = lines.references()
        if len(references) != len(self.pairs[name]):
            raise DataError(
                f"{lines.file}: a text with several references is scored as a whole, and one is too long for that; "
                "split the texts into sentences"
            )
        return references


def load_splits(run: RunSettings, task: Task, folder: Path | None = None) -> dict[str, Pairs]:
    """Return the splits of a run as pairs; see `load`."""
    return load(run, task, folder=folder).pairs


def load(
    run: RunSettings,
    task: Task,
    progress: Progress | None = None,
    whole: str | None = None,
    folder: Path | None = None,
    changed: bool = False,
) -> Loaded:
    """Return the splits of a run, read or generated again from its seed; split `whole` is to be scored: see `Loaded`.

    `task` must be the one that the pairs are used with, not an equal one. The data are also looked for in the run's
    folder. DataError if they are not those that the run was trained on, unless `changed`.
    """
    if run.data is not None:
        dataset = read_run_splits(run, location.of_run(run, folder, changed))
        return Loaded.encode(task, dataset.splits, whole)
    pairs = task.generate(run.num_examples, np.random.default_rng(run.seed), progress)
    return Loaded(task, split_pairs(pairs, run.seed, run.disjoint_sources))


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
        raise DataError(f"{path}: {explain(error)}") from None
