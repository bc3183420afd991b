"""AEC, arithmetic equation correction: find and repair up to three errors so that the equation holds again.

    source   7 * 8 / 4 8 2 - == 6
    target   7 * 8 / 4 - 8 == 6

    step     action                     text
    1        <delete> pos_5 pos_5       7 * 8 / 4 2 - == 6
    2        <substitute> pos_5 -       7 * 8 / 4 - - == 6
    3        <substitute> pos_6 8       7 * 8 / 4 - 8 == 6
    4        DONE DONE DONE

A source is a target with 0 to 3 errors, each number as likely as the others. They sit at distinct places anywhere but
on the right-hand integer (`==` can be hit). Each error deletes the token there, puts another in its place, or inserts
one before it; a token that comes in is drawn uniformly from the four operators and the N integers, so now and then it
is the one that stood there and nothing changes. A wrong equation has many right repairs: a minimal script leads to the
target, and which of several minimal ones is settled in `edits.scripts`.

The right-hand integer is never touched, so it tells what the left side has to be worth. `delete` repeats the position
in the token's place, to keep every action three symbols long.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from stepedit import edits
from stepedit.actions import Operation, Template
from stepedit.equations import EQUALS, OPERATORS, SMALLEST, ZERO
from stepedit.metrics import holds
from stepedit.sequences import PAD, BoolArray, IntArray, Pairs, Sequences
from stepedit.tasks.arithmetic import ArithmeticTask
from stepedit.tasks.task import require, require_sayable

DELETED, SUBSTITUTED, INSERTED = range(3)


@dataclass(frozen=True)
class EquationCorrection(ArithmeticTask):
    """Repair an equation with a few errors."""

    errors: Annotated[int, Field(ge=0)] = 3  # at the most

    name: ClassVar[str] = "aec"
    title: ClassVar[str] = "arithmetic equation correction"
    example: ClassVar[tuple[str, str]] = ("7 * 8 / 4 8 2 - == 6", "7 * 8 / 4 - 8 == 6")
    metrics: ClassVar[tuple[str, ...]] = ("sequence", "equation", "token", "holds")
    stop_metric: ClassVar[str] = "equation"

    @cached_property
    def template(self) -> Template:
        """Insert, delete or substitute one token."""
        return Template(
            fields=("operation", "position", "token"),
            operations=(Operation.INSERT, Operation.DELETE, Operation.SUBSTITUTE),
            tokens=frozenset({EQUALS, *self._strays().tolist()}),
        )

    @property
    def longest(self) -> int:
        """A target with nothing but insertions."""
        return 2 * self.length + self.errors

    @property
    def most_edits(self) -> int:
        """One for each error."""
        return self.errors

    def resample(self, targets: Sequences, rng: np.random.Generator) -> Sequences:
        """Each target with fresh errors."""
        hit = self._places(targets, rng)
        kind = np.where(hit, rng.integers(0, 3, hit.shape), -1)
        stray = rng.choice(self._strays(), hit.shape)
        slots = np.empty((*hit.shape, 2), np.int64)
        slots[..., 0] = np.where(kind == INSERTED, stray, PAD)
        slots[..., 1] = np.where(kind == SUBSTITUTED, stray, np.where(kind == DELETED, PAD, targets.ids))
        return Sequences.keep(slots)

    def edits(self, sources: Sequences, targets: Sequences) -> edits.Scripts:
        """A minimal script, left to right."""
        rows = np.arange(len(sources))
        ends = [side.widened(1).ids[rows, np.maximum(side.lengths - 1, 0)] for side in (sources, targets)]
        require(ends[0] == ends[1], "the right-hand integer is never touched, but here it differs")
        return require_sayable(edits.scripts(sources, targets), self.template)

    def check(self, sources: Sequences, predictions: Sequences) -> BoolArray:
        """A true equation with the source's right-hand side, no more edits away than there can be errors."""
        near = edits.distances(sources, predictions) <= self.errors
        return near & (holds(predictions, Pairs(sources, predictions)) > 0)

    def _strays(self) -> IntArray:
        """The ids that an error may bring in."""
        return np.array([*OPERATORS, *range(ZERO + SMALLEST, ZERO + SMALLEST + self.numbers)])

    def _places(self, targets: Sequences, rng: np.random.Generator) -> BoolArray:
        """(B, T) where the errors are: their number uniform, their places distinct and left of the last integer."""
        number = rng.integers(0, np.minimum(self.errors, targets.lengths - 1) + 1)
        allowed = np.arange(targets.ids.shape[1]) < targets.lengths[:, None] - 1
        order = np.where(allowed, rng.random(targets.ids.shape), 2.0).argsort(1).argsort(1)
        return allowed & (order < number[:, None])
