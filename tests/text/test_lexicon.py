"""A list of words: what it knows, what it has near, and how its words compete with what a programmer finds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from stepedit.batches import States
from stepedit.editor import Editor
from stepedit.errors import DataError, UserError
from stepedit.interpreter import Outcome
from stepedit.lexicon import Lexicon, Suggestions
from stepedit.sequences import Sequences
from stepedit.suggestions import MARGIN, improved
from stepedit.tasks.parallel_text import ParallelText

WORDS = ["the 9", "they 8", "world 7", "word 6", "receive 5", "Paris", "don't", "λόγος", "Straße", "café"]


@pytest.fixture
def lexicon() -> Lexicon:
    return Lexicon(line.split()[0] for line in WORDS)


def test_words_are_known_whatever_their_capitals(lexicon: Lexicon) -> None:
    assert lexicon.knows("The WORLD, don’t! 42")
    assert not lexicon.knows("teh world")
    assert lexicon.unknown("teh mp3 wrld 7") == [(0, 3), (8, 12)]


def test_the_nearest_come_first_and_then_as_the_list_has_them(lexicon: Lexicon) -> None:
    assert lexicon.near("teh") == ["the"]
    assert lexicon.near("wrld") == ["world", "word"]
    assert lexicon.near("zzzzz") == []
    assert lexicon.near("wrld") == ["world", "word"], "remembered"


@pytest.mark.parametrize(
    ("text", "left", "expected"),
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
def test_words_are_offered_as_the_list_and_the_text_have_them(
    lexicon: Lexicon, text: str, left: int, expected: list[str]
) -> None:
    words = ParallelText().vocabulary.opened()
    offered = Suggestions(lexicon, words).instead(words.ids(list(text)), left)
    assert [words.text(row) for row in offered] == expected


def test_a_part_of_a_line_that_begins_where_no_text_begins_is_left_alone(lexicon: Lexicon) -> None:
    words = ParallelText(level="word").vocabulary.opened()
    row = words.ids(words.split("teh world"))
    assert Suggestions(lexicon, words).instead(row, 0)
    assert not Suggestions(lexicon, words).instead([*words.ids([","]), *row], 0)


@dataclass
class Likes:
    """Finds every edit as likely as it is told to, and to be done certain."""

    each: float

    def says(self, states: States) -> Tensor:
        return torch.from_numpy(np.where(states.left.counts > 0, self.each, 0.0))


def chosen(lexicon: Lexicon, each: float, sources: Sequence[str], found: Sequence[str]) -> list[Outcome]:
    task = ParallelText(known=tuple("abcdefghijklmnopqrstuvwxyz "), brought=tuple("abcdefghijklmnopqrstuvwxyz"))
    words = task.vocabulary.opened()
    rows = Sequences.from_rows([words.ids(list(text)) for text in sources])
    outcomes = [Outcome(tuple(words.ids(list(text))), 1, True, [], -1.0) for text in found]
    made = improved(rows, outcomes, Suggestions(lexicon, words), Likes(each), task, trace=True)
    for outcome, source in zip(made, rows.rows(), strict=True):
        states = [tuple(source), *(step.state for step in outcome.trace)]
        assert not outcome.trace or states[-1] == outcome.tokens
    return made


def texts(outcomes: Sequence[Outcome]) -> list[str]:
    words = ParallelText().vocabulary.opened()
    return [words.text(outcome.tokens) for outcome in outcomes]


def test_known_words_win_unless_they_are_far_less_likely(lexicon: Lexicon) -> None:
    sources = ["teh wrld", "the wrd", "xyzzy", "word"]
    assert texts(chosen(lexicon, -1.0, sources, sources)) == ["the world", "the word", "xyzzy", "word"]
    assert texts(chosen(lexicon, -2 * MARGIN, sources, sources)) == sources
    (one,) = chosen(lexicon, -1.0, ["wrd"], ["wrd"])
    assert [step.confidence for step in one.trace] == pytest.approx([np.exp(-1.0)])


def test_what_was_found_wins_where_it_is_likelier(lexicon: Lexicon) -> None:
    assert texts(chosen(lexicon, -3.0, ["wrd"], ["world"])) == ["world"], "found at -1, the way to `word` is at -3"
    assert texts(chosen(lexicon, -0.5, ["wrd"], ["world"])) == ["word"]
    assert texts(chosen(lexicon, -0.5, ["word"], ["world"])) == ["word"], "to leave it alone is likelier"


def test_a_word_of_the_list_stays_whatever_the_programmer_likes(lexicon: Lexicon) -> None:
    assert texts(chosen(lexicon, -0.1, ["word", "wrd"], ["world", "world"])) == ["word", "word"]


def test_common_words_are_preferred_where_the_list_says_how_common(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("ward 1\nword 900000\nwoad 1\n")
    assert texts(chosen(Lexicon.read(path), -1.0, ["wod"], ["wod"])) == ["word"]
    path.write_text("ward 900000\nword 1\nwoad 1\n")
    assert texts(chosen(Lexicon.read(path), -1.0, ["wrd"], ["wrd"])) == ["ward"]
    assert sum(Lexicon.read(path).commonness.values()) == pytest.approx(0)
    path.write_text("ward of the state\ncatch 22\n")
    assert set(Lexicon.read(path).commonness.values()) == {0.0}
    path.write_text("ward 9\n\nword\n")
    with pytest.raises(DataError, match="line 3 has no number behind its word, unlike line 1"):
        Lexicon.read(path)


def test_it_is_for_text_alone(lexicon: Lexicon) -> None:
    with pytest.raises(UserError, match="for text"):
        Editor.load("aor").edit(["6 10 9 5 2"], lexicon=lexicon)
    assert improved(Sequences.from_rows([]), [], None, None, None, trace=False) == []  # type: ignore[arg-type]
