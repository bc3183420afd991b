"""The authors' equations: floating point as Python computes it, and no first integer of -(N+1)."""

import numpy as np
import pytest

from stepedit.arithmetic import equations
from stepedit.arithmetic.floating_point import as_the_authors, holds_in_floating_point, values
from stepedit.arithmetic.sampling import sample
from stepedit.editing.sequences import Sequences
from stepedit.errors import DataError, UserError
from stepedit.registry import TASKS
from tests.arithmetic.reference import VOCABULARY, all_equations, encode

EQUATION_TASKS = ("aor", "aes", "aec")


def python_value(tokens: list[str]) -> float:
    """Return the value of a left side with Python's numbers: integers exact, division in floating point."""
    total: float = 0
    term: float = 0
    operator = "+"
    for token in tokens:
        if not token.isdecimal():
            operator = token
        elif operator in "+-":
            total, term = total + term, int(token) if operator == "+" else -int(token)
        elif operator == "*":
            term = term * int(token)
        else:
            term = term / int(token)
    return total + term


def generated_by_the_authors(line: str, numbers: int) -> bool:
    """Whether the authors' generator makes a true equation."""
    left, right = line.split(" == ")
    return python_value(left.split()) == int(right) and not left.startswith(f"- {numbers + 1}")


@pytest.mark.parametrize(
    ("line", "holds"),
    [
        ("2 / 3 * 9 == 6", True),
        ("2 / 6 * 7 * 3 == 7", False),
        ("- 8 * 2 / 8 + 4 == 2", True),
        ("2 + 2 / 6 * 7 * 3 == 9", True),  # the sum rounds it away
        ("3 + 2 * 2 == 7", True),
    ],
)
def test_known_equations(line: str, holds: bool) -> None:
    assert holds_in_floating_point(encode(line)).tolist() == [holds]
    (left, right) = line.split(" == ")
    assert (python_value(left.split()) == int(right)) == holds


@pytest.mark.parametrize(("numbers", "length"), [(10, 5), (10, 9), (100, 5), (300, 9), (900, 12)])
def test_values_are_pythons_to_the_last_bit(numbers: int, length: int) -> None:
    """Where products exceed 2**53, too: Python's integers are exact until they are divided."""
    rng = np.random.default_rng(11)
    integers = rng.integers(2, numbers + 2, (4_000, length))
    operators = rng.choice(equations.OPERATORS, (4_000, length - 2), p=[0.1, 0.1, 0.4, 0.4])
    minus = rng.random(4_000) < 0.5
    made = equations.write(minus, integers[:, :-1], operators, integers[:, -1])
    expected = [python_value(line.split(" == ")[0].split()) for line in VOCABULARY.decode(made)]
    assert values(equations.parse(made).left).tolist() == expected


@pytest.mark.parametrize(("numbers", "length"), [(5, 4), (3, 5), (1, 4), (10, 2)])
def test_all_of_the_authors_equations_can_be_sampled_and_no_others(numbers: int, length: int) -> None:
    every = {line for line in all_equations(numbers, length) if generated_by_the_authors(line, numbers)}
    rng = np.random.default_rng(0)
    assert set(VOCABULARY.decode(sample(len(every), numbers, length, rng, authors=True))) == every
    with pytest.raises(DataError, match=f"has exactly {len(every):,};"):
        sample(len(every) + 1, numbers, length, rng, authors=True)


def test_the_papers_main_setting_has_82315_of_them() -> None:
    """84,379 are true; 2,037 begin with -11, floating point misses 27 others."""
    rng = np.random.default_rng(0)
    lines = VOCABULARY.decode(sample(82_315, 10, 5, rng, authors=True))
    assert len(set(lines)) == 82_315
    assert all(generated_by_the_authors(line, 10) for line in lines)
    with pytest.raises(DataError, match="exactly 82,315"):
        sample(82_316, 10, 5, rng, authors=True)


def test_a_number_that_is_not_counted_is_said_to_be_an_estimate() -> None:
    with pytest.raises(DataError, match=r"about 5\d\d,"):
        sample(10**10, 100, 5, np.random.default_rng(0), authors=True)


@pytest.mark.parametrize(("numbers", "length"), [(10, 7), (10, 9), (100, 5)])
def test_sampled_equations_are_the_authors(numbers: int, length: int) -> None:
    lines = VOCABULARY.decode(sample(3_000, numbers, length, np.random.default_rng(1), authors=True))
    assert len(set(lines)) == 3_000
    assert all(generated_by_the_authors(line, numbers) for line in lines)
    assert any(line.startswith(f"- {numbers} ") for line in lines)


def test_floating_point_misses_one_equation_in_seventy_five_of_length_nine() -> None:
    exact = sample(20_000, 10, 9, np.random.default_rng(0))
    assert 0.010 < 1 - holds_in_floating_point(exact).mean() < 0.017


def test_none_of_no_equations_is_kept() -> None:
    assert len(as_the_authors(Sequences.from_rows([]), 10)) == 0


def test_products_too_large_for_floating_point_are_refused() -> None:
    with pytest.raises(DataError, match="numbers=10, length=400 is too large for floating point"):
        sample(5, 10, 400, np.random.default_rng(0), authors=True)


@pytest.mark.parametrize("task", EQUATION_TASKS)
def test_tasks_with_equations_can_generate_the_authors(task: str) -> None:
    made = TASKS[task].from_args({"numbers": 3, "length": 4, "generation": "authors"})
    targets = made.vocabulary.decode(made.generate_targets(30, np.random.default_rng(0)))
    assert all(generated_by_the_authors(line, 3) for line in targets)
    exact = TASKS[task].from_args({"numbers": 3, "length": 4})
    every = exact.generate_targets(len(all_equations(3, 4)), np.random.default_rng(0))
    assert any(line.startswith("- 4") for line in exact.vocabulary.decode(every))


def test_sorting_has_no_such_argument_and_another_value_is_refused() -> None:
    with pytest.raises(UserError, match="unknown argument 'generation'"):
        TASKS["sort"].from_args({"generation": "authors"})
    with pytest.raises(UserError, match="generation: "):
        TASKS["aor"].from_args({"generation": "float"})
