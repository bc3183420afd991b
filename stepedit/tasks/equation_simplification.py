"""AES, arithmetic equation simplification: replace every bracket by its value.

    source   - 33 + 25 + 75 - 60 == ( 30 - 23 )
    target   - 33 + 25 + 75 - 60 == 7

    step     action            text
    1        pos_9 pos_13 7    - 33 + 25 + 75 - 60 == 7
    2        DONE DONE DONE

A source is a target in which some integers, the right-hand one included, are written as a bracketed expression of two
integers with the same value. How many is uniform from none to all; which ones, and which of the expressions with that
value, is uniform too. A minus may stand before the first integer of a bracket: `( - 2 + 4 )`. Brackets use `+ - *`, as
in the authors' published files; the argument `division` adds `/`.

The edits replace one bracket at a time, left to right, by its value: `pos_i pos_j v` replaces positions i .. j, both
included, by v. A target has many sources, so training draws new ones every epoch. The source determines the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from stepedit.arithmetic import equations
from stepedit.arithmetic.equations import CLOSE, MINUS, OPEN, OVER, PLUS, SMALLEST, TIMES, ZERO
from stepedit.editing.actions import Operation, Template
from stepedit.editing.edits import Scripts
from stepedit.editing.sequences import PAD, BoolArray, IntArray, Sequences
from stepedit.tasks.arithmetic import EquationTask, Numbers
from stepedit.tasks.base import require, require_expressible


@dataclass(frozen=True)
class EquationSimplification(EquationTask):
    """Replace bracketed expressions by their values."""

    numbers: Numbers = 100
    division: bool = False  # also `/` inside brackets

    name: ClassVar[str] = "aes"
    title: ClassVar[str] = "arithmetic equation simplification"
    example: ClassVar[tuple[str, str] | None] = ("- 33 + 25 + 75 - 60 == ( 30 - 23 )", "- 33 + 25 + 75 - 60 == 7")
    independent_edits: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = ("sequence", "token", "equation", "holds")
    objective: ClassVar[str] = "sequence"

    @cached_property
    def template(self) -> Template:
        """Replace a span by an integer."""
        return Template(
            fields=("first", "last", "token"),
            operations=(Operation.REPLACE,),
            tokens=frozenset(range(ZERO + SMALLEST, ZERO + SMALLEST + self.numbers)),
        )

    @property
    def max_length(self) -> int:
        """Each integer as a bracket with a sign, and the symbol before it."""
        return 7 * self.length

    @property
    def max_edits(self) -> int:
        """Every integer is a bracket."""
        return self.length

    @cached_property
    def text_tokens(self) -> tuple[int, ...]:
        """Brackets, and what targets hold."""
        return (OPEN, CLOSE, *self.target_tokens)

    @property
    def num_positions(self) -> int:
        """Those of a text's tokens."""
        return self.max_length

    def resample(self, targets: Sequences, rng: np.random.Generator) -> Sequences:
        """Each target with some of its integers written as fresh brackets."""
        integer = equations.is_integer(targets.ids)
        number = rng.integers(0, integer.sum(1) + 1)
        order = np.where(integer, rng.random(targets.ids.shape), 2.0).argsort(1).argsort(1)
        at = integer & (order < number[:, None])
        slots = np.full((*targets.ids.shape, 6), PAD, np.int64)
        slots[..., 0] = targets.ids
        at &= self._expressions.counts[np.where(integer, targets.ids - ZERO, 0)].sum(-1) > 0
        slots[at] = self._expressions.draw(targets.ids[at] - ZERO, rng)
        return Sequences.keep(slots)

    def edits(self, sources: Sequences, targets: Sequences) -> Scripts:
        """Replace each bracket by the target's integer, left to right: everything to its left is final by then."""
        found = equations.find_brackets(sources)
        kept = sources.mask() & ~found.inner
        collapsed = Sequences.keep(np.where(kept, sources.ids, PAD))
        fits = found.well_formed & (collapsed.lengths == targets.lengths)
        require(fits, "the source's brackets do not line up with the target")
        width = max(collapsed.ids.shape[1], targets.ids.shape[1])
        collapsed, targets = collapsed.widened(width), targets.widened(width)
        bracket = collapsed.ids == OPEN
        expected = collapsed.ids.copy()
        expected[bracket] = ZERO + found.values[found.opens]
        require((expected == targets.ids).all(1), "the target is not the source with its brackets evaluated")
        positions = np.broadcast_to(np.arange(width), expected.shape)
        spans = np.zeros_like(expected)
        spans[bracket] = 5 + found.signed[found.opens]
        return require_expressible(
            Scripts.gather(bracket, positions, positions + spans, expected[:, :, None]), self.template
        )

    def check(self, sources: Sequences, predictions: Sequences) -> BoolArray:
        """Whether each prediction is the source with every bracket evaluated."""
        found = equations.find_brackets(sources)
        evaluated = np.where(found.opens, ZERO + found.values, np.where(found.inner, PAD, sources.ids))
        possible = found.well_formed & (~found.opens | (found.values >= 0)).all(1)
        return possible & Sequences.keep(np.where(possible[:, None], evaluated, PAD)).equals(predictions)

    @cached_property
    def _expressions(self) -> Expressions:
        return Expressions(self.numbers, self.division)


class Expressions:
    """All bracketed expressions over 2 .. N+1 by value and form; sampled by index, never listed."""

    def __init__(self, numbers: int, division: bool) -> None:
        self.largest = numbers + 1
        values = np.arange(self.largest + 1)
        divisors = np.arange(SMALLEST, self.largest // 2 + 1)
        times = self.largest // divisors - 1  # number of products of each divisor with 2, 3, ...
        repeated = np.repeat(divisors, times)
        products = repeated * (np.arange(len(repeated)) - np.repeat(times.cumsum() - times, times) + SMALLEST)
        self.divisors = repeated[np.argsort(products, kind="stable")]
        self.products = np.bincount(products, minlength=self.largest + 1)
        self.first_divisor = np.concatenate([[0], np.cumsum(self.products)])
        above = np.maximum(numbers - values, 0)  # a - b = v and - b + a = v, with b from 2 to N+1-v
        quotients = np.maximum(self.largest // np.maximum(values, 1) - 1, 0) if division else np.zeros_like(values)
        self.counts = np.stack([np.maximum(values - 3, 0), above, above, self.products, quotients], 1)
        self.counts[:SMALLEST] = 0

    def draw(self, values: IntArray, rng: np.random.Generator) -> IntArray:
        """Return an expression (n, 6) of each value, uniformly sampled, as ids padded with PAD."""
        ends = self.counts[values].cumsum(1)
        pick = rng.integers(0, ends[:, -1])
        form = (pick[:, None] >= ends).sum(1)
        rank = pick - np.where(form > 0, np.take_along_axis(ends, np.maximum(form - 1, 0)[:, None], 1)[:, 0], 0)
        small = rank + SMALLEST
        divisor = small.copy()
        divisor[form == 3] = self.divisors[(self.first_divisor[values] + rank)[form == 3]]
        first = np.select([form == 1, form == 3, form == 4], [values + small, divisor, values * small], small)
        second = np.select(
            [form == 0, form == 2, form == 3], [values - small, values + small, values // divisor], small
        )
        operator = np.array([PLUS, MINUS, PLUS, TIMES, OVER])[form]
        ids = np.full((len(values), 6), PAD, np.int64)
        ids[:, 0] = OPEN
        ids[form == 2, 1] = MINUS
        rows, behind = np.arange(len(values)), 1 + (form == 2)
        for ahead, part in enumerate((ZERO + first, operator, ZERO + second, CLOSE)):
            ids[rows, behind + ahead] = part
        return ids
