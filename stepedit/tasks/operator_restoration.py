"""AOR, arithmetic operators restoration: put the operators back between integers so that the equation holds.

    source   8 2 8 4 2
    target   - 8 * 2 / 8 + 4 == 2

    step     action        text
    1        pos_0 -       - 8 2 8 4 2
    2        pos_2 *       - 8 * 2 8 4 2
    3        pos_4 /       - 8 * 2 / 8 4 2
    4        pos_6 +       - 8 * 2 / 8 + 4 2
    5        pos_8 ==      - 8 * 2 / 8 + 4 == 2
    6        DONE DONE

The edits insert one operator at a time, left to right: `pos_p t` puts t before the token at place p. A source is a
target without its operators, so there is one source per target; but one source may have many right targets. That is why
the headline figure is equation accuracy: any true equation over the given integers, in their order, counts.

Only the inserted tokens are learned: the five of `+ - * / ==`. The integers are 2 .. N+1, the last one stands alone on
the right, and a `-` may stand before the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from stepedit import equations
from stepedit.actions import Operation, Template
from stepedit.edits import Scripts
from stepedit.sequences import BoolArray, Sequences
from stepedit.tasks.arithmetic import ArithmeticTask
from stepedit.tasks.task import require, require_sayable


@dataclass(frozen=True)
class OperatorRestoration(ArithmeticTask):
    """Insert operators between integers until the equation holds."""

    name: ClassVar[str] = "aor"
    title: ClassVar[str] = "arithmetic operators restoration"
    example: ClassVar[tuple[str, str]] = ("8 2 8 4 2", "- 8 * 2 / 8 + 4 == 2")
    redraws: ClassVar[bool] = False
    metrics: ClassVar[tuple[str, ...]] = ("equation", "token", "sequence", "holds")
    stop_metric: ClassVar[str] = "equation"

    @cached_property
    def template(self) -> Template:
        """Insert a token before a position."""
        return Template(
            fields=("position", "token"),
            operations=(Operation.INSERT,),
            tokens=frozenset({*equations.OPERATORS, equations.EQUALS}),
        )

    @property
    def longest(self) -> int:
        """The target: each integer with what stands before it."""
        return 2 * self.length

    @property
    def most_edits(self) -> int:
        """A minus, the operators and the equal sign."""
        return self.length

    def resample(self, targets: Sequences, rng: np.random.Generator) -> Sequences:
        """The integers of each target."""
        return equations.integers_of(targets)

    def draw_sources(self, size: int, rng: np.random.Generator) -> Sequences:
        """Any integers; not all of them have an answer."""
        ids = equations.ZERO + rng.integers(self.smallest, self.smallest + self.numbers, (size, self.length))
        return Sequences(ids, np.full(size, self.length))

    def edits(self, sources: Sequences, targets: Sequences) -> Scripts:
        """Insert each operator where it stands in the target: all to its left is there by then."""
        require(equations.integers_of(targets).equals(sources), "the source is not the target without its operators")
        inserted = targets.mask() & ~equations.is_integer(targets.ids)
        places = np.broadcast_to(np.arange(targets.ids.shape[1]), targets.ids.shape)
        return require_sayable(Scripts.gather(inserted, places, places, targets.ids[:, :, None]), self.template)

    def check(self, sources: Sequences, predictions: Sequences) -> BoolArray:
        """A true equation over the source's integers, in their order."""
        return equations.holds(predictions) & equations.integers_of(predictions).equals(sources)
