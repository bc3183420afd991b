"""Which true equations the paper's authors generate: their test is floating point, and one first integer is left out.

    first integer   may be negative down to -N, never -(N+1)
    test            the left side, evaluated as Python does, with division in floating point, equals the right side

So `2 / 3 * 9 == 6` is generated and `2 / 6 * 7 * 3 == 7`, where the rounding shows, is not. Equations that are false
but that floating point takes to be true are not generated; they would need denominators of 15 digits or more.

Shapes: B equations, T tokens.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stepedit.arithmetic.equations import EQUALS, MINUS, OVER, PLUS, ZERO, is_integer, parse
from stepedit.editing.sequences import PAD, BoolArray, Sequences
from stepedit.errors import DataError

EXACT_FLOATS = 2**53  # integers up to here are exact in floating point
LARGEST_FLOAT = 2**1023


def check_floats(numbers: int, length: int) -> None:
    """Raise DataError if a product may be too large for floating point."""
    if (numbers + 1) ** (length - 1) > LARGEST_FLOAT:
        raise DataError(f"generation=authors: numbers={numbers}, length={length} is too large for floating point")


def as_the_authors(equations: Sequences, numbers: int) -> Sequences:
    """Return those of some true equations that the authors generate."""
    kept = holds_in_floating_point(equations)
    if equations.ids.shape[1]:
        kept &= ~((equations.ids[:, 0] == MINUS) & (equations.ids[:, 1] == ZERO + numbers + 1))
    return equations.take(np.flatnonzero(kept))


def holds_in_floating_point(equations: Sequences) -> BoolArray:
    """Return (B,), true where Python's value of a left side equals the right side; only the first integer is signed."""
    parsed = parse(equations)
    return np.asarray(values(parsed.left) == parsed.right, np.bool_)


def values(left: Sequences) -> npt.NDArray[Any]:
    """Return (B,) the value of each left side as Python computes it: from left to right, exact until divided."""
    ids = left.ids
    dtype = _type_for(ids)
    total: npt.NDArray[Any] = np.zeros(len(ids), dtype)
    term, operator = total, np.full(len(ids), PLUS)
    for column in range(ids.shape[1]):
        token = ids[:, column]
        integer = is_integer(token)
        value: npt.NDArray[Any] = np.where(integer, token - ZERO, 1).astype(dtype)
        opens = integer & (operator <= MINUS)  # a new term: the one before it is complete
        total = np.where(opens, total + term, total)
        factor = integer & ~opens
        term = np.where(opens, np.where(operator == MINUS, -value, value), term)
        term = np.where(factor & (operator == OVER), term / value, np.where(factor, term * value, term))
        operator = np.where(~integer & (token != PAD), token, operator)
    return total + term


def _type_for(ids: npt.NDArray[np.int64]) -> type:
    """Return floats where they hold every product of integers, else Python's own numbers."""
    count = int(is_integer(ids).sum(1).max(initial=0))
    largest = max(int(ids.max(initial=EQUALS)) - ZERO, 2)
    return np.float64 if (count + 1) * largest**count < EXACT_FLOATS else object
