"""Families of pairs: pairs that share a text, or words that share a stem. A split keeps a family together.

A model that has seen `starnge -> strange` knows most of `starngely -> strangely`: with the first in train, the second
says little in test. So pairs are one family if

    they share a text            a source or target of one is a source or target of the other
    they are words of one stem   equal but for at most 4 characters at the end (a third of the word at most), or one is
                                 the other with up to 5 characters before it; misspelled forms count as words, too

Stems alone would chain unrelated words into one giant family, so a stem does not join families that would together have
more than `MAX_SHARE` of the pairs. Long stems join first, and ends before beginnings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stepedit.data.readers import Lines

MIN_STEM, MAX_ENDING, MAX_BEGINNING = 5, 4, 5  # characters
MAX_SHARE, MIN_LIMIT = 50, 100  # stems make families of at most a 50th of the pairs, or 100 pairs


class _Union:
    """Disjoint sets of texts that know how many pairs they have."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.parent, self.sizes = list(range(len(sizes))), list(sizes)

    def find(self, text: int) -> int:
        while self.parent[text] != text:
            self.parent[text] = self.parent[self.parent[text]]
            text = self.parent[text]
        return text

    def join(self, one: int, other: int, limit: int | None = None) -> None:
        low, high = sorted((self.find(one), self.find(other)))
        size = self.sizes[low] + self.sizes[high]
        if low != high and (limit is None or size <= limit):
            self.parent[high], self.sizes[low] = low, size


def families(lines: Lines) -> list[int]:
    """Return the number of each pair's family; families are numbered in the order of their smallest texts."""
    texts = sorted({*lines.sources, *lines.targets})
    numbers = {text: number for number, text in enumerate(texts)}
    sizes = [0] * len(texts)
    for target in lines.targets:
        sizes[numbers[target]] += 1
    union = _Union(sizes)
    for source, target in zip(lines.sources, lines.targets, strict=True):
        union.join(numbers[source], numbers[target])
    limit = max(MIN_LIMIT, len(lines) // MAX_SHARE)
    for one, other in _links(_words(lines)):
        union.join(numbers[one], numbers[other], limit)
    roots = [union.find(numbers[target]) for target in lines.targets]
    order = {root: number for number, root in enumerate(sorted(set(roots)))}  # a root is its family's smallest text
    return [order[root] for root in roots]


def _words(lines: Lines) -> list[str]:
    """Return the texts of pairs whose both sides are single words, sorted."""
    pairs = zip(lines.sources, lines.targets, strict=True)
    single = [pair for pair in pairs if all(len(text.split()) == 1 for text in pair)]
    return sorted({text for pair in single for text in pair})


def _links(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield words that share a stem: by their ends, then by their beginnings, long stems first."""
    first: dict[str, str] = {}
    ended = [(stem, word) for word in words for stem in _without_ending(word.casefold())]
    for stem, word in sorted(ended, key=lambda link: (-len(link[0]), link)):
        yield first.setdefault(stem, word), word
    known = {word.casefold(): word for word in words}
    begun = [(rest, word) for word in words for rest in _without_beginning(word.casefold()) if rest in known]
    for rest, word in sorted(begun, key=lambda link: (-len(link[0]), link)):
        yield known[rest], word


def _without_ending(word: str) -> Iterable[str]:
    """Return the stems of a word."""
    cuts = range(min(MAX_ENDING, len(word) // 3) + 1)
    return (word[: len(word) - cut] for cut in cuts if len(word) - cut >= MIN_STEM)


def _without_beginning(word: str) -> Iterable[str]:
    """Return what a word may be made from by adding a beginning."""
    return (word[cut:] for cut in range(1, MAX_BEGINNING + 1) if len(word) - cut >= MIN_STEM)


@dataclass(frozen=True)
class Overlap:
    """How many pairs of a split have a source, a target or a family that is in the training split."""

    pairs: int
    sources: int
    targets: int
    families: int

    def __bool__(self) -> bool:
        return bool(self.sources or self.targets or self.families)

    def describe(self, name: str, with_split: str = "train") -> str:
        """Return the counts in words."""
        counts = {"source": self.sources, "target": self.targets, "family": self.families}
        parts = [f"{count:,} share a {what}" for what, count in counts.items() if count]
        return f"of {self.pairs:,} {name} pairs {', '.join(parts)} with {with_split}"


def overlap(train: Lines, other: Lines, text: bool = True) -> Overlap:
    """Return how much of a split is in the training split, too; families are those of text only."""
    seen_sources, seen_targets = set(train.sources), set(train.targets)
    both = Lines([*train.sources, *other.sources], [*train.targets, *other.targets])
    groups = families(both) if text else [0] * len(both)
    trained = set(groups[: len(train)]) if text else set()
    return Overlap(
        len(other),
        sum(source in seen_sources for source in other.sources),
        sum(target in seen_targets for target in other.targets),
        sum(group in trained for group in groups[len(train) :]),
    )
