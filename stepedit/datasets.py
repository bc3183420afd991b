"""Pairs of lines on disk: reading the forms that people have, writing the one we use.

A data set is a folder of `{train,val,test}_{x,y}.txt`, one text a line, tokens separated by blanks, and a
`dataset.json` that says how it was made. A single file of pairs is a TSV or CSV (with a header that names the two
columns, or exactly two columns and no header) or JSONL (one object a line).

Every complaint names the file and the line.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepedit import __version__
from stepedit.errors import DataError
from stepedit.registry import TASKS

if TYPE_CHECKING:
    from stepedit.tasks.task import Task

SPLITS = ("train", "val", "test")
CARD = "dataset.json"
FORMAT = 1
SMALLEST_SIZE = 4  # below that a split would be empty


@dataclass(frozen=True)
class Lines:
    """Sources and targets as text, line by line."""

    sources: list[str]
    targets: list[str]

    def __len__(self) -> int:
        return len(self.sources)


@dataclass(frozen=True)
class Dataset:
    """Named splits, and the card that came with them, if any."""

    splits: dict[str, Lines]
    card: dict[str, Any] | None = None


def split(size: int) -> dict[str, slice]:
    """Which pairs go where: 70 % to train, 15 % to validation, 15 % to test."""
    if size < SMALLEST_SIZE:
        raise DataError(f"size must be at least {SMALLEST_SIZE}, so that no split is empty; not {size}")
    first, second = size * 70 // 100, size * 85 // 100
    return dict(zip(SPLITS, (slice(0, first), slice(first, second), slice(second, size)), strict=True))


def write(folder: Path, splits: Mapping[str, Lines], card: Mapping[str, Any], replace: bool = False) -> None:
    """Write a data set whole or not at all: it is made beside its place and moved there in one step."""
    refuse_existing(folder, replace)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _clear_leftovers(folder)
    partial = folder.with_name(f".{folder.name}.partial-{os.getpid()}")
    partial.mkdir()
    try:
        for name, lines in splits.items():
            _write_file(partial / f"{name}_x.txt", "".join(f"{line}\n" for line in lines.sources))
            _write_file(partial / f"{name}_y.txt", "".join(f"{line}\n" for line in lines.targets))
        sizes = {name: len(lines) for name, lines in splits.items()}
        whole = {"format": FORMAT, "stepedit": __version__, **card, "splits": sizes}
        _write_file(partial / CARD, json.dumps(whole, indent=2) + "\n")
        if folder.exists():
            shutil.rmtree(folder)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def refuse_existing(folder: Path, replace: bool) -> None:
    """DataError if something is there already that was not to be replaced, or that is no data set of ours."""
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists() and not replace:
        raise DataError(f"{folder} exists already; choose another folder, or --force to replace it")
    if folder.exists() and not (folder / CARD).is_file():
        raise DataError(f"{folder} is not a data set that stepedit wrote; it is left alone")


def read(path: Path, source: str = "source", target: str = "target") -> Dataset:
    """A folder of splits, or a file of pairs as one split called `all`."""
    if path.is_dir():
        return _read_folder(path)
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    return Dataset({"all": _read_pairs(path, source, target)})


def task_of(dataset: Dataset, name: str | None = None) -> Task | None:
    """The task that a data set is of: the one its card says, or the one named, fitted to the texts; None if unknown."""
    card = dataset.card or {}
    if "task" in card and name in (None, card["task"]):
        return TASKS[card["task"]].from_options(card.get("options", {}))
    if name is None:
        return None
    lines = dataset.splits.values()
    sources = [line for part in lines for line in part.sources]
    return TASKS[name].fitted(sources, [line for part in lines for line in part.targets])


def _read_folder(folder: Path) -> Dataset:
    names = [name for name in SPLITS if any((folder / f"{name}_{side}.txt").exists() for side in "xy")]
    if not names:
        raise DataError(f"{folder}: no data set here (expected files like train_x.txt and train_y.txt)")
    card = _read_card(folder / CARD) if (folder / CARD).exists() else None
    splits = {name: _read_split(folder, name) for name in names}
    for name, size in (card or {}).get("splits", {}).items():
        if name not in splits or len(splits[name]) != size:
            has = len(splits[name]) if name in splits else 0
            raise DataError(f"{folder}: {name} has {has} pairs, but {CARD} says {size}: the data set is damaged")
    return Dataset(splits, card)


def _read_split(folder: Path, name: str) -> Lines:
    sources, targets = (list(read_lines(folder / f"{name}_{side}.txt")) for side in "xy")
    if len(sources) != len(targets):
        x, y = folder / f"{name}_x.txt", folder / f"{name}_y.txt"
        line = min(len(sources), len(targets)) + 1
        raise DataError(f"{x} has {len(sources)} lines but {y} has {len(targets)}: line {line} has no counterpart")
    return Lines(sources, targets)


def _read_card(path: Path) -> dict[str, Any]:
    try:
        card = json.loads("\n".join(read_lines(path)))
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno}: not valid JSON: {error.msg}") from None
    if not isinstance(card, dict) or card.get("format") != FORMAT or not isinstance(card.get("splits", {}), dict):
        raise DataError(f"{path}: not a data set card of format {FORMAT}")
    return card


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, without their ends; DataError for a missing, empty or undecodable one."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    if not raw.strip():
        raise DataError(f"{path}: the file is empty")
    for number, line in enumerate(raw.removesuffix(b"\n").split(b"\n"), start=1):
        try:
            text = line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            byte = f"byte 0x{line[error.start]:02x} at column {error.start + 1}"
            raise DataError(f"{path}:{number}: not UTF-8 ({byte})") from None
        yield text.removeprefix("\ufeff") if number == 1 else text


def _read_pairs(path: Path, source: str, target: str) -> Lines:
    readers = {".tsv": _read_table, ".csv": _read_table, ".jsonl": _read_objects}
    if path.suffix not in readers:
        raise DataError(f"{path}: unknown form {path.suffix!r}; pairs are read from {', '.join(sorted(readers))}")
    rows = list(readers[path.suffix](path, source, target))
    return Lines([row[0] for row in rows], [row[1] for row in rows])


def _read_table(path: Path, source: str, target: str) -> Iterator[tuple[str, str]]:
    """Rows of a TSV (no quoting) or CSV."""
    lines = (f"{line}\n" for line in read_lines(path))
    tsv = path.suffix == ".tsv"
    reader = csv.reader(
        lines, delimiter="\t" if tsv else ",", quoting=csv.QUOTE_NONE if tsv else csv.QUOTE_MINIMAL, strict=True
    )
    first, second, width = 0, 1, 2
    try:
        for row in reader:
            if reader.line_num == 1 and (source in row or target in row or len(row) != 2):
                first, second, width = (*_columns(f"{path}:1", row, source, target), len(row))
                continue
            if len(row) != width:
                raise DataError(f"{path}:{reader.line_num}: {len(row)} columns where {width} were expected")
            yield row[first], row[second]
    except csv.Error as error:
        raise DataError(f"{path}:{reader.line_num}: {error}") from None


def _columns(where: str, names: list[str], source: str, target: str) -> tuple[int, int]:
    for wanted in (source, target):
        if wanted not in names:
            raise DataError(f"{where}: no column {wanted!r}; the columns are: {', '.join(names) or '(none)'}")
    return names.index(source), names.index(target)


def _read_objects(path: Path, source: str, target: str) -> Iterator[tuple[str, str]]:
    """Lines of a JSONL file."""
    for number, line in enumerate(read_lines(path), start=1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{path}:{number}: not valid JSON: {error.msg}") from None
        if not isinstance(row, dict):
            raise DataError(f"{path}:{number}: a JSON object was expected")
        _columns(f"{path}:{number}", list(row), source, target)
        if not (isinstance(row[source], str) and isinstance(row[target], str)):
            raise DataError(f"{path}:{number}: {source!r} and {target!r} must be strings")
        yield row[source], row[target]


def _write_file(path: Path, text: str) -> None:
    """Write and make sure it is on the disk before the folder is moved to its place."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _clear_leftovers(folder: Path) -> None:
    """Remove what a killed run left behind for this folder."""
    for leftover in folder.parent.glob(f".{folder.name}.partial-*"):
        pid = leftover.name.rpartition("-")[2]
        if pid.isdecimal() and not _alive(int(pid)):
            shutil.rmtree(leftover, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
