"""Training states: which text a programmer sees, and which edits it still needs.

Offline it sees only sources. Online, for each pair one state is drawn uniformly from the whole way: the source, the
text after one edit, after two, ..., the target, where nothing is left. Augmented, any of the edits may have been made
already, at a rate drawn for each pair; self-taught likewise.

Shapes: B states, T tokens of the longest, F fields of an action, K edits of the longest script.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from stepedit.actions import Template
from stepedit.config import Mode, Order
from stepedit.edits import Scripts
from stepedit.errors import UserError
from stepedit.interpreter import EditBatch, Programmer, actions_for, splice, tensors
from stepedit.sequences import PAD, BoolArray, IntArray, Pairs, Sequences

FRESH = 0.5  # of augmented states nothing is made yet: these are the hardest


@dataclass(frozen=True)
class States:
    """B texts on their way, and the edits that are left."""

    ids: Tensor  # (B, T)
    lengths: Tensor  # (B,)
    targets: Sequences
    left: Scripts  # the edits that lead from here to the targets
    turn: IntArray  # (B,) which of them comes next; 0 where none is left

    def __len__(self) -> int:
        return len(self.turn)

    def take(self, rows: IntArray) -> States:
        """The states at these rows, no wider than they need."""
        lengths = self.lengths[rows]
        ids = self.ids[rows, : int(lengths.max()) if len(lengths) else 0]
        return States(ids, lengths, self.targets.take(rows), self.left.take(rows), self.turn[rows])

    def done(self) -> Tensor:
        """(B,) nothing is left to be done."""
        return torch.from_numpy(self.left.counts == 0)

    def edits_now(self) -> EditBatch:
        """The edits that are left, (B, K), each at its place in the text as it is now.

        Where scripts do not run from left to right, later edits have no place yet: only the first is right.
        """
        grown = np.cumsum(self.left.growth, axis=1) - self.left.growth  # by the edits before, which are not made yet
        starts, stops = self.left.starts - grown, self.left.stops - grown
        return EditBatch(*map(torch.from_numpy, (starts, stops, self.left.tokens, self.left.widths)))

    def actions(self, template: Template) -> Tensor:
        """(B, F) what a programmer should say."""
        at = (torch.arange(len(self)), torch.from_numpy(self.turn))
        return actions_for(EditBatch(*(part[at] for part in self.edits_now())), self.done(), template)


def sample_states(
    pairs: Pairs, scripts: Scripts, rows: IntArray, mode: Mode, rng: np.random.Generator, order: Order = "left"
) -> States:
    """One state for each of these rows; where edits build on each other, augmented is the same as online."""
    chosen = scripts.take(rows)
    if order != "left" and not scripts.run_right:
        raise UserError(f"the edits of these pairs build on each other, so they can't be made in {order} order")
    ranks, shape = _ranks(chosen, order, rng), chosen.starts.shape
    if mode in ("augmented", "self-taught") and scripts.run_right:
        rate = rng.random((len(rows), 1)) * (rng.random((len(rows), 1)) >= FRESH)
        made = rng.random(shape) < rate
    else:
        taken = np.zeros_like(chosen.counts) if mode == "offline" else rng.integers(0, chosen.counts + 1)
        made = ranks < taken[:, None]
    return states_where(pairs.take(rows), chosen, made & chosen.present, ranks)


def _ranks(scripts: Scripts, order: Order, rng: np.random.Generator) -> IntArray:
    """(B, K) when the turn of each edit comes."""
    places = np.broadcast_to(np.arange(scripts.starts.shape[1]), scripts.starts.shape)
    if order == "right":
        return scripts.counts[:, None] - 1 - places
    if order == "random":
        return np.argsort(np.argsort(np.where(scripts.present, rng.random(places.shape), 2), axis=1), axis=1)
    return places


def states_after(pairs: Pairs, scripts: Scripts, taken: IntArray) -> States:
    """The texts after the first `taken` (B,) edits of each script."""
    places = np.broadcast_to(np.arange(scripts.starts.shape[1]), scripts.starts.shape)
    return states_where(pairs, scripts, places < taken[:, None], places)


def states_where(pairs: Pairs, scripts: Scripts, made: BoolArray, ranks: IntArray) -> States:
    """The texts after those edits (B, K) that have been made; of the others, the one of the lowest rank comes next."""
    left = scripts.present & ~made
    made = scripts.present & made
    starts = scripts.starts - np.cumsum(np.where(left, scripts.growth, 0), axis=1)
    ids, lengths = tensors((_at_once if scripts.run_right else _in_turn)(pairs.sources, scripts, made, starts))
    rest = scripts.where(left)
    last = np.iinfo(np.int64).max
    soonest = np.where(left, ranks, last).argmin(1)
    turn: IntArray = (np.cumsum(left, axis=1) - left)[np.arange(len(left)), soonest]
    return States(ids, lengths, pairs.targets, rest, np.where(rest.counts > 0, turn, 0))


def _at_once(sources: Sequences, scripts: Scripts, made: BoolArray, starts: IntArray) -> Sequences:
    """The sources after the edits that have been made, each at its start (B, K) in the text that comes of them all."""
    growth = np.where(made, scripts.growth, 0)
    lengths = sources.lengths + growth.sum(1)
    shape = len(sources), int(lengths.max(initial=0))
    row, edit = np.nonzero(made)
    start, width = starts[row, edit], scripts.widths[row, edit]
    behind = row * (shape[1] + 1) + start + width
    moved = np.bincount(behind, growth[row, edit], shape[0] * (shape[1] + 1)).astype(np.int64)
    before = np.arange(shape[1]) - moved.reshape(shape[0], shape[1] + 1)[:, :-1].cumsum(1)
    read = np.pad(sources.ids, ((0, 0), (0, 1)), constant_values=PAD)
    ids = np.take_along_axis(read, before.clip(0, sources.ids.shape[1]), 1)
    for place in range(scripts.tokens.shape[2]):
        brings = width > place
        ids[row[brings], start[brings] + place] = scripts.tokens[row[brings], edit[brings], place]
    return Sequences(np.where(np.arange(shape[1]) < lengths[:, None], ids, PAD), lengths)


def _in_turn(sources: Sequences, scripts: Scripts, made: BoolArray, starts: IntArray) -> Sequences:
    """The same where edits build on each other: one after the other."""
    ids, lengths = tensors(sources)
    stops = starts + scripts.stops - scripts.starts
    for index in np.flatnonzero(made.any(0)).tolist():
        # an edit that is not made is one of nothing by nothing, which changes nothing
        parts = starts[:, index], stops[:, index], scripts.widths[:, index]
        start, stop, width = (torch.from_numpy(part * made[:, index]) for part in parts)
        ids, lengths = splice(ids, lengths, EditBatch(start, stop, torch.from_numpy(scripts.tokens[:, index]), width))
    return Sequences(ids.numpy(), lengths.numpy())


def edits_at(scripts: Scripts, index: IntArray) -> EditBatch:
    """Of each script the edit at an index of its own."""
    at = (np.arange(len(scripts)), index)
    return EditBatch(
        *map(torch.from_numpy, (scripts.starts[at], scripts.stops[at], scripts.tokens[at], scripts.widths[at]))
    )


def expert(scripts: Scripts, template: Template) -> Programmer:
    """A programmer that says what the scripts say. It has to be run on all their sources, from the start."""
    turn = 0

    def say(ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal turn
        going = scripts.take(np.flatnonzero(scripts.counts >= turn))  # a row leaves after its DONE
        index = np.full(len(going), turn)
        turn += 1
        said = actions_for(edits_at(going, index), torch.from_numpy(index == going.counts), template)
        return said, torch.ones(len(said))

    return say
