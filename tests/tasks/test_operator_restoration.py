"""Operator restoration (AOR) follows the paper."""

import numpy as np
import pytest

from stepedit.arithmetic import equations
from stepedit.registry import TASKS


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("6 10 9 5 2 3", "- 6 / 10 + 9 / 5 * 2 == 3"),
        ("2 2 4 8 2 4", "2 * 2 - 4 + 8 / 2 == 4"),
        ("2 2 4 8 2 4", "- 2 + 2 / 4 * 8 + 2 == 4"),
        ("8 2 8 4 2", "- 8 * 2 / 8 + 4 == 2"),
    ],
)
def test_the_papers_examples_are_valid_and_have_one_source(source: str, target: str, rng: np.random.Generator) -> None:
    task = TASKS["aor"]()
    pairs = task.encode([source], [target])
    assert task.check(pairs.sources, pairs.targets).all()
    assert task.resample(pairs.targets, rng).equals(pairs.sources).all()


def test_the_edits_are_those_of_the_paper_from_left_to_right() -> None:
    task = TASKS["aor"]()
    pairs = task.encode(["8 2 8 4 2"], ["- 8 * 2 / 8 + 4 == 2"])
    edits = task.edits(pairs.sources, pairs.targets).row(0)
    inserted = [(edit.start, edit.stop, task.vocabulary.text(edit.tokens)) for edit in edits]
    assert inserted == [(0, 0, "-"), (2, 2, "*"), (4, 4, "/"), (6, 6, "+"), (8, 8, "==")]


def test_any_true_equation_over_the_integers_is_valid() -> None:
    task = TASKS["aor"]()
    source = task.vocabulary.encode(["2 2 4 8 2 4"] * 5)
    predictions = [
        "2 * 2 - 4 + 8 / 2 == 4",
        "- 2 + 2 / 4 * 8 + 2 == 4",
        "2 + 2 - 4 + 8 / 2 == 4",
        "2 + 2 - 4 + 8 + 2 == 4",
        "2 * 2 - 4 + 8 - 4 == 4",
    ]
    assert task.check(source, task.vocabulary.encode(predictions)).tolist() == [True, True, True, False, False]


def test_targets_have_the_integers_and_operators_of_the_setting(rng: np.random.Generator) -> None:
    pairs = TASKS["aor"]().generate(5_000, rng)
    integers = equations.integers_of(pairs.targets)
    assert sorted(set(integers.ids.ravel() - equations.ZERO)) == list(range(2, 12))
    assert (integers.lengths == 5).all()
    rest = set(pairs.targets.ids.ravel()) - set(integers.ids.ravel())
    assert rest == {0, equations.PLUS, equations.MINUS, equations.TIMES, equations.OVER, equations.EQUALS}
