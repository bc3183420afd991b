"""Metrics of edited text, computed from edit scripts; no language model is needed.

    exact        share of texts that equal their target
    precision    share of the predicted edits that are in the reference
    recall       share of the reference edits that were predicted
    f0.5         F-score that weights precision twice as much as recall
    cer          character error rate: edit distance per character of the target; lower is better
    chrf         character n-gram F-score (sacrebleu's); only on request

An edit is a span of the source and its replacement, from a shortest script to the target or the prediction; adjacent
changes are one edit. By character, an edit is a run of changed characters, so figures are not comparable with those by
word. The baseline is copying the source.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz.distance import Levenshtein

from stepedit.editing.sequences import IntArray, Pairs, Sequences
from stepedit.evaluation.intervals import Figure, FloatArray, bootstrap, wilson
from stepedit.text.vocabulary import Vocabulary

Spans = set[tuple[int, int, tuple[Hashable, ...]]]


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


def edit_spans(source: Sequence[Hashable], text: Sequence[Hashable]) -> Spans:
    """Return the edits from one text to another."""
    found: list[tuple[int, int, int, int]] = []
    changed = [block for block in Levenshtein.opcodes(source, text) if block.tag != "equal"]
    for block in changed:
        start, stop, from_, to = block.src_start, block.src_end, block.dest_start, block.dest_end
        if found and found[-1][1] == start and found[-1][3] == from_:
            start, from_ = found[-1][0], found.pop()[2]
        found.append((start, stop, from_, to))
    return {(start, stop, tuple(text[from_:to])) for start, stop, from_, to in found}


def count_edits(source: Sequence[Hashable], target: Sequence[Hashable], prediction: Sequence[Hashable]) -> EditCounts:
    """Count the edits of one text."""
    predicted, reference = edit_spans(source, prediction), edit_spans(source, target)
    return EditCounts(len(predicted), len(reference), len(predicted & reference))


def total(counts: Sequence[EditCounts]) -> EditCounts:
    """Add up the counts of many texts."""
    return sum(counts, EditCounts(0, 0, 0))


def character_error_rate(targets: Sequence[str], predictions: Sequence[str]) -> float:
    """Return the edit distance per character of the targets."""
    errors = sum(Levenshtein.distance(target, text) for target, text in zip(targets, predictions, strict=True))
    return errors / max(1, sum(map(len, targets)))


def chrf(targets: Sequence[str], predictions: Sequence[str]) -> float:
    """Return sacrebleu's corpus chrF, from 0 to 1."""
    from sacrebleu.metrics.chrf import CHRF

    if list(targets) == list(predictions):
        return 1.0  # also for empty texts
    return float(CHRF().corpus_score(list(predictions), [list(targets)]).score) / 100


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


def count_table(pairs: Pairs, predictions: Sequences) -> IntArray:
    """Return (B, 3) the predicted, reference and correct edits of each text."""
    rows = zip(pairs.sources.rows(), pairs.targets.rows(), predictions.rows(), strict=True)
    counts = [count_edits(*row) for row in rows]
    return np.array([(each.predicted, each.reference, each.correct) for each in counts], np.int64).reshape(-1, 3)


def summary(
    targets: Sequence[str], predictions: Sequence[str], counts: IntArray, with_chrf: bool = False
) -> dict[str, Figure | tuple[float, None, None]]:
    """Return all metrics with their 95 % intervals (chrF has none); `counts` (B, 3) are those of each text."""
    exact = sum(map(str.__eq__, targets, predictions)) / max(1, len(targets))
    rates: dict[str, Callable[[FloatArray | IntArray], FloatArray]] = {
        "precision": lambda sums: precision_recall(sums)[0],
        "recall": lambda sums: precision_recall(sums)[1],
        "f0.5": f_score,
    }
    parts: dict[str, Figure | tuple[float, None, None]] = {"exact": (exact, *wilson(exact, len(targets)))}
    for name, rate in rates.items():
        parts[name] = float(rate(counts.sum(0))), *bootstrap(counts, rate)
    errors = [(Levenshtein.distance(*texts), len(texts[0])) for texts in zip(targets, predictions, strict=True)]
    per_character = bootstrap(errors, lambda sums: sums[..., 0] / np.maximum(sums[..., 1], 1))
    parts["cer"] = character_error_rate(targets, predictions), *per_character
    return parts | ({"chrf": (chrf(targets, predictions), None, None)} if with_chrf else {})


def compare(
    vocabulary: Vocabulary, pairs: Pairs, predictions: Sequences, with_chrf: bool = False
) -> dict[str, dict[str, Figure | tuple[float, None, None]]]:
    """Return the metrics of predictions, beside those of copying the source."""
    targets, table = vocabulary.decode(pairs.targets), {}
    for name, texts in (("edited", predictions), ("copied source", pairs.sources)):
        table[name] = summary(targets, vocabulary.decode(texts), count_table(pairs, texts), with_chrf)
    return table
