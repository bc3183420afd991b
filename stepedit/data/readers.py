"""Read pairs of lines: TSV, CSV, JSONL, M2, or parallel files. Every error names file and line.

A TSV or CSV has a header that names the two columns, or exactly two columns and no header. A JSONL file has one object
a line; its target may be a list of references. Blank lines are skipped, except in parallel files, where they are texts.

A source with several references is several pairs, one after the other, that are one text (`Lines.groups`): training
takes them as pairs, evaluation as one text.
"""

from __future__ import annotations

import csv
import json
import re
import shlex
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from stepedit.data.m2 import read_m2
from stepedit.errors import DataError, DataWarning, PairError
from stepedit.files import read_lines

if TYPE_CHECKING:
    from stepedit.editing.sequences import Pairs
    from stepedit.tasks.base import Task

Row = tuple[int, str, list[str]]  # line, source, references

HEADERS = {  # names of columns that people use
    *("source", "src", "input", "text", "wrong", "incorrect", "original", "before", "from", "noisy", "error", "errors"),
    *("misspelling", "misspelled", "typo", "word", "sentence", "hypothesis", "raw", "x", "bad", "old", "ocr"),
    *("disfluent", "ungrammatical", "erroneous", "sentence1", "sentence2", "text1", "text2", "informal"),
    *("target", "tgt", "trg", "output", "label", "labels", "right", "correct", "corrected", "correction", "edited"),
    *("fixed", "fix", "good", "new", "fluent", "grammatical", "formal", "truth", "rewrite"),
    *("after", "to", "clean", "spelling", "reference", "ref", "prediction", "gold", "y"),
}


@dataclass(frozen=True)
class Lines:
    """Sources and targets as text, with the location of each pair."""

    sources: list[str]
    targets: list[str]
    file: str = field(default="", compare=False)
    numbers: list[int] | None = field(default=None, compare=False)  # line of each pair; None: 1, 2, 3, ...
    groups: list[int] | None = None  # the text of each pair, ascending; None: every pair is a text

    @classmethod
    def from_rows(cls, rows: Sequence[Row], file: str) -> Lines:
        """Return one pair for each reference."""
        flat = [(source, target, number, text) for text, (number, source, refs) in enumerate(rows) for target in refs]
        sources, targets, numbers, groups = (list(column) for column in zip(*flat, strict=True))
        return cls(sources, targets, file, numbers, groups if len(flat) > len(rows) else None)

    def __len__(self) -> int:
        return len(self.sources)

    def take(self, rows: Sequence[int]) -> Lines:
        """Return some of the pairs."""
        numbers = self.numbers or range(1, len(self) + 1)
        sources, targets = ([side[row] for row in rows] for side in (self.sources, self.targets))
        groups = [self.groups[row] for row in rows] if self.groups else None
        return Lines(sources, targets, self.file, [numbers[row] for row in rows], groups)

    def stripped(self) -> Lines:
        """Return the pairs without white space at both ends of texts, and without those that had nothing else."""
        sources, targets = ([text.strip() for text in side] for side in (self.sources, self.targets))
        rows = [row for row, pair in enumerate(zip(sources, targets, strict=True)) if any(pair)]
        if not rows:
            raise DataError(f"{self.file}: there is nothing but white space")
        return replace(self, sources=sources, targets=targets).take(rows)

    def texts(self) -> Lines:
        """Return one pair for each text: its source and its first reference."""
        if self.groups is None:
            return self
        first = {group: row for row, group in reversed(list(enumerate(self.groups)))}
        return replace(self.take(sorted(first.values())), groups=None)

    def references(self) -> list[list[str]]:
        """Return all references of each text."""
        found: dict[int, list[str]] = {}
        for group, target in zip(self.groups or range(len(self)), self.targets, strict=True):
            found.setdefault(group, []).append(target)
        return list(found.values())

    def encode(self, task: Task, whole: bool = False) -> Pairs:
        """Encode the pairs; DataError gives file and line of the first one that is not of the task."""
        with self.located():
            return task.encode(self.sources, self.targets, whole)

    @contextmanager
    def located(self) -> Iterator[None]:
        """Prefix the message of a PairError raised inside with file and line."""
        try:
            yield
        except PairError as error:
            number = self.numbers[error.index] if self.numbers else error.index + 1
            raise DataError(f"{self.file}:{number}: {error.reason}" if self.file else str(error)) from None


def read_parallel(path: Path, targets: Sequence[Path]) -> Lines:
    """Read sources and their references from two or more files, line by line."""
    sources, references = list(read_lines(path)), [list(read_lines(file)) for file in targets]
    for file, lines in zip(targets, references, strict=True):
        if len(lines) != len(sources):
            raise DataError(f"{path} has {len(sources)} lines but {file} has {len(lines)}")
    rows = zip(range(1, len(sources) + 1), sources, map(list, zip(*references, strict=True)), strict=True)
    return Lines.from_rows(list(rows), str(path))


def read_pairs(path: Path, source: str | None, target: str | None) -> Lines:
    """Read a .tsv, .csv, .jsonl or .m2 file of pairs."""
    readers: dict[str, Callable[[Path, str | None, str | None], Iterable[Row]]] = {
        ".tsv": _read_table,
        ".csv": _read_table,
        ".jsonl": _read_objects,
        ".m2": lambda path, *_: read_m2(path),
    }
    suffix = path.suffix.lower()
    if suffix not in readers:
        raise DataError(f"{path}: unknown format {path.suffix!r}; pairs are read from {', '.join(sorted(readers))}")
    rows = list(readers[suffix](path, source, target))
    if not rows:
        raise DataError(f"{path}: there are no pairs in it")
    return Lines.from_rows(rows, str(path))


def _read_table(path: Path, source: str | None, target: str | None) -> Iterator[Row]:
    """Yield the rows of a TSV (no quoting) or CSV with their line numbers."""
    lines = (f"{line}\n" for line in read_lines(path))
    tsv = path.suffix.lower() == ".tsv"
    csv.field_size_limit(1 << 30)  # a field may be a whole document
    reader = csv.reader(
        lines, delimiter="\t" if tsv else ",", quoting=csv.QUOTE_NONE if tsv else csv.QUOTE_MINIMAL, strict=True
    )
    names = (source or "source", target or "target")
    first, second, width, begun = 0, 1, 2, False
    try:
        for row in reader:
            if not "".join(row).strip() and len(row) < 2:
                continue  # a blank line
            if not begun:
                begun, where = True, f"{path}:{reader.line_num}"
                if source is not None or target is not None or len(row) != 2 or not {*names}.isdisjoint(row):
                    first, second, width = (*_columns(where, row, *names), len(row))
                    continue
                if all(map(_is_header, row)):
                    _warn_of_header(where, row)
            if len(row) != width:
                raise DataError(f"{path}:{reader.line_num}: {len(row)} columns where {width} were expected")
            yield reader.line_num, row[first], [row[second]]
    except csv.Error as error:
        hint = "a quotation mark that is never closed" if "end of data" in str(error) else str(error)
        raise DataError(f"{path}:{reader.line_num}: {hint}") from None


def _is_header(name: str) -> bool:
    """Whether this may be the name of a column: `target`, `source_text`, `Correct sentence`, `inputText`."""
    parts = re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).casefold())
    return bool(parts) and HEADERS.issuperset(parts)


def _warn_of_header(where: str, row: list[str]) -> None:
    options = f"--source-column {shlex.quote(row[0])} --target-column {shlex.quote(row[1])}"
    message = f"{where}: {row[0]!r}, {row[1]!r} is read as a pair; if it is a header, name the columns: {options}"
    warnings.warn(message, DataWarning, stacklevel=2)


def _columns(where: str, names: list[str], source: str, target: str) -> tuple[int, int]:
    for wanted in (source, target):
        if wanted not in names:
            shown = [" ".join(name.split()) for name in names]  # a quoted name may span several lines
            raise DataError(f"{where}: no column {wanted!r}; the columns are: {', '.join(shown) or '(none)'}")
    return names.index(source), names.index(target)


def _read_objects(path: Path, source: str | None, target: str | None) -> Iterator[Row]:
    """Yield the pairs of a JSONL file with their line numbers; a target may be a list of references."""
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
            raise DataError(f"{where}: JSON that is nested too deeply or has too long a number") from None
        if not isinstance(row, dict):
            raise DataError(f"{where}: expected a JSON object")
        _columns(where, list(row), *names)
        references = row[names[1]] if isinstance(row[names[1]], list) else [row[names[1]]]
        texts = [row[names[0]], *references]
        if not all(isinstance(text, str) for text in texts):
            raise DataError(f"{where}: {names[0]!r} must be a string, {names[1]!r} a string or a list of strings")
        if not references:
            raise DataError(f"{where}: {names[1]!r} is a list without a reference")
        if any("\ud800" <= letter <= "\udfff" for text in texts for letter in text):
            raise DataError(f"{where}: a lone surrogate, which is not a character")
        yield number, texts[0], references
