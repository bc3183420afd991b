"""Run a policy on pairs: predictions and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from stepedit.editing.interpreter import Outcome
from stepedit.editing.sequences import IntArray, Pairs, Sequences
from stepedit.evaluation.edit_metrics import count_table, count_words, f_score
from stepedit.evaluation.intervals import Figure, bootstrap, wilson
from stepedit.evaluation.metrics import CORPUS_METRICS, METRICS, ZERO_ONE, Scores
from stepedit.inference.decoding import Decoding
from stepedit.inference.predict import predict
from stepedit.methods.base import Method, Policy
from stepedit.tasks.base import Progress, Task
from stepedit.text.keep import Keep

References = Sequence[Sequence[str]]  # one or more of each text


@dataclass(frozen=True)
class Evaluation:
    """Predictions on pairs and their scores."""

    predictions: Sequences
    metrics: tuple[str, ...]
    scores: dict[str, Scores]  # metric -> (B,); without those of the whole corpus
    counts: IntArray  # (B, 3) predicted, reference and correct edits; (B, 0) if no metric needs them
    outcomes: list[Outcome] = field(default_factory=list)

    def mean(self, metric: str) -> float:
        """Return the mean of a metric; F0.5 is that of all edits."""
        return float(f_score(self.counts.sum(0)) if metric in CORPUS_METRICS else self.scores[metric].mean())

    def means(self) -> dict[str, float]:
        """Return the mean of each metric."""
        return {name: self.mean(name) for name in self.metrics}

    def figure(self, metric: str) -> Figure:
        """Return the mean of a metric with its 95 % interval."""
        mean = self.mean(metric)
        if metric in CORPUS_METRICS:
            return mean, *bootstrap(self.counts, f_score)
        scores = self.scores[metric]
        if metric in ZERO_ONE:
            return mean, *wilson(mean, len(scores))
        return mean, *bootstrap(scores[:, None], lambda sums: sums[..., 0] / len(scores))


def evaluate_pairs(
    policy: Policy,
    method: Method,
    pairs: Pairs,
    decoding: Decoding | None = None,
    progress: Progress | None = None,
    keep: Keep | None = None,
    references: References | None = None,
) -> Evaluation:
    """Edit the sources of these pairs and compute all metrics of the task; words of `keep` stay.

    Text may have several `references`; then the target is the first of them.
    """
    outcomes = predict(policy, method, pairs.sources.rows(), decoding, progress=progress, keep=keep)
    predictions = Sequences.from_rows([outcome.tokens for outcome in outcomes])
    return score(method.task, predictions, pairs, outcomes, references)


def score(
    task: Task,
    predictions: Sequences,
    pairs: Pairs,
    outcomes: list[Outcome] | None = None,
    references: References | None = None,
) -> Evaluation:
    """Return all metrics of a task for these predictions; a text with several `references` may equal any of them."""
    scores = {name: METRICS[name](predictions, pairs) for name in task.metrics if name in METRICS}
    if references is not None and "sequence" in scores:
        texts = zip(references, task.vocabulary.decode(predictions), strict=True)
        scores["sequence"] = np.array([text in each for each, text in texts], np.float64)
    counted = any(name in CORPUS_METRICS for name in task.metrics)
    counts = _counts(task, predictions, pairs, references) if counted else np.zeros((len(pairs), 0), np.int64)
    return Evaluation(predictions, task.metrics, scores, counts, outcomes or [])


def _counts(task: Task, predictions: Sequences, pairs: Pairs, references: References | None) -> IntArray:
    """Return (B, 3) the edits of each text: in words or, with a vocabulary of its own, in the task's tokens."""
    if not task.open_vocabulary:
        return count_table(pairs.sources.rows(), [[row] for row in pairs.targets.rows()], predictions.rows())
    sources, targets, texts = map(task.vocabulary.decode, (pairs.sources, pairs.targets, predictions))
    return count_words(sources, references or [[target] for target in targets], texts)


def breakdown(scores: Scores, groups: IntArray) -> dict[int, tuple[int, float]]:
    """Return the size and mean score of each group."""
    return {
        int(group): (int((groups == group).sum()), float(scores[groups == group].mean())) for group in np.unique(groups)
    }
