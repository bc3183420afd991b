"""The edit type, and batches of edit scripts.

An edit (start, stop, tokens) replaces state[start:stop] by tokens:

    insert + before position 1    Edit(1, 1, ("+",))         3 4       ->  3 + 4
    delete position 0             Edit(0, 1, ())             - 3 4     ->  3 4
    replace a bracket by 7        Edit(0, 5, ("7",))         ( 3 + 4 ) ->  7

A script is a list of edits applied in order: positions of an edit refer to the state it is applied to.

Shapes: B pairs, K edits of the longest script, M tokens of the widest edit.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from rapidfuzz.distance import Levenshtein

from stepedit.editing.sequences import PAD, BoolArray, IntArray, map_ids

Token = TypeVar("Token", bound=Hashable)


@dataclass(frozen=True)
class Edit(Generic[Token]):
    """Replace state[start:stop] by tokens."""

    start: int
    stop: int
    tokens: tuple[Token, ...]


def edit_spans(source: Sequence[Token], text: Sequence[Token]) -> list[Edit[Token]]:
    """Return the spans of a source that a text replaces, left to right; adjacent changes are one.

    Positions are those of the source, so that edits of several texts can be compared.
    """
    found: list[tuple[int, int, int, int]] = []
    for block in Levenshtein.opcodes(source, text):
        if block.tag == "equal":
            continue
        start, begin = block.src_start, block.dest_start
        if found and found[-1][1] == start and found[-1][3] == begin:
            start, _, begin, _ = found.pop()
        found.append((start, block.src_end, begin, block.dest_end))
    return [Edit(start, stop, tuple(text[begin:end])) for start, stop, begin, end in found]


def apply_spans(source: Sequence[Token], spans: Sequence[Edit[Token]]) -> tuple[Token, ...]:
    """Return a source with spans replaced that are in order and do not overlap."""
    result = tuple(source)
    for edit in reversed(spans):  # rightmost first, so that earlier positions stay valid
        result = apply(result, edit)
    return result


class EditBatch(NamedTuple):
    """One edit for each of B states; for a plan, arrays of (B, K) edits."""

    starts: IntArray  # (B,)
    stops: IntArray  # (B,)
    tokens: IntArray  # (B, M)
    widths: IntArray  # (B,) tokens of each edit


def apply(state: Sequence[Token], edit: Edit[Token]) -> tuple[Token, ...]:
    """Return the state after one edit."""
    return (*state[: edit.start], *edit.tokens, *state[edit.stop :])


def trajectory(state: Sequence[Token], edits: Iterable[Edit[Token]]) -> list[tuple[Token, ...]]:
    """Return every state from the given one to the last, both included."""
    return list(replay(state, edits))


def replay(state: Sequence[Token], edits: Iterable[Edit[Token]]) -> Iterator[tuple[Token, ...]]:
    """Yield every state from the given one to the last, both included: a long trajectory fits into memory."""
    current = tuple(state)
    yield current
    for edit in edits:
        current = apply(current, edit)
        yield current


@dataclass(frozen=True)
class Scripts:
    """B edit scripts. Each row is padded with at least one empty edit."""

    starts: IntArray  # (B, K+1)
    stops: IntArray  # (B, K+1)
    tokens: IntArray  # (B, K+1, M)
    widths: IntArray  # (B, K+1) tokens in each edit
    counts: IntArray  # (B,) edits in each script
    left_to_right: bool  # every edit starts at or after the end of all edits before it

    def __len__(self) -> int:
        return len(self.counts)

    @classmethod
    def gather(cls, present: BoolArray, starts: IntArray, stops: IntArray, tokens: IntArray) -> Scripts:
        """Make scripts from candidates (B, C) in the order of application, of which those `present` are kept.

        `tokens` is (B, C, M), padded with PAD; the width of an edit is its number of tokens.
        """
        counts = present.sum(1)
        shape = (len(present), int(counts.max(initial=0)) + 1)
        front = np.arange(shape[1]) < counts[:, None]
        parts = [np.zeros(shape, np.int64) for _ in range(3)]
        for part, values in zip(parts, (starts, stops, (tokens != PAD).sum(2)), strict=True):
            part[front] = values[present]
        first, last, widths = parts
        inserted = np.zeros((*shape, tokens.shape[2]), np.int64)
        inserted[front] = tokens[present]
        ordered = (first[:, 1:] >= (first + widths)[:, :-1]) | ~front[:, 1:]
        return cls(first, last, inserted, widths, counts, left_to_right=bool(ordered.all()))

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[Edit[int]]]) -> Scripts:
        """Pad lists of edits."""
        counts = np.array([len(row) for row in rows], np.int64)
        edits = [edit for row in rows for edit in row]
        present = np.arange(int(counts.max(initial=0))) < counts[:, None]
        starts, stops = np.zeros((2, *present.shape), np.int64)
        tokens = np.full((*present.shape, max((len(edit.tokens) for edit in edits), default=1) or 1), PAD)
        starts[present], stops[present] = [edit.start for edit in edits], [edit.stop for edit in edits]
        padded = [[*edit.tokens, *[PAD] * (tokens.shape[2] - len(edit.tokens))] for edit in edits]
        tokens[present] = np.array(padded, np.int64).reshape(len(edits), tokens.shape[2])
        return cls.gather(present, starts, stops, tokens)

    def take(self, rows: IntArray | slice) -> Scripts:
        """Return the scripts of some rows."""
        return Scripts(
            self.starts[rows],
            self.stops[rows],
            self.tokens[rows],
            self.widths[rows],
            self.counts[rows],
            self.left_to_right,
        )

    def mapped(self, ids: IntArray) -> Scripts:
        """Replace each token id below V by `ids` (V,)."""
        return replace(self, tokens=map_ids(self.tokens, ids))

    def at(self, index: IntArray) -> EditBatch:
        """Return the edit at an index (B,) of each script."""
        at = (np.arange(len(self)), index)
        return EditBatch(self.starts[at], self.stops[at], self.tokens[at], self.widths[at])

    @property
    def present(self) -> BoolArray:
        """(B, K+1), true where there is an edit."""
        return np.arange(self.starts.shape[1]) < self.counts[:, None]

    @property
    def growth(self) -> IntArray:
        """(B, K+1) by how many tokens each edit lengthens its text."""
        return self.widths - (self.stops - self.starts)

    def where(self, kept: BoolArray) -> Scripts:
        """Return only the edits selected by (B, K+1), at their positions."""
        return Scripts.gather(kept & self.present, self.starts, self.stops, self.tokens)

    @classmethod
    def join(cls, parts: Sequence[Scripts]) -> Scripts:
        """Concatenate scripts."""
        columns = max(part.starts.shape[1] for part in parts)
        widest = max(part.tokens.shape[2] for part in parts)

        def joined(arrays: list[IntArray]) -> IntArray:
            room = (columns, widest)
            return np.concatenate(
                [np.pad(a, [(0, 0), *((0, n - m) for n, m in zip(room, a.shape[1:], strict=False))]) for a in arrays]
            )

        return cls(
            joined([part.starts for part in parts]),
            joined([part.stops for part in parts]),
            joined([part.tokens for part in parts]),
            joined([part.widths for part in parts]),
            np.concatenate([part.counts for part in parts]),
            all(part.left_to_right for part in parts),
        )

    def row(self, index: int) -> list[Edit[int]]:
        """Return one script as plain edits."""
        parts = (self.starts[index], self.stops[index], self.tokens[index], self.widths[index])
        return [
            Edit(int(start), int(stop), tuple(tokens[:width].tolist()))
            for start, stop, tokens, width in zip(*(part[: self.counts[index]] for part in parts), strict=True)
        ]
