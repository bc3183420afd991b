"""A list of words as a check, a text is right if all its words are in it, and as a source of suggestions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import OSA

from stepedit import tokens
from stepedit.datasets import read_lines
from stepedit.errors import DataError
from stepedit.search import Checker
from stepedit.sequences import BoolArray, Sequences
from stepedit.suggestions import Suggester
from stepedit.vocabulary import Vocabulary

MOST = 100  # suggestions for a text


class Lexicon:
    """Words, whatever their capitals. An entry of several words stands for each of them."""

    def __init__(self, entries: Iterable[str]) -> None:
        self.words = frozenset(word for entry in entries for word in tokens.words(entry))
        self._of_length: dict[int, list[str]] = {}
        for word in sorted(self.words):
            self._of_length.setdefault(len(word), []).append(word)
        self.near = lru_cache(maxsize=10_000)(self._near)

    @classmethod
    def read(cls, path: Path) -> Lexicon:
        """The first word of every line; what comes behind it, a number for example, does not count."""
        lexicon = cls(line.split()[0] for line in read_lines(path) if line.strip())
        if not lexicon.words:
            raise DataError(f"{path}: a word on each line was expected")
        return lexicon

    def knows(self, text: str) -> bool:
        """Whether every word of a text is known."""
        return self.words.issuperset(tokens.words(text))

    def check(self, vocabulary: Vocabulary) -> Checker:
        """The check that a search asks, for texts in the ids of a vocabulary."""

        def accepts(sources: Sequences, predictions: Sequences) -> BoolArray:
            return np.array([self.knows(vocabulary.text(row)) for row in predictions.rows()], np.bool_)

        return accepts

    def suggest(self, vocabulary: Vocabulary) -> Suggester:
        """What an improvement asks, for texts in the ids of a vocabulary."""

        def offer(sources: Sequences) -> list[list[list[int]]]:
            texts = (self.suggestions(vocabulary.text(row)) for row in sources.rows())
            return [[vocabulary.ids(vocabulary.split(text)) for text in each] for each in texts]

        return offer

    def suggestions(self, text: str) -> list[str]:
        """The text with known words that are near in the places of those that are not known; nearest first."""
        spans = [span for span in tokens.word_spans(text) if not self.knows(text[slice(*span)])]
        if not spans:
            return []
        each = max(1, int(MOST ** (1 / len(spans))))
        choices = [self.near(*tokens.words(text[start:stop]))[:each] for start, stop in spans]
        return [_replaced(text, spans, words) for words in product(*choices)]

    def _near(self, word: str) -> list[str]:
        """Known words with few letters changed: one of a short word, three of a long one."""
        most = 1 if len(word) < 4 else 2 if len(word) < 7 else 3
        lengths = range(len(word) - most, len(word) + most + 1)
        words = [known for length in lengths for known in self._of_length.get(length, [])]
        found = process.extract(word, words, scorer=OSA.distance, score_cutoff=most, limit=MOST)
        return [known for known, *_ in found]


def _replaced(text: str, spans: Sequence[tuple[int, int]], words: Sequence[str]) -> str:
    """Other words in some places, with the capitals of what was there."""
    parts, end = [], 0
    for (start, stop), word in zip(spans, words, strict=True):
        parts += [text[end:start], _like(text[start:stop], word)]
        end = stop
    return "".join([*parts, text[end:]])


def _like(written: str, word: str) -> str:
    if written.isupper() and len(written) > 1:
        return word.upper()
    return word[:1].upper() + word[1:] if written[:1].isupper() else word
