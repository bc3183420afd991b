"""Baselines of edited text: what every model must beat.

    copied source               do nothing
    most frequent replacement   replace every word by what it most often becomes in training

A word of a training source stays, is deleted, or becomes one or more words: source and target are aligned by a shortest
script on words and punctuation marks (each with the space before it), and a span that is replaced by as many words is
taken word by word. What is inserted between words that stay belongs to no word. A word that was never seen stays, and
so does one without a single most frequent replacement.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stepedit.editing.edits import edit_spans
from stepedit.text.tokenization import words_and_marks

COPY, MOST_FREQUENT = "copied source", "most frequent replacement"

Words = tuple[str, ...]


@dataclass(frozen=True)
class MostFrequentReplacement:
    """A dictionary of words that mostly change, and what they become."""

    replacements: dict[str, Words]

    @classmethod
    def fit(cls, sources: Sequence[str], targets: Sequence[str]) -> MostFrequentReplacement:
        """Return the dictionary of some pairs."""
        counts: defaultdict[str, Counter[Words]] = defaultdict(Counter)
        for source, target in zip(sources, targets, strict=True):
            for word, becomes in aligned(words_and_marks(source), words_and_marks(target)):
                counts[word][becomes] += 1
        best = {word: _most_frequent(word, found) for word, found in counts.items()}
        return cls({word: becomes for word, becomes in best.items() if becomes != (word,)})

    def apply(self, text: str) -> str:
        """Return a text with its words replaced."""
        words = (self.replacements.get(word, (word,)) for word in words_and_marks(text))
        return "".join(word for becomes in words for word in becomes).removeprefix(" ")


def aligned(source: Sequence[str], target: Sequence[str]) -> Iterator[tuple[str, Words]]:
    """Yield each word of a source and what it becomes."""
    done = 0
    for edit in edit_spans(source, target):
        yield from ((word, (word,)) for word in source[done : edit.start])
        words, done = source[edit.start : edit.stop], edit.stop
        for index, word in enumerate(words):
            # the last word takes what is left over; words without a counterpart are deleted
            stop = None if index == len(words) - 1 else index + 1
            yield word, edit.tokens[index:stop]
    yield from ((word, (word,)) for word in source[done:])


def _most_frequent(word: str, counts: Counter[Words]) -> Words:
    """Return what a word becomes most often; the word itself if something else is as frequent."""
    (best, most), *others = counts.most_common(2)
    return (word,) if others and others[0][1] == most else best
