"""A slow reference implementation: one equation at a time, with fractions."""

from fractions import Fraction
from itertools import product

from stepedit.arithmetic import equations
from stepedit.editing.sequences import Sequences

VOCABULARY = equations.vocabulary(1000)


def encode(*lines: str) -> Sequences:
    """Encode lines with a vocabulary that has the integers up to 1000."""
    return VOCABULARY.encode(lines)


def value(tokens: list[str]) -> Fraction | None:
    """Return the value of a left side; None if it is malformed or divides by zero. Any integer may have signs."""
    total, term, operator, sign, after_integer = Fraction(0), Fraction(0), "+", 1, False
    for token in tokens:
        if token.isdecimal():
            if after_integer:
                return None
            number = Fraction(int(token)) * sign
            if operator in "+-":
                total, term = total + term, number if operator == "+" else -number
            elif operator == "*":
                term *= number
            elif number == 0:
                return None
            else:
                term /= number
            sign, after_integer = 1, True
        elif after_integer and token in "+-*/":
            operator, after_integer = token, False
        elif token in "+-":
            sign *= -1 if token == "-" else 1
        else:
            return None
    return total + term if after_integer else None


def is_true(line: str) -> bool:
    """Whether a line is a true equation."""
    tokens = line.split()
    if tokens.count("==") != 1 or tokens[-2:-1] != ["=="] or not tokens[-1].isdecimal():
        return False
    return value(tokens[:-2]) == int(tokens[-1])


def all_left_sides(numbers: int, length: int) -> list[list[str]]:
    """Return every left side with `length - 1` of the integers 2 .. numbers+1."""
    integers = [str(n) for n in range(2, numbers + 2)]
    sides = []
    for minus, first, *rest in product(["", "-"], integers, *[list("+-*/"), integers] * (length - 2)):
        sides.append(([minus] if minus else []) + [first, *rest])
    return sides


def all_equations(numbers: int, length: int) -> set[str]:
    """Return every true equation with `length` of the integers 2 .. numbers+1."""
    found = set()
    for side in all_left_sides(numbers, length):
        result = value(side)
        if result is not None and result.denominator == 1 and 2 <= result <= numbers + 1:
            found.add(f"{' '.join(side)} == {result}")
    return found
