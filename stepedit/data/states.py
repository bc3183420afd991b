"""Training states: which text a programmer sees, and which edits remain.

offline: only sources, or one state of each trajectory that was drawn once. online: for each pair a state drawn
uniformly from the trajectory: the source, the text after one edit, after two, ..., the target, where no edit remains.
augmented and self-training: any subset of the edits has been applied, with an application rate drawn for each pair.

Shapes: B states, T tokens of the longest, F fields of an action, K edits of the longest script.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepedit.config import EditOrder, Mode
from stepedit.editing.actions import Template
from stepedit.editing.edits import EditBatch, Scripts
from stepedit.editing.interpreter import Prediction, actions_for, splice
from stepedit.editing.sequences import PAD, BoolArray, IntArray, Pairs, Sequences
from stepedit.errors import UserError

BUCKET = 16  # batches of texts that are sorted by length together
SOURCE_RATE = 0.5  # share of augmented states that are sources: the hardest ones


@dataclass(frozen=True)
class States:
    """B states and their remaining edits."""

    texts: Sequences
    targets: Sequences
    remaining: Scripts  # the edits from the states to the targets
    next_edit: IntArray  # (B,) which of them comes next; 0 where none remains

    def __len__(self) -> int:
        return len(self.next_edit)

    def take(self, rows: IntArray | slice) -> States:
        """Return some of the states, trimmed to their longest."""
        return States(self.texts.take(rows), self.targets.take(rows), self.remaining.take(rows), self.next_edit[rows])

    def done(self) -> BoolArray:
        """Return (B,), true where no edit remains."""
        return self.remaining.counts == 0

    def current_edits(self) -> EditBatch:
        """Return the remaining edits (B, K) with positions in the current text.

        For scripts that do not run from left to right only the first edit's position is meaningful.
        """
        grown = np.cumsum(self.remaining.growth, axis=1) - self.remaining.growth  # by earlier edits, not applied yet
        starts, stops = self.remaining.starts - grown, self.remaining.stops - grown
        return EditBatch(starts, stops, self.remaining.tokens, self.remaining.widths)

    def actions(self, template: Template) -> IntArray:
        """Return the actions (B, F) that a programmer should predict."""
        at = (np.arange(len(self)), self.next_edit)
        edits = EditBatch(*(part[at] for part in self.current_edits()))
        return actions_for(edits, self.done(), template, self.texts)


def sample_states(
    pairs: Pairs,
    scripts: Scripts,
    rows: IntArray,
    mode: Mode,
    rng: np.random.Generator,
    order: EditOrder = "left-to-right",
    offline: IntArray | None = None,
) -> States:
    """Draw one state for each of these rows; where edits depend on each other, augmented is the same as online.

    `offline` (of all pairs) is how many edits have been applied in mode offline; by default none.
    """
    chosen = scripts.take(rows)
    if order != "left-to-right" and not scripts.left_to_right:
        raise UserError(f"the edits of these pairs depend on each other, so edit_order {order} is not possible")
    ranks, shape = _ranks(chosen, order, rng), chosen.starts.shape
    if mode in ("augmented", "self-training") and scripts.left_to_right:
        rate = rng.random((len(rows), 1)) * (rng.random((len(rows), 1)) >= SOURCE_RATE)
        applied = rng.random(shape) < rate
    else:
        count = rng.integers(0, chosen.counts + 1)
        if mode == "offline":
            count = np.zeros_like(count) if offline is None else offline[rows]
        applied = ranks < count[:, None]
    return states_where(pairs.take(rows), chosen, applied & chosen.present, ranks)


def by_length(rows: IntArray, lengths: IntArray, batch_size: int, rng: np.random.Generator) -> IntArray:
    """Return shuffled rows such that texts of similar length are in one batch, and batches in random order."""
    size = batch_size * BUCKET
    chunks = [rows[begin : begin + size] for begin in range(0, len(rows), size)]
    ordered = np.concatenate([chunk[np.argsort(lengths[chunk], kind="stable")] for chunk in chunks])
    whole = len(rows) // batch_size * batch_size
    batches = ordered[:whole].reshape(-1, batch_size)
    return np.concatenate([rng.permutation(batches).ravel(), ordered[whole:]])


def _ranks(scripts: Scripts, order: EditOrder, rng: np.random.Generator) -> IntArray:
    """Return (B, K) the rank of each edit in the order of application."""
    columns = np.broadcast_to(np.arange(scripts.starts.shape[1]), scripts.starts.shape)
    if order == "right-to-left":
        return scripts.counts[:, None] - 1 - columns
    if order in ("random", "any"):
        return np.argsort(np.argsort(np.where(scripts.present, rng.random(columns.shape), 2), axis=1), axis=1)
    return columns


def states_after(pairs: Pairs, scripts: Scripts, counts: IntArray) -> States:
    """Return the states after the first `counts` (B,) edits of each script."""
    columns = np.broadcast_to(np.arange(scripts.starts.shape[1]), scripts.starts.shape)
    return states_where(pairs, scripts, columns < counts[:, None], columns)


def states_where(pairs: Pairs, scripts: Scripts, applied: BoolArray, ranks: IntArray) -> States:
    """Return the states after the edits selected by `applied` (B, K); the remaining edit of lowest rank is next."""
    remaining = scripts.present & ~applied
    applied = scripts.present & applied
    starts = scripts.starts - np.cumsum(np.where(remaining, scripts.growth, 0), axis=1)
    texts = (_apply_together if scripts.left_to_right else _apply_in_turn)(pairs.sources, scripts, applied, starts)
    rest = scripts.where(remaining)
    never = np.iinfo(np.int64).max
    first = np.where(remaining, ranks, never).argmin(1)
    next_edit: IntArray = (np.cumsum(remaining, axis=1) - remaining)[np.arange(len(remaining)), first]
    return States(texts, pairs.targets, rest, np.where(rest.counts > 0, next_edit, 0))


def _apply_together(sources: Sequences, scripts: Scripts, applied: BoolArray, starts: IntArray) -> Sequences:
    """Apply edits that run from left to right, each at its start (B, K) in the resulting text."""
    growth = np.where(applied, scripts.growth, 0)
    lengths = sources.lengths + growth.sum(1)
    shape = len(sources), int(lengths.max(initial=0))
    row, edit = np.nonzero(applied)
    start, width = starts[row, edit], scripts.widths[row, edit]
    behind = row * (shape[1] + 1) + start + width
    shift = np.bincount(behind, growth[row, edit], shape[0] * (shape[1] + 1)).astype(np.int64)
    origin = np.arange(shape[1]) - shift.reshape(shape[0], shape[1] + 1)[:, :-1].cumsum(1)
    padded = np.pad(sources.ids, ((0, 0), (0, 1)), constant_values=PAD)
    ids = np.take_along_axis(padded, origin.clip(0, sources.ids.shape[1]), 1)
    for index in range(scripts.tokens.shape[2]):
        has_token = width > index
        ids[row[has_token], start[has_token] + index] = scripts.tokens[row[has_token], edit[has_token], index]
    return Sequences(np.where(np.arange(shape[1]) < lengths[:, None], ids, PAD), lengths)


def _apply_in_turn(sources: Sequences, scripts: Scripts, applied: BoolArray, starts: IntArray) -> Sequences:
    """Apply edits that depend on each other, one after the other."""
    texts, stops = sources, starts + scripts.stops - scripts.starts
    for index in np.flatnonzero(applied.any(0)).tolist():
        # where an edit is not applied, it becomes an empty edit at 0, which changes nothing
        here = applied[:, index]
        start, stop, width = (part[:, index] * here for part in (starts, stops, scripts.widths))
        texts = splice(texts, EditBatch(start, stop, scripts.tokens[:, index], width))
    return texts


class ExpertPolicy:
    """A policy that predicts the actions of known scripts; it has to be run on all their sources, from the start."""

    def __init__(self, scripts: Scripts, template: Template) -> None:
        self.scripts, self.template = scripts, template
        self.turn = 0

    def predict(self, texts: Sequences) -> Prediction:
        """Return the next action of each script; a row leaves the batch after its DONE."""
        active = self.scripts.take(np.flatnonzero(self.scripts.counts >= self.turn))
        index = np.full(len(active), self.turn)
        self.turn += 1
        actions = actions_for(active.at(index), index == active.counts, self.template, texts)
        return Prediction(actions, np.zeros(len(actions)))
