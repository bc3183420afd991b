"""What editing did, with strings: the steps taken, and the changes they add up to.

    source   teh cat satt
    result   the cat sat

    change   0:3 'teh' -> 'the', in the result 0:3
             11:12 't' -> '', in the result 11:11

Changes are spans of characters. Steps are followed token by token, so a change knows which steps made it; its
confidence is the lowest of theirs. Steps that touch each other form one change. Applying all changes to the source
gives the result; any of them may be left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Protocol

from stepedit.editing.edits import Edit
from stepedit.editing.interpreter import AppliedAction


class Names(Protocol):
    """A vocabulary, as far as traces need it."""

    def name(self, index: int) -> str:
        """Return the token of an id."""

    def text(self, ids: Iterable[int]) -> str:
        """Return the text of some ids."""

    def pieces(self, tokens: Sequence[str]) -> list[str]:
        """Return what each token contributes to the text."""


@dataclass(frozen=True)
class Candidate:
    """An action that the programmer considered in a state; `chosen` marks the one it took."""

    operation: str  # as in Step, or done
    position: int | None
    before: str
    after: str
    probability: float
    chosen: bool = False


@dataclass(frozen=True)
class Step:
    """One action and what it changed. The one step record: in Python, `--json`, the API, the page and reports."""

    operation: str  # insert, delete, substitute, replace, swap, rewrite or skip
    position: int | None  # of the first token, from 0; None if the action did not fit and was skipped
    before: str  # text removed at the position
    after: str  # text inserted there
    confidence: float  # probability of the action
    deleted: list[str]  # tokens removed
    inserted: list[str]  # tokens inserted
    candidates: list[Candidate] = field(default_factory=list)  # most probable actions in the state before the step
    text: str | None = None  # the whole text after the step; this and its tokens on request only
    tokens: list[str] | None = None

    @property
    def skipped(self) -> bool:
        """The action did not fit the text, which stayed as it was."""
        return self.position is None

    @property
    def edit(self) -> Edit[str]:
        """The edit, for `edits.replay`; an empty one if it was skipped."""
        start = self.position or 0
        return Edit(start, start + len(self.deleted), tuple(self.inserted))


@dataclass(frozen=True)
class Change:
    """A span of characters of the source and its replacement in the result."""

    start: int
    stop: int
    before: str
    result_start: int
    result_stop: int
    after: str
    confidence: float  # of the least confident step


def named_step(
    applied: AppliedAction,
    names: Names,
    candidates: list[Candidate] | None = None,
    state: Sequence[int] | None = None,
) -> Step:
    """Return an applied action as a step with strings; with the text after it, if `state` is given."""
    return Step(
        operation=applied.operation,
        position=applied.start,
        before=names.text(applied.before),
        after=names.text(applied.after),
        confidence=applied.confidence,
        deleted=[names.name(token) for token in applied.before],
        inserted=[names.name(token) for token in applied.after],
        candidates=candidates or [],
        text=None if state is None else names.text(state),
        tokens=None if state is None else [names.name(token) for token in state],
    )


@dataclass
class _Cell:
    """A token of the current text: its position in the source, if it comes from there, and its confidence."""

    token: int
    origin: int | None
    confidence: float = 1.0


@dataclass(frozen=True)
class _Span:
    """A range of source tokens and the range of result tokens that replaces it."""

    source: slice
    result: slice
    confidence: float


def changes(source: Sequence[int], trace: Iterable[AppliedAction], names: Names) -> list[Change]:
    """Return the changes that the steps made, from left to right."""
    cells, confidence = [_Cell(token, index) for index, token in enumerate(source)], [1.0] * len(source)
    for applied in trace:
        if applied.start is not None:
            _follow(cells, confidence, applied)
    sides = (source, [cell.token for cell in cells])
    pieces = [names.pieces([names.name(token) for token in side]) for side in sides]
    offsets = [[0, *accumulate(map(len, side))] for side in pieces]
    found = []
    for span in _spans(cells, confidence, *pieces):
        ranges = (span.source, span.result)
        before, after = ("".join(side[part]) for side, part in zip(pieces, ranges, strict=True))
        if before != after:
            start, stop, result_start, result_stop = (
                offsets[side][edge] for side, part in enumerate(ranges) for edge in (part.start, part.stop)
            )
            found.append(Change(start, stop, before, result_start, result_stop, after, span.confidence))
    return found


def origins(length: int, trace: Iterable[AppliedAction]) -> list[int | None]:
    """Return the position in the source of each token of the result; None for one that a step inserted."""
    found: list[int | None] = list(range(length))
    for applied in trace:
        if applied.start is not None:
            found[applied.start : applied.start + len(applied.before)] = [None] * len(applied.after)
    return found


def _follow(cells: list[_Cell], confidence: list[float], applied: AppliedAction) -> None:
    """Apply one step to the cells, and note its confidence at each source token that it removes."""
    assert applied.start is not None
    stop = applied.start + len(applied.before)
    for cell in cells[applied.start : stop]:
        if cell.origin is not None:
            confidence[cell.origin] = min(confidence[cell.origin], applied.confidence)
    lowest = min([applied.confidence, *(cell.confidence for cell in cells[applied.start : stop])])
    cells[applied.start : stop] = [_Cell(token, None, lowest) for token in applied.after]


def _spans(
    cells: Sequence[_Cell], confidence: Sequence[float], source: Sequence[str], result: Sequence[str]
) -> list[_Span]:
    """Return the ranges between tokens that stayed and look the same.

    A token without characters of its own (a capital sign) separates nothing.
    """
    kept = [(-1, -1)]
    for index, cell in enumerate(cells):
        if cell.origin is not None and result[index] and source[cell.origin] == result[index]:
            kept.append((cell.origin, index))
    spans = []
    for (a, b), (next_a, next_b) in pairwise([*kept, (len(source), len(result))]):
        if next_a - a > 1 or next_b - b > 1:
            removed, inserted = slice(a + 1, next_a), slice(b + 1, next_b)
            lowest = min([*confidence[removed], *(cell.confidence for cell in cells[inserted])], default=1.0)
            spans.append(_Span(removed, inserted, lowest))
    return spans


def apply_changes(text: str, selected: Iterable[Change]) -> str:
    """Apply some of its changes to a source text."""
    parts, done = list[str](), 0
    for change in sorted(selected, key=lambda change: change.start):
        parts += [text[done : change.start], change.after]
        done = change.stop
    return "".join([*parts, text[done:]])
