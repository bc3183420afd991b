"""The baseline for sampling equations: draw random tokens, evaluate, keep what is valid; one equation at a time."""

from __future__ import annotations

import random


def sample(size: int, numbers: int, length: int, rng: random.Random) -> set[str]:
    """Return `size` distinct true equations as text."""
    integers = [str(integer) for integer in range(2, numbers + 2)]
    found: set[str] = set()
    while len(found) < size:
        tokens = ["-"] if rng.random() < 0.5 else []
        tokens.append(rng.choice(integers))
        for _ in range(length - 2):
            tokens += [rng.choice("+-*/"), rng.choice(integers)]
        numerator, denominator = evaluate(tokens)
        if numerator % denominator == 0 and 2 <= numerator // denominator <= numbers + 1:
            found.add(f"{' '.join(tokens)} == {numerator // denominator}")
    return found


def evaluate(tokens: list[str]) -> tuple[int, int]:
    """Return the exact value of a left side, as numerator and (positive) denominator."""
    total, total_over, term, term_over, operator = 0, 1, 0, 1, "+"
    for token in tokens:
        if token in "+-*/":
            operator = token
        elif operator == "*":
            term *= int(token)
        elif operator == "/":
            term_over *= int(token)
        else:
            total, total_over = total * term_over + term * total_over, total_over * term_over
            term, term_over = int(token) if operator == "+" else -int(token), 1
    return total * term_over + term * total_over, total_over * term_over
