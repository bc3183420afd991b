"""The M2 format of grammatical error correction: a tokenized sentence and the edits of each annotator.

    S This are a sentence .
    A 1 2|||R:VERB:SVA|||is|||REQUIRED|||-NONE-|||0
    A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||1

Tokens are separated by spaces and stay as they are. Each annotator of the file gives one reference of every sentence:
the sentence with the edits of that annotator, or the sentence itself if there are none (`noop`, or no line at all). Of
several corrections of an edit (`a||the`) the first is read. A sentence ends with a blank line, with the next S or with
the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from stepedit.editing.edits import Edit, apply_spans, edit_spans
from stepedit.errors import DataError
from stepedit.files import read_lines

NOOP, NOTHING, OTHER = "noop", "-NONE-", "OTHER"
UNKNOWN = "UNK"  # ERRANT's type of an edit that it can detect and not correct
SEPARATOR, ALTERNATIVES = "|||", "||"
EDIT = re.compile(r"A (-?\d{1,9}) (-?\d{1,9})\|\|\|(.*?)\|\|\|(.*)\|\|\|(.*?)\|\|\|(.*?)\|\|\|(\d{1,9})\s*", re.DOTALL)


@dataclass
class Sentence:
    """A sentence, the line that it is on, and the edits of each annotator with their lines."""

    number: int
    tokens: list[str]
    edits: dict[int, list[tuple[int, Edit[str]]]] = field(default_factory=dict)

    def reference(self, annotator: int) -> str:
        """Return the sentence as an annotator corrects it."""
        edits = [edit for _, edit in self.edits.get(annotator, [])]
        return " ".join(apply_spans(self.tokens, edits))


def read_m2(path: Path) -> list[tuple[int, str, list[str]]]:
    """Return each sentence: its line, its text, and a reference of every annotator of the file."""
    sentences = list(_sentences(path))
    annotators = sorted({name for sentence in sentences for name in sentence.edits}) or [0]
    return [
        (sentence.number, " ".join(sentence.tokens), [sentence.reference(name) for name in annotators])
        for sentence in sentences
    ]


def _sentences(path: Path) -> Iterator[Sentence]:
    current: Sentence | None = None
    for number, line in enumerate(read_lines(path), start=1):
        where = f"{path}:{number}"
        if line == "S" or line.startswith("S "):
            if current:
                yield _checked(path, current)
            current = Sentence(number, [token for token in line[2:].split(" ") if token])
        elif line.startswith("A "):
            if current is None:
                raise DataError(f"{where}: an edit (A) without a sentence (S) before it")
            annotator, edit = _parse_edit(where, line, current)
            edits = current.edits.setdefault(annotator, [])
            edits += [(number, edit)] if edit else []
        elif line.strip():
            raise DataError(f"{where}: a line of M2 begins with `S ` or `A `, or is blank")
        elif current:
            yield _checked(path, current)
            current = None
    if current:
        yield _checked(path, current)


def _parse_edit(where: str, line: str, sentence: Sentence) -> tuple[int, Edit[str] | None]:
    """Return the annotator of a line and the edit; None if it is a noop."""
    found = EDIT.fullmatch(line)
    if found is None:
        raise DataError(f"{where}: not `A START END|||TYPE|||CORRECTION|||REQUIRED|||-NONE-|||ANNOTATOR`")
    start, stop, annotator = int(found[1]), int(found[2]), int(found[7])
    if found[3] == NOOP:
        return annotator, None
    if not 0 <= start <= stop <= len(sentence.tokens):
        raise DataError(f"{where}: tokens {start} to {stop} of a sentence of {len(sentence.tokens)}")
    correction = found[4].split(ALTERNATIVES)[0].strip()
    tokens = [] if correction == NOTHING else [token for token in correction.split(" ") if token]
    return annotator, Edit(start, stop, tuple(tokens))


def _checked(path: Path, sentence: Sentence) -> Sentence:
    """Sort the edits of each annotator; DataError if two of them overlap."""
    for annotator, edits in sentence.edits.items():
        edits.sort(key=lambda each: (each[1].start, each[1].stop))  # stable: insertions at one place in their order
        for (_, before), (number, edit) in pairwise(edits):
            if edit.start < before.stop:
                raise DataError(f"{path}:{number}: overlaps another edit of annotator {annotator}")
    return sentence


def format_m2(source: str, references: Iterable[str]) -> str:
    """Return a sentence with its references as M2, the blank line after it included; tokens are what spaces separate.

    DataError if M2 cannot express a correction.
    """
    tokens = source.split()
    lines = [f"S {' '.join(tokens)}"]
    for annotator, reference in enumerate(references):
        edits = edit_spans(tokens, reference.split())
        lines += [_edit_line(edit.start, edit.stop, _kind(edit), edit.tokens, annotator) for edit in edits]
        lines += [] if edits else [_edit_line(-1, -1, NOOP, [NOTHING], annotator)]
    return "".join(f"{line}\n" for line in [*lines, ""])


def _kind(edit: Edit[str]) -> str:
    """Return the type of an edit as ERRANT names it: missing, unnecessary or replaced; scorers leave `UNK` out."""
    letter = "M" if edit.start == edit.stop else "R" if edit.tokens else "U"
    return f"{letter}:{OTHER}"


def _edit_line(start: int, stop: int, kind: str, tokens: Sequence[str], annotator: int) -> str:
    correction = " ".join(tokens)
    if ALTERNATIVES in correction or (kind != NOOP and correction == NOTHING):
        raise DataError(f"M2 has no way to write the correction {correction!r}")
    return SEPARATOR.join([f"A {start} {stop}", kind, correction, "REQUIRED", NOTHING, str(annotator)])
