"""Equations: write, parse and evaluate them exactly, in batches.

An equation is `[-] a o b o c ... == r`: integers, operators between them, an optional minus before the first, and one
integer on the right. `*` and `/` bind tighter than `+` and `-`. Values are rational numbers, as numerator and
denominator, so `2 / 7 * 7 == 2` is true. `sampling` draws random equations.

All arithmetic tasks share one coding: a few symbols, then the integers 0, 1, 2, ... in order, so that an id gives the
value of its integer.

Shapes: B equations, T tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stepedit.editing.sequences import PAD, BoolArray, IntArray, Sequences
from stepedit.text.vocabulary import PAD_TOKEN, Vocabulary

SYMBOLS = (PAD_TOKEN, "(", ")", "+", "-", "*", "/", "==")
OPEN, CLOSE, PLUS, MINUS, TIMES, OVER, EQUALS = range(1, len(SYMBOLS))
ZERO = len(SYMBOLS)  # the id of the integer 0; the integer n is ZERO + n
OPERATORS = (PLUS, MINUS, TIMES, OVER)
SMALLEST = 2  # the paper's integers are 2 .. N+1
FEW = 8  # rows up to which plain Python is faster


def vocabulary(largest: int) -> Vocabulary:
    """Return the vocabulary of all symbols and the integers 0 .. largest."""
    return Vocabulary((*SYMBOLS, *map(str, range(largest + 1))))


def is_integer(ids: IntArray) -> BoolArray:
    """Return where a token is an integer."""
    return ids >= ZERO


def integers_of(sequences: Sequences) -> Sequences:
    """Return each sequence without operators, brackets and `==`."""
    return Sequences.keep(np.where(is_integer(sequences.ids), sequences.ids, PAD))


def write(minus: BoolArray, integers: IntArray, operators: IntArray, right: IntArray) -> Sequences:
    """Compose equations: minus (B,), integers (B, n), operators (B, n-1) as ids, right-hand integers (B,)."""
    count, n = integers.shape
    ids = np.empty((count, 2 * n + 2), np.int64)
    ids[:, 0] = np.where(minus, MINUS, PAD)
    ids[:, 1:-2:2] = ZERO + integers
    ids[:, 2:-2:2] = operators
    ids[:, -2] = EQUALS
    ids[:, -1] = ZERO + right
    ids[~minus] = np.roll(ids[~minus], -1, axis=1)  # no leading gap: padding goes to the end
    return Sequences(ids, 2 * n + 1 + minus.astype(np.int64))


@dataclass(frozen=True)
class Parsed:
    """Sequences parsed as equations; the sides of invalid rows have no meaning."""

    valid: BoolArray  # (B,) it has the form of an equation
    left: Sequences  # the tokens before `==`
    right: IntArray  # (B,) the integer after it


def parse(sequences: Sequences) -> Parsed:
    """Return the sides of each equation, and which sequences are equations.

    A sign may stand before any integer (the paper allows it, and Python parses it so); a second `==`, a bracket, a
    missing operand or a right-hand side other than one integer makes a sequence invalid.
    """
    ids, lengths = sequences.widened(3).ids, sequences.lengths
    rows, last = np.arange(len(ids)), np.maximum(lengths - 1, 0)
    columns = np.arange(ids.shape[1])
    ends_well = (lengths >= 3) & (ids[rows, last - 1] == EQUALS) & is_integer(ids[rows, last])
    one_equals = ((ids == EQUALS).sum(1) == 1) & ~((ids == OPEN) | (ids == CLOSE)).any(1)
    size = np.maximum(lengths - 2, 0)
    inside = columns < size[:, None]
    left = np.where(inside, ids, PAD)
    integer, after_integer = is_integer(left), np.zeros(left.shape, np.bool_)
    after_integer[:, 1:] = integer[:, :-1]
    two_integers = after_integer & integer
    factor_without_left = ~after_integer & ((left == TIMES) | (left == OVER))
    ends_in_integer = integer[rows, np.maximum(size - 1, 0)]
    valid = ends_well & one_equals & ends_in_integer & ~(two_integers | factor_without_left).any(1)
    return Parsed(valid, Sequences(left, size), ids[rows, last] - ZERO)


def holds(sequences: Sequences) -> BoolArray:
    """Return (B,), true where a sequence is an equation with equal sides."""
    parsed = parse(sequences)
    result = np.zeros(len(sequences), np.bool_)
    rows = np.flatnonzero(parsed.valid)
    if len(rows):
        right = parsed.right[rows]
        numerator, denominator = evaluate(parsed.left.take(rows), limit=int(right.max()))
        result[rows] = (denominator != 0) & (numerator == right * denominator)
    return result


def evaluate(left: Sequences, limit: int = 1) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return numerator and denominator of well-formed left sides; a division by zero gives denominator 0.

    Both are int64 if no product with an integer up to `limit` can overflow, otherwise Python integers.
    """
    ids = left.ids
    dtype = _wide_enough(ids, limit)
    if len(ids) < FEW:
        values: npt.NDArray[Any] = np.array([_evaluate_row(row) for row in left.rows()], dtype).reshape(len(ids), 2)
        return values[:, 0], values[:, 1]
    total: npt.NDArray[Any] = np.zeros(len(ids), dtype)
    term, total_over, term_over = total, total + 1, total + 1
    sign, operator = np.ones(len(ids), np.int64), np.full(len(ids), PLUS)
    after_integer = np.zeros(len(ids), np.bool_)
    for column in range(ids.shape[1]):
        token = ids[:, column]
        integer = is_integer(token)
        symbol = ~integer & (token != PAD)
        value: npt.NDArray[Any] = np.where(integer, token - ZERO, 1).astype(dtype)
        opens = integer & (operator <= MINUS)  # a new term: the one before it is complete
        total = np.where(opens, total * term_over + term * total_over, total)
        total_over = np.where(opens, total_over * term_over, total_over)
        divides = operator == OVER
        term = np.where(opens, sign * value, np.where(integer, term * sign * np.where(divides, 1, value), term))
        term_over = np.where(opens, 1, np.where(integer & divides, term_over * value, term_over))
        operator = np.where(symbol & (after_integer | (column == 0)), token, operator)
        sign = np.where(integer, 1, np.where(symbol & (token == MINUS), -sign, sign))
        after_integer = integer
    return total * term_over + term * total_over, total_over * term_over


def _evaluate_row(row: list[int]) -> tuple[int, int]:
    """Return numerator and denominator of one left side: the same in plain Python, which is faster for a few."""
    total, total_over, term, term_over = 0, 1, 0, 1
    sign, operator, after_integer = 1, PLUS, False
    for column, token in enumerate(row):
        if token < ZERO:
            operator = token if after_integer or column == 0 else operator
            sign = -sign if token == MINUS else sign
        elif operator <= MINUS:  # a new term: the one before it is complete
            total, total_over = total * term_over + term * total_over, total_over * term_over
            term, term_over, sign = sign * (token - ZERO), 1, 1
        elif operator == OVER:
            term, term_over, sign = term * sign, term_over * (token - ZERO), 1
        else:
            term, sign = term * sign * (token - ZERO), 1
        after_integer = token >= ZERO
    return total * term_over + term * total_over, total_over * term_over


def _wide_enough(ids: IntArray, limit: int) -> type:
    """Return a number type that holds every intermediate value, from the number and size of the integers."""
    count = int(is_integer(ids).sum(1).max(initial=0))
    largest = max(int(ids.max(initial=0)) - ZERO, 2)
    return np.int64 if (count + 1) * largest**count * max(limit, 1) < 2**62 else object


class Brackets(NamedTuple):
    """The brackets of B texts, by the position of their opening."""

    opens: BoolArray  # (B, T) a well-formed bracket opens here
    signed: IntArray  # (B, T) 1 where it has a minus before its first integer
    inner: BoolArray  # (B, T) inside a bracket, after its opening
    values: IntArray  # (B, T) value of the bracket that opens here; -1 if it is not a natural number
    well_formed: BoolArray  # (B,) no bracket of another form


def find_brackets(texts: Sequences) -> Brackets:
    """Return every `( a o b )` or `( - a o b )` with its value."""
    width = texts.ids.shape[1]
    ids = texts.widened(width + 6).ids
    signed = (ids[:, 1 : width + 1] == MINUS).astype(np.int64)
    at = np.arange(width) + signed
    first, operator, second, close = (np.take_along_axis(ids, at + offset, 1) for offset in (1, 2, 3, 4))
    opens = (texts.ids == OPEN) & (close == CLOSE) & is_integer(first) & is_integer(second)
    opens &= (operator >= PLUS) & (operator <= OVER)
    inner = np.zeros(ids.shape, np.bool_)
    for offset in range(1, 6):
        inner[:, offset : width + offset] |= opens & (offset < 5 + signed)
    stray = ((texts.ids == OPEN) & ~opens) | ((texts.ids == CLOSE) & ~inner[:, :width])
    values = _values(np.where(signed, ZERO - first, first - ZERO), operator, second - ZERO)
    return Brackets(opens, signed, inner[:, :width], np.where(opens, values, -1), ~stray.any(1))


def _values(a: IntArray, operator: IntArray, b: IntArray) -> IntArray:
    """Return a o b if it is a natural number, else -1."""
    quotient = np.where((b > 0) & (a % np.maximum(b, 1) == 0), a // np.maximum(b, 1), -1)
    cases = [operator == PLUS, operator == MINUS, operator == TIMES, operator == OVER]
    return np.maximum(np.select(cases, [a + b, a - b, a * b, quotient], -1), -1)


def right_values(texts: Sequences) -> IntArray:
    """Return (B,) the integer at the end of each text, or the value of a bracket there; -1 if there is neither."""
    ids, rows = texts.widened(6).ids, np.arange(len(texts))
    last = np.maximum(texts.lengths - 1, 0)
    found = find_brackets(Sequences(ids, texts.lengths))
    value = np.where(is_integer(ids[rows, last]), ids[rows, last] - ZERO, -1)
    for size in (5, 6):
        start = np.maximum(last + 1 - size, 0)
        closes = found.opens[rows, start] & (texts.lengths - start == size) & (found.signed[rows, start] == size - 5)
        value = np.where(closes, found.values[rows, start], value)
    return value


def holds_with_right_side(predictions: Sequences, sources: Sequences) -> BoolArray:
    """Return (B,), true where a prediction is a true equation with its source's right-hand side.

    That side is the source's last integer or, if the source ends in a bracket, the bracket's value.
    """
    same: BoolArray = parse(predictions).right == right_values(sources)
    return holds(predictions) & same
