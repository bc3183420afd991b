"""Self-training: edit new sources by beam search, keep the results that the task's verifier accepts, train on them.

No source of validation or test is searched, and no result is kept that is one of their targets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepedit.editing.sequences import Pairs, Sequences
from stepedit.inference.beam_search import search
from stepedit.methods.base import Method, Policy

NUM_SOURCES = 512  # searched in each epoch
BEAM_SIZE = 4
MAX_PAIRS = 200_000  # kept, the newest
MAX_SHARE = 0.9  # of an epoch


@dataclass
class SelfTrainingBuffer:
    """Pairs that the model made itself."""

    pairs: Pairs
    epoch: int = -1  # the last epoch before which pairs were added

    @classmethod
    def empty(cls) -> SelfTrainingBuffer:
        """Return a buffer without pairs."""
        none = Sequences.from_rows([])
        return cls(Pairs(none, none))

    def extend(self, epoch: int, policy: Policy, method: Method, held_out: Pairs, rng: np.random.Generator) -> None:
        """Search new sources, none of them held out, and add the valid results; once per epoch."""
        if epoch <= self.epoch:
            return
        task = method.task
        sources = task.draw_sources(NUM_SOURCES, rng).distinct()
        known = np.concatenate([held_out.sources.keys(), self.pairs.sources.keys()])
        sources = sources.take(~np.isin(sources.keys(), known))
        # no more steps than the expert needs: many a new source has no solution and would be searched to the limit
        outcomes = search(sources, policy.top_k, task.template, task.max_edits + 1, BEAM_SIZE, task.check)
        results = Sequences.from_rows([outcome.tokens for outcome in outcomes])
        valid = task.check(sources, results) & ~np.isin(results.keys(), held_out.targets.keys())
        pairs = Pairs.join([self.pairs, Pairs(sources, results).take(valid)])
        self.pairs, self.epoch = pairs.take(slice(max(len(pairs) - MAX_PAIRS, 0), None)), epoch

    def mix(self, pairs: Pairs, rng: np.random.Generator) -> Pairs:
        """Return as many pairs, some of them replaced by pairs of the buffer: the more, the larger the buffer is."""
        share = min(MAX_SHARE, len(self.pairs) / (len(self.pairs) + len(pairs)))
        own = round(share * len(pairs))
        kept = pairs.take(rng.permutation(len(pairs))[: len(pairs) - own])
        return Pairs.join([kept, self.pairs.take(rng.integers(0, max(len(self.pairs), 1), own))])
