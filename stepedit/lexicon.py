"""A list of words: a check, a text is right if all its words are in it, and what there is near a word."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from math import log1p
from pathlib import Path

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import OSA

from stepedit import tokens
from stepedit.datasets import read_lines
from stepedit.errors import DataError
from stepedit.search import Checker
from stepedit.sequences import BoolArray, Sequences
from stepedit.vocabulary import Vocabulary

MOST = 100  # words near a word
REMEMBERED = 10_000  # words


class Lexicon:
    """Words, whatever their capitals. An entry of several words stands for each of them.

    Where it is known how often each occurs, common ones are preferred.
    """

    def __init__(self, entries: Iterable[str], counts: Iterable[int] | None = None) -> None:
        self.written: dict[str, str] = {}  # words as they are looked up, and as the list has them, in its order
        often: dict[str, int] = {}
        for entry, count in zip(entries, counts or repeat(0), strict=False):
            for start, stop in tokens.word_spans(entry):
                word = tokens.words(entry[start:stop])[0]
                self.written.setdefault(word, entry[start:stop])
                often[word] = often.get(word, 0) + count
        usual = sum(map(log1p, often.values())) / max(1, len(often))
        self.commonness = {word: log1p(count) - usual for word, count in often.items()}  # logarithms, 0 in the mean
        self._of_length: dict[int, list[str]] = {}
        for word in self.written:
            self._of_length.setdefault(len(word), []).append(word)
        self._rank = {word: rank for rank, word in enumerate(self.written)}
        self._near: dict[str, list[str]] = {}
        self._lists: dict[tuple[int, int], list[str]] = {}  # words of about a length; there are few lengths

    @classmethod
    def read(cls, path: Path) -> Lexicon:
        """The first word of every line, and, if the first line has a number behind it, how often each occurs."""
        lines = [(number, line.split()) for number, line in enumerate(read_lines(path), start=1) if line.strip()]
        counts = [int(parts[1]) if len(parts) > 1 and parts[1].isdecimal() else None for _, parts in lines]
        if counts[0] is not None and None in counts:
            odd = lines[counts.index(None)][0]
            raise DataError(f"{path}: line {odd} has no number behind its word, unlike line {lines[0][0]}")
        counted = None if counts[0] is None else [count or 0 for count in counts]
        lexicon = cls([parts[0] for _, parts in lines], counted)
        if not lexicon.written:
            raise DataError(f"{path}: a word on each line was expected")
        return lexicon

    def knows(self, text: str) -> bool:
        """Whether every word of a text is known."""
        return self.written.keys() >= set(tokens.words(text))

    def unknown(self, text: str) -> list[tuple[int, int]]:
        """Where the words are that are not known; what has a digit in it is no word to be put right."""
        spans = tokens.word_spans(text)
        words = ((span, text[slice(*span)]) for span in spans)
        return [span for span, word in words if not self.knows(word) and not any(map(str.isdigit, word))]

    def near(self, word: str) -> list[str]:
        """Known words with few letters changed, one of a short word, three of a long one; nearest first."""
        if word not in self._near:
            if len(self._near) >= REMEMBERED:
                self._near.clear()
            most = 1 if len(word) < 4 else 2 if len(word) < 7 else 3
            words = self._about(len(word), most)
            found = process.extract(word, words, scorer=OSA.distance, score_cutoff=most, limit=None)
            best = sorted(found, key=lambda each: (each[1], self._rank[each[0]]))[:MOST]
            self._near[word] = [self.written[known] for known, *_ in best]
        return self._near[word]

    def _about(self, length: int, most: int) -> list[str]:
        """Known words of about this length."""
        if (length, most) not in self._lists:
            lengths = range(length - most, length + most + 1)
            self._lists[length, most] = [known for each in lengths for known in self._of_length.get(each, [])]
        return self._lists[length, most]

    def check(self, vocabulary: Vocabulary) -> Checker:
        """The check that a search asks, for texts in the ids of a vocabulary."""

        def accepts(sources: Sequences, predictions: Sequences) -> BoolArray:
            return np.array([self.knows(vocabulary.text(row)) for row in predictions.rows()], np.bool_)

        return accepts


@dataclass(frozen=True)
class Suggestions:
    """What a list has near texts in the ids of a vocabulary."""

    lexicon: Lexicon
    vocabulary: Vocabulary

    def unknown(self, row: Sequence[int]) -> int:
        """How many words of a text are not in the list."""
        return len(self.lexicon.unknown(self.vocabulary.text(row)))

    def settled(self, row: Sequence[int]) -> bool:
        """Whether a text is nothing but one word of the list."""
        text = self.vocabulary.text(row)
        return len(tokens.words(text)) == 1 and self.lexicon.knows(text)

    def common(self, row: Sequence[int]) -> float:
        """How common the words are that are in it: logarithms, added up."""
        words = tokens.words(self.vocabulary.text(row))
        return sum(self.lexicon.commonness.get(word, 0.0) for word in words)

    def instead(self, row: Sequence[int], left: int) -> list[list[int]]:
        """A text with other words in the place of the unknown one that has so many unknown ones behind it."""
        text = self.vocabulary.text(row)
        spans = self.lexicon.unknown(text)
        if len(spans) <= left or self._ids(text) != list(row):  # a part of a line may begin where no text begins
            return []
        start, stop = spans[-1 - left]
        there = text[start:stop]
        words = (_like(there, word) for word in self.lexicon.near(*tokens.words(there)))
        return [self._ids(text[:start] + word + text[stop:]) for word in words]

    def _ids(self, text: str) -> list[int]:
        return self.vocabulary.ids(self.vocabulary.split(text))


def _like(there: str, word: str) -> str:
    """A word of the list as the one that is there is written: its capitals, its apostrophe, its way to write marks."""
    if "’" in there:
        word = word.replace("'", "’")
    if word == word.lower() and there[:1].isupper():
        word = word.upper() if there.isupper() and len(there) > 1 else word[:1].upper() + word[1:]
    return word if unicodedata.is_normalized("NFC", there) else unicodedata.normalize("NFD", word)
