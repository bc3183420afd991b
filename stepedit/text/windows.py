"""Long texts in windows: where a text is cut for editing, and where a pair is cut for training.

A text is cut after the end of a sentence or before a space where there is one. What lies between two cuts is the core
of a window; the window also has a few tokens before and after it as context, so that no word is edited without its
neighbors. The cores are the whole text, each token once. A pair is cut only where source and target agree, so that each
part is a pair of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stepedit.text.tokenization import CAP, CAPS

Pair = tuple[list[str], list[str]]

WINDOW = 64  # tokens of a text that are read together, by default
CONTEXT = 8  # of them on each side of a core; less in a small window
MAX_ALIGNED = 20_000  # tokens of a text that is aligned as a whole
SENTENCE_ENDS = tuple(".!?;。！？؟।")


def cut_quality(before: str, behind: str) -> int:
    """Rate the boundary between two tokens; negative after a case sign, which belongs to the next token."""
    if before in (CAP, CAPS):
        return -1
    return 2 if before.endswith((*SENTENCE_ENDS, "\n")) else int(behind[:1].isspace() or behind in (CAP, CAPS))


class Window(NamedTuple):
    """A range of tokens that are read together, and the part of it whose edits count."""

    tokens: slice
    core: slice  # positions in the text, too


def cut_text(names: Sequence[str], window: int) -> list[Window]:
    """Return the windows of a text, given its tokens: at most `window` tokens each, with cores that cover the text."""
    if len(names) <= window:
        return [Window(slice(0, len(names)), slice(0, len(names)))] if names else []
    context = min(CONTEXT, window // 4)
    cores, begin = list[slice](), 0
    while len(names) - begin > window - context:
        size = window - context * (2 if begin else 1)
        ends = range(begin + size, begin + size // 2, -1)
        best = max(ends, key=lambda end: (cut_quality(names[end - 1], names[end]), end))
        cores.append(slice(begin, best))
        begin = best
    cores.append(slice(begin, len(names)))
    return [Window(slice(max(0, core.start - context), min(len(names), core.stop + context)), core) for core in cores]


def cut_pair(source: list[str], target: list[str], window: int, max_target: int) -> list[Pair]:
    """Return parts of a pair with sources of at most `window` tokens; what cannot be cut is left out."""
    if len(source) <= window and len(target) <= max_target:
        return [(source, target)]
    return [part for piece in _comparable(source, target) for part in _cut_where_equal(*piece, window, max_target)]


def _cut_where_equal(source: list[str], target: list[str], window: int, max_target: int) -> list[Pair]:
    from rapidfuzz.distance import Levenshtein

    same = [
        (block.src_start + k, block.dest_start + k)
        for block in Levenshtein.opcodes(source, target)
        if block.tag == "equal"
        for k in range(1, block.src_end - block.src_start)  # not right after an edit, which may belong to both sides
    ]
    parts, begin, here = list[Pair](), (0, 0), 0
    while len(source) - begin[0] > window or len(target) - begin[1] > max_target:
        while here < len(same) and same[here][0] <= begin[0]:
            here += 1
        last = here
        while last < len(same) and same[last][0] - begin[0] <= window:
            last += 1
        near = [at for at in same[here:last] if at[1] - begin[1] <= max_target]
        if not near:
            if here >= len(same):
                return parts
            begin = same[here]  # too different for one window: continue where both agree again
            continue
        late = near[len(near) // 2 :]
        end = max(late, key=lambda at: (cut_quality(source[at[0] - 1], source[at[0]]), at))
        parts.append((source[begin[0] : end[0]], target[begin[1] : end[1]]))
        begin = end
    return [*parts, (source[begin[0] :], target[begin[1] :])]


def _comparable(source: list[str], target: list[str]) -> list[Pair]:
    """Return a very long pair as its common prefix, its different middle and its common suffix.

    The middle is left out if it is too long to be aligned.
    """
    if max(len(source), len(target)) <= MAX_ALIGNED:
        return [(source, target)]
    first = max(_common_prefix(source, target) - WINDOW, 0)
    room = min(len(source), len(target)) - first
    last = max(min(_common_prefix(source[::-1], target[::-1]), room) - WINDOW, 0)
    ends = len(source) - last, len(target) - last
    middle = source[first : ends[0]], target[first : ends[1]]
    kept = [middle] if max(map(len, middle)) <= MAX_ALIGNED else []
    same = [source[at : at + WINDOW] for at in (*range(0, first, WINDOW), *range(ends[0], len(source), WINDOW))]
    return [*kept, *((part, part) for part in same)]


def _common_prefix(one: list[str], other: list[str]) -> int:
    """Return the number of leading tokens that two texts share."""
    return next(
        (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
