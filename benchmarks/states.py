"""Equations, training states and interpreter: is the ground fast enough to stand on?"""

from __future__ import annotations

import random
from functools import partial
from statistics import median

import numpy as np

from benchmarks import plain
from benchmarks.timing import median_ms, seconds, verdict
from stepedit.batches import sample_states
from stepedit.equation_sampling import sample
from stepedit.interpreter import step_batch
from stepedit.registry import TASKS
from stepedit.sequences import Pairs

BATCH = 256
PAIRS = 7_000


def generation() -> None:
    """100,000 equations against the plain loop; N=10, L=5 has only 84,379, so there they come as two sets."""
    print("100,000 distinct equations, L=5, as arrays, against the plain loop's text; aim: 100 times as fast")
    for numbers, sets in ((10, 2), (100, 1)):
        sample(1_000, numbers, 5, np.random.default_rng(0))  # tables and caches, made once in a process
        ours, theirs = 0.0, 0.0
        for seed in range(sets):
            setting = (100_000 // sets, numbers, 5)
            # a tenth of a second is easily disturbed: the median of several runs, each of a seed of its own
            ours += median(seconds(partial(sample, *setting, np.random.default_rng([seed, run]))) for run in range(7))
            theirs += seconds(partial(plain.sample, *setting, random.Random(seed)))
        ratio, how = theirs / ours, f"in {sets} sets" if sets > 1 else ""
        print(
            f"  N={numbers:<4} {ours:6.3f} s   plain {theirs:6.2f} s   {ratio:5.0f} x   {verdict(ratio >= 100)}   {how}"
        )


def growth() -> None:
    """Whether twice the equations take twice the time."""
    print("cost against D (N=100, L=5); aim: in proportion")
    each = []
    for size in (50_000, 100_000, 200_000, 400_000):
        taken = min(seconds(partial(sample, size, 100, 5, np.random.default_rng(seed))) for seed in range(5))
        each.append(taken / size * 1e6)
        print(f"  D={size:<8,} {taken:6.3f} s   {each[-1]:5.2f} microseconds each")
    ratio = each[-1] / each[0]
    print(f"  8 times as many take {8 * ratio:.1f} times as long   {verdict(ratio < 1.5)}")


def states() -> None:
    """A batch of online training states with their actions, and a step of the interpreter on it."""
    print(
        f"a batch of {BATCH} rows, median; aims: online states with actions in 2 ms, a step of the interpreter in 1 ms"
    )
    for name in TASKS:
        task, rng = TASKS[name](), np.random.default_rng(0)
        pairs = task.generate(PAIRS, rng)
        scripts = task.edits(pairs.sources, pairs.targets)

        def draw() -> object:
            rows = rng.integers(0, PAIRS, BATCH)  # noqa: B023
            return sample_states(pairs, scripts, rows, "online", rng).actions(task.template)  # noqa: B023

        drawn = sample_states(pairs, scripts, rng.integers(0, PAIRS, BATCH), "online", rng)
        said = drawn.actions(task.template)
        states_ms = median_ms(draw)
        step_ms = median_ms(lambda: step_batch(drawn.ids, drawn.lengths, said, task.template))  # noqa: B023
        aim = verdict(states_ms <= 2) if scripts.run_right else "no aim: taken step by step"
        print(f"  {name:<5} states {states_ms:5.2f} ms  {aim}   step {step_ms:5.2f} ms  {verdict(step_ms <= 1)}")


def epoch() -> None:
    """All that an epoch of online training needs, made at once: fresh sources, the expert's edits, states, actions."""
    print(f"an epoch of {PAIRS:,} pairs at once: fresh sources, edits, online states and actions")
    for name in TASKS:
        task, rng = TASKS[name](), np.random.default_rng(0)
        targets = task.generate_targets(PAIRS, rng)

        def prepare() -> object:
            sources = task.resample(targets, rng)  # noqa: B023
            scripts = task.edits(sources, targets)  # noqa: B023
            states = sample_states(Pairs(sources, targets), scripts, np.arange(PAIRS), "online", rng)  # noqa: B023
            return states.actions(task.template)  # noqa: B023

        taken = median_ms(prepare, repeats=20, warm_up=2)
        print(f"  {name:<5} {taken:6.1f} ms, that is {taken / (PAIRS / BATCH):5.2f} ms for each batch of {BATCH}")


def run() -> None:
    """All of it."""
    for part in (generation, growth, states, epoch):
        part()
        print()
