"""Slow and plain arithmetic to hold the fast one to: one equation at a time, with fractions."""

from fractions import Fraction
from itertools import product

from stepedit import equations
from stepedit.sequences import Sequences

VOCABULARY = equations.vocabulary(1000)


def encode(*lines: str) -> Sequences:
    return VOCABULARY.encode(lines)


def value(tokens: list[str]) -> Fraction | None:
    """What a left side is worth, or None if it is none or divides by zero. Signs may stand before any integer."""
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
    tokens = line.split()
    if tokens.count("==") != 1 or tokens[-2:-1] != ["=="] or not tokens[-1].isdecimal():
        return False
    return value(tokens[:-2]) == int(tokens[-1])


def all_left_sides(numbers: int, length: int) -> list[list[str]]:
    integers = [str(n) for n in range(2, numbers + 2)]
    sides = []
    for minus, first, *rest in product(["", "-"], integers, *[list("+-*/"), integers] * (length - 2)):
        sides.append(([minus] if minus else []) + [first, *rest])
    return sides


def all_equations(numbers: int, length: int) -> set[str]:
    found = set()
    for side in all_left_sides(numbers, length):
        worth = value(side)
        if worth is not None and worth.denominator == 1 and 2 <= worth <= numbers + 1:
            found.add(f"{' '.join(side)} == {worth}")
    return found
