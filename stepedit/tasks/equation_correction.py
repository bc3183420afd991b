"""AEC, arithmetic equation correction: correct up to three errors so that the equation holds again.

    source   7 * 8 / 4 8 2 - == 6
    target   7 * 8 / 4 - 8 == 6

    step     action                     text
    1        <delete> pos_5 pos_5       7 * 8 / 4 2 - == 6
    2        <substitute> pos_5 -       7 * 8 / 4 - - == 6
    3        <substitute> pos_6 8       7 * 8 / 4 - 8 == 6
    4        DONE DONE DONE

A source is a target with 0 to 3 errors, uniformly many. They are at distinct positions anywhere but on the right-hand
integer (`==` can be hit). Each error deletes the token there, substitutes it, or inserts a token before it; the new
token is drawn uniformly from the four operators and the N integers, so that now and then a substitution changes
nothing. A wrong equation has many valid corrections: a shortest script leads to the target; `editing.alignment` says
which of several.

The right-hand integer is never changed, so it gives the value of the left side. `delete` repeats the position in the
token field, to keep every action three symbols long.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from stepedit.arithmetic.equations import EQUALS, OPERATORS, SMALLEST, ZERO, holds_with_right_side
from stepedit.editing import alignment
from stepedit.editing.actions import Operation, Template
from stepedit.editing.edits import Scripts
from stepedit.editing.sequences import PAD, BoolArray, IntArray, Sequences
from stepedit.tasks.arithmetic import EquationTask
from stepedit.tasks.base import require, require_expressible

DELETED, SUBSTITUTED, INSERTED = range(3)


@dataclass(frozen=True)
class EquationCorrection(EquationTask):
    """Correct an equation with a few errors."""

    errors: Annotated[int, Field(ge=0, le=1000)] = 3  # maximum

    name: ClassVar[str] = "aec"
    title: ClassVar[str] = "arithmetic equation correction"
    example: ClassVar[tuple[str, str] | None] = ("7 * 8 / 4 8 2 - == 6", "7 * 8 / 4 - 8 == 6")
    metrics: ClassVar[tuple[str, ...]] = ("equation", "sequence", "token", "holds")
    objective: ClassVar[str] = "equation"

    @cached_property
    def template(self) -> Template:
        """Insert, delete or substitute one token."""
        return Template(
            fields=("operation", "position", "token"),
            operations=(Operation.INSERT, Operation.DELETE, Operation.SUBSTITUTE),
            tokens=frozenset({EQUALS, *self._error_tokens().tolist()}),
        )

    @property
    def max_length(self) -> int:
        """A target and one insertion per error."""
        return 2 * self.length + self.errors

    @property
    def max_edits(self) -> int:
        """One per error."""
        return self.errors

    @property
    def num_positions(self) -> int:
        """Up to that of the last integer of a target, before which a token may have to be deleted."""
        return 2 * self.length

    def resample(self, targets: Sequences, rng: np.random.Generator) -> Sequences:
        """Return each target with new errors."""
        hit = self._error_positions(targets, rng)
        kind = np.where(hit, rng.integers(0, 3, hit.shape), -1)
        token = rng.choice(self._error_tokens(), hit.shape)
        slots = np.empty((*hit.shape, 2), np.int64)
        slots[..., 0] = np.where(kind == INSERTED, token, PAD)
        slots[..., 1] = np.where(kind == SUBSTITUTED, token, np.where(kind == DELETED, PAD, targets.ids))
        return Sequences.keep(slots)

    def edits(self, sources: Sequences, targets: Sequences) -> Scripts:
        """Return a shortest script, left to right."""
        rows = np.arange(len(sources))
        ends = [side.widened(1).ids[rows, np.maximum(side.lengths - 1, 0)] for side in (sources, targets)]
        require(ends[0] == ends[1], "the right-hand integer never changes, but here it differs")
        return require_expressible(alignment.scripts(sources, targets), self.template)

    def check(self, sources: Sequences, predictions: Sequences) -> BoolArray:
        """Whether each prediction is a true equation with the source's right-hand side, within `errors` edits of it."""
        near = alignment.distances(sources, predictions) <= self.errors
        return near & holds_with_right_side(predictions, sources)

    def _error_tokens(self) -> IntArray:
        """Return the ids that an error may insert."""
        return np.array([*OPERATORS, *range(ZERO + SMALLEST, ZERO + SMALLEST + self.numbers)])

    def _error_positions(self, targets: Sequences, rng: np.random.Generator) -> BoolArray:
        """Return (B, T) where the errors are: uniformly many, at distinct positions left of the last integer."""
        number = rng.integers(0, np.minimum(self.errors, targets.lengths - 1) + 1)
        allowed = np.arange(targets.ids.shape[1]) < targets.lengths[:, None] - 1
        order = np.where(allowed, rng.random(targets.ids.shape), 2.0).argsort(1).argsort(1)
        return allowed & (order < number[:, None])
