"""Sample distinct true equations uniformly.

A left side is drawn at random and kept if its value is an integer in the allowed range. Chunks are drawn at once and
evaluated modulo primes, where a division is a multiplication and nothing can overflow: one prime sorts nearly all out,
and as many more as the size of the numbers requires make it exact. If nearly all equations are wanted, or there are few
in all, all left sides are tried instead.

A left side has one code per integer: the integer together with the operator before it, `+ a`, `- a`, `* a` or `/ a`; a
leading `+` is implied. Left sides that begin with a minus need not be drawn: each is the opposite of one that begins
with a plus, with the negative value.

Shapes: B left sides, n integers in each (one less than the equation's length).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from itertools import product
from math import isqrt, prod, sqrt

import numpy as np
import numpy.typing as npt

from stepedit.arithmetic import equations
from stepedit.arithmetic.counting import count_true, left_sides
from stepedit.arithmetic.equations import MINUS, PLUS, SMALLEST
from stepedit.arithmetic.floating_point import as_the_authors, check_floats
from stepedit.editing.sequences import IntArray, Sequences
from stepedit.errors import DataError

Progress = Callable[[int, int], None]  # (done, total)
Codes = npt.NDArray[np.integer]  # (n, B) operator * N + integer - SMALLEST, with the operators in the order + - * /

CHUNK = 1 << 15
BLOCK = 1 << 14  # numbers whose buffers fit the cache
SMALL_SPACE = 1 << 21  # left sides up to which all are tried: a tenth of a second
LARGE_SPACE = 1 << 27  # left sides up to which all are tried if most equations are wanted: about ten seconds
PRIME = (1 << 31) - 1  # Mersenne: x mod PRIME is an addition and a shift
LARGEST_NUMBERS = 100_000
MIN_DRAWN = 1 << 28  # integers to draw before giving up: a few seconds
MAX_WORK = 1 << 41  # integers to draw in all that are too many: a night


def check_setting(numbers: int, length: int) -> None:
    """Raise DataError for settings without equations."""
    if not 1 <= numbers <= LARGEST_NUMBERS:
        raise DataError(f"numbers must be between 1 and {LARGEST_NUMBERS:,}, not {numbers:,}")
    if length < 2:
        raise DataError(f"length must be at least 2 (one integer on each side), not {length}")


def sample(
    size: int,
    numbers: int,
    length: int,
    rng: np.random.Generator,
    progress: Progress | None = None,
    authors: bool = False,
) -> Sequences:
    """Return `size` true equations with distinct left sides; DataError with their number if there are fewer.

    `authors`: only those that the paper's authors generate. Their number is exact where all left sides are tried, and
    an estimate elsewhere.
    """
    check_setting(numbers, length)
    if authors:
        check_floats(numbers, length)
    if size < 1:
        raise DataError(f"size must be at least 1, not {size:,}")
    space = left_sides(numbers, length)
    if space <= SMALL_SPACE:
        return _choose(size, numbers, length, rng, authors)
    pool, drawn, hits = Sequences.from_rows([]), 0, 0
    while len(pool) < size:
        fresh: list[Sequences] = []
        # near the end most hits are repeats: take many at a time, or removing them would cost more than drawing
        wanted = max(size - len(pool), size // 16)
        while wanted > 0:
            fresh.append(_true_ones(_draw(CHUNK, numbers, length, rng), numbers, authors))
            wanted, drawn, hits = wanted - len(fresh[-1]), drawn + 2 * CHUNK, hits + len(fresh[-1])
            _refuse_too_rare(size, numbers, length, drawn, hits)
            most = hits and size > space * hits // drawn // 2
            if most and _most_are_wanted(size, numbers, length, drawn, hits, authors):
                return _choose(size, numbers, length, rng, authors)
            if progress:
                progress(min(len(pool) + sum(map(len, fresh)), size), size)
        pool = Sequences.join([pool, *fresh]).distinct()
    return pool.take(slice(size))


def _refuse_too_rare(size: int, numbers: int, length: int, drawn: int, hits: int) -> None:
    """Raise DataError if equations are too rare to be drawn in reasonable time."""
    work = drawn * length
    if work >= MIN_DRAWN and size * work > MAX_WORK * hits:
        raise DataError(
            f"equations with numbers={numbers}, length={length} are too rare to be sampled: of {drawn:,} left sides "
            f"{hits:,} were true; ask for fewer equations, fewer numbers or a smaller length"
        )


def _most_are_wanted(size: int, numbers: int, length: int, drawn: int, hits: int, authors: bool) -> bool:
    """Return whether to try all left sides; DataError if there are fewer equations than wanted."""
    space = left_sides(numbers, length)
    total = count_true(numbers, length) if not authors else None
    estimate = space * hits // drawn
    if total is not None and size > total:
        raise _too_many(size, numbers, length, f"exactly {total:,}")
    if total is None and size > estimate * (1 + 5 / sqrt(hits)):
        raise _too_many(size, numbers, length, f"about {estimate:,}")
    return space <= LARGE_SPACE


def _choose(size: int, numbers: int, length: int, rng: np.random.Generator, authors: bool) -> Sequences:
    """Return `size` of all equations, in random order."""
    total = count_true(numbers, length) if not authors else None
    if total is not None and size > total:
        raise _too_many(size, numbers, length, f"exactly {total:,}")
    every = _all_true(numbers, length, authors)
    if size > len(every):
        raise _too_many(size, numbers, length, f"exactly {len(every):,}")
    return every.take(rng.choice(len(every), size, replace=False))


def _too_many(size: int, numbers: int, length: int, found: str) -> DataError:
    return DataError(
        f"{size:,} distinct equations cannot be made: numbers={numbers}, length={length} has {found}; "
        "ask for fewer, or for more numbers or a greater length"
    )


def _all_true(numbers: int, length: int, authors: bool) -> Sequences:
    """Return every equation of the setting, part by part: the first few codes vary within a part, the rest is fixed."""
    axes = [range(numbers), *[range(4 * numbers)] * (length - 2)]
    inner = 1
    while inner < len(axes) and prod(map(len, axes[: inner + 1])) <= CHUNK:
        inner += 1
    codes = np.zeros((len(axes), prod(map(len, axes[:inner]))), np.int64)
    codes[:inner] = np.stack([axis.ravel() for axis in np.meshgrid(*axes[:inner], indexing="ij")])
    parts = []
    for fixed in product(*axes[inner:]):
        codes[inner:] = np.array(fixed, np.int64)[:, None]
        parts.append(_true_ones(codes, numbers, authors))
    return Sequences.join(parts)


def _draw(size: int, numbers: int, length: int, rng: np.random.Generator) -> Codes:
    """Draw left sides uniformly, with a plus before the first integer."""
    narrow = np.uint16 if 4 * numbers <= 1 << 16 else np.uint32
    codes = rng.integers(0, 4 * numbers, (length - 1, size), dtype=narrow)
    codes[0] %= numbers
    return codes


def _true_ones(codes: Codes, numbers: int, authors: bool = False) -> Sequences:
    """Return the equations among some left sides and their opposites (every plus a minus, every minus a plus).

    At most one of the two has a value in the allowed range. The right residue for one prime makes that nearly certain;
    the right residues for primes whose product exceeds every possible numerator of the difference of the two sides make
    it certain.
    """
    bound = (len(codes) + 1) * (numbers + 1) ** (len(codes) + 1)
    residues = _residues(codes, numbers, PRIME)
    values = np.minimum(residues, PRIME - residues)
    passed = np.flatnonzero((values >= SMALLEST) & (values < numbers + SMALLEST))
    operators, integers, opposites = _meanings(numbers)
    codes, values, negative = codes[:, passed], values[passed], residues[passed] > PRIME // 2
    codes = np.where(negative, opposites.take(codes), codes)
    prime, known = PRIME, PRIME
    while known <= bound and len(values):
        prime = _prime_below(prime)
        known *= prime
        passed = np.flatnonzero(_residues(codes, numbers, prime) == values)
        codes, values = codes[:, passed], values[passed]
    codes = codes.T
    found = equations.write(operators[codes[:, 0]] == MINUS, integers[codes], operators[codes[:, 1:]], values)
    return as_the_authors(found, numbers) if authors else found


@lru_cache(maxsize=8)
def _meanings(numbers: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return by code: operator id, integer, and the code of the opposite (itself if it does not open a term)."""
    operators, integers = np.divmod(np.arange(4 * numbers), numbers)
    opposites = np.arange(4 * numbers)
    opposites[: 2 * numbers] = np.roll(opposites[: 2 * numbers], numbers)
    return operators + PLUS, integers + SMALLEST, opposites


def _residues(codes: Codes, numbers: int, prime: int) -> IntArray:
    """Return (B,) values modulo a prime, computed block by block in buffers that stay in the cache."""
    factors, goes_on, opens = _tables(numbers, prime)
    values = np.empty(codes.shape[1], np.int64)
    buffers = np.empty((7, min(BLOCK, len(values))), np.int64)
    for begin in range(0, len(values), BLOCK):
        block = codes[:, begin : begin + BLOCK]
        term, total, carried, factor, mask, start, spare = buffers[:, : block.shape[1]]
        factors.take(block[0], out=term, mode="clip")
        total[:] = 0
        for code in block[1:]:
            factors.take(code, out=factor, mode="clip")
            goes_on.take(code, out=mask, mode="clip")
            opens.take(code, out=start, mode="clip")
            np.bitwise_and(term, mask, out=carried)
            total += term
            total -= carried  # a term is added when the next one opens
            np.multiply(carried, factor, out=term)  # below 2**63: a term is below 2**32, a factor below 2**31
            _reduce(term, prime, spare)
            term += start
        total += term
        np.remainder(total, prime, out=values[begin : begin + BLOCK])
    return values


def _reduce(numbers: IntArray, prime: int, spare: IntArray) -> None:
    """Reduce numbers without changing their residues; by shifts and additions where possible."""
    if prime != PRIME:
        numbers %= prime
        return
    for _ in range(2):  # from below 2**63 to below 2**33, to below 2**31 + 4
        np.right_shift(numbers, 31, out=spare)
        numbers &= PRIME
        numbers += spare


@lru_cache(maxsize=64)
def _tables(numbers: int, prime: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return by code: factor of the term; all bits set if the term continues, else none; start of a new term."""
    inverse = [0, 1]
    for n in range(2, numbers + SMALLEST):  # each from that of a smaller number
        inverse.append((prime - prime // n) * inverse[prime % n] % prime)
    integers, nothing = np.arange(SMALLEST, numbers + SMALLEST), np.zeros(2 * numbers, np.int64)
    first, second = (
        np.concatenate([integers, prime - integers]),
        np.concatenate([integers, np.array(inverse[SMALLEST:])]),
    )
    return np.concatenate([first, second]), np.concatenate([nothing, nothing - 1]), np.concatenate([first, nothing])


@cache
def _prime_below(number: int) -> int:
    """Return the largest prime below a number; trial division is enough for 31 bits."""
    candidate = number - 1
    while any(candidate % divisor == 0 for divisor in range(2, isqrt(candidate) + 1)):
        candidate -= 1
    return candidate
