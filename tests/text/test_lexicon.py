"""A lexicon: which words it knows, and which of its words are near another."""

from pathlib import Path

import pytest

from stepedit.errors import DataError
from stepedit.text.lexicon import Lexicon

WORDS = ["the", "they", "world", "word", "receive", "Paris", "don't", "λόγος", "Straße", "café"]


@pytest.fixture
def lexicon() -> Lexicon:
    return Lexicon(WORDS)


def test_words_are_known_whatever_their_case(lexicon: Lexicon) -> None:
    assert lexicon.knows("The WORLD, don’t! 42")
    assert not lexicon.knows("teh world")
    assert lexicon.unknown_spans("teh mp3 wrld 7") == [(0, 3), (8, 12)]


def test_the_nearest_words_come_first_and_ties_are_in_the_order_of_the_lexicon(lexicon: Lexicon) -> None:
    assert lexicon.near("teh") == ["the"]
    assert lexicon.near("wrld") == ["world", "word"]
    assert lexicon.near("zzzzz") == []
    assert lexicon.near("wrld") == ["world", "word"], "from the cache"


def test_log_frequencies_have_mean_zero_and_a_missing_count_is_named(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("ward 900000\nword 1\nwoad 1\n")
    frequencies = Lexicon.read(path).log_frequency
    assert sum(frequencies.values()) == pytest.approx(0)
    assert frequencies["ward"] > frequencies["word"] == frequencies["woad"]
    path.write_text("ward of the state\ncatch 22\n")
    assert set(Lexicon.read(path).log_frequency.values()) == {0.0}
    path.write_text("ward 9\n\nword\n")
    with pytest.raises(DataError, match=":3: no count after the word, unlike in line 1"):
        Lexicon.read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("of 3\nthe " + "9" * 400 + "\n", ":2: the count '9999"),
        ("the " + "9" * 5000 + "\n", ":1: the count '9999"),
        ("the,5\nof,3\n", ":1: a count is written after a space: the 5"),
        ("the 5.5\nof 3\n", ":1: the count '5.5' is not a whole number"),
        ("the -5\n", ":1: the count '-5' is not a whole number"),
    ],
)
def test_a_count_that_cannot_be_meant_is_refused(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text(content)
    with pytest.raises(DataError) as caught:
        Lexicon.read(tmp_path / "words.txt")
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("count", [-1, 10**400])
def test_counts_in_python_have_bounds(count: int) -> None:
    with pytest.raises(ValueError, match="the count of 'the' is not between 0 and"):
        Lexicon(["the"], [count])
