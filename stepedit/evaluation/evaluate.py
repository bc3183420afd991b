"""Run a policy on pairs: predictions and their scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepedit.editing.interpreter import Outcome
from stepedit.editing.sequences import IntArray, Pairs, Sequences
from stepedit.evaluation.metrics import METRICS, Scores
from stepedit.inference.decoding import Decoding
from stepedit.inference.predict import predict
from stepedit.methods.base import Method, Policy
from stepedit.tasks.base import Progress
from stepedit.text.keep import Keep

RESAMPLES = 1_000


@dataclass(frozen=True)
class Evaluation:
    """Predictions on pairs and their scores."""

    outcomes: list[Outcome]
    predictions: Sequences
    scores: dict[str, Scores]  # metric -> (B,)

    def means(self) -> dict[str, float]:
        """Return the mean of each metric."""
        return {name: float(scores.mean()) for name, scores in self.scores.items()}


def evaluate_pairs(
    policy: Policy,
    method: Method,
    pairs: Pairs,
    decoding: Decoding | None = None,
    progress: Progress | None = None,
    keep: Keep | None = None,
) -> Evaluation:
    """Edit the sources of these pairs and compute all metrics of the task; words of `keep` stay."""
    outcomes = predict(policy, method, pairs.sources.rows(), decoding, progress=progress, keep=keep)
    predictions = Sequences.from_rows([outcome.tokens for outcome in outcomes])
    return Evaluation(outcomes, predictions, {name: METRICS[name](predictions, pairs) for name in method.task.metrics})


def bootstrap_interval(scores: Scores, rng: np.random.Generator, share: float = 0.95) -> tuple[float, float]:
    """Return a bootstrap confidence interval of the mean."""
    means = np.array([scores[rng.integers(0, len(scores), len(scores))].mean() for _ in range(RESAMPLES)])
    low, high = np.quantile(means, [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)


def breakdown(scores: Scores, groups: IntArray) -> dict[int, tuple[int, float]]:
    """Return the size and mean score of each group."""
    return {
        int(group): (int((groups == group).sum()), float(scores[groups == group].mean())) for group in np.unique(groups)
    }
