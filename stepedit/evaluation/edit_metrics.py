"""Metrics of edited text, computed from edit scripts; no language model is needed.

    exact          share of texts that equal a reference
    precision      share of the predicted edits that are in the reference
    recall         share of the reference edits that were predicted
    f0.5           F-score that weights precision twice as much as recall
    gleu           see `gleu`
    false_alarms   share of the texts that no reference changes that were changed; lower is better
    cer            character error rate: edit distance per character of the nearest reference; lower is better
    chrf           character n-gram F-score (sacrebleu's); only on request

An edit is a span of the source and its replacement, from a shortest script to the reference or the prediction; adjacent
changes are one edit. Scripts are those of words and punctuation marks as they are written, each with the space before
it, whatever the tokens of the model are; so models by character and by word can be compared. (Tasks with a vocabulary
of their own count its tokens.)

Of several references, one counts for each text: that with the highest F0.5 of all texts so far and this one; of equal
ones that with the most correct edits, then the fewest wrong ones, then the fewest missed ones, then the first. It is
the rule of ERRANT's scorer; for precision and recall the same reference counts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest

import numpy as np
from rapidfuzz.distance import Levenshtein

from stepedit.editing.edits import edit_spans
from stepedit.editing.sequences import IntArray
from stepedit.evaluation.gleu import gleu
from stepedit.evaluation.intervals import Figure, FloatArray, bootstrap, wilson
from stepedit.text.tokenization import words_and_marks

Row = Sequence[Hashable]  # a text as the tokens that its edits are counted in
Metrics = dict[str, Figure | tuple[float, None, None]]


@dataclass(frozen=True)
class EditCounts:
    """Numbers of predicted edits, of reference edits, and of edits that are both."""

    predicted: int
    reference: int
    correct: int

    def __add__(self, other: EditCounts) -> EditCounts:
        return EditCounts(
            self.predicted + other.predicted, self.reference + other.reference, self.correct + other.correct
        )

    @property
    def precision(self) -> float:
        """1 if nothing was predicted."""
        return self.correct / self.predicted if self.predicted else 1.0

    @property
    def recall(self) -> float:
        """1 if the reference has no edits."""
        return self.correct / self.reference if self.reference else 1.0

    def f_score(self, beta: float = 0.5) -> float:
        """Return the F-score; beta below 1 favors precision."""
        p, r = self.precision, self.recall
        return (1 + beta**2) * p * r / (beta**2 * p + r) if p + r else 0.0


def count_edits(source: Row, target: Row, prediction: Row) -> EditCounts:
    """Count the edits of one text."""
    predicted, reference = set(edit_spans(source, prediction)), set(edit_spans(source, target))
    return EditCounts(len(predicted), len(reference), len(predicted & reference))


def best_reference(counts: Sequence[EditCounts], so_far: EditCounts) -> int:
    """Return which reference of a text counts, given the counts of the texts before it."""

    def quality(index: int) -> tuple[float, int, int, int]:
        own = counts[index]
        return (so_far + own).f_score(), own.correct, own.correct - own.predicted, own.correct - own.reference

    return max(range(len(counts)), key=quality)  # the first of equal ones


def choose_references(texts: Iterable[Sequence[EditCounts]]) -> list[int]:
    """Return which reference of each text counts; texts come with their counts by reference."""
    chosen, so_far = list[int](), EditCounts(0, 0, 0)
    for counts in texts:
        chosen.append(best_reference(counts, so_far))
        so_far += counts[chosen[-1]]
    return chosen


def total(counts: Sequence[EditCounts]) -> EditCounts:
    """Add up the counts of many texts."""
    return sum(counts, EditCounts(0, 0, 0))


def character_errors(references: Sequence[Sequence[str]], predictions: Sequence[str]) -> IntArray:
    """Return (B, 2) the edit distance of each text to its nearest reference, and the characters of that one."""
    return np.array(
        [
            min((Levenshtein.distance(each, text), len(each)) for each in texts)
            for texts, text in zip(references, predictions, strict=True)
        ]
    ).reshape(-1, 2)


def chrf(references: Sequence[Sequence[str]], predictions: Sequence[str]) -> float:
    """Return sacrebleu's corpus chrF, from 0 to 1."""
    from sacrebleu.metrics.chrf import CHRF

    if all(text in texts for texts, text in zip(references, predictions, strict=True)):
        return 1.0  # also for empty texts
    streams = list(zip_longest(*references))  # one of each number; None where a text has fewer
    return float(CHRF().corpus_score(list(predictions), streams).score) / 100


def f_score(counts: FloatArray | IntArray, beta: float = 0.5) -> FloatArray:
    """Return the F-score of counts (..., 3): predicted, reference and correct edits."""
    precision, recall = precision_recall(counts)
    below = beta**2 * precision + recall
    return np.where(below > 0, (1 + beta**2) * precision * recall / np.where(below > 0, below, 1), 0.0)


def precision_recall(counts: FloatArray | IntArray) -> tuple[FloatArray, FloatArray]:
    """Return precision and recall of counts (..., 3); 1 where nothing was predicted, or the reference has no edits."""
    predicted, reference, correct = np.moveaxis(np.asarray(counts, np.float64), -1, 0)
    precision, recall = (np.where(below > 0, correct / np.maximum(below, 1), 1.0) for below in (predicted, reference))
    return precision, recall


def rates(counts: IntArray, prefix: str = "") -> Metrics:
    """Return precision, recall and F0.5 of the edits (B, 3) of texts, with their 95 % intervals."""
    functions: dict[str, Callable[[FloatArray | IntArray], FloatArray]] = {
        "precision": lambda sums: precision_recall(sums)[0],
        "recall": lambda sums: precision_recall(sums)[1],
        "f0.5": f_score,
    }
    return {
        f"{prefix}{name}": (float(rate(counts.sum(0))), *bootstrap(counts, rate)) for name, rate in functions.items()
    }


def as_table(counts: Sequence[EditCounts]) -> IntArray:
    """Return (B, 3) predicted, reference and correct edits."""
    return np.array([(each.predicted, each.reference, each.correct) for each in counts], np.int64).reshape(-1, 3)


def count_table(sources: Sequence[Row], references: Sequence[Sequence[Row]], predictions: Sequence[Row]) -> IntArray:
    """Return (B, 3) the predicted, reference and correct edits of each text, with the reference that counts."""
    rows = zip(sources, references, predictions, strict=True)
    counts = [[count_edits(source, each, text) for each in texts] for source, texts, text in rows]
    return as_table([each[index] for each, index in zip(counts, choose_references(counts), strict=True)])


def count_words(sources: Sequence[str], references: Sequence[Sequence[str]], predictions: Sequence[str]) -> IntArray:
    """Return (B, 3) the edits of texts, in words."""
    rows = [[_words(each) for each in texts] for texts in references]
    return count_table([*map(_words, sources)], rows, [*map(_words, predictions)])


@lru_cache(maxsize=1 << 15)  # sources and references are compared with the texts of several systems
def _words(text: str) -> tuple[str, ...]:
    return tuple(words_and_marks(text))


def summary(
    sources: Sequence[str],
    references: Sequence[Sequence[str]],
    predictions: Sequence[str],
    counts: IntArray | None = None,
    with_chrf: bool = False,
) -> Metrics:
    """Return all metrics with their 95 % intervals (chrF has none); `counts` (B, 3) are those of `count_words`."""
    if not predictions:
        raise ValueError("there are no texts to score")
    counts = count_words(sources, references, predictions) if counts is None else counts
    exact = sum(text in texts for texts, text in zip(references, predictions, strict=True)) / max(1, len(predictions))
    parts: Metrics = {"exact": (exact, *wilson(exact, len(predictions))), **rates(counts)}
    parts["gleu"] = gleu(sources, references, predictions)
    if kept := [index for index in range(len(sources)) if needs_no_change(sources[index], references[index])]:
        share = sum(predictions[index] != sources[index] for index in kept) / len(kept)
        parts["false_alarms"] = share, *wilson(share, len(kept))
    parts["cer"] = _rate_of_errors(character_errors(references, predictions))
    return parts | ({"chrf": (chrf(references, predictions), None, None)} if with_chrf else {})


def needs_no_change(source: str, references: Sequence[str]) -> bool:
    """Whether no reference changes a text."""
    return all(text == source for text in references)


def _rate_of_errors(errors: IntArray) -> Figure:
    def rate(sums: FloatArray | IntArray) -> FloatArray:
        return sums[..., 0] / np.maximum(sums[..., 1], 1)

    return float(rate(errors.sum(0))), *bootstrap(errors, rate)


def compare(
    sources: Sequence[str],
    references: Sequence[Sequence[str]],
    systems: Mapping[str, Sequence[str]],
    with_chrf: bool = False,
) -> dict[str, Metrics]:
    """Return the metrics of the texts of several systems."""
    return {name: summary(sources, references, texts, None, with_chrf) for name, texts in systems.items()}
