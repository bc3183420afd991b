"""GLEU, against figures worked out by hand."""

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit.evaluation.gleu import gleu, statistics

TEXTS = st.text("ab ", max_size=12)


def test_what_a_text_adds_is_matches_less_what_was_wrongly_kept() -> None:
    # 1-grams: the, cat, on match (3), sit was kept (-1); 2-grams: "the cat" matches, "cat sit" and "sit on" were kept
    found = statistics("the cat sit on", "the cat sat on mats", "the cat sit on")
    assert found == [4, 5, 2, 4, 0, 3, 0, 2, 0, 1]
    # a word that stands once in the reference and was kept twice is one too many
    assert statistics("the the", "the", "the the")[2:4] == [0, 2]
    assert statistics("the the", "the cat", "the x")[2:4] == [1, 2]


def test_the_score_is_a_geometric_mean_with_a_brevity_penalty() -> None:
    source, reference, prediction = "a b x d e f", "a b c d e f g", "a b c d e f"
    assert gleu([source], [[reference]], [prediction])[0] == pytest.approx(exp(1 - 7 / 6))
    # 1-grams 5 - 1 of 6; 2-grams 3 - 2 of 5; no 3-gram is left after what was kept
    assert gleu([source], [["a b c d e f"]], [source])[0] == 0.0
    # 1-grams 5 of 6, 2-grams 4 of 5, 3-grams 3 of 4, 4-grams 2 of 3
    assert gleu(["y"], [["a b c d e f"]], ["a b c d e z"])[0] == pytest.approx((5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25)


def test_sums_are_those_of_the_corpus() -> None:
    sources, references = ["p q r s", "t u v w"], [["a b c d"], ["a b c d"]]
    # 1-grams 4 + 2 of 8, 2-grams 3 + 1 of 6, 3-grams 2 of 4, 4-grams 1 of 2
    expected = (6 / 8 * 4 / 6 * 2 / 4 * 1 / 2) ** 0.25
    assert gleu(sources, references, ["a b c d", "a b x y"])[0] == pytest.approx(expected)


def test_of_several_references_one_is_drawn_for_each_text() -> None:
    texts, references = ["x"] * 40, [["a b c d", "a b c e"]] * 40
    value, low, high = gleu(texts, references, ["a b c d"] * 40)
    other = (3 / 4 * 2 / 3 * 1 / 2 * 0.0) ** 0.25
    assert other < value < 1.0
    # half of the texts, on average, have 1 of 1, 2 of 2, ... and half 3 of 4, 2 of 3, 1 of 2 and none
    assert value == pytest.approx((3.5 / 4 * 2.5 / 3 * 1.5 / 2 * 0.5) ** 0.25, abs=0.01)
    assert low <= value + 0.01
    assert high >= value - 0.01
    assert gleu(texts, references, ["a b c d"] * 40) == (value, low, high), "always the same"


def test_a_draw_has_one_reference_and_the_score_is_the_mean_of_the_draws() -> None:
    # with the first reference the score is 1, with the second one 0; of both together it is 0.5 * exp(1 - 12 / 8)
    two, three = ["a b c d", "p q r s t u v w"], ["a b c d", "p q r s", "t u v w"]
    assert gleu(["x"], [two], ["a b c d"])[0] == pytest.approx(1 / 2, abs=0.07)
    assert gleu(["x"], [three], ["a b c d"])[0] == pytest.approx(1 / 3, abs=0.07)


def test_texts_of_a_single_word_have_a_score() -> None:
    assert gleu(["teh", "b"], [["the"], ["b"]], ["the", "b"])[0] == 1.0
    assert gleu(["teh", "b"], [["the"], ["b"]], ["tha", "b"])[0] == pytest.approx(1 / 2)
    assert gleu([""], [[""]], [""])[0] == 1.0
    assert gleu(["a", "b"], [["a"], ["b"]], ["a", ""])[0] == pytest.approx(exp(1 - 2 / 1))


@given(rows=st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=4))
def test_it_is_one_for_the_reference_and_between_zero_and_one_for_all_others(rows: list[tuple[str, str, str]]) -> None:
    sources, targets, predictions = (list(column) for column in zip(*rows, strict=True))
    references = [[target] for target in targets]
    assert gleu(sources, references, targets)[0] == pytest.approx(1.0)
    assert 0.0 <= gleu(sources, references, predictions)[0] <= 1.0 + 1e-9


def test_the_interval_of_several_references_is_about_its_figure() -> None:
    references = [["w x y z", "w a b c"]] * 40  # the draws differ, the texts do not
    figure, low, high = gleu(["w a b c"] * 40, references, ["w a b c"] * 40)
    assert low < figure < high
