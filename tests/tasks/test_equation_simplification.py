"""Equation simplification (AES) follows the paper."""

import re
from collections import Counter

import numpy as np
import pytest

from stepedit.registry import TASKS
from tests.arithmetic.reference import value

BRACKET = re.compile(r"\( (- )?(\d+) ([-+*/]) (\d+) \)")


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("- 3 + 10 / 2 == 2", "- 3 + 10 / 2 == 2"),
        ("( - 2 + 4 ) / 7 * 7 == 2", "2 / 7 * 7 == 2"),
        ("2 / 7 * ( 11 - 4 ) == ( 4 - 2 )", "2 / 7 * 7 == 2"),
        ("- 33 + 25 + 75 - 60 == ( 30 - 23 )", "- 33 + 25 + 75 - 60 == 7"),
    ],
)
def test_the_papers_examples_need_one_edit_per_bracket(source: str, target: str) -> None:
    task = TASKS["aes"]()
    pairs = task.encode([source], [target])
    assert task.check(pairs.sources, pairs.targets).all()
    assert task.edits(pairs.sources, pairs.targets).counts[0] == source.count("(")


def test_the_edit_is_that_of_the_papers_action() -> None:
    task = TASKS["aes"]()
    pairs = task.encode(["- 33 + 25 + 75 - 60 == ( 30 - 23 )"], ["- 33 + 25 + 75 - 60 == 7"])
    (edit,) = task.edits(pairs.sources, pairs.targets).row(0)
    assert (edit.start, edit.stop - 1, task.vocabulary.text(edit.tokens)) == (9, 13, "7")


@pytest.mark.parametrize("division", [False, True])
def test_brackets_have_the_value_they_replace(division: bool, rng: np.random.Generator) -> None:
    task = TASKS["aes"].from_args({"numbers": 30, "division": division})
    pairs = task.generate(2_000, rng)
    operators = Counter[str]()
    for source, target in zip(
        task.vocabulary.decode(pairs.sources), task.vocabulary.decode(pairs.targets), strict=True
    ):
        for match in BRACKET.finditer(source):
            operators[match[3]] += 1
            assert 2 <= int(match[2]) <= 31
            assert 2 <= int(match[4]) <= 31
        assert BRACKET.sub(lambda match: str(value(match[0][2:-2].split())), source) == target
    assert set(operators) == set("+-*/" if division else "+-*")


def test_the_number_of_brackets_and_their_positions_are_uniform(rng: np.random.Generator) -> None:
    task = TASKS["aes"]()
    targets = task.generate_targets(2_000, rng)
    number, positions = np.zeros(6), np.zeros(5)
    for _ in range(10):
        for line in task.vocabulary.decode(task.resample(targets, rng)):
            marks = re.findall(r"\(|\d+", BRACKET.sub("(", line))
            number[marks.count("(")] += 1
            positions += [mark == "(" for mark in marks]
    assert np.abs(number / number.sum() - 1 / 6).max() < 0.012
    assert np.abs(positions / number.sum() - 1 / 2).max() < 0.015


@pytest.mark.parametrize("division", [False, True])
def test_expressions_of_a_value_are_uniformly_sampled(division: bool) -> None:
    task = TASKS["aes"].from_args({"numbers": 11, "division": division})
    expected = Counter[str]()
    for first in range(2, 13):
        for second in range(2, 13):
            for operator in "+-*/" if division else "+-*":
                for sign in ("", "- "):
                    inner = f"{sign}{first} {operator} {second}"
                    if value(inner.split()) == 6:
                        expected[f"( {inner} )"] = 1
    targets = task.vocabulary.encode(["6 == 6"] * 40_000)
    lines = task.vocabulary.decode(task.resample(targets, np.random.default_rng(2)))
    seen = Counter(match[0] for line in lines for match in BRACKET.finditer(line))
    assert set(seen) == set(expected)
    mean = sum(seen.values()) / len(expected)
    chi_square = sum((count - mean) ** 2 / mean for count in seen.values())
    assert chi_square < len(expected) - 1 + 5 * np.sqrt(2 * len(expected))


def test_a_prediction_with_a_bracket_left_is_invalid() -> None:
    task = TASKS["aes"]()
    source = "( 4 - 2 ) + 3 == 5"
    predictions = ["2 + 3 == 5", "3 + 3 == 5", source, "2 + 3 == ( 7 - 2 )"]
    sources = task.vocabulary.encode([source] * len(predictions))
    assert task.check(sources, task.vocabulary.encode(predictions)).tolist() == [True, False, False, False]


def test_the_smallest_setting_has_no_brackets(rng: np.random.Generator) -> None:
    """With 2 as the only integer, no expression has the value 2."""
    pairs = TASKS["aes"].from_args({"numbers": 1, "length": 4}).generate(5, rng)
    assert pairs.sources.equals(pairs.targets).all()
