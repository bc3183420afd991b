"""How right a prediction is: pure functions that give one score per row.

    token      share of the target's places that hold the target's token; what is missing counts as wrong
    sequence   1 if the prediction is the target, token for token
    equation   1 if the prediction's integers are the target's, it ends in `== integer` and it holds (authors' scoring)
    holds      1 if the prediction is a true equation with the source's right-hand side (the paper's own words)

Shapes: B rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from stepedit import equations
from stepedit.sequences import Pairs, Sequences

Scores = npt.NDArray[np.float64]


def token(predictions: Sequences, pairs: Pairs) -> Scores:
    """(B,) share of the target's places that are right; an empty target is right only if nothing was written."""
    targets = pairs.targets
    width = targets.ids.shape[1]
    right = (predictions.widened(width).ids[:, :width] == targets.ids) & targets.mask()
    return np.where(targets.lengths > 0, right.sum(1) / np.maximum(targets.lengths, 1), predictions.lengths == 0)


def sequence(predictions: Sequences, pairs: Pairs) -> Scores:
    """(B,) 1 where the prediction is exactly the target; a longer one is wrong."""
    return predictions.equals(pairs.targets).astype(np.float64)


def equation(predictions: Sequences, pairs: Pairs) -> Scores:
    """(B,) 1 where the prediction is a true equation over the target's integers, in their order."""
    same_integers = equations.integers_of(predictions).equals(equations.integers_of(pairs.targets))
    return (same_integers & equations.holds(predictions)).astype(np.float64)


def holds(predictions: Sequences, pairs: Pairs) -> Scores:
    """(B,) 1 where the prediction is a true equation with the source's right-hand side.

    That side is the source's last integer, or, where the source ends in a bracket, what the bracket is worth.
    """
    right = equations.right_values(pairs.sources)
    parsed = equations.parse(predictions)
    return (equations.holds(predictions) & (parsed.right == right)).astype(np.float64)


METRICS: dict[str, Callable[[Sequences, Pairs], Scores]] = {
    "token": token,
    "sequence": sequence,
    "equation": equation,
    "holds": holds,
}
