"""How well text was edited: told from edit scripts alone, no language model needed.

    exact        share of texts that are the target, letter for letter
    precision    share of the edits made that the target asks for
    recall       share of the edits that the target asks for that were made
    f0.5         both, precision counting twice as much
    cer          character error rate: letters to be changed for each letter of the target; less is better
    chrf         how alike the letters are, by n-grams (sacrebleu's); only where asked

An edit is a span of the source and what is put there, from the fewest changes that lead to the target or to the result;
changes that touch each other are one edit.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

Spans = set[tuple[int, int, tuple[Hashable, ...]]]


@dataclass(frozen=True)
class Counts:
    """Edits made, asked for, and both; of one text or of many."""

    made: int
    asked: int
    both: int

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.made + other.made, self.asked + other.asked, self.both + other.both)

    @property
    def precision(self) -> float:
        """1 if nothing was made."""
        return self.both / self.made if self.made else 1.0

    @property
    def recall(self) -> float:
        """1 if nothing was asked for."""
        return self.both / self.asked if self.asked else 1.0

    def f(self, beta: float = 0.5) -> float:
        """The F measure; a beta below 1 is for precision."""
        p, r = self.precision, self.recall
        return (1 + beta**2) * p * r / (beta**2 * p + r) if p + r else 0.0


def spans(source: Sequence[Hashable], text: Sequence[Hashable]) -> Spans:
    """The edits that lead from one to the other."""
    found: list[tuple[int, int, int, int]] = []
    changed = [block for block in Levenshtein.opcodes(source, text) if block.tag != "equal"]
    for block in changed:
        start, stop, from_, to = block.src_start, block.src_end, block.dest_start, block.dest_end
        if found and found[-1][1] == start and found[-1][3] == from_:
            start, from_ = found[-1][0], found.pop()[2]
        found.append((start, stop, from_, to))
    return {(start, stop, tuple(text[from_:to])) for start, stop, from_, to in found}


def counts(source: Sequence[Hashable], target: Sequence[Hashable], result: Sequence[Hashable]) -> Counts:
    """The edits of one text."""
    made, asked = spans(source, result), spans(source, target)
    return Counts(len(made), len(asked), len(made & asked))


def total(every: Sequence[Counts]) -> Counts:
    """Of many texts."""
    return sum(every, Counts(0, 0, 0))


def error_rate(targets: Sequence[str], results: Sequence[str]) -> float:
    """Letters to be changed for each letter of the targets."""
    wrong = sum(Levenshtein.distance(target, result) for target, result in zip(targets, results, strict=True))
    return wrong / max(1, sum(map(len, targets)))


def chrf(targets: Sequence[str], results: Sequence[str]) -> float:
    """chrF of all texts together, as sacrebleu has it but from 0 to 1."""
    from sacrebleu.metrics.chrf import CHRF

    if list(targets) == list(results):
        return 1.0  # also where there is nothing to compare
    return float(CHRF().corpus_score(list(results), [list(targets)]).score) / 100


def summary(targets: Sequence[str], results: Sequence[str], every: Counts, with_chrf: bool = False) -> dict[str, float]:
    """All of them, chrF only if asked; `every` counts the edits of all texts."""
    exact = sum(map(str.__eq__, targets, results)) / max(1, len(targets))
    parts = {"exact": exact, "precision": every.precision, "recall": every.recall, "f0.5": every.f()}
    parts["cer"] = error_rate(targets, results)
    return parts | ({"chrf": chrf(targets, results)} if with_chrf else {})
