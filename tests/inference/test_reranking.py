"""Reranking with a lexicon: near known words compete with what the programmer finds."""

from collections.abc import Callable, Sequence
from math import log
from pathlib import Path

import numpy as np
import pytest

from stepedit.data.states import States
from stepedit.editing.edits import trajectory
from stepedit.editing.interpreter import FloatArray, Outcome
from stepedit.editing.sequences import Sequences
from stepedit.errors import DataError, UserError
from stepedit.inference.decoding import Decoding
from stepedit.inference.editor import Editor
from stepedit.inference.predict import _to_known
from stepedit.inference.reranking import UNKNOWN_COST, LexiconCandidates, rerank
from stepedit.tasks.base import Segment
from stepedit.tasks.parallel_text import ParallelText
from stepedit.text.keep import Keep
from stepedit.text.lexicon import Lexicon

WORDS = ["the", "they", "world", "word", "receive", "Paris", "don't", "λόγος", "Straße", "café"]
LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")


@pytest.fixture
def lexicon() -> Lexicon:
    return Lexicon(WORDS)


@pytest.mark.parametrize(
    ("text", "remaining", "expected"),
    [
        ("teh wrld", 1, ["the wrld"]),
        ("teh wrld", 0, ["teh world", "teh word"]),
        ("teh wrld", 2, []),
        ("the world", 0, []),
        ("TEH", 0, ["THE"]),
        ("Wrld", 0, ["World", "Word"]),
        ("pariss", 0, ["Paris"]),
        ("don’tt", 0, ["don’t"]),
        ("λόγςς", 0, ["λόγος"]),
        ("strasßee", 0, ["Straße"]),
        ("cafe\u0301t", 0, ["cafe\u0301"]),
        ("", 0, []),
    ],
)
def test_replacements_follow_the_spelling_of_the_lexicon_and_the_form_of_the_text(
    lexicon: Lexicon, text: str, remaining: int, expected: list[str]
) -> None:
    vocabulary = ParallelText().vocabulary.opened()
    rows = LexiconCandidates(lexicon, vocabulary).replacements(vocabulary.ids(list(text)), remaining)
    assert [vocabulary.text(row) for row in rows] == expected


def test_a_window_that_starts_inside_a_text_is_left_alone(lexicon: Lexicon) -> None:
    vocabulary = ParallelText(level="word").vocabulary.opened()
    row = vocabulary.ids(vocabulary.split("teh world"))
    candidates = LexiconCandidates(lexicon, vocabulary)
    assert candidates.replacements(row, 0)
    assert not candidates.replacements([*vocabulary.ids([","]), *row], 0)


def constant_log_prob(each: float) -> Callable[[States], FloatArray]:
    """Return a `log_prob` that gives every edit the same log-probability, and DONE a probability of 1."""
    return lambda states: np.where(states.remaining.counts > 0, each, 0.0)


def reranked(lexicon: Lexicon, each: float, sources: Sequence[str], found: Sequence[str]) -> list[Outcome]:
    """Rerank texts that were found with one edit and log-probability -1."""
    task = ParallelText(known_tokens=(*LETTERS, " "), insertable_tokens=LETTERS)
    vocabulary = task.vocabulary.opened()
    rows = Sequences.from_rows([vocabulary.ids(list(text)) for text in sources])
    outcomes = [Outcome(tuple(vocabulary.ids(list(text))), 1, "done", [], -1.0) for text in found]
    results = rerank(rows, outcomes, LexiconCandidates(lexicon, vocabulary), constant_log_prob(each), task, trace=True)
    for row, outcome in zip(rows.rows(), results, strict=True):
        assert not outcome.trace or trajectory(row, [step.edit for step in outcome.trace])[-1] == outcome.tokens
    return results


def texts(outcomes: Sequence[Outcome]) -> list[str]:
    vocabulary = ParallelText().vocabulary.opened()
    return [vocabulary.text(outcome.tokens) for outcome in outcomes]


def test_known_words_are_chosen_unless_they_are_far_less_probable(lexicon: Lexicon) -> None:
    sources = ["teh wrld", "the wrd", "xyzzy", "word"]
    assert texts(reranked(lexicon, -1.0, sources, sources)) == ["the world", "the word", "xyzzy", "word"]
    assert texts(reranked(lexicon, -2 * UNKNOWN_COST, sources, sources)) == sources
    (one,) = reranked(lexicon, -1.0, ["wrd"], ["wrd"])
    assert [step.confidence for step in one.trace] == pytest.approx([np.exp(-1.0)])


def test_the_searched_text_is_kept_where_it_is_more_probable(lexicon: Lexicon) -> None:
    assert texts(reranked(lexicon, -3.0, ["wrd"], ["world"])) == ["world"], "found at -1; the edit to `word` is at -3"
    assert texts(reranked(lexicon, -0.5, ["wrd"], ["world"])) == ["word"]
    assert texts(reranked(lexicon, -0.5, ["word"], ["world"])) == ["word"], "no edit is more probable"


def test_a_single_known_word_is_kept_whatever_the_programmer_predicts(lexicon: Lexicon) -> None:
    assert texts(reranked(lexicon, -0.1, ["word", "wrd"], ["world", "world"])) == ["word", "word"]


def test_frequent_words_are_preferred_if_the_lexicon_has_counts(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("ward 1\nword 900000\nwoad 1\n")
    assert texts(reranked(Lexicon.read(path), -1.0, ["wod"], ["wod"])) == ["word"]
    path.write_text("ward 900000\nword 1\nwoad 1\n")
    assert texts(reranked(Lexicon.read(path), -1.0, ["wrd"], ["wrd"])) == ["ward"]


def test_a_lexicon_is_for_text_only(lexicon: Lexicon) -> None:
    with pytest.raises(UserError, match="for text"):
        Editor.load("aor").edit(["6 10 9 5 2"], Decoding(lexicon=lexicon))


def test_no_sources_give_no_outcomes() -> None:
    assert rerank(Sequences.from_rows([]), [], None, None, None, trace=False) == []  # type: ignore[arg-type]


def test_a_missing_lexicon_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"words\.txt: no such file") as caught:
        Decoding(lexicon=tmp_path / "words.txt")
    assert "\n" not in str(caught.value)


def test_a_lexicon_takes_the_place_of_a_models_own_word_list() -> None:
    editor, lexicon = Editor.load("spelling"), Lexicon(["frobnicate"])
    (result,) = editor.edit(["frobnicatte"], Decoding(lexicon=lexicon, min_confidence=0))
    assert (result.text, result.valid) == ("frobnicate", True)


@pytest.mark.parametrize(("threshold", "expected"), [(0.5, "done"), (0.5000001, "confidence")])
def test_a_word_that_is_as_probable_as_asked_for_is_changed(threshold: float, expected: str) -> None:
    vocabulary = ParallelText().vocabulary
    part = Segment(vocabulary.ids(list("teh")), is_word=True)
    found = Outcome(tuple(vocabulary.ids(list("the"))), 1, "done", score=log(0.5))
    kept = _to_known(part, found, Keep(["the"]), vocabulary, threshold)
    assert (kept.stop_reason, kept.tokens == found.tokens) == (expected, expected == "done")
