"""What editing has changed, as a person or an application wants it: spans of the original and what stands there now.

    source   teh cat satt
    result   the cat sat

    change   0:3 'teh' -> 'the', in the result 0:3
             11:12 't' -> '', in the result 11:11

Steps are followed token by token, so a change knows which steps made it and how sure the programmer was of the least
sure one. Steps that touch each other are one change. Applied to the original, all changes give the result; any of them
may be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from stepedit.interpreter import Step


@dataclass(frozen=True)
class Change:
    """A span of letters of the original, and what stands there in the result."""

    start: int
    stop: int
    before: str
    result_start: int
    result_stop: int
    after: str
    confidence: float  # of the least sure step of it


@dataclass
class _Cell:
    """A token of the text as it is: where it was in the source, if it was there; how sure whoever brought it was."""

    token: int
    origin: int | None
    confidence: float = 1.0


@dataclass(frozen=True)
class _Span:
    """Tokens of the source that have gone, and those of the result that have come."""

    left: slice
    right: slice
    confidence: float


def changes(
    source: Sequence[int], trace: Iterable[Step], name: Callable[[int], str], pieces: Callable[[list[str]], list[str]]
) -> list[Change]:
    """The changes that the steps made, from left to right."""
    cells, sure = [_Cell(token, index) for index, token in enumerate(source)], [1.0] * len(source)
    for step in trace:
        if step.start is not None:
            _follow(cells, sure, step)
    shown = [pieces([name(token) for token in side]) for side in (source, [cell.token for cell in cells])]
    at = [[0, *accumulate(map(len, side))] for side in shown]
    found = []
    for span in _spans(cells, sure, *shown):
        before, after = ("".join(side[part]) for side, part in zip(shown, (span.left, span.right), strict=True))
        if before != after:
            parts = enumerate((span.left, span.right))
            start, stop, new_start, new_stop = (
                at[side][edge] for side, part in parts for edge in (part.start, part.stop)
            )
            found.append(Change(start, stop, before, new_start, new_stop, after, span.confidence))
    return found


def _follow(cells: list[_Cell], sure: list[float], step: Step) -> None:
    """Make one step, and remember for each source token that it takes away how sure it was."""
    assert step.start is not None
    stop = step.start + len(step.before)
    for cell in cells[step.start : stop]:
        if cell.origin is not None:
            sure[cell.origin] = min(sure[cell.origin], step.confidence)
    least = min([step.confidence, *(cell.confidence for cell in cells[step.start : stop])])
    cells[step.start : stop] = [_Cell(token, None, least) for token in step.after]


def _spans(cells: Sequence[_Cell], sure: Sequence[float], left: Sequence[str], right: Sequence[str]) -> list[_Span]:
    """What lies between tokens that are where they were and look as they did.

    A token that shows nothing is only there for the one behind it, so it holds nothing apart.
    """
    kept = [(-1, -1)]
    for place, cell in enumerate(cells):
        if cell.origin is not None and right[place] and left[cell.origin] == right[place]:
            kept.append((cell.origin, place))
    spans = []
    for (a, b), (next_a, next_b) in pairwise([*kept, (len(left), len(right))]):
        if next_a - a > 1 or next_b - b > 1:
            gone, come = slice(a + 1, next_a), slice(b + 1, next_b)
            least = min([*sure[gone], *(cell.confidence for cell in cells[come])], default=1.0)
            spans.append(_Span(gone, come, least))
    return spans


def applied(text: str, wanted: Iterable[Change]) -> str:
    """The original with some of its changes made."""
    parts, done = list[str](), 0
    for change in sorted(wanted, key=lambda change: change.start):
        parts += [text[done : change.start], change.after]
        done = change.stop
    return "".join([*parts, text[done:]])
