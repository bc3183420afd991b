"""GLEU, the metric of fluency edits (Napoles et al. 2015, and "GLEU without tuning", 2016).

For n from 1 to 4, with the number of times that an n-gram is in two texts A and B, count(A, B), being the smaller one:

    precision of n = sum over the prediction's n-grams of
                     count(prediction, reference) - max(0, count(prediction, source) - count(prediction, reference))
                     / number of n-grams of the prediction
    GLEU           = min(1, exp(1 - reference length / prediction length)) * geometric mean of the four

Sums are over all texts; what one text adds above the line is at least 0. Of several references, one is drawn for each
text, 500 times, always in the same way, and the mean counts. Words are what stands between spaces. An n that is larger
than every prediction and reference is left out: texts of a single word have a score, too.

This is the definition as it is printed. The authors' script subtracts only n-grams of the source that the reference
does not have at all, and gives slightly higher scores.

Shapes: B texts, R draws, K the sums: prediction length, reference length, and for each n matches and n-grams.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np

from stepedit.editing.sequences import IntArray
from stepedit.evaluation.intervals import Figure, FloatArray, bootstrap

MAX_N = 4
DRAWS = 500


def gleu(sources: Sequence[str], references: Sequence[Sequence[str]], predictions: Sequence[str]) -> Figure:
    """Return the GLEU of a corpus with its 95 % interval."""
    rows = zip(sources, references, predictions, strict=True)
    tables = [[statistics(source, each, text) for each in texts] for source, texts, text in rows]
    longest = max((max(row[:2]) for table in tables for row in table), default=0)
    score = partial(score_of_sums, orders=min(MAX_N, longest))
    counts_B = np.array([len(table) for table in tables])
    flat, starts_B = np.array([row for table in tables for row in table], np.float64), np.cumsum(counts_B) - counts_B
    if counts_B.max() == 1:
        return float(score(flat.sum(0))), *bootstrap(flat, score)

    def draw(rng: np.random.Generator) -> FloatArray:
        """Return the sums (B, K) of each text with one of its references."""
        return flat[starts_B + rng.integers(0, counts_B)]

    rng = np.random.default_rng(0)
    drawn_RK = np.stack([draw(rng).sum(0) for _ in range(DRAWS)])
    return float(np.mean(score(drawn_RK))), *bootstrap(draw, score)


def statistics(source: str, reference: str, prediction: str) -> list[int]:
    """Return the sums (K,) of one text and one reference."""
    texts = [text.split() for text in (source, reference, prediction)]
    found = [len(texts[2]), len(texts[1])]
    for n in range(1, MAX_N + 1):
        in_source, in_reference, in_prediction = (_ngrams(words, n) for words in texts)
        right, kept = in_prediction & in_reference, in_prediction & in_source
        found += [max(0, right.total() - (kept - right).total()), in_prediction.total()]
    return found


def score_of_sums(sums: FloatArray | IntArray, orders: int = MAX_N) -> FloatArray:
    """Return the GLEU (...) of sums (..., K) with n up to `orders`."""
    predicted, reference = sums[..., 0], sums[..., 1]
    matches, ngrams = sums[..., 2::2][..., :orders], sums[..., 3::2][..., :orders]
    precisions = matches / np.maximum(ngrams, 1)
    logs = np.log(np.where(precisions > 0, precisions, 1)).sum(-1) / max(1, orders)
    brevity = np.minimum(0, 1 - reference / np.maximum(predicted, 1))
    return np.where((precisions > 0).all(-1), np.exp(brevity + logs), 0.0)


def _ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[at : at + n]) for at in range(len(words) - n + 1))
