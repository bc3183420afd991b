"""AOR, arithmetic operators restoration: insert operators between integers so that the equation holds.

    source   8 2 8 4 2
    target   - 8 * 2 / 8 + 4 == 2

    step     action        text
    1        pos_0 -       - 8 2 8 4 2
    2        pos_2 *       - 8 * 2 8 4 2
    3        pos_4 /       - 8 * 2 / 8 4 2
    4        pos_6 +       - 8 * 2 / 8 + 4 2
    5        pos_8 ==      - 8 * 2 / 8 + 4 == 2
    6        DONE DONE

The edits insert one operator at a time, left to right: `pos_p t` inserts t before position p. A source is a target
without its operators, so a target has one source; but a source may have many valid targets. That is why the objective
metric is equation accuracy: any true equation over the given integers, in their order, counts.

Actions insert one of the five tokens `+ - * / ==`. The integers are 2 .. N+1, the last one is the right-hand side,
and a `-` may stand before the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from stepedit.arithmetic import equations
from stepedit.editing.actions import Operation, Template
from stepedit.editing.edits import Scripts
from stepedit.editing.sequences import BoolArray, Sequences
from stepedit.tasks.arithmetic import EquationTask
from stepedit.tasks.base import require, require_expressible


@dataclass(frozen=True)
class OperatorRestoration(EquationTask):
    """Insert operators between integers until the equation holds."""

    name: ClassVar[str] = "aor"
    title: ClassVar[str] = "arithmetic operators restoration"
    example: ClassVar[tuple[str, str] | None] = ("8 2 8 4 2", "- 8 * 2 / 8 + 4 == 2")
    resamples_sources: ClassVar[bool] = False
    metrics: ClassVar[tuple[str, ...]] = ("equation", "token", "sequence", "holds")
    objective: ClassVar[str] = "equation"

    @cached_property
    def template(self) -> Template:
        """Insert a token before a position."""
        return Template(
            fields=("position", "token"),
            operations=(Operation.INSERT,),
            tokens=frozenset({*equations.OPERATORS, equations.EQUALS}),
        )

    @property
    def max_length(self) -> int:
        """A target: each integer and the symbol before it."""
        return 2 * self.length

    @property
    def max_edits(self) -> int:
        """A minus, the operators and `==`."""
        return self.length

    @property
    def num_positions(self) -> int:
        """Up to that of `==`, the last operator of a target."""
        return 2 * self.length - 1

    def resample(self, targets: Sequences, rng: np.random.Generator) -> Sequences:
        """Return the integers of each target."""
        return equations.integers_of(targets)

    def draw_sources(self, size: int, rng: np.random.Generator) -> Sequences:
        """Return random integers; not all of them have a solution."""
        ids = equations.ZERO + rng.integers(self.smallest, self.smallest + self.numbers, (size, self.length))
        return Sequences(ids, np.full(size, self.length))

    def edits(self, sources: Sequences, targets: Sequences) -> Scripts:
        """Insert each operator at its position in the target: everything to its left is final by then."""
        require(equations.integers_of(targets).equals(sources), "the source is not the target without its operators")
        inserted = targets.mask() & ~equations.is_integer(targets.ids)
        positions = np.broadcast_to(np.arange(targets.ids.shape[1]), targets.ids.shape)
        return require_expressible(
            Scripts.gather(inserted, positions, positions, targets.ids[:, :, None]), self.template
        )

    def check(self, sources: Sequences, predictions: Sequences) -> BoolArray:
        """Whether each prediction is a true equation over the source's integers, in their order."""
        return equations.holds(predictions) & equations.integers_of(predictions).equals(sources)
