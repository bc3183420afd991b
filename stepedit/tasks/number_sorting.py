"""Number sorting: put integers in order by swapping neighbours, as bubble sort does (the paper's first figure).

    source   0 2 1 4 3 5
    target   0 1 2 3 4 5

    step     action         text
    1        <swap> pos_1   0 1 2 4 3 5
    2        <swap> pos_3   0 1 2 3 4 5
    3        DONE DONE

The edits are bubble sort's swaps in its own order: it passes over the text from left to right, exchanges each pair of
neighbours that stands the wrong way round, and passes again until nothing is left to exchange. `<swap> pos_p` exchanges
the tokens at p and p+1. Every shortest way by neighbouring swaps has the same number of them; which pair comes first
depends on where the pass is, and the text alone does not always tell that: two trajectories may disagree about a text.

A target is a sorted list of L integers out of 0 .. N-1, repetition allowed, and no target occurs twice; there are
C(N+L-1, L). A source is a target shuffled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb
from typing import ClassVar

import numpy as np

from stepedit.actions import Operation, Template
from stepedit.edits import Scripts
from stepedit.equation_sampling import Progress
from stepedit.equations import ZERO
from stepedit.errors import DataError
from stepedit.sequences import PAD, BoolArray, IntArray, Sequences
from stepedit.tasks.arithmetic import ArithmeticTask, Length, Numbers
from stepedit.tasks.task import require

FAR = np.iinfo(np.int64).max  # sorts behind every token
FEW = 1 << 17  # targets that are all listed where most of them are wanted


@dataclass(frozen=True)
class NumberSorting(ArithmeticTask):
    """Sort integers by swapping neighbours."""

    numbers: Numbers = 100
    length: Length = 6

    name: ClassVar[str] = "sort"
    title: ClassVar[str] = "number sorting"
    example: ClassVar[tuple[str, str]] = ("0 2 1 4 3 5", "0 1 2 3 4 5")
    metrics: ClassVar[tuple[str, ...]] = ("sequence", "token")
    stop_metric: ClassVar[str] = "sequence"
    smallest: ClassVar[int] = 0

    @cached_property
    def template(self) -> Template:
        """Swap a place with the next."""
        return Template(fields=("operation", "position"), operations=(Operation.SWAP,), tokens=frozenset())

    @property
    def longest(self) -> int:
        """Swaps leave the length as it is."""
        return self.length

    @property
    def most_edits(self) -> int:
        """Every pair the wrong way round."""
        return self.length * (self.length - 1) // 2

    def generate_targets(self, size: int, rng: np.random.Generator, progress: Progress | None = None) -> Sequences:
        """Distinct sorted lists, each as likely as any other."""
        if size < 1:
            raise DataError(f"size must be at least 1, not {size:,}")
        total = comb(self.numbers + self.length - 1, self.length)
        if size > total:
            raise DataError(
                f"{size:,} distinct sorted lists cannot be made: numbers={self.numbers}, length={self.length} "
                f"has exactly {total:,}; ask for fewer, or for more numbers or a greater length"
            )
        chosen = self._listed(size, rng) if total <= max(FEW, 2 * size) else self._drawn(size, rng, progress)
        values = chosen - np.arange(self.length)  # from distinct places to integers that may repeat
        return Sequences(values + ZERO, np.full(size, self.length))

    def resample(self, targets: Sequences, rng: np.random.Generator) -> Sequences:
        """Each target shuffled."""
        order = np.where(targets.mask(), rng.random(targets.ids.shape), 2.0).argsort(1)
        return Sequences(np.take_along_axis(targets.ids, order, 1), targets.lengths)

    def edits(self, sources: Sequences, targets: Sequences) -> Scripts:
        """Bubble sort's swaps."""
        require(_in_order(sources).equals(targets), "the target is not the source in order")
        state = np.where(sources.mask(), sources.ids, FAR)
        # each pass leaves one more place at the end final
        places = np.array([place for end in range(state.shape[1] - 1, 0, -1) for place in range(end)], np.int64)
        neighbours = np.empty((len(state), len(places), 2), np.int64)
        for index, place in enumerate(places):
            neighbours[:, index] = state[:, place : place + 2]
            state[:, place : place + 2] = np.sort(state[:, place : place + 2], axis=1)
        swapped = neighbours[..., 0] > neighbours[..., 1]
        starts = np.broadcast_to(places, swapped.shape)
        return Scripts.gather(swapped, starts, starts + 2, neighbours[..., ::-1])

    def check(self, sources: Sequences, predictions: Sequences) -> BoolArray:
        """The source's integers in order."""
        return _in_order(sources).equals(predictions)

    def _listed(self, size: int, rng: np.random.Generator) -> IntArray:
        """Some of all choices of L places among N+L-1."""
        every = np.array(list(combinations(range(self.numbers + self.length - 1), self.length)), np.int64)
        return every[rng.choice(len(every), size, replace=False)]

    def _drawn(self, size: int, rng: np.random.Generator, progress: Progress | None) -> IntArray:
        """Choices of L places among N+L-1 at random, each as likely as any other, until enough are distinct."""
        found = Sequences.from_rows([])
        while len(found) < size:
            wanted = max(size - len(found), size // 16)
            fresh = [self._choices(rng)]
            while sum(map(len, fresh)) < wanted:
                fresh.append(self._choices(rng))
                if progress:
                    progress(min(len(found) + sum(map(len, fresh)), size), size)
            rows = np.concatenate(fresh) + 1  # not 0, which is padding
            found = Sequences.join([found, Sequences(rows, np.full(len(rows), self.length))]).distinct()
        return found.ids[:size] - 1

    def _choices(self, rng: np.random.Generator) -> IntArray:
        """(n, L) places, sorted and distinct: of places drawn one by one, the rows without a repetition."""
        places = self.numbers + self.length - 1
        if places < 4 * self.length**2:  # repetitions are frequent: the L smallest of as many random scores as places
            scores = rng.random((1 << 12, places))
            return np.sort(np.argpartition(scores, self.length - 1, axis=1)[:, : self.length], axis=1)
        drawn = np.sort(rng.integers(0, places, (1 << 14, self.length)), axis=1)
        return drawn[(np.diff(drawn, axis=1) > 0).all(1)]


def _in_order(texts: Sequences) -> Sequences:
    """Each text sorted."""
    ordered = np.sort(np.where(texts.mask(), texts.ids, FAR), axis=1)
    return Sequences(np.where(texts.mask(), ordered, PAD), texts.lengths)
