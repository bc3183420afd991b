"""95 % confidence intervals: Wilson's for scores that are 0 or 1, the bootstrap over lines for all others.

Shapes: B lines, K columns that are summed over lines, R resamples.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

LEVEL = 0.95
RESAMPLES = 1_000
FloatArray = npt.NDArray[np.float64]
Interval = tuple[float, float]
Figure = tuple[float, float, float]  # a value and the ends of its interval


def wilson(share: float, count: int, level: float = LEVEL) -> Interval:
    """Return Wilson's score interval of a share of `count` trials; it has a width at 0 and 1, too."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    center = share + z**2 / (2 * count)
    half = z * sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    low, high = ((center + end) / (1 + z**2 / count) for end in (-half, half))
    # exact ends, which rounding may miss
    return (0.0 if share == 0 else low), (1.0 if share == 1 else high)


def bootstrap(
    table_BK: npt.ArrayLike | Callable[[np.random.Generator], FloatArray],
    statistic: Callable[[FloatArray], FloatArray],
    level: float = LEVEL,
) -> Interval:
    """Return the percentile interval of a statistic of column sums (..., K), over resampled lines; always the same.

    A table that is itself drawn at random is drawn again for every resample.
    """
    rng, sums = np.random.default_rng(0), list[FloatArray]()
    for _ in range(RESAMPLES):
        table = table_BK(rng) if callable(table_BK) else np.asarray(table_BK, np.float64)
        sums.append(np.bincount(rng.integers(0, len(table), len(table)), minlength=len(table)) @ table)
    sums_RK = np.stack(sums)
    low, high = np.quantile(statistic(sums_RK), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
