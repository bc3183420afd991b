"""Metrics of text, against figures worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit.text_metrics import Counts, chrf, counts, error_rate, spans, summary, total

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
    assert spans(source, text) == expected


def test_precision_recall_and_f() -> None:
    counted = counts("a b c d", "A b c D", "A b X d")
    assert counted == Counts(made=2, asked=2, both=1)
    assert (counted.precision, counted.recall, counted.f()) == (0.5, 0.5, 0.5)
    assert Counts(4, 2, 2).f() == pytest.approx(1.25 * 0.5 * 1 / (0.25 * 0.5 + 1))
    assert total([counted, Counts(0, 2, 0)]) == Counts(2, 4, 1)


@given(source=TEXTS, target=TEXTS)
def test_the_target_itself_is_perfect_and_doing_nothing_makes_no_edit(source: str, target: str) -> None:
    right, nothing = counts(source, target, target), counts(source, target, source)
    assert right.made == right.asked == right.both
    assert right.f() == 1.0
    assert nothing.made == 0
    assert (nothing.recall == 1.0) == (source == target)


def test_error_rate_is_letters_to_change_for_each_letter() -> None:
    assert error_rate(["abcd", "ab"], ["abxd", "ab"]) == pytest.approx(1 / 6)
    assert error_rate([""], [""]) == 0.0


def test_chrf_is_told_where_asked() -> None:
    assert chrf(["the cat"], ["the cat"]) == pytest.approx(1.0)
    assert chrf(["the cat"], ["the dog"]) < chrf(["the cat"], ["the car"]) < 1.0
    assert "chrf" not in summary(["a"], ["a"], Counts(0, 0, 0))
    assert summary(["abc"], ["abc"], Counts(0, 0, 0), with_chrf=True)["chrf"] == pytest.approx(1.0)
