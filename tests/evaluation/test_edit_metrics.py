"""Metrics of edited text, against figures worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit.evaluation.edit_metrics import (
    EditCounts,
    character_error_rate,
    chrf,
    count_edits,
    edit_spans,
    summary,
    total,
)

TEXTS = st.text("abc ", max_size=8)


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("teh", "the", {(1, 1, ("h",)), (2, 3, ())}),
        ("abc", "abc", set()),
        ("abc", "axxc", {(1, 2, ("x", "x"))}),
        ("", "ab", {(0, 0, ("a", "b"))}),
    ],
)
def test_edits_are_spans_of_the_source(source: str, text: str, expected: object) -> None:
    assert edit_spans(source, text) == expected


def test_precision_recall_and_f_score() -> None:
    counts = count_edits("a b c d", "A b c D", "A b X d")
    assert counts == EditCounts(predicted=2, reference=2, correct=1)
    assert (counts.precision, counts.recall, counts.f_score()) == (0.5, 0.5, 0.5)
    assert EditCounts(4, 2, 2).f_score() == pytest.approx(1.25 * 0.5 * 1 / (0.25 * 0.5 + 1))
    assert total([counts, EditCounts(0, 2, 0)]) == EditCounts(2, 4, 1)


@given(source=TEXTS, target=TEXTS)
def test_the_target_itself_is_perfect_and_copying_the_source_predicts_no_edit(source: str, target: str) -> None:
    perfect, copied = count_edits(source, target, target), count_edits(source, target, source)
    assert perfect.predicted == perfect.reference == perfect.correct
    assert perfect.f_score() == 1.0
    assert copied.predicted == 0
    assert (copied.recall == 1.0) == (source == target)


def test_the_character_error_rate_is_edit_distance_per_character_of_the_target() -> None:
    assert character_error_rate(["abcd", "ab"], ["abxd", "ab"]) == pytest.approx(1 / 6)
    assert character_error_rate([""], [""]) == 0.0


def test_chrf_is_computed_only_on_request() -> None:
    assert chrf(["the cat"], ["the cat"]) == pytest.approx(1.0)
    assert chrf(["the cat"], ["the dog"]) < chrf(["the cat"], ["the car"]) < 1.0
    nothing = np.zeros((1, 3), np.int64)
    assert "chrf" not in summary(["a"], ["a"], nothing)
    assert summary(["abc"], ["abc"], nothing, with_chrf=True)["chrf"] == (pytest.approx(1.0), None, None)
