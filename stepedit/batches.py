"""Training states: which text a programmer sees, and which action it should answer.

Offline it sees only sources with their first action. Online, for each pair one state is drawn uniformly from the whole
way: the source, the text after one edit, after two, ..., the target, whose action is DONE.

Shapes: B states, T tokens of the longest, F fields of an action, K edits of the longest script.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from stepedit.actions import Template
from stepedit.config import Mode
from stepedit.edits import Scripts
from stepedit.interpreter import EditBatch, Programmer, actions_for, splice, tensors
from stepedit.sequences import PAD, IntArray, Pairs, Sequences


@dataclass(frozen=True)
class States:
    """B texts on their way: after the first `taken` edits of their scripts."""

    ids: Tensor  # (B, T)
    lengths: Tensor  # (B,)
    targets: Sequences
    scripts: Scripts
    taken: IntArray  # (B,)

    def __len__(self) -> int:
        return len(self.taken)

    def take(self, rows: IntArray) -> States:
        """The states at these rows, no wider than they need."""
        lengths = self.lengths[rows]
        ids = self.ids[rows, : int(lengths.max()) if len(lengths) else 0]
        return States(ids, lengths, self.targets.take(rows), self.scripts.take(rows), self.taken[rows])

    def done(self) -> Tensor:
        """(B,) nothing is left to be done."""
        return torch.from_numpy(self.taken == self.scripts.counts)

    def nextedits_at(self) -> EditBatch:
        """The edit that comes next in each; one of nothing where nothing is left."""
        return edits_at(self.scripts, self.taken)

    def actions(self, template: Template) -> Tensor:
        """(B, F) what a programmer should say."""
        return actions_for(self.nextedits_at(), self.done(), template)


def sample_states(pairs: Pairs, scripts: Scripts, rows: IntArray, mode: Mode, rng: np.random.Generator) -> States:
    """One state for each of these rows."""
    chosen = scripts.take(rows)
    taken = np.zeros_like(chosen.counts) if mode == "offline" else rng.integers(0, chosen.counts + 1)
    return states_after(pairs.take(rows), chosen, taken)


def states_after(pairs: Pairs, scripts: Scripts, taken: IntArray) -> States:
    """The texts after the first `taken` (B,) edits of each script."""
    ids, lengths = (_halfway if scripts.run_right else _step_by_step)(pairs, scripts, taken)
    return States(ids, lengths, pairs.targets, scripts, taken)


def _halfway(pairs: Pairs, scripts: Scripts, taken: IntArray) -> tuple[Tensor, Tensor]:
    """Where scripts run from left to right: the target as far as it is made, then the rest of the source."""
    last = (np.arange(len(scripts)), np.maximum(taken - 1, 0))
    grown = np.cumsum(scripts.widths - (scripts.stops - scripts.starts), axis=1)[last] * (taken > 0)
    made = torch.from_numpy((scripts.starts + scripts.widths)[last] * (taken > 0))[:, None]
    lengths = torch.from_numpy(pairs.sources.lengths + grown)
    place = torch.arange(int(lengths.max()) if len(lengths) else 0)
    targets, sources = (torch.from_numpy(side.widened(1).ids) for side in (pairs.targets, pairs.sources))
    from_target = targets.gather(1, place.clamp(max=targets.shape[1] - 1).expand(len(made), -1))
    from_source = sources.gather(1, (place - torch.from_numpy(grown)[:, None]).clamp(0, sources.shape[1] - 1))
    ids = torch.where(place < made, from_target, from_source)
    return torch.where(place < lengths[:, None], ids, PAD), lengths


def _step_by_step(pairs: Pairs, scripts: Scripts, taken: IntArray) -> tuple[Tensor, Tensor]:
    """Whatever the order of the edits: one after the other."""
    ids, lengths = tensors(pairs.sources)
    for index in range(int(taken.max(initial=0))):
        # a row that has had its edits gets one of nothing by nothing, which changes nothing
        ids, lengths = splice(ids, lengths, edits_at(scripts, np.where(index < taken, index, scripts.counts)))
    return ids, lengths


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
