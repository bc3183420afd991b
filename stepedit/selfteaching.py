"""Learning from the checker alone: edit sources that nobody has answered, keep what the task's check accepts, learn it.

A programmer that edits some sources right, by search if not at once, makes its own pairs; with these it edits more of
them right. Nothing is searched that validation or test will ask, and no answer is kept that is one of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepedit.methods.method import Method
from stepedit.programmers.programmer import Programmer
from stepedit.search import search
from stepedit.sequences import Pairs, Sequences

SEARCHED = 512  # sources, each epoch
BEAM = 4  # texts of each
LARGEST = 200_000  # pairs kept, the newest
LARGEST_SHARE = 0.9  # of an epoch


@dataclass
class OwnPairs:
    """What a programmer has made itself."""

    pairs: Pairs
    grown: int = -1  # the last epoch before which it was added to

    @classmethod
    def none(cls) -> OwnPairs:
        """To begin with."""
        empty = Sequences.from_rows([])
        return cls(Pairs(empty, empty))

    def grow(self, epoch: int, programmer: Programmer, method: Method, held: Pairs, rng: np.random.Generator) -> None:
        """Search some fresh sources, none of them held back, and add what is new and right; once for an epoch."""
        if epoch <= self.grown:
            return
        sources = method.task.draw_sources(SEARCHED, rng).distinct()
        known = np.concatenate([held.sources.keys(), self.pairs.sources.keys()])
        sources = sources.take(~np.isin(sources.keys(), known))
        task, taught = method.task, programmer.training
        programmer.eval()
        # no longer than an expert needs: many a fresh source has no answer, and would be followed to the end
        outcomes = search(sources, programmer, task.template, task.most_edits + 1, BEAM, task.check)
        programmer.train(taught)
        found = Sequences.from_rows([outcome.tokens for outcome in outcomes])
        right = task.check(sources, found) & ~np.isin(found.keys(), held.targets.keys())
        pairs = Pairs.join([self.pairs, Pairs(sources, found).take(right)])
        self.pairs, self.grown = pairs.take(slice(max(len(pairs) - LARGEST, 0), None)), epoch

    def mixed(self, pairs: Pairs, rng: np.random.Generator) -> Pairs:
        """As many pairs, of which own ones take the place of some: the more, the more there are."""
        share = min(LARGEST_SHARE, len(self.pairs) / (len(self.pairs) + len(pairs)))
        own = round(share * len(pairs))
        kept = pairs.take(rng.permutation(len(pairs))[: len(pairs) - own])
        return Pairs.join([kept, self.pairs.take(rng.integers(0, max(len(self.pairs), 1), own))])
