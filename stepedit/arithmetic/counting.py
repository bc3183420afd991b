"""The number of true equations of a setting, counted without listing them.

A left side is a sum of signed terms, a term a product of integers and reciprocals. So the number of terms with k
integers and value v, for every v, follows from those with k-1; and the number of sums likewise from shorter sums and
one more term. The last step needs no table: it looks up how many shorter sums lack just the value of a last term.

Values are rational and kept as residues modulo two primes. A left side and a right-hand integer with the same residues
are equal, because the numerator of their difference is smaller than the product of the primes: the count is exact.

Shapes: V distinct values, each packed as one residue in the high and one in the low 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from stepedit.arithmetic.equations import OPERATORS, SMALLEST
from stepedit.editing.sequences import IntArray

PRIMES = ((1 << 31) - 1, (1 << 31) - 19)
MAX_ENTRIES = 1 << 24  # of one table while it is made: under a gigabyte, a few seconds


class Tally(NamedTuple):
    """Sorted values, and the number of expressions with each."""

    values: IntArray  # (V,)
    counts: IntArray  # (V,)


class TooLargeError(Exception):
    """A table would not fit."""


def left_sides(numbers: int, length: int) -> int:
    """Return the number of left sides, true or not."""
    return int(2 * numbers ** (length - 1) * len(OPERATORS) ** (length - 2))


@cache
def count_true(numbers: int, length: int) -> int | None:
    """Return the number of true equations with `length` integers of 2 .. numbers+1; None if it takes too long."""
    n = length - 1  # integers on the left
    if n == 1:
        return numbers  # each integer equals itself
    exact = (n + 1) * (numbers + 1) ** (n + 1) < PRIMES[0] * PRIMES[1] and left_sides(numbers, length) < 1 << 63
    if not exact or 2 * numbers**2 > MAX_ENTRIES:
        return None
    try:
        return _count_true(numbers, n)
    except TooLargeError:
        return None


def _count_true(numbers: int, n: int) -> int:
    integers = np.arange(SMALLEST, numbers + SMALLEST)
    single = Tally(_pack(integers, integers), np.ones_like(integers))
    reciprocals = _pack(*(np.array([pow(int(i), -1, prime) for i in integers]) for prime in PRIMES))
    factors = _tally(np.concatenate([single.values, reciprocals]), np.ones(2 * numbers, np.int64))
    terms, sums = [single], [_both_signs(single)]  # at index k-1: with k integers
    for _ in range(2, n):
        terms.append(_combine(terms[-1], factors, _times))
        sums.append(_sums(terms, sums))
    total = _meetings(terms[-1], factors, single.values, _times)
    for term, rest in zip(terms, reversed(sums), strict=True):
        total += _meetings(rest, _both_signs(term), single.values, _plus)
    return total


def _sums(terms: list[Tally], sums: list[Tally]) -> Tally:
    """Return sums with one integer more than the longest so far: a single term, or a shorter sum and a last term."""
    signed = [_both_signs(term) for term in terms]
    parts = [signed[-1], *(_combine(rest, last, _plus) for last, rest in zip(signed, reversed(sums), strict=False))]
    return _tally(np.concatenate([part.values for part in parts]), np.concatenate([part.counts for part in parts]))


def _combine(first: Tally, second: Tally, operation: Callable[[IntArray, IntArray], IntArray]) -> Tally:
    """Combine every value of the first with every value of the second."""
    if len(first.values) * len(second.values) > MAX_ENTRIES:
        raise TooLargeError
    values = operation(first.values[:, None], second.values[None, :])
    return _tally(values.ravel(), (first.counts[:, None] * second.counts[None, :]).ravel())


def _meetings(first: Tally, second: Tally, goals: IntArray, operation: Callable[[IntArray, IntArray], IntArray]) -> int:
    """Return in how many ways a value of the first and one of the second make one of the goals."""
    if len(goals) * len(second.values) > MAX_ENTRIES:
        raise TooLargeError
    # the inverse operation: goal - term, goal / factor; the sets contain the inverse of each element
    wanted = operation(goals[:, None], second.values[None, :])
    index = np.searchsorted(first.values, wanted).clip(max=len(first.values) - 1)
    found = np.where(first.values[index] == wanted, first.counts[index], 0)
    return int((found * second.counts[None, :]).sum())


def _both_signs(tally: Tally) -> Tally:
    return _tally(np.concatenate([tally.values, _minus(tally.values)]), np.concatenate([tally.counts, tally.counts]))


def _tally(values: IntArray, counts: IntArray) -> Tally:
    """Return each value once, with the sum of its counts."""
    order = np.argsort(values, kind="stable")
    values, counts = values[order], counts[order]
    first = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    return Tally(values[first], np.add.reduceat(counts, first))


def _pack(high: IntArray, low: IntArray) -> IntArray:
    return (high << 32) | low


def _plus(a: IntArray, b: IntArray) -> IntArray:
    return _pack(((a >> 32) + (b >> 32)) % PRIMES[0], ((a & 0xFFFFFFFF) + (b & 0xFFFFFFFF)) % PRIMES[1])


def _minus(a: IntArray) -> IntArray:
    return _pack(-(a >> 32) % PRIMES[0], -(a & 0xFFFFFFFF) % PRIMES[1])


def _times(a: IntArray, b: IntArray) -> IntArray:
    return _pack((a >> 32) * (b >> 32) % PRIMES[0], (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF) % PRIMES[1])
