"""Metrics on cases worked out by hand."""

import pytest

from stepedit.editing.sequences import Pairs
from stepedit.evaluation.metrics import METRICS
from tests.arithmetic.reference import encode

# source, target, prediction, token, sequence, equation, holds
CASES = [
    ("2 7 7 2", "2 / 7 * 7 == 2", "2 / 7 * 7 == 2", 1, 1, 1, 1),
    ("2 7 7 2", "2 / 7 * 7 == 2", "2 * 7 / 7 == 2", 5 / 7, 0, 1, 1),  # another valid answer
    ("2 7 7 2", "2 / 7 * 7 == 2", "2 + 7 - 7 == 2", 5 / 7, 0, 1, 1),
    ("2 7 7 2", "2 / 7 * 7 == 2", "2 + 7 + 7 == 2", 5 / 7, 0, 0, 0),  # false
    ("2 7 7 2", "2 / 7 * 7 == 2", "2 / 7 * 7 == 2 + 2", 1, 0, 0, 0),  # too long
    ("2 7 7 2", "2 / 7 * 7 == 2", "2 / 7 * 7 ==", 6 / 7, 0, 0, 0),  # too short
    ("2 7 7 2", "2 / 7 * 7 == 2", "", 0, 0, 0, 0),  # empty
    ("2 7 7 2", "2 / 7 * 7 == 2", "2 / 7 == 7 == 2", 6 / 7, 0, 0, 0),  # two ==
    ("4 0 2", "4 - 0 == 4", "4 / 0 == 4", 4 / 5, 0, 0, 0),  # division by zero
    ("4 2 2", "4 - 2 == 2", "2 == 2", 1 / 5, 0, 0, 1),  # true, with the same right-hand side, over other integers
    ("4 2 2", "4 - 2 == 2", "4 - 1 == 3", 3 / 5, 0, 0, 0),  # true, with another right-hand side
    ("4 2 2", "4 - 2 == 2", "2 == 4 - 2", 1 / 5, 0, 0, 0),  # the right-hand side is not one integer
    ("6 / 2 == ( 5 - 2 )", "6 / 2 == 3", "6 / 2 == 3", 1, 1, 1, 1),  # the source's right-hand side is a bracket
    ("6 / 2 == ( - 2 + 5 )", "6 / 2 == 3", "4 - 1 == 3", 2 / 5, 0, 0, 1),
    ("4 - 2 == 2", "4 - 2 == 2", "4 - - 2 == 6", 2 / 5, 0, 0, 0),  # true, but not for this source
]


@pytest.mark.parametrize("case", CASES, ids=[f"{case[2]} for {case[1]}" for case in CASES])
def test_metrics_of_cases_worked_out_by_hand(case: tuple[str, str, str, float, float, float, float]) -> None:
    source, target, prediction, *expected = case
    scores = [float(METRICS[name](encode(prediction), Pairs(encode(source), encode(target)))[0]) for name in METRICS]
    assert scores == pytest.approx(expected)


@pytest.mark.parametrize("name", METRICS)
def test_each_row_is_scored_on_its_own(name: str) -> None:
    sources, targets, predictions = (encode(*(case[column] for case in CASES)) for column in (0, 1, 2))
    together = METRICS[name](predictions, Pairs(sources, targets))
    alone = [
        float(METRICS[name](encode(prediction), Pairs(encode(source), encode(target)))[0])
        for source, target, prediction, *_ in CASES
    ]
    assert together.tolist() == pytest.approx(alone)


def test_only_an_empty_prediction_matches_an_empty_target() -> None:
    pairs = Pairs(encode("2", "2"), encode("", ""))
    assert METRICS["token"](encode("", "2"), pairs).tolist() == [1, 0]
    assert METRICS["sequence"](encode("", "2"), pairs).tolist() == [1, 0]
