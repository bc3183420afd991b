"""A lexicon: known words, how frequent they are, and the known words near a given one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import repeat
from math import log1p
from pathlib import Path

from stepedit.errors import DataError, UserError, shown
from stepedit.files import read_lines
from stepedit.text import tokenization

MAX_NEAR = 100  # words near a word
CACHE_SIZE = 10_000  # words
MAX_COUNT = 10**18


class Lexicon:
    """Known words, whatever their case. An entry of several words adds each of them.

    With counts, frequent words are preferred.
    """

    def __init__(self, entries: Iterable[str], counts: Iterable[int] | None = None) -> None:
        self.written: dict[str, str] = {}  # normalized word -> the word as the lexicon has it, in its order
        totals: dict[str, int] = {}
        for entry, count in zip(entries, counts or repeat(0), strict=False):
            if not 0 <= count <= MAX_COUNT:
                raise UserError(f"the count of {entry!r} is not between 0 and {MAX_COUNT:,}")
            for start, stop in tokenization.word_spans(entry):
                word = tokenization.words(entry[start:stop])[0]
                self.written.setdefault(word, entry[start:stop])
                totals[word] = totals.get(word, 0) + count
        mean = sum(map(log1p, totals.values())) / max(1, len(totals))
        self.log_frequency = {word: log1p(count) - mean for word, count in totals.items()}  # mean 0
        self._of_length: dict[int, list[str]] = {}
        for word in self.written:
            self._of_length.setdefault(len(word), []).append(word)
        self._rank = {word: rank for rank, word in enumerate(self.written)}
        self._near: dict[str, list[str]] = {}
        self._lists: dict[tuple[int, int], list[str]] = {}  # words of similar length; there are few lengths

    @classmethod
    def read(cls, path: Path) -> Lexicon:
        """Read a file: one word a line, and its count, if the first line has one."""
        lines = [(number, line.split()) for number, line in enumerate(read_lines(path), start=1) if line.strip()]
        counts = [_count(f"{path}:{number}", parts) for number, parts in lines]
        if counts[0] is not None and None in counts:
            odd = lines[counts.index(None)][0]
            raise DataError(f"{path}:{odd}: no count after the word, unlike in line {lines[0][0]}")
        counted = None if counts[0] is None else [count or 0 for count in counts]
        lexicon = cls([parts[0] for _, parts in lines], counted)
        if not lexicon.written:
            raise DataError(f"{path}: expected one word on each line")
        return lexicon

    def knows(self, text: str) -> bool:
        """Whether every word of a text is known."""
        return self.written.keys() >= set(tokenization.words(text))

    def unknown_spans(self, text: str) -> list[tuple[int, int]]:
        """Return the spans of unknown words; a word with a digit does not count."""
        spans = tokenization.word_spans(text)
        words = ((span, text[slice(*span)]) for span in spans)
        return [span for span, word in words if not self.knows(word) and not any(map(str.isdigit, word))]

    def near(self, word: str) -> list[str]:
        """Return known words within a small edit distance (1 for short words, up to 3 for long ones), nearest first."""
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

        if word not in self._near:
            if len(self._near) >= CACHE_SIZE:
                self._near.clear()
            cutoff = 1 if len(word) < 4 else 2 if len(word) < 7 else 3
            words = self._of_similar_length(len(word), cutoff)
            found = process.extract(word, words, scorer=OSA.distance, score_cutoff=cutoff, limit=None)
            best = sorted(found, key=lambda each: (each[1], self._rank[each[0]]))[:MAX_NEAR]
            self._near[word] = [self.written[known] for known, *_ in best]
        return self._near[word]

    def _of_similar_length(self, length: int, cutoff: int) -> list[str]:
        if (length, cutoff) not in self._lists:
            lengths = range(length - cutoff, length + cutoff + 1)
            self._lists[length, cutoff] = [known for each in lengths for known in self._of_length.get(each, [])]
        return self._lists[length, cutoff]


def _count(where: str, parts: list[str]) -> int | None:
    """Return the count in a line of a lexicon; None if there is none."""
    if len(parts) == 1:
        word, comma, count = parts[0].rpartition(",")
        if comma and count.isdecimal() and tokenization.words(word):
            raise DataError(f"{where}: a count is written after a space: {word} {count}")
        return None
    if not parts[1].isdecimal():
        if re.fullmatch(r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?", parts[1]):
            raise DataError(f"{where}: the count {shown(parts[1])} is not a whole number")
        return None
    if len(parts[1]) > len(str(MAX_COUNT)) or int(parts[1]) > MAX_COUNT:
        raise DataError(f"{where}: the count {shown(parts[1])} is larger than {MAX_COUNT:,}")
    return int(parts[1])
