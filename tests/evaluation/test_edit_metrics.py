"""Metrics of edited text, against figures worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit.evaluation.edit_metrics import (
    EditCounts,
    character_errors,
    choose_references,
    chrf,
    count_edits,
    count_words,
    summary,
    total,
)
from stepedit.evaluation.evaluate import score
from stepedit.registry import TASKS

TEXTS = st.text("abc ", max_size=8)


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


def test_character_errors_are_those_to_the_nearest_reference() -> None:
    assert character_errors([["abcd"], ["ab"], ["xyz", "ax"]], ["abxd", "ab", "a"]).tolist() == [[1, 4], [0, 2], [1, 2]]
    texts = summary(["", ""], [["abcd"], ["ab"]], ["abxd", "ab"])
    assert texts["cer"][0] == pytest.approx(1 / 6)
    assert summary([""], [[""]], [""])["cer"][0] == 0.0
    assert summary(["a"], [["a"]], ["b"])["cer"][0] == 1.0
    assert summary(["a"], [[""]], ["ab"])["cer"][0] == 2.0  # per character, but at least one


def test_chrf_is_computed_only_on_request() -> None:
    assert chrf([["the cat"]], ["the cat"]) == pytest.approx(1.0)
    assert chrf([["the cat"]], ["the dog"]) < chrf([["the cat"]], ["the car"]) < 1.0
    assert chrf([["the cat", "the dogs"], ["x"]], ["the dog", "x"]) > chrf([["the cat"], ["x"]], ["the dog", "x"])
    assert "chrf" not in summary(["a"], [["a"]], ["a"])
    assert summary(["abc"], [["abc"]], ["abc"], with_chrf=True)["chrf"] == (pytest.approx(1.0), None, None)


@pytest.mark.parametrize(
    ("source", "target", "prediction", "expected"),
    [
        ("teh cat", "The cat", "the cat", (1, 1, 0)),  # one word, one edit; its case is no word of its own
        ("teh cat", "The cat", "The cat", (1, 1, 1)),
        ("ok so", "ok , so", "ok , so", (1, 1, 1)),
        ("a cat.", "a cat", "a cat!", (1, 1, 0)),  # a mark is a word
        ("alot of", "a lot of", "a lot of", (1, 1, 1)),
    ],
)
def test_edits_of_text_are_counted_in_words(
    source: str, target: str, prediction: str, expected: tuple[int, int, int]
) -> None:
    assert count_words([source], [[target]], [prediction]).tolist() == [list(expected)]


# predicted, reference, correct of two references
ALTERNATIVES = [(EditCounts(2, 4, 2), EditCounts(2, 2, 1)), (EditCounts(0, 2, 0), EditCounts(0, 0, 0))]


def test_the_reference_with_the_best_f_score_so_far_counts() -> None:
    # 1.25 * 1 * 0.5 / (0.25 + 0.5) = 0.83 beside 0.5; then nothing missed beside two missed edits
    assert choose_references(ALTERNATIVES) == [0, 1]
    # alone, the second has the better F0.5 (0.58, not 0.5); after many correct edits, 2 wrong and 2 missed ones cost
    # less than 1 wrong and 7 missed
    many, two = EditCounts(1000, 1000, 1000), (EditCounts(4, 4, 2), EditCounts(4, 10, 3))
    assert choose_references([two]) == [1]
    assert choose_references([[many], two]) == [0, 0]


def test_of_equal_references_the_one_with_the_most_correct_edits_counts_then_the_first() -> None:
    assert choose_references([(EditCounts(0, 0, 0), EditCounts(2, 2, 2))]) == [1]
    assert choose_references([(EditCounts(1, 1, 0), EditCounts(1, 1, 0))]) == [0]


def test_then_the_fewest_wrong_edits_and_the_fewest_missed_ones_decide() -> None:
    # F0.5 is 1.25 * correct / (predicted + 0.25 * reference), here 1.25 / 4 for both
    assert choose_references([(EditCounts(3, 4, 1), EditCounts(2, 8, 1))]) == [1]
    assert choose_references([(EditCounts(2, 8, 1), EditCounts(3, 4, 1))]) == [0]
    assert choose_references([(EditCounts(2, 3, 0), EditCounts(2, 1, 0))]) == [1]


def test_with_several_references_any_of_them_is_an_exact_match() -> None:
    sources = ["a cat sat", "fine", "this are it"]
    references = [["a dog sat", "the cat sat"], ["fine", "fine"], ["this is it", "these are it"]]
    figures = summary(sources, references, ["the cat sat", "fined", "these is it"])
    assert figures["exact"][0] == pytest.approx(1 / 3)
    # texts 1 and 3 predict an edit each; of text 3 it is two words, and no reference has that; text 2 needs none
    assert (figures["precision"][0], figures["recall"][0]) == (pytest.approx(1 / 3), pytest.approx(1 / 2))
    assert figures["false_alarms"][0] == 1.0


def test_false_alarms_are_of_texts_that_no_reference_changes() -> None:
    references = [["a", "a"], ["b", "c"], ["d"], ["e"]]
    assert summary(list("abde"), references, ["a", "x", "x", "e"])["false_alarms"][0] == pytest.approx(1 / 3)
    assert "false_alarms" not in summary(["a"], [["b"]], ["b"])


def test_a_score_takes_all_references_of_a_text() -> None:
    task = TASKS["text"].from_args({})
    pairs = task.encode(["ab", "ab"], ["ac", "ac"], whole=True)
    predictions = task.vocabulary.encode(["ad", "ax"])
    evaluation = score(task, predictions, pairs, references=[["ac", "ad"], ["ac", "ad"]])
    assert evaluation.scores["sequence"].tolist() == [1.0, 0.0]
    assert evaluation.counts.tolist() == [[1, 1, 1], [1, 1, 0]]
    assert score(task, predictions, pairs).scores["sequence"].tolist() == [0.0, 0.0]
