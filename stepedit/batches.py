"""Training states: which text a programmer sees, and which action it should answer.

Offline it sees only sources with their first action. Online, for each pair one state is drawn uniformly from the whole
way: the source, the text after one edit, after two, ..., the target, whose action is DONE.

Shapes: B states, T tokens of the longest, F fields of an action, K edits of the longest script.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from stepedit.actions import Template
from stepedit.edits import Scripts
from stepedit.interpreter import EditBatch, Programmer, actions_for, splice, tensors
from stepedit.sequences import IntArray, Sequences

Mode = Literal["offline", "online"]


class States(NamedTuple):
    """B texts on their way, each with the edit that comes next (where it is not done)."""

    ids: Tensor  # (B, T)
    lengths: Tensor  # (B,)
    next: EditBatch
    done: Tensor  # (B,)

    def actions(self, template: Template) -> Tensor:
        """(B, F) what a programmer should say."""
        return actions_for(self.next, self.done, template)


def sample_states(sources: Sequences, scripts: Scripts, rows: IntArray, mode: Mode, rng: np.random.Generator) -> States:
    """One state for each of these rows."""
    chosen = scripts.take(rows)
    taken = np.zeros_like(chosen.counts) if mode == "offline" else rng.integers(0, chosen.counts + 1)
    return states_after(sources.take(rows), chosen, taken)


def states_after(sources: Sequences, scripts: Scripts, taken: IntArray) -> States:
    """The texts after the first `taken` (B,) edits of each script."""
    ids, lengths = tensors(sources)
    for index in range(int(taken.max(initial=0))):
        # a row that has had its edits gets one of nothing by nothing, which changes nothing
        ids, lengths = splice(ids, lengths, _edits(scripts, np.where(index < taken, index, scripts.counts)))
    return States(ids, lengths, _edits(scripts, taken), torch.from_numpy(taken == scripts.counts))


def _edits(scripts: Scripts, index: IntArray) -> EditBatch:
    """Of each script the edit at an index of its own."""
    at = (np.arange(len(scripts)), index)
    return EditBatch(
        *map(torch.from_numpy, (scripts.starts[at], scripts.stops[at], scripts.tokens[at], scripts.widths[at]))
    )


def expert(scripts: Scripts, template: Template) -> Programmer:
    """A programmer that says what the scripts say. It has to be run on all their sources, from the start."""
    turn = 0

    def say(ids: Tensor, lengths: Tensor) -> Tensor:
        nonlocal turn
        going = scripts.take(np.flatnonzero(scripts.counts >= turn))  # a row leaves after its DONE
        index = np.full(len(going), turn)
        turn += 1
        return actions_for(_edits(going, index), torch.from_numpy(index == going.counts), template)

    return say
