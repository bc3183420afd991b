"""Timers, for comparisons of two implementations within one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

Job = Callable[[], object]


def seconds(job: Job) -> float:
    """Return the time of one call."""
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def median_ms(job: Job, repeats: int = 300, warm_up: int = 20) -> float:
    """Return the median time of many calls, in milliseconds."""
    for _ in range(warm_up):
        job()
    return statistics.median(seconds(job) for _ in range(repeats)) * 1e3


def interleaved(jobs: Mapping[str, Job], rounds: int) -> dict[str, float]:
    """Return the median seconds of each job over rounds in which all take turns, after one round of warm-up."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds + 1):
        for name, job in jobs.items():
            times[name].append(seconds(job))
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def verdict(met: bool) -> str:
    """Return whether a goal is met, in words."""
    return "met" if met else "NOT MET"
