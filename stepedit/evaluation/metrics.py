"""Metrics: pure functions that return one score per row.

    token      share of the target's positions that hold the target's token; missing ones count as wrong
    sequence   1 if the prediction equals the target
    equation   1 if the prediction is a true equation over the target's integers, in their order (authors' scoring)
    holds      1 if the prediction is a true equation with the source's right-hand side (the paper's definition)

F0.5 is a metric of a whole corpus, not of a row: see `edit_metrics`.

Shapes: B rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from stepedit.arithmetic import equations
from stepedit.editing.sequences import Pairs, Sequences

Scores = npt.NDArray[np.float64]


def token(predictions: Sequences, pairs: Pairs) -> Scores:
    """Return (B,) the share of correct positions; for an empty target, whether the prediction is empty."""
    targets = pairs.targets
    width = targets.ids.shape[1]
    correct = (predictions.widened(width).ids[:, :width] == targets.ids) & targets.mask()
    return np.where(targets.lengths > 0, correct.sum(1) / np.maximum(targets.lengths, 1), predictions.lengths == 0)


def sequence(predictions: Sequences, pairs: Pairs) -> Scores:
    """Return (B,) 1 where the prediction equals the target."""
    return predictions.equals(pairs.targets).astype(np.float64)


def equation(predictions: Sequences, pairs: Pairs) -> Scores:
    """Return (B,) 1 where the prediction is a true equation over the target's integers, in their order."""
    same_integers = equations.integers_of(predictions).equals(equations.integers_of(pairs.targets))
    return (same_integers & equations.holds(predictions)).astype(np.float64)


def holds(predictions: Sequences, pairs: Pairs) -> Scores:
    """Return (B,) 1 where the prediction is a true equation with the source's right-hand side."""
    return equations.holds_with_right_side(predictions, pairs.sources).astype(np.float64)


METRICS: dict[str, Callable[[Sequences, Pairs], Scores]] = {
    "token": token,
    "sequence": sequence,
    "equation": equation,
    "holds": holds,
}
ZERO_ONE = frozenset({"sequence", "equation", "holds"})  # scores that are 0 or 1
CORPUS_METRICS = ("f0.5",)
