"""Number sorting: sort integers by swapping neighbors, as bubble sort does (the paper's first figure).

    source   0 2 1 4 3 5
    target   0 1 2 3 4 5

    step     action         text
    1        <swap> pos_1   0 1 2 4 3 5
    2        <swap> pos_3   0 1 2 3 4 5
    3        DONE DONE

The edits are bubble sort's swaps in its own order: it passes over the text from left to right, swaps each pair of
neighbors in the wrong order, and passes again until there is none. `<swap> pos_p` swaps the tokens at p and p+1. Every
shortest sequence of neighbor swaps has the same length; which pair is next depends on the state of the pass, which the
text alone does not always show: two trajectories may disagree about a text.

A target is a sorted list of L integers out of 0 .. N-1, repetition allowed, and no target occurs twice; there are
C(N+L-1, L). A source is a shuffled target.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb
from typing import ClassVar

import numpy as np

from stepedit.arithmetic.equations import ZERO
from stepedit.editing.actions import Operation, Template
from stepedit.editing.edits import Scripts
from stepedit.editing.sequences import PAD, BoolArray, IntArray, Sequences
from stepedit.errors import DataError
from stepedit.tasks.arithmetic import ArithmeticTask, Length, Numbers
from stepedit.tasks.base import Progress, require

INFINITE = np.iinfo(np.int64).max  # sorts after every token
MAX_LISTED = 1 << 17  # number of targets up to which all are listed


@dataclass(frozen=True)
class NumberSorting(ArithmeticTask):
    """Sort integers by swapping neighbors."""

    numbers: Numbers = 100
    length: Length = 6

    name: ClassVar[str] = "sort"
    title: ClassVar[str] = "number sorting"
    example: ClassVar[tuple[str, str] | None] = ("0 2 1 4 3 5", "0 1 2 3 4 5")
    metrics: ClassVar[tuple[str, ...]] = ("sequence", "token")
    objective: ClassVar[str] = "sequence"
    smallest: ClassVar[int] = 0

    @cached_property
    def template(self) -> Template:
        """Swap a token with the next."""
        return Template(fields=("operation", "position"), operations=(Operation.SWAP,), tokens=frozenset())

    @property
    def target_tokens(self) -> tuple[int, ...]:
        """The integers."""
        return tuple(range(ZERO, ZERO + self.numbers))

    @property
    def num_positions(self) -> int:
        """Those with a token behind them to swap with."""
        return self.length - 1

    @property
    def max_length(self) -> int:
        """Swaps keep the length."""
        return self.length

    @property
    def max_edits(self) -> int:
        """Every pair in the wrong order."""
        return self.length * (self.length - 1) // 2

    def generate_targets(self, size: int, rng: np.random.Generator, progress: Progress | None = None) -> Sequences:
        """Return distinct sorted lists, uniformly sampled."""
        if size < 1:
            raise DataError(f"size must be at least 1, not {size:,}")
        total = comb(self.numbers + self.length - 1, self.length)
        if size > total:
            raise DataError(
                f"{size:,} distinct sorted lists cannot be made: numbers={self.numbers}, length={self.length} "
                f"has exactly {total:,}; ask for fewer, or for more numbers or a greater length"
            )
        chosen = self._listed(size, rng) if total <= max(MAX_LISTED, 2 * size) else self._drawn(size, rng, progress)
        values = chosen - np.arange(self.length)  # from distinct positions to integers that may repeat
        return Sequences(values + ZERO, np.full(size, self.length))

    def resample(self, targets: Sequences, rng: np.random.Generator) -> Sequences:
        """Return each target shuffled."""
        order = np.where(targets.mask(), rng.random(targets.ids.shape), 2.0).argsort(1)
        return Sequences(np.take_along_axis(targets.ids, order, 1), targets.lengths)

    def edits(self, sources: Sequences, targets: Sequences) -> Scripts:
        """Return bubble sort's swaps."""
        require(_in_order(sources).equals(targets), "the target is not the source in order")
        state = np.where(sources.mask(), sources.ids, INFINITE)
        # after each pass one more position at the end is final
        positions = np.array([at for end in range(state.shape[1] - 1, 0, -1) for at in range(end)], np.int64)
        neighbors = np.empty((len(state), len(positions), 2), np.int64)
        for index, at in enumerate(positions):
            neighbors[:, index] = state[:, at : at + 2]
            state[:, at : at + 2] = np.sort(state[:, at : at + 2], axis=1)
        swapped = neighbors[..., 0] > neighbors[..., 1]
        starts = np.broadcast_to(positions, swapped.shape)
        return Scripts.gather(swapped, starts, starts + 2, neighbors[..., ::-1])

    def check(self, sources: Sequences, predictions: Sequences) -> BoolArray:
        """Whether each prediction is the sorted source."""
        return _in_order(sources).equals(predictions)

    def _listed(self, size: int, rng: np.random.Generator) -> IntArray:
        """Return some of all choices of L positions among N+L-1."""
        every = np.array(list(combinations(range(self.numbers + self.length - 1), self.length)), np.int64)
        return every[rng.choice(len(every), size, replace=False)]

    def _drawn(self, size: int, rng: np.random.Generator, progress: Progress | None) -> IntArray:
        """Sample choices of L positions among N+L-1 uniformly until enough are distinct."""
        found = Sequences.from_rows([])
        while len(found) < size:
            needed = max(size - len(found), size // 16)
            fresh = [self._choices(rng)]
            while sum(map(len, fresh)) < needed:
                fresh.append(self._choices(rng))
                if progress:
                    progress(min(len(found) + sum(map(len, fresh)), size), size)
            rows = np.concatenate(fresh) + 1  # not 0, which is padding
            found = Sequences.join([found, Sequences(rows, np.full(len(rows), self.length))]).distinct()
        return found.ids[:size] - 1

    def _choices(self, rng: np.random.Generator) -> IntArray:
        """Return (n, L) sorted, distinct positions: of rows drawn with repetition, those without one."""
        count = self.numbers + self.length - 1
        if count < 4 * self.length**2:  # repetitions are frequent: take the L smallest of `count` random scores
            scores = rng.random((1 << 12, count))
            return np.sort(np.argpartition(scores, self.length - 1, axis=1)[:, : self.length], axis=1)
        drawn = np.sort(rng.integers(0, count, (1 << 14, self.length)), axis=1)
        return drawn[(np.diff(drawn, axis=1) > 0).all(1)]


def _in_order(texts: Sequences) -> Sequences:
    """Return each text sorted."""
    ordered = np.sort(np.where(texts.mask(), texts.ids, INFINITE), axis=1)
    return Sequences(np.where(texts.mask(), ordered, PAD), texts.lengths)
