"""The authors' scoring, where it differs from ours: for figures beside those of the paper.

    token      End2end: the end symbol counts as a token
    sequence   Tagging and Recurrence: a prediction that begins with the target counts, however long it is
    tags       cut off after as many tags as the longest target of a batch has tokens; the rest of the source is dropped

Equation accuracy is the same. AEC's longest sources need more tags than that, so its Tagging figures suffer.

Shapes: B rows, T tokens.
"""

from __future__ import annotations

import numpy as np

from stepedit.editing.sequences import Pairs, Sequences
from stepedit.evaluation.evaluate import Evaluation, score
from stepedit.evaluation.metrics import Scores
from stepedit.methods.base import Method, Policy

BATCH_SIZE = 256


def score_as_the_authors(policy: Policy, method: Method, pairs: Pairs, evaluation: Evaluation) -> Evaluation:
    """Return an evaluation by greedy decoding, scored as the authors do."""
    predictions = _cut_off(policy, method, pairs)
    if predictions is not None:
        evaluation = score(method.task, predictions, pairs, evaluation.outcomes)
    rules = {"token": _with_end_symbol} if method.scores_end_symbol else {"sequence": _begins_with_target}
    scores = {name: rule(evaluation.predictions, pairs) for name, rule in rules.items() if name in evaluation.scores}
    return Evaluation(
        evaluation.predictions, evaluation.metrics, evaluation.scores | scores, evaluation.counts, evaluation.outcomes
    )


def _cut_off(policy: Policy, method: Method, pairs: Pairs) -> Sequences | None:
    """Return the texts of outputs that are cut off batch by batch, in the order of the data; None if they are not."""
    parts = list[Sequences]()
    for begin in range(0, len(pairs) if not method.iterative else 0, BATCH_SIZE):
        batch = pairs.take(slice(begin, begin + BATCH_SIZE))
        symbols = policy.predict(batch.sources).symbols
        texts = method.cut_off(batch.sources, symbols, int(batch.targets.lengths.max()))
        if texts is None:
            return None
        parts.append(texts)
    return Sequences.join(parts) if parts else None


def _begins_with_target(predictions: Sequences, pairs: Pairs) -> Scores:
    """Return (B,) 1 where a prediction begins with its target."""
    targets = pairs.targets
    width = targets.ids.shape[1]
    same = (predictions.widened(width).ids[:, :width] == targets.ids) | ~targets.mask()
    return (same.all(1) & (predictions.lengths >= targets.lengths)).astype(np.float64)


def _with_end_symbol(predictions: Sequences, pairs: Pairs) -> Scores:
    """Return (B,) the share of correct positions, the end symbol behind the target included."""
    targets = pairs.targets
    width = targets.ids.shape[1]
    correct = (predictions.widened(width).ids[:, :width] == targets.ids) & targets.mask()
    ends = predictions.lengths == targets.lengths
    return (correct.sum(1) + ends) / (targets.lengths + 1)
