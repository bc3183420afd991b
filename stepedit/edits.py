"""The one edit type, and the shortest edit script between two sequences.

An edit (start, stop, tokens) replaces state[start:stop] by tokens:

    insert + before place 1       Edit(1, 1, ("+",))        3 4      ->  3 + 4
    delete place 0                Edit(0, 1, ())            - 3 4    ->  3 4
    put 7 for a bracket           Edit(0, 5, ("7",))        ( 3 + 4 ) ->  7

A script is a list of edits applied one after the other, so each edit's places are those of the state it meets. Scripts
made here run from left to right: when an edit's turn comes, everything to its left is final.

Shapes: B pairs, S source tokens, T target tokens, K edits of the longest script, M tokens of the widest edit.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from stepedit.sequences import PAD, BoolArray, IntArray, Sequences, map_ids

Token = TypeVar("Token", bound=Hashable)

MOST_CELLS = 1 << 24  # of a table of distances: 64 MiB


@dataclass(frozen=True)
class Edit(Generic[Token]):
    """Replace state[start:stop] by tokens."""

    start: int
    stop: int
    tokens: tuple[Token, ...]


def apply(state: Sequence[Token], edit: Edit[Token]) -> tuple[Token, ...]:
    """The state after one edit."""
    return (*state[: edit.start], *edit.tokens, *state[edit.stop :])


def trajectory(state: Sequence[Token], edits: Iterable[Edit[Token]]) -> list[tuple[Token, ...]]:
    """Every state on the way, the given one first and the finished one last."""
    states = [tuple(state)]
    for edit in edits:
        states.append(apply(states[-1], edit))
    return states


@dataclass(frozen=True)
class Scripts:
    """B scripts of edits side by side. Behind each script's last edit stands at least one of nothing by nothing."""

    starts: IntArray  # (B, K+1)
    stops: IntArray  # (B, K+1)
    tokens: IntArray  # (B, K+1, M)
    widths: IntArray  # (B, K+1) tokens in each edit
    counts: IntArray  # (B,) edits in each script
    run_right: bool  # every edit begins where all before it have left off, or further right

    def __len__(self) -> int:
        return len(self.counts)

    @classmethod
    def gather(cls, present: BoolArray, starts: IntArray, stops: IntArray, tokens: IntArray) -> Scripts:
        """Scripts from candidates laid out (B, C) in the order they run: those present, moved to the front.

        `tokens` is (B, C, M), padded with PAD; an edit's width is the number of its tokens.
        """
        counts = present.sum(1)
        shape = (len(present), int(counts.max(initial=0)) + 1)
        front = np.arange(shape[1]) < counts[:, None]
        parts = [np.zeros(shape, np.int64) for _ in range(3)]
        for part, values in zip(parts, (starts, stops, (tokens != PAD).sum(2)), strict=True):
            part[front] = values[present]
        first, last, widths = parts
        brings = np.zeros((*shape, tokens.shape[2]), np.int64)
        brings[front] = tokens[present]
        behind = (first[:, 1:] >= (first + widths)[:, :-1]) | ~front[:, 1:]
        return cls(first, last, brings, widths, counts, run_right=bool(behind.all()))

    def take(self, rows: IntArray) -> Scripts:
        """The scripts of these rows."""
        return Scripts(
            self.starts[rows],
            self.stops[rows],
            self.tokens[rows],
            self.widths[rows],
            self.counts[rows],
            self.run_right,
        )

    def mapped(self, ids: IntArray) -> Scripts:
        """The same with other ids (V,) for the first V tokens."""
        return replace(self, tokens=map_ids(self.tokens, ids))

    @property
    def present(self) -> BoolArray:
        """(B, K) where there is an edit."""
        return np.arange(self.starts.shape[1]) < self.counts[:, None]

    @property
    def growth(self) -> IntArray:
        """(B, K) by how much each edit makes its text longer."""
        return self.widths - (self.stops - self.starts)

    def where(self, kept: BoolArray) -> Scripts:
        """Only these edits (B, K), at the places they had."""
        return Scripts.gather(kept & self.present, self.starts, self.stops, self.tokens)

    @classmethod
    def join(cls, parts: Sequence[Scripts]) -> Scripts:
        """All scripts of all parts, one after the other."""
        columns = max(part.starts.shape[1] for part in parts)
        most = max(part.tokens.shape[2] for part in parts)

        def joined(arrays: list[IntArray]) -> IntArray:
            room = (columns, most)
            return np.concatenate(
                [np.pad(a, [(0, 0), *((0, n - m) for n, m in zip(room, a.shape[1:], strict=False))]) for a in arrays]
            )

        return cls(
            joined([part.starts for part in parts]),
            joined([part.stops for part in parts]),
            joined([part.tokens for part in parts]),
            joined([part.widths for part in parts]),
            np.concatenate([part.counts for part in parts]),
            all(part.run_right for part in parts),
        )

    def row(self, index: int) -> list[Edit[int]]:
        """One script as plain edits."""
        parts = (self.starts[index], self.stops[index], self.tokens[index], self.widths[index])
        return [
            Edit(int(start), int(stop), tuple(tokens[:width].tolist()))
            for start, stop, tokens, width in zip(*(part[: self.counts[index]] for part in parts), strict=True)
        ]


def distances(sources: Sequences, targets: Sequences) -> IntArray:
    """(B,) the least number of insertions, deletions and substitutions that turn each source into its target."""
    if _is_large(sources, targets):
        return np.concatenate([distances(*half) for half in _halves(sources, targets)])
    table_BST = _distance_table(sources, targets)
    least: IntArray = table_BST[np.arange(len(sources)), sources.lengths, targets.lengths].astype(np.int64)
    return least


def script(source: Sequence[Token], target: Sequence[Token]) -> list[Edit[Token]]:
    """A shortest script from source to target, left to right; see `scripts` for which of several."""
    names: list[Token | None] = [None, *dict.fromkeys((*source, *target))]
    ids = {name: index for index, name in enumerate(names)}
    rows = [Sequences.from_rows([[ids[token] for token in line]]) for line in (source, target)]
    return [
        Edit(edit.start, edit.stop, tuple(names[token] for token in edit.tokens))  # type: ignore[misc]
        for edit in scripts(*rows).row(0)
    ]


def scripts(sources: Sequences, targets: Sequences) -> Scripts:
    """Shortest scripts of single-token edits, left to right.

    Where several are shortest, the one that a trace back from the right finds when it prefers to keep, then to
    substitute, then to delete, then to insert: the choice behind the paper's printed example.
    """
    if _is_large(sources, targets):
        return Scripts.join([scripts(*half) for half in _halves(sources, targets)])
    table_BST = _distance_table(sources, targets)
    rows = np.arange(len(sources))
    i, j = sources.lengths.copy(), targets.lengths.copy()
    steps = sources.ids.shape[1] + targets.ids.shape[1]
    kinds = np.zeros((len(sources), steps), np.int64)  # 0 keep or over, 1 insert, 2 delete, 3 substitute
    places = np.zeros_like(kinds)
    tokens = np.zeros_like(kinds)
    source_ids, target_ids = sources.widened(1).ids, targets.widened(1).ids
    # filled from the last column backwards, because the trace finds the rightmost edit first
    for column in range(steps - 1, -1, -1):
        here = table_BST[rows, i, j]
        both = (i > 0) & (j > 0)
        before, token = np.maximum(i - 1, 0), target_ids[rows, np.maximum(j - 1, 0)]
        keep = both & (source_ids[rows, before] == token)
        diagonal = table_BST[rows, before, np.maximum(j - 1, 0)]
        substitute = both & ~keep & (diagonal + 1 == here)
        delete = ~keep & ~substitute & (i > 0) & (table_BST[rows, before, j] + 1 == here)
        insert = ~keep & ~substitute & ~delete & (j > 0)
        j = j - (keep | substitute | insert)
        i = i - (keep | substitute | delete)
        kinds[:, column] = insert + 2 * delete + 3 * substitute
        places[:, column] = j  # left of an edit stands the finished target[:j]
        tokens[:, column] = np.where(insert | substitute, token, PAD)
        if not (i.any() or j.any()):
            break
    present = kinds > 0
    return Scripts.gather(present, places, places + (kinds > 1), tokens[:, :, None])


def with_swaps(scripts: Scripts, sources: Sequences) -> Scripts:
    """Scripts of single-token edits in which two substitutions that exchange neighbours are one edit of both."""
    starts, tokens, present = scripts.starts, scripts.tokens[:, :, 0], scripts.present
    grown = np.cumsum(scripts.growth, axis=1) - scripts.growth
    single = present & (scripts.widths == 1) & (scripts.stops - starts == 1)
    ids = np.pad(sources.ids, ((0, 0), (0, 2)))
    place = np.where(single, np.minimum(starts - grown, sources.ids.shape[1]), 0)
    here, behind = (np.take_along_axis(ids, place + ahead, 1) for ahead in (0, 1))
    follows = np.zeros_like(single)
    follows[:, :-1] = single[:, :-1] & single[:, 1:] & (starts[:, 1:] == starts[:, :-1] + 1)
    following = np.roll(tokens, -1, axis=1)
    crosses = follows & (tokens == behind) & (following == here)
    for column in range(1, crosses.shape[1]):  # an edit can be exchanged with one neighbour only
        crosses[:, column] &= ~crosses[:, column - 1]
    taken = np.roll(crosses, 1, axis=1)
    taken[:, 0] = False
    both = np.stack([tokens, np.where(crosses, following, PAD)], 2)
    return Scripts.gather(present & ~taken, starts, scripts.stops + crosses, both)


@dataclass(frozen=True)
class Moves:
    """M single-token edits, each of one of some texts."""

    rows: IntArray  # (M,)
    starts: IntArray  # (M,)
    stops: IntArray  # (M,) the start, to insert; one more, to delete or substitute
    tokens: IntArray  # (M,) PAD, to delete


def closer(texts: Sequences, targets: Sequences) -> Moves:
    """Every edit of a single token that brings a text one nearer to its target: the beginning of some shortest script.

    From the distances of all beginnings and of all ends: an edit between two of them lies on a shortest way if what is
    left on both sides is one less than the whole.
    """
    if _is_large(texts, targets):
        middle = len(texts) // 2
        first, second = (closer(*half) for half in _halves(texts, targets))
        parts = [(first.rows, second.rows + middle)]
        parts += [(getattr(first, name), getattr(second, name)) for name in ("starts", "stops", "tokens")]
        return Moves(*map(np.concatenate, parts))
    before = _distance_table(texts, targets)
    after = _distance_table(_reversed(texts), _reversed(targets))
    rows = np.arange(len(texts))[:, None, None]
    i, j = np.arange(before.shape[1])[:, None], np.arange(before.shape[2])
    # what is left of both from places i and j on: lengths minus places from the other end
    ends = np.maximum(texts.lengths[:, None, None] - i, 0), np.maximum(targets.lengths[:, None, None] - j, 0)
    behind = after[rows, ends[0], ends[1]]
    nearer = before[np.arange(len(texts)), texts.lengths, targets.lengths][:, None, None] - 1
    inside = (i <= texts.lengths[:, None, None]) & (j <= targets.lengths[:, None, None])
    text_left, target_left = (i < texts.lengths[:, None, None]) & inside, (j < targets.lengths[:, None, None]) & inside
    insert = target_left[:, :, :-1] & (before[:, :, :-1] + behind[:, :, 1:] == nearer)
    delete = text_left[:, :-1] & (before[:, :-1] + behind[:, 1:] == nearer)
    change = text_left[:, :-1, :-1] & target_left[:, :-1, :-1]
    change &= before[:, :-1, :-1] + behind[:, 1:, 1:] == nearer
    return _moves(targets, insert, delete, change)


def _moves(targets: Sequences, insert: BoolArray, delete: BoolArray, change: BoolArray) -> Moves:
    """Each edit once: (row, start, stop, token), from where each kind lies on a shortest way."""
    found = []
    for where, width, brings in ((insert, 0, True), (delete, 1, False), (change, 1, True)):
        row, start, place = where.nonzero()
        token = targets.ids[row, place] if brings else np.full_like(row, PAD)
        found.append(np.stack([row, start, start + width, token], 1))
    return Moves(*np.unique(np.concatenate(found), axis=0).T)


def _reversed(texts: Sequences) -> Sequences:
    """Each text from its end to its beginning."""
    places = np.where(texts.mask(), texts.lengths[:, None] - 1 - np.arange(texts.ids.shape[1]), 0)
    return Sequences(np.where(texts.mask(), np.take_along_axis(texts.ids, places, 1), PAD), texts.lengths)


def _is_large(sources: Sequences, targets: Sequences) -> bool:
    """Whether a table of all prefixes would take much memory and there are rows to do apart."""
    return len(sources) > 1 and len(sources) * sources.ids.shape[1] * targets.ids.shape[1] > MOST_CELLS


def _halves(sources: Sequences, targets: Sequences) -> list[tuple[Sequences, Sequences]]:
    middle = len(sources) // 2
    return [(sources.take(half), targets.take(half)) for half in (slice(middle), slice(middle, None))]


def _distance_table(sources: Sequences, targets: Sequences) -> IntArray:
    """(B, S+1, T+1) edit distances between all prefixes, one row of S at a time for all pairs at once."""
    width = targets.ids.shape[1]
    steps = np.arange(width + 1, dtype=np.int32)
    table_BST = np.empty((len(sources), sources.ids.shape[1] + 1, width + 1), np.int32)
    table_BST[:, 0] = steps
    for i in range(1, table_BST.shape[1]):
        above = table_BST[:, i - 1]
        row = table_BST[:, i]
        row[:, 0] = i
        differs = targets.ids != sources.ids[:, i - 1 : i]
        np.minimum(above[:, 1:] + 1, above[:, :-1] + differs, out=row[:, 1:])
        # a run of insertions costs its length: a running minimum of what is left after taking that off
        row[:] = np.minimum.accumulate(row - steps, axis=1) + steps
    return table_BST
