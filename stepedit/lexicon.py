"""A list of words as a check: a text is right if all its words are in it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from stepedit import tokens
from stepedit.datasets import read_lines
from stepedit.errors import DataError
from stepedit.search import Checker
from stepedit.sequences import BoolArray, Sequences
from stepedit.vocabulary import Vocabulary


class Lexicon:
    """Words, whatever their capitals. An entry of several words stands for each of them."""

    def __init__(self, entries: Iterable[str]) -> None:
        self.words = frozenset(word for entry in entries for word in tokens.words(entry))

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
