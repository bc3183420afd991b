"""Sampling of equations: its speed beside rejection sampling, and how its time grows with their number."""

from __future__ import annotations

import random
from functools import partial
from statistics import median

import numpy as np

from benchmarks import rejection_sampling
from benchmarks.timing import seconds, verdict
from stepedit.arithmetic.sampling import sample


def speed() -> None:
    """Compare 100,000 equations with rejection sampling; N=10, L=5 has only 84,379, so there it is two sets."""
    print("100,000 distinct equations, L=5, beside rejection sampling in plain Python; goal: 100 times as fast")
    for numbers, sets in ((10, 2), (100, 1)):
        sample(1_000, numbers, 5, np.random.default_rng(0))  # fills tables that a process computes once
        ours, baseline = 0.0, 0.0
        for seed in range(sets):
            setting = (100_000 // sets, numbers, 5)
            # a tenth of a second is easily disturbed: the median of several runs with different seeds
            ours += median(seconds(partial(sample, *setting, np.random.default_rng([seed, run]))) for run in range(7))
            baseline += seconds(partial(rejection_sampling.sample, *setting, random.Random(seed)))
        ratio, note = baseline / ours, f"in {sets} sets" if sets > 1 else ""
        times = f"{ours:6.3f} s   rejection sampling {baseline:6.2f} s"
        print(f"  N={numbers:<4} {times}   {ratio:5.0f} x   {verdict(ratio >= 100)}   {note}".rstrip())


def scaling() -> None:
    """Measure whether twice the equations take twice the time."""
    print("time against D (N=100, L=5); goal: linear")
    each = []
    for size in (50_000, 100_000, 200_000, 400_000):
        time = min(seconds(partial(sample, size, 100, 5, np.random.default_rng(seed))) for seed in range(5))
        each.append(time / size * 1e6)
        print(f"  D={size:<8,} {time:6.3f} s   {each[-1]:5.2f} microseconds each")
    ratio = each[-1] / each[0]
    print(f"  8 times as many take {8 * ratio:.1f} times as long   {verdict(ratio < 1.5)}")


def run() -> None:
    """Run both."""
    speed()
    print()
    scaling()


if __name__ == "__main__":
    run()
