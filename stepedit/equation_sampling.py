"""Draw distinct true equations, uniformly among all there are.

A left side is drawn at random and kept if its value is an integer of the allowed range. Whole chunks are drawn at once
and sieved by their values modulo a prime, where a division is a multiplication and nothing can overflow; the few that
pass are then checked exactly by `equations.holds`. Where nearly all equations are wanted, or there are few to begin
with, all left sides are tried instead.

Shapes: B left sides, n integers in each (one less than the equation's length).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from math import sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stepedit import equations
from stepedit.equation_counting import count_true, left_sides
from stepedit.equations import OPERATORS, PLUS, SMALLEST
from stepedit.errors import DataError
from stepedit.sequences import IntArray, Sequences

Progress = Callable[[int, int], None]  # so many of so many

CHUNK = 1 << 16
SMALL_SPACE = 1 << 21  # left sides that are all tried without further thought: a tenth of a second
LARGE_SPACE = 1 << 27  # left sides that are all tried where most equations are wanted: some ten seconds
PRIME = (1 << 31) - 1  # Mersenne: x mod PRIME is an addition and a shift
LARGEST_NUMBERS = 1_000_000


class LeftSides(NamedTuple):
    """Left sides as columns: the sign of the first integer, the integers, the operators' indices between them."""

    minus: npt.NDArray[np.integer]  # (B,) 0 or 1
    integers: npt.NDArray[np.integer]  # (n, B)
    operators: npt.NDArray[np.integer]  # (n-1, B) index into OPERATORS


def check_setting(numbers: int, length: int) -> None:
    """Refuse settings that have no meaning."""
    if not 1 <= numbers <= LARGEST_NUMBERS:
        raise DataError(f"numbers must be between 1 and {LARGEST_NUMBERS:,}, not {numbers:,}")
    if length < 2:
        raise DataError(f"length must be at least 2 (one integer on each side), not {length}")


def sample(
    size: int, numbers: int, length: int, rng: np.random.Generator, progress: Progress | None = None
) -> Sequences:
    """`size` true equations with distinct left sides; DataError with the count there is when that is too many."""
    check_setting(numbers, length)
    if size < 1:
        raise DataError(f"size must be at least 1, not {size:,}")
    space = left_sides(numbers, length)
    if space <= SMALL_SPACE:
        return _choose(size, numbers, length, rng)
    pool, drawn, hits = Sequences.from_rows([]), 0, 0
    while len(pool) < size:
        fresh: list[Sequences] = []
        # near the end most hits are repeats: a fair number at a time, or sorting them out would cost more than drawing
        wanted = max(size - len(pool), size // 16)
        while wanted > 0:
            fresh.append(_sieved(_draw(CHUNK, numbers, length, rng), numbers))
            wanted, drawn, hits = wanted - len(fresh[-1]), drawn + CHUNK, hits + len(fresh[-1])
            if hits and size > space * hits // drawn // 2 and _most_are_wanted(size, numbers, length, drawn, hits):
                return _choose(size, numbers, length, rng)
            if progress:
                progress(max(0, min(size - wanted, size)), size)
        pool = _distinct(Sequences.join([pool, _true_ones(fresh)]))
    return pool.take(np.arange(size))


def _most_are_wanted(size: int, numbers: int, length: int, drawn: int, hits: int) -> bool:
    """Whether to try all left sides; DataError if there are fewer equations than wanted."""
    space = left_sides(numbers, length)
    total = count_true(numbers, length)
    estimate = space * hits // drawn
    if total is not None and size > total:
        raise _too_many(size, numbers, length, f"exactly {total:,}")
    if total is None and size > estimate * (1 + 5 / sqrt(hits)):
        raise _too_many(size, numbers, length, f"about {estimate:,}")
    return space <= LARGE_SPACE


def _choose(size: int, numbers: int, length: int, rng: np.random.Generator) -> Sequences:
    """`size` of all the equations there are, in random order."""
    total = count_true(numbers, length)
    if total is not None and size > total:
        raise _too_many(size, numbers, length, f"exactly {total:,}")
    every = _all_true(numbers, length)
    if size > len(every):
        raise _too_many(size, numbers, length, f"exactly {len(every):,}")
    return every.take(rng.choice(len(every), size, replace=False))


def _too_many(size: int, numbers: int, length: int, there_are: str) -> DataError:
    return DataError(
        f"{size:,} distinct equations cannot be made: numbers={numbers}, length={length} has {there_are}; "
        "ask for fewer, or for more numbers or a greater length"
    )


def _all_true(numbers: int, length: int) -> Sequences:
    """Every equation of the setting, found part by part.

    The first few integers run through all their values inside a part, together with all operators and signs; the
    others are fixed in each part.
    """
    inner = 1
    while inner < length - 1 and left_sides(numbers, length) // numbers ** (length - 1 - inner) * numbers <= CHUNK:
        inner += 1
    axes = [range(2), *[range(len(OPERATORS))] * (length - 2), *[range(numbers)] * inner]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")])
    minus, operators, running = grid[0], grid[1 : length - 1], grid[length - 1 :] + SMALLEST
    integers = np.empty((length - 1, grid.shape[1]), np.int64)
    integers[:inner] = running
    parts = []
    for fixed in product(range(SMALLEST, numbers + SMALLEST), repeat=length - 1 - inner):
        integers[inner:] = np.array(fixed, np.int64)[:, None]
        parts.append(_sieved(LeftSides(minus, integers, operators), numbers))
    return _true_ones(parts)


def _draw(size: int, numbers: int, length: int, rng: np.random.Generator) -> LeftSides:
    """Left sides at random, each as likely as any other."""
    narrow = np.uint16 if numbers + SMALLEST <= 1 << 16 else np.uint32
    return LeftSides(
        rng.integers(0, 2, size, dtype=np.uint8),
        rng.integers(SMALLEST, numbers + SMALLEST, (length - 1, size), dtype=narrow),
        rng.integers(0, len(OPERATORS), (length - 2, size), dtype=np.uint8),
    )


def _sieved(left: LeftSides, numbers: int) -> Sequences:
    """Left sides whose residue is an integer of the allowed range, with that integer on the right: true, or nearly."""
    values = _residues(left)
    passed = np.flatnonzero((values >= SMALLEST) & (values < numbers + SMALLEST))
    return equations.write(
        left.minus[passed].astype(np.bool_),
        left.integers[:, passed].T.astype(np.int64),
        left.operators[:, passed].T.astype(np.int64) + PLUS,
        values[passed],
    )


def _true_ones(parts: list[Sequences]) -> Sequences:
    """Those that hold exactly."""
    sieved = Sequences.join(parts)
    return sieved.take(equations.holds(sieved))


def _residues(left: LeftSides) -> IntArray:
    """(B,) values modulo PRIME: a value that is an integer below PRIME is its own residue."""
    largest = int(left.integers.max(initial=1))
    factors = _factors(largest)
    total = np.zeros(len(left.minus), np.int64)
    term = factors[left.minus * np.int64(largest + 1) + left.integers[0]]
    for operator, integer in zip(left.operators, left.integers[1:], strict=True):
        factor = factors[operator * np.int64(largest + 1) + integer]
        opens = operator < 2  # plus or minus: a new term
        total += np.where(opens, term, 0)
        term *= factor  # below 2**63: a term stays below 2**32 and a factor below 2**31
        term = np.where(opens, factor, (term & PRIME) + (term >> 31))
    return (total + term) % PRIME


@cache
def _factors(largest: int) -> IntArray:
    """What `+ n`, `- n`, `* n` and `/ n` put into a term, modulo PRIME, for n = 0 .. largest, one after the other."""
    integers = np.arange(largest + 1)
    inverse = [0, 1]
    for n in range(2, largest + 1):  # each from a smaller one's
        inverse.append((PRIME - PRIME // n) * inverse[PRIME % n] % PRIME)
    return np.concatenate([integers, PRIME - integers, integers, np.array(inverse[: largest + 1])])


def _distinct(rows: Sequences) -> Sequences:
    """Each equation once, in order of first appearance.

    Rows are told apart by a 64-bit key. Two different rows with one key, should that ever happen, cost one of them its
    place; two equal rows never both stay.
    """
    weights = np.random.default_rng(0).integers(0, 1 << 63, rows.ids.shape[1], dtype=np.uint64) * np.uint64(2) + 1
    keys = (rows.ids.astype(np.uint64) * weights).sum(1, dtype=np.uint64)
    _, first = np.unique(keys, return_index=True)
    return rows.take(np.sort(first))
