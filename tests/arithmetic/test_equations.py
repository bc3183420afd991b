"""Equations are parsed and evaluated exactly, in batches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit.arithmetic import equations
from tests.arithmetic.reference import VOCABULARY, encode, is_true, value

TRUE = [
    "2 / 7 * 7 == 2",
    "- 6 / 10 + 9 / 5 * 2 == 3",
    "2 * 2 - 4 + 8 / 2 == 4",
    "- 2 + 2 / 4 * 8 + 2 == 4",
    "- 7 * 5 / 7 + 7 == 2",
    "2 == 2",
    "4 - - 3 == 7",
    "4 * - 3 + 20 == 8",
    "- - 4 == 4",
    "4 / - 2 + 5 == 3",
    "1 / 3 + 1 / 3 + 1 / 3 == 1",
    "0 / 5 == 0",
]
FALSE = [
    "",
    "2",
    "==",
    "== 2",
    "2 ==",
    "2 == 3",
    "2 == 2 == 2",
    "4 - 2 == 2 == 2",
    "4 / 0 == 2",
    "4 / 0 == 0",
    "0 / 0 == 0",
    "4 2 == 4",
    "* 4 == 4",
    "4 + == 4",
    "4 * / 2 == 2",
    "2 == 4 - 2",
    "( 4 - 2 ) == 2",
    "2 == ( 4 - 2 )",
    "1 / 3 * 3 == 2",
    "4 - 2 == - 2",
]


@pytest.mark.parametrize("line", TRUE)
def test_true_equations_hold(line: str) -> None:
    assert equations.holds(encode(line)).all()


@pytest.mark.parametrize("line", FALSE)
def test_false_or_malformed_equations_do_not_hold(line: str) -> None:
    assert not equations.holds(encode(line)).any()


def test_rows_of_a_batch_are_independent() -> None:
    lines = [line for pair in zip(TRUE, FALSE, strict=False) for line in pair]
    assert equations.holds(encode(*lines)).tolist() == [line in TRUE for line in lines]


tokens = st.sampled_from(["+", "-", "*", "/", "==", "(", ")", *map(str, range(12))])


@given(st.lists(st.lists(tokens, max_size=12).map(" ".join), min_size=1, max_size=30))
def test_holds_agrees_with_the_reference_on_any_tokens(lines: list[str]) -> None:
    assert equations.holds(encode(*lines)).tolist() == [is_true(line) for line in lines]


integer = st.integers(0, 1000).map(str)
well_formed = st.tuples(
    st.sampled_from(["", "- "]), integer, st.lists(st.tuples(st.sampled_from("+-*/"), integer))
).map(lambda parts: parts[0] + parts[1] + "".join(f" {operator} {number}" for operator, number in parts[2]))


@given(st.lists(well_formed, min_size=1, max_size=20))
def test_values_are_exact_at_any_magnitude(lines: list[str]) -> None:
    numerators, denominators = equations.evaluate(encode(*lines))
    for line, numerator, denominator in zip(lines, numerators, denominators, strict=True):
        expected = value(line.split())
        if expected is None:
            assert denominator == 0
        else:
            assert denominator != 0
            assert numerator == expected * int(denominator)


def test_values_beyond_64_bits_are_exact() -> None:
    product = " * ".join(["997"] * 12)
    line = f"{product} - {product} + 5"
    numerator, denominator = equations.evaluate(encode(line))
    assert int(numerator[0]) == 5 * int(denominator[0])
    assert equations.holds(encode(f"{line} == 5", f"{line} == 6")).tolist() == [True, False]


def test_parsing_is_the_inverse_of_writing() -> None:
    written = equations.write(
        np.array([True, False]),
        np.array([[4, 3, 5], [9, 6, 2]]),
        np.array([[equations.PLUS, equations.TIMES], [equations.OVER, equations.MINUS]]),
        np.array([11, 7]),
    )
    assert VOCABULARY.decode(written) == ["- 4 + 3 * 5 == 11", "9 / 6 - 2 == 7"]
    parsed = equations.parse(written)
    assert parsed.valid.all()
    assert VOCABULARY.decode(parsed.left) == ["- 4 + 3 * 5", "9 / 6 - 2"]
    assert parsed.right.tolist() == [11, 7]


def test_integers_are_distinguished_from_symbols() -> None:
    assert VOCABULARY.decode(equations.integers_of(encode("- 6 + ( 5 - 11 ) == 8", "+ =="))) == ["6 5 11 8", ""]


def test_brackets_are_found_with_their_values() -> None:
    found = equations.find_brackets(encode("( - 2 + 4 ) / 7 * ( 11 - 4 ) == ( 8 / 4 )", "( 2 - 4 ) == 7", "( 7 / 2 )"))
    assert found.values[found.opens].tolist() == [2, 7, 2, -1, -1]
    assert found.well_formed.all()


@pytest.mark.parametrize(
    "line", ["( 2 + 3", "2 + 3 )", "( ( 2 + 3 ) )", "( 2 )", "( 2 + 3 + 4 )", "( 2 == 3 )", ")", "("]
)
def test_malformed_brackets_are_detected(line: str) -> None:
    assert not equations.find_brackets(encode(line)).well_formed.any()


def test_the_right_hand_value_of_a_bracket_is_its_value() -> None:
    lines = ["2 == 7", "2 == ( 11 - 4 )", "2 == ( - 2 + 4 )", "( 2 + 3 ) == 5", "2 ==", "", "( 9 - 3 )", "3 )"]
    assert equations.right_values(encode(*lines)).tolist() == [7, 7, 2, 5, -1, -1, 6, -1]


def test_few_rows_are_evaluated_like_many(rng: np.random.Generator) -> None:
    """A few rows are evaluated in plain Python, many as arrays; with signs and divisions by zero."""
    lines = [" ".join(rng.choice(["+", "-", "*", "/", "0", "1", "2", "7", "12"], 9)) for _ in range(3_000)]
    parsed = equations.parse(encode(*(f"{line} == 3" for line in lines)))
    left = parsed.left.take(parsed.valid)
    assert len(left) > 20
    many = equations.evaluate(left)
    few = [equations.evaluate(left.take([row])) for row in range(len(left))]
    assert [int(numerator[0]) for numerator, _ in few] == many[0].tolist()
    assert [int(denominator[0]) for _, denominator in few] == many[1].tolist()
