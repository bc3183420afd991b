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
from stepedit.tokens import CAP, CAPS


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
    names = [name(token) for token in source], [name(cell.token) for cell in cells]
    shown = [pieces(side) for side in names]
    at = [[0, *accumulate(map(len, side))] for side in shown]
    found = []
    for span in _touching(_spans(cells, sure, len(source)), *names):
        before, after = ("".join(side[part]) for side, part in zip(shown, (span.left, span.right), strict=True))
        if before != after:
            start, stop, new_start, new_stop = (
                at[side][edge] for side, part in enumerate((span.left, span.right)) for edge in (part.start, part.stop)
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


def _spans(cells: Sequence[_Cell], sure: Sequence[float], size: int) -> list[_Span]:
    """What lies between tokens that are still where they were."""
    kept = [(-1, -1), *((cell.origin, place) for place, cell in enumerate(cells) if cell.origin is not None)]
    spans = []
    for (left, right), (next_left, next_right) in pairwise([*kept, (size, len(cells))]):
        if next_left - left > 1 or next_right - right > 1:
            gone, come = slice(left + 1, next_left), slice(right + 1, next_right)
            least = min([*sure[gone], *(cell.confidence for cell in cells[come])], default=1.0)
            spans.append(_Span(gone, come, least))
    return spans


def _touching(spans: Iterable[_Span], left: Sequence[str], right: Sequence[str]) -> list[_Span]:
    """The same, each with the word that a sign at its end raises; those that then touch each other made one."""
    joined: list[_Span] = []
    for span in spans:
        signs = {*left[span.left][-1:], *right[span.right][-1:]} & {CAP, CAPS}
        more = int(bool(signs) and span.left.stop < len(left) and span.right.stop < len(right))
        gone = slice(span.left.start, span.left.stop + more)
        come = slice(span.right.start, span.right.stop + more)
        if joined and joined[-1].left.stop >= gone.start:
            last = joined.pop()
            gone, come = slice(last.left.start, gone.stop), slice(last.right.start, come.stop)
            span = _Span(gone, come, min(last.confidence, span.confidence))
        joined.append(_Span(gone, come, span.confidence))
    return joined


def applied(text: str, wanted: Iterable[Change]) -> str:
    """The original with some of its changes made."""
    parts, done = list[str](), 0
    for change in sorted(wanted, key=lambda change: change.start):
        parts += [text[done : change.start], change.after]
        done = change.stop
    return "".join([*parts, text[done:]])
