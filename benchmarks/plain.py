"""The plain way to make equations, for comparison: draw tokens, evaluate, keep if it fits; one at a time."""

from __future__ import annotations

import random


def sample(size: int, numbers: int, length: int, rng: random.Random) -> set[str]:
    """`size` distinct true equations as text."""
    found: set[str] = set()
    while len(found) < size:
        minus = rng.random() < 0.5
        integers = [rng.randint(2, numbers + 1) for _ in range(length - 1)]
        operators = [rng.choice("+-*/") for _ in range(length - 2)]
        numerator, denominator = evaluate(minus, integers, operators)
        if numerator % denominator == 0 and 2 <= numerator // denominator <= numbers + 1:
            left = ["-"] if minus else []
            left.append(str(integers[0]))
            for operator, integer in zip(operators, integers[1:], strict=True):
                left += [operator, str(integer)]
            found.add(f"{' '.join(left)} == {numerator // denominator}")
    return found


def evaluate(minus: bool, integers: list[int], operators: list[str]) -> tuple[int, int]:
    """A left side's value as numerator and (positive) denominator."""
    total, total_over = 0, 1
    term, term_over = -integers[0] if minus else integers[0], 1
    for operator, integer in zip(operators, integers[1:], strict=True):
        if operator == "*":
            term *= integer
        elif operator == "/":
            term_over *= integer
        else:
            total, total_over = total * term_over + term * total_over, total_over * term_over
            term, term_over = integer if operator == "+" else -integer, 1
    return total * term_over + term * total_over, total_over * term_over
