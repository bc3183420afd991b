"""A list of words as a check: a text is right if all its words are in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from stepedit.datasets import read_lines
from stepedit.errors import DataError
from stepedit.search import Checker
from stepedit.sequences import BoolArray, Sequences
from stepedit.vocabulary import Vocabulary

WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


class Lexicon:
    """Words, whatever their capitals."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = frozenset(word.casefold() for word in words)

    @classmethod
    def read(cls, path: Path) -> Lexicon:
        """The first word of every line; what comes behind it, a number for example, does not count."""
        words = [line.split()[0] for line in read_lines(path) if line.strip()]
        if not any(WORD.fullmatch(word) for word in words):
            raise DataError(f"{path}: a word on each line was expected")
        return cls(words)

    def knows(self, text: str) -> bool:
        """Whether every word of a text is known; one without words is not."""
        found = WORD.findall(text.casefold())
        return bool(found) and self.words.issuperset(found)

    def check(self, vocabulary: Vocabulary) -> Checker:
        """The check that a search asks, for texts in the ids of a vocabulary."""

        def accepts(sources: Sequences, predictions: Sequences) -> BoolArray:
            return np.array([self.knows(vocabulary.text(row)) for row in predictions.rows()], np.bool_)

        return accepts
