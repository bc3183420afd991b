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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from stepedit import __version__
from stepedit.errors import DataError, PairError, located
from stepedit.registry import TASKS

if TYPE_CHECKING:
    from stepedit.sequences import Pairs
    from stepedit.tasks.task import Task

SPLITS = ("train", "val", "test")
CARD = "dataset.json"
SMALLEST_SIZE = 4  # below that a split would be empty


@dataclass(frozen=True)
class Lines:
    """Sources and targets as text, and where each pair was read."""

    sources: list[str]
    targets: list[str]
    file: str = field(default="", compare=False)
    numbers: list[int] | None = field(default=None, compare=False)  # each pair's line, if not 1, 2, 3, ...

    def __len__(self) -> int:
        return len(self.sources)

    def take(self, rows: Sequence[int]) -> Lines:
        """Some of the pairs."""
        numbers = self.numbers or range(1, len(self) + 1)
        sources, targets = ([side[row] for row in rows] for side in (self.sources, self.targets))
        return Lines(sources, targets, self.file, [numbers[row] for row in rows])

    def encode(self, task: Task, whole: bool = False) -> Pairs:
        """The pairs as ids; DataError names file and line of the first that is none of the task."""
        with self.located():
            return task.encode(self.sources, self.targets, whole)

    @contextmanager
    def located(self) -> Iterator[None]:
        """Put file and line in front of what any PairError inside says."""
        try:
            yield
        except PairError as error:
            number = self.numbers[error.index] if self.numbers else error.index + 1
            raise DataError(f"{self.file}:{number}: {error.reason}" if self.file else str(error)) from None


class Card(BaseModel):
    """What `dataset.json` says of how a data set was made."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: Literal[1] = 1
    stepedit: str = __version__
    task: str | None = None
    options: dict[str, Any] = {}
    size: int | None = None
    seed: int | None = None
    splits: dict[str, int] = {}


@dataclass(frozen=True)
class Dataset:
    """Named splits, and the card that came with them, if any."""

    splits: dict[str, Lines]
    card: Card | None = None
    place: str = field(default="", compare=False)


def split(size: int) -> dict[str, slice]:
    """Which pairs go where: 70 % to train, 15 % to validation, 15 % to test."""
    if size < SMALLEST_SIZE:
        raise DataError(f"size must be at least {SMALLEST_SIZE}, so that no split is empty; not {size}")
    first, second = size * 70 // 100, size * 85 // 100
    return dict(zip(SPLITS, (slice(0, first), slice(first, second), slice(second, size)), strict=True))


def write(folder: Path, splits: Mapping[str, Lines], card: Card, replace: bool = False) -> None:
    """Write a data set whole or not at all: it is made beside its place and moved there in one step."""
    refuse_existing(folder, replace)
    place = folder.absolute()
    workplace = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        _clear_leftovers(place)
        workplace = Path(mkdtemp(prefix=f".{place.name}.partial-{os.getpid()}-", dir=place.parent))
        _write_splits(workplace / "new", splits, card)
        if replace and place.exists():
            place.rename(workplace / "old")  # in one step, so that no half of it is ever left in place
        (workplace / "new").rename(place)  # fails if somebody else has put something there meanwhile
    except OSError as error:
        raise DataError(f"{folder} cannot be written: {error.strerror}") from None
    finally:
        if workplace:
            shutil.rmtree(workplace, ignore_errors=True)


def _write_splits(folder: Path, splits: Mapping[str, Lines], card: Card) -> None:
    folder.mkdir()
    for name, lines in splits.items():
        _write_file(folder / f"{name}_x.txt", "".join(f"{line}\n" for line in lines.sources))
        _write_file(folder / f"{name}_y.txt", "".join(f"{line}\n" for line in lines.targets))
    sizes = {name: len(lines) for name, lines in splits.items()}
    _write_file(folder / CARD, card.model_copy(update={"splits": sizes}).model_dump_json(indent=2) + "\n")


def refuse_existing(folder: Path, replace: bool) -> None:
    """DataError if something is there already that was not to be replaced, or that is no data set of ours."""
    if folder.absolute() == Path.cwd() or not folder.name:
        raise DataError(f"{folder} is the folder we are in; name one in it, to be made")
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not replace:
        raise DataError(f"{folder} exists already; choose another folder, or --force to replace it")
    ours = {CARD, *(f"{name}_{side}.txt" for name in SPLITS for side in "xy")}
    if not (folder / CARD).is_file() or any(path.name not in ours for path in folder.iterdir()):
        raise DataError(f"{folder} holds something else than a data set that stepedit wrote; it is left alone")


def read(path: Path, source: str | None = None, target: str | None = None, targets: Path | None = None) -> Dataset:
    """A folder of splits, or a file of pairs as one split called `all`; columns that are named must be there.

    With `targets`, sources and targets are two files, line beside line.
    """
    if targets is not None:
        return Dataset({"all": _read_parallel(path, targets)}, place=f"{path}, {targets}")
    if path.is_dir():
        return _read_folder(path)
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    return Dataset({"all": _read_pairs(path, source, target)}, place=str(path))


def for_training(data: str, targets: str | None, source: str | None, target: str | None) -> Dataset:
    """A data set in splits; pairs that are in none are divided by their targets, always in the same way."""
    dataset = read(Path(data), source, target, Path(targets) if targets else None)
    if set(dataset.splits) != {"all"}:
        return dataset
    return Dataset(divided(dataset.splits["all"]), dataset.card, dataset.place)


def divided(lines: Lines) -> dict[str, Lines]:
    """Some 80 % of the pairs to train, 10 % each to validation and test; all pairs of a target go to the same."""
    groups: dict[str, list[int]] = {}
    for index, target in enumerate(lines.targets):
        groups.setdefault(target, []).append(index)
    if len(groups) < len(SPLITS):
        raise DataError(f"{lines.file}: {len(groups)} different targets; train, val and test need one each at least")
    parts: dict[str, list[str]] = {name: [] for name in SPLITS}
    for target, rows in groups.items():
        share = int.from_bytes(sha256(target.encode()).digest()[:4], "big") / 2**32
        held = share < 0.2 and len(rows) <= max(1, len(lines) // 20)  # one that is half of all is there to learn from
        parts["train" if not held else "val" if share < 0.1 else "test"].append(target)
    for name in SPLITS:  # of a handful of pairs a part may be empty still
        if not parts[name]:
            largest = max(parts.values(), key=len)
            parts[name].append(largest.pop(min(range(len(largest)), key=lambda at: len(groups[largest[at]]))))
    rows_of = {name: [row for target in targets for row in groups[target]] for name, targets in parts.items()}
    return {name: lines.take(sorted(rows)) for name, rows in rows_of.items()}


def setting(dataset: Dataset, task: str, options: Mapping[str, Any]) -> Task:
    """The setting of a task for a data set: as its card says, or as told, or learned from what is to be trained on."""
    card = dataset.card
    if card and card.task == task and not options:
        with located(CARD):
            return TASKS[task].from_options(card.options)
    parts = list(dataset.splits.values())
    if TASKS[task].learned:
        parts = [dataset.splits[name] for name in ("train", "all") if name in dataset.splits] or parts
    sources, targets = ([line for part in parts for line in getattr(part, side)] for side in ("sources", "targets"))
    return TASKS[task].for_data(sources, targets, options)


def task_of(dataset: Dataset, name: str | None = None) -> Task | None:
    """The task that a data set is of: the one its card says, or the one named, fitted to the texts; None if unknown."""
    name = name or (dataset.card.task if dataset.card else None)
    return None if name is None else setting(dataset, name, {})


def _read_folder(folder: Path) -> Dataset:
    names = [name for name in SPLITS if any((folder / f"{name}_{side}.txt").exists() for side in "xy")]
    if not names:
        raise DataError(f"{folder}: no data set here (expected files like train_x.txt and train_y.txt)")
    card = _read_card(folder / CARD) if (folder / CARD).exists() else None
    splits = {name: _read_split(folder, name) for name in names}
    for name, size in (card.splits if card else {}).items():
        has = len(splits[name]) if name in splits else 0
        if has != size:
            raise DataError(f"{folder}: {name} has {has} pairs, but {CARD} says {size}: the data set is damaged")
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
        place = ".".join(map(str, first["loc"]))
        raise DataError(f"{path}: {f'{place}: ' if place else ''}{first['msg']}") from None


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


def _read_parallel(path: Path, targets: Path) -> Lines:
    left, right = (list(read_lines(side)) for side in (path, targets))
    if len(left) != len(right):
        raise DataError(f"{path} has {len(left)} lines but {targets} has {len(right)}")
    return Lines(left, right, str(path))


def _read_pairs(path: Path, source: str | None, target: str | None) -> Lines:
    readers = {".tsv": _read_table, ".csv": _read_table, ".jsonl": _read_objects}
    form = path.suffix.lower()
    if form not in readers:
        raise DataError(f"{path}: unknown form {path.suffix!r}; pairs are read from {', '.join(sorted(readers))}")
    rows = list(readers[form](path, source, target))
    if not rows:
        raise DataError(f"{path}: there is no pair in it")
    return Lines([row[1] for row in rows], [row[2] for row in rows], str(path), [row[0] for row in rows])


def _read_table(path: Path, source: str | None, target: str | None) -> Iterator[tuple[int, str, str]]:
    """Rows of a TSV (no quoting) or CSV, with their line numbers."""
    lines = (f"{line}\n" for line in read_lines(path))
    tsv = path.suffix.lower() == ".tsv"
    csv.field_size_limit(1 << 30)  # a field may be a whole document
    reader = csv.reader(
        lines, delimiter="\t" if tsv else ",", quoting=csv.QUOTE_NONE if tsv else csv.QUOTE_MINIMAL, strict=True
    )
    names = (source or "source", target or "target")
    first, second, width = 0, 1, 2
    try:
        for number, row in enumerate(reader):
            named = source is not None or target is not None or len(row) != 2 or not {*names}.isdisjoint(row)
            if number == 0 and named:
                first, second, width = (*_columns(f"{path}:1", row, *names), len(row))
                continue
            if len(row) != width:
                raise DataError(f"{path}:{reader.line_num}: {len(row)} columns where {width} were expected")
            yield reader.line_num, row[first], row[second]
    except csv.Error as error:
        hint = "a quote that is never closed" if "end of data" in str(error) else str(error)
        raise DataError(f"{path}:{reader.line_num}: {hint}") from None


def _columns(where: str, names: list[str], source: str, target: str) -> tuple[int, int]:
    for wanted in (source, target):
        if wanted not in names:
            shown = [" ".join(name.split()) for name in names]  # a quoted name may have several lines
            raise DataError(f"{where}: no column {wanted!r}; the columns are: {', '.join(shown) or '(none)'}")
    return names.index(source), names.index(target)


def _read_objects(path: Path, source: str | None, target: str | None) -> Iterator[tuple[int, str, str]]:
    """Lines of a JSONL file, with their numbers."""
    names = (source or "source", target or "target")
    for number, line in enumerate(read_lines(path), start=1):
        where = f"{path}:{number}"
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{where}: not valid JSON: {error.msg}") from None
        except (ValueError, RecursionError):
            raise DataError(f"{where}: JSON that is too deep or has too long a number") from None
        if not isinstance(row, dict):
            raise DataError(f"{where}: a JSON object was expected")
        _columns(where, list(row), *names)
        texts = [row[name] for name in names]
        if not all(isinstance(text, str) for text in texts):
            raise DataError(f"{where}: {names[0]!r} and {names[1]!r} must be strings")
        if any("\ud800" <= letter <= "\udfff" for text in texts for letter in text):
            raise DataError(f"{where}: half of a surrogate pair, which is no letter")
        yield number, texts[0], texts[1]


def _write_file(path: Path, text: str) -> None:
    """Write and make sure it is on the disk before the folder is moved to its place."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _clear_leftovers(folder: Path) -> None:
    """Remove what killed runs left behind for this folder; what a run that is alive is making stays."""
    for leftover in folder.parent.glob(f".{folder.name}.partial-*"):
        pid = leftover.name.removeprefix(f".{folder.name}.partial-").partition("-")[0]
        if pid.isdecimal() and (int(pid) == os.getpid() or not _alive(int(pid))):
            shutil.rmtree(leftover, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
