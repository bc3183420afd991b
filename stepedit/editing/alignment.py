"""Alignment: shortest edit scripts and edit distances, for whole batches.

Scripts made here run from left to right: when an edit is applied, everything to its left is final.

Shapes: B pairs, S source tokens, T target tokens, M edits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepedit.editing.edits import Edit, Scripts, Token, replay
from stepedit.editing.sequences import PAD, BoolArray, IntArray, Sequences

MAX_CELLS = 1 << 24  # of a distance table: 64 MiB


def distances(sources: Sequences, targets: Sequences) -> IntArray:
    """Return the Levenshtein distance (B,) of each source to its target."""
    if _is_large(sources, targets):
        return np.concatenate([distances(*half) for half in _halves(sources, targets)])
    table_BST = _distance_table(sources, targets)
    distance: IntArray = table_BST[np.arange(len(sources)), sources.lengths, targets.lengths].astype(np.int64)
    return distance


def script(source: Sequence[Token], target: Sequence[Token]) -> list[Edit[Token]]:
    """Return a shortest script from source to target, left to right; `scripts` says which of several."""
    names: list[Token | None] = [None, *dict.fromkeys((*source, *target))]
    ids = {name: index for index, name in enumerate(names)}
    rows = [Sequences.from_rows([[ids[token] for token in line]]) for line in (source, target)]
    return [
        Edit(edit.start, edit.stop, tuple(names[token] for token in edit.tokens))  # type: ignore[misc]
        for edit in scripts(*rows).row(0)
    ]


def scripts(sources: Sequences, targets: Sequences) -> Scripts:
    """Return shortest scripts of single-token edits, left to right.

    Ties are broken as the paper's authors do: what both ends have in common is kept; between, a backtrace from the
    right goes on in its last direction where that is optimal, else it prefers keep, substitute, insert, delete.
    """
    if _is_large(sources, targets):
        return Scripts.join([scripts(*half) for half in _halves(sources, targets)])
    table_BST = _distance_table(sources, targets)
    rows = np.arange(len(sources))
    first, i, j = _between_common_ends(sources, targets)
    steps = int(((i - first) + (j - first)).max(initial=0))
    kinds = np.zeros((len(sources), steps), np.int64)  # 0 keep or finished, 1 insert, 2 delete, 3 substitute
    positions, tokens = np.zeros_like(kinds), np.zeros_like(kinds)
    source_ids, target_ids = sources.widened(1).ids, targets.widened(1).ids
    along: BoolArray = np.zeros((3, len(sources)), np.bool_)  # the last direction: diagonal, insert or delete
    # filled from the last column backwards, because the backtrace finds the rightmost edit first
    for column in range(steps - 1, -1, -1):
        here, up, left = table_BST[rows, i, j], np.maximum(i - 1, 0), np.maximum(j - 1, 0)
        token = target_ids[rows, left]
        both, same = (i > first) & (j > first), source_ids[rows, up] == token
        diagonal = both & (table_BST[rows, up, left] + ~same == here)
        insert = (j > first) & (table_BST[rows, i, left] + 1 == here)
        delete = (i > first) & (table_BST[rows, up, j] + 1 == here)
        along = _direction(np.stack([diagonal, insert, delete]), along)
        diagonal, insert, delete = along
        j, i = j - (diagonal | insert), i - (diagonal | delete)
        substitute = diagonal & ~same
        kinds[:, column] = insert + 2 * delete + 3 * substitute
        positions[:, column] = j  # the text left of an edit is target[:j] by then
        tokens[:, column] = np.where(insert | substitute, token, PAD)
        if not ((i > first).any() or (j > first).any()):
            break
    present = kinds > 0
    return Scripts.gather(present, positions, positions + (kinds > 1), tokens[:, :, None])


def _direction(possible: BoolArray, last: BoolArray) -> BoolArray:
    """Return (3, B) one of the possible directions of each row: the last one or, if it is not possible, the first."""
    goes_on = possible & last
    choices = np.where(goes_on.any(0), goes_on, possible)
    return choices & (np.cumsum(choices, axis=0) == 1)


def _between_common_ends(sources: Sequences, targets: Sequences) -> tuple[IntArray, IntArray, IntArray]:
    """Return where source and target begin to differ (B,), and where each of them ends to."""
    shorter = np.minimum(sources.lengths, targets.lengths)
    prefix = np.minimum(_common_prefix(sources, targets), shorter)
    suffix = np.minimum(_common_prefix(_reversed(sources), _reversed(targets)), shorter - prefix)
    return prefix, sources.lengths - suffix, targets.lengths - suffix


def _common_prefix(sources: Sequences, targets: Sequences) -> IntArray:
    """Return (B,) the number of equal tokens at the beginning, padding included."""
    width = min(sources.ids.shape[1], targets.ids.shape[1])
    return np.asarray((sources.ids[:, :width] == targets.ids[:, :width]).cumprod(1).sum(1))


def with_swaps(scripts: Scripts, sources: Sequences) -> Scripts:
    """Merge two substitutions that exchange neighboring tokens into one edit of both."""
    starts, tokens, present = scripts.starts, scripts.tokens[:, :, 0], scripts.present
    grown = np.cumsum(scripts.growth, axis=1) - scripts.growth
    single = present & (scripts.widths == 1) & (scripts.stops - starts == 1)
    ids = np.pad(sources.ids, ((0, 0), (0, 2)))
    position = np.where(single, np.minimum(starts - grown, sources.ids.shape[1]), 0)
    here, behind = (np.take_along_axis(ids, position + offset, 1) for offset in (0, 1))
    follows = np.zeros_like(single)
    follows[:, :-1] = single[:, :-1] & single[:, 1:] & (starts[:, 1:] == starts[:, :-1] + 1)
    following = np.roll(tokens, -1, axis=1)
    crosses = follows & (tokens == behind) & (following == here)
    for column in range(1, crosses.shape[1]):  # an edit can be merged with one neighbor only
        crosses[:, column] &= ~crosses[:, column - 1]
    taken = np.roll(crosses, 1, axis=1)
    taken[:, 0] = False
    both = np.stack([tokens, np.where(crosses, following, PAD)], 2)
    return Scripts.gather(present & ~taken, starts, scripts.stops + crosses, both)


def with_runs(scripts: Scripts, sources: Sequences) -> Scripts:
    """Merge edits that touch: a run of tokens is deleted, or replaced by one token, in one edit.

    Where a run becomes several tokens, only the deletions in it are merged. Of the deletions that lead to the same text
    the leftmost counts: of `in 1998 no in 1999` it takes `in 1998 no`, not `1998 no in`, so that what was said first
    goes as a whole, and where the run ends does not depend on how much of it is repeated.
    """
    rows = zip(scripts.counts.tolist(), sources.rows(), strict=True)
    return Scripts.from_rows(
        [_leftmost(_merged(scripts.row(index)), source) if count else [] for index, (count, source) in enumerate(rows)]
    )


def _leftmost(script: list[Edit[int]], source: list[int]) -> list[Edit[int]]:
    """Return a script in which deletions are as far left as the text allows without meeting the edit before."""
    moved, free = list[Edit[int]](), 0
    for edit, text in zip(script, replay(source, script), strict=False):
        start, stop = edit.start, edit.stop
        while not edit.tokens and start > free and text[start - 1] == text[stop - 1]:
            start, stop = start - 1, stop - 1
        moved.append(Edit(start, stop, edit.tokens))
        free = start + len(edit.tokens) + 1
    return moved


def _merged(script: list[Edit[int]]) -> list[Edit[int]]:
    groups = list[list[Edit[int]]]()
    for edit in script:
        last = groups[-1][-1] if groups else None
        if last is not None and edit.start == last.start + len(last.tokens):
            groups[-1].append(edit)
        else:
            groups.append([edit])
    return [edit for group in groups for edit in _merged_group(group)]


def _merged_group(group: list[Edit[int]]) -> list[Edit[int]]:
    """Return the edits of a changed region in as few as a template with spans can name."""
    tokens = [token for edit in group for token in edit.tokens]
    removed = sum(edit.stop - edit.start for edit in group)
    if len(tokens) <= 1 and removed:
        return [Edit(group[0].start, group[0].start + removed, tuple(tokens))]
    merged = list[Edit[int]]()
    for edit in group:
        if merged and not edit.tokens and not merged[-1].tokens:
            merged[-1] = Edit(edit.start, merged[-1].stop + edit.stop - edit.start, ())
        else:
            merged.append(edit)
    return merged


@dataclass(frozen=True)
class OptimalEdits:
    """M single-token edits, each of one text of a batch."""

    rows: IntArray  # (M,)
    starts: IntArray  # (M,)
    stops: IntArray  # (M,) start for an insertion, start + 1 for a deletion or substitution
    tokens: IntArray  # (M,) PAD for a deletion


def optimal_edits(texts: Sequences, targets: Sequences) -> OptimalEdits:
    """Return every single-token edit that reduces the distance to the target: the first edit of some shortest script.

    Computed from the distances of all prefixes and of all suffixes: an edit between a prefix and a suffix is optimal if
    their distances add up to one less than the whole.
    """
    if _is_large(texts, targets):
        middle = len(texts) // 2
        first, second = (optimal_edits(*half) for half in _halves(texts, targets))
        parts = [(first.rows, second.rows + middle)]
        parts += [(getattr(first, name), getattr(second, name)) for name in ("starts", "stops", "tokens")]
        return OptimalEdits(*map(np.concatenate, parts))
    before = _distance_table(texts, targets)
    after = _distance_table(_reversed(texts), _reversed(targets))
    rows = np.arange(len(texts))[:, None, None]
    i, j = np.arange(before.shape[1])[:, None], np.arange(before.shape[2])
    # lengths of the suffixes that start at i and j
    ends = np.maximum(texts.lengths[:, None, None] - i, 0), np.maximum(targets.lengths[:, None, None] - j, 0)
    behind = after[rows, ends[0], ends[1]]
    wanted = before[np.arange(len(texts)), texts.lengths, targets.lengths][:, None, None] - 1
    inside = (i <= texts.lengths[:, None, None]) & (j <= targets.lengths[:, None, None])
    text_left, target_left = (i < texts.lengths[:, None, None]) & inside, (j < targets.lengths[:, None, None]) & inside
    insert = target_left[:, :, :-1] & (before[:, :, :-1] + behind[:, :, 1:] == wanted)
    delete = text_left[:, :-1] & (before[:, :-1] + behind[:, 1:] == wanted)
    change = text_left[:, :-1, :-1] & target_left[:, :-1, :-1]
    change &= before[:, :-1, :-1] + behind[:, 1:, 1:] == wanted
    return _collect(targets, insert, delete, change)


def _collect(targets: Sequences, insert: BoolArray, delete: BoolArray, change: BoolArray) -> OptimalEdits:
    """Return each edit once: (row, start, stop, token), from masks over table cells."""
    found = []
    for where, width, has_token in ((insert, 0, True), (delete, 1, False), (change, 1, True)):
        row, start, column = where.nonzero()
        token = targets.ids[row, column] if has_token else np.full_like(row, PAD)
        found.append(np.stack([row, start, start + width, token], 1))
    return OptimalEdits(*np.unique(np.concatenate(found), axis=0).T)


def _reversed(texts: Sequences) -> Sequences:
    """Return each text reversed."""
    source = np.where(texts.mask(), texts.lengths[:, None] - 1 - np.arange(texts.ids.shape[1]), 0)
    return Sequences(np.where(texts.mask(), np.take_along_axis(texts.ids, source, 1), PAD), texts.lengths)


def _is_large(sources: Sequences, targets: Sequences) -> bool:
    """Whether the distance table would take much memory and the batch can be halved."""
    return len(sources) > 1 and len(sources) * sources.ids.shape[1] * targets.ids.shape[1] > MAX_CELLS


def _halves(sources: Sequences, targets: Sequences) -> list[tuple[Sequences, Sequences]]:
    middle = len(sources) // 2
    return [(sources.take(half), targets.take(half)) for half in (slice(middle), slice(middle, None))]


def _distance_table(sources: Sequences, targets: Sequences) -> IntArray:
    """Return edit distances (B, S+1, T+1) between all prefixes, one row of S at a time for all pairs."""
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
        # k insertions cost k: a running minimum after subtracting the column index
        row[:] = np.minimum.accumulate(row - steps, axis=1) + steps
    return table_BST
