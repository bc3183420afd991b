"""Timing two ways of doing the same thing side by side."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def seconds(work: Callable[[], object]) -> float:
    """How long one call takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def median_ms(work: Callable[[], object], repeats: int = 300, warm_up: int = 20) -> float:
    """The median of many calls, in milliseconds."""
    for _ in range(warm_up):
        work()
    return statistics.median(seconds(work) for _ in range(repeats)) * 1e3


def verdict(met: bool) -> str:
    """Whether an aim is met."""
    return "met" if met else "NOT MET"
