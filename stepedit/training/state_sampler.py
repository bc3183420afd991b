"""The states that a run is trained on, epoch by epoch: new sources, synthetic errors, which edits have been applied.

All of it follows from the seed and the number of the epoch.

Shapes: B pairs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stepedit.config import RunConfig
from stepedit.data.states import States, by_length, sample_states
from stepedit.editing.edits import Scripts
from stepedit.editing.sequences import IntArray, Pairs, Sequences
from stepedit.errors import DataError, UserError
from stepedit.methods.base import Method
from stepedit.text.error_model import ErrorModel
from stepedit.training.coverage import expressible

Mix = Callable[[Pairs, np.random.Generator], Pairs]


class StateSampler:
    """The training pairs of a run that can be expressed, and the states of each epoch."""

    def __init__(self, run: RunConfig, method: Method, pairs: Pairs) -> None:
        self.run, self.method = run, method
        self.pairs, self.scripts, self.coverage = expressible(method, pairs)
        self.num_batches = self._num_batches()
        self.longest = max(int(texts.lengths.max()) for texts in (self.pairs.sources, self.pairs.targets))
        self.errors = self._error_model()

    def _num_batches(self) -> int:
        """Return the number of batches of an epoch; DataError if there is none."""
        if not len(self.pairs):
            raise DataError(f"none of the {self.coverage.pairs:,} pairs can be expressed with the edits of this task")
        size = self.run.training.batch_size
        if len(self.pairs) < size:
            raise DataError(f"{len(self.pairs)} training pairs do not fill one batch of {size}")
        return len(self.pairs) // size

    def _error_model(self) -> ErrorModel | None:
        """Return the errors of the training pairs if some are to be made again; UserError if the task has none."""
        if not self.run.training.synthetic_share:
            return None
        errors = self.method.task.error_model(self.pairs)
        if errors is None:
            raise UserError(f"synthetic_share is for text: {self.run.task} draws its sources itself, or has one each")
        return errors

    def states(self, epoch: int, mix: Mix | None = None) -> States:
        """Return the shuffled states of an epoch; sources are resampled where a target has many, then mixed."""
        rng = np.random.default_rng([self.run.seed, 1, epoch])
        task, pairs, scripts = self.method.task, self.pairs, self.scripts
        if task.resamples_sources:
            pairs = Pairs(task.resample(pairs.targets, rng), pairs.targets)
        if mix is not None:
            pairs = mix(pairs, rng)
        if pairs is not self.pairs:
            scripts = task.edits(pairs.sources, pairs.targets)
        if self.errors is not None:
            pairs, scripts = self.with_synthetic_errors(self.errors, pairs, scripts, rng)
        reads_names = self.run.training.encoder is not None  # so that no word is unknown to it
        ids = task.unk_dropout(rng) if self.method.iterative and not reads_names else None
        if ids is not None:
            pairs, scripts = pairs.mapped(ids), scripts.mapped(ids)
        offline = self.offline_counts(scripts)
        rows = rng.permutation(len(pairs))
        if task.open_vocabulary:
            rows = by_length(rows, pairs.sources.lengths, self.run.training.batch_size, rng)
        return sample_states(pairs, scripts, rows, self.run.mode, rng, self.run.training.edit_order, offline)

    def with_synthetic_errors(
        self, errors: ErrorModel, pairs: Pairs, scripts: Scripts, rng: np.random.Generator
    ) -> tuple[Pairs, Scripts]:
        """Return pairs of which a share has a synthetic source, if the method can express how it is edited."""
        task, rows = self.method.task, np.flatnonzero(rng.random(len(pairs)) < self.run.training.synthetic_share)
        targets = pairs.targets.take(rows)
        made = Pairs(errors.corrupt(targets, rng), targets)
        corrections = task.edits(made.sources, targets)
        fits = self.method.expressible(made, corrections) & (corrections.counts <= task.max_edits)
        fits &= made.sources.lengths <= self.longest
        chosen = np.arange(len(pairs))
        chosen[rows[fits]] = len(pairs) + np.flatnonzero(fits)
        sources = Sequences.join([pairs.sources, made.sources]).take(chosen)
        return Pairs(sources, pairs.targets), Scripts.join([scripts, corrections]).take(chosen)

    def offline_counts(self, scripts: Scripts) -> IntArray | None:
        """Return (B,) how many edits each pair's fixed state has, the same in every epoch; None for sources."""
        if not self.method.iterative or self.run.training.offline_states == "sources":
            return None
        rng = np.random.default_rng([self.run.seed, 3])
        if self.errors is None:
            return rng.integers(0, scripts.counts + 1)
        return (rng.random(len(scripts)) * (scripts.counts + 1)).astype(np.int64)  # a synthetic source moves no other
