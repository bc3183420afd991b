"""Training states and the interpreter: the time of a batch, and of all states of an epoch."""

from __future__ import annotations

import numpy as np

from benchmarks.timing import median_ms, verdict
from stepedit.data.states import sample_states
from stepedit.editing.interpreter import step_batch
from stepedit.editing.sequences import Pairs
from stepedit.registry import TASKS

BATCH = 256
PAIRS = 7_000


def batch(name: str) -> None:
    """Time a batch of online states with their actions, and a step of the interpreter on such a batch."""
    task, rng = TASKS[name](), np.random.default_rng(0)
    pairs = task.generate(PAIRS, rng)
    scripts = task.edits(pairs.sources, pairs.targets)

    def draw() -> object:
        return sample_states(pairs, scripts, rng.integers(0, PAIRS, BATCH), "online", rng).actions(task.template)

    states = sample_states(pairs, scripts, rng.integers(0, PAIRS, BATCH), "online", rng)
    actions = states.actions(task.template)
    states_ms = median_ms(draw)
    step_ms = median_ms(lambda: step_batch(states.texts, actions, task.template))
    goal = verdict(states_ms <= 2) if scripts.left_to_right else "no goal: its edits depend on each other"
    print(f"  {name:<5} states {states_ms:5.2f} ms  {goal}   step {step_ms:5.2f} ms  {verdict(step_ms <= 1)}")


def epoch(name: str) -> None:
    """Time all states of an epoch of online training: resampled sources, expert edits, states, actions."""
    task, rng = TASKS[name](), np.random.default_rng(0)
    targets = task.generate_targets(PAIRS, rng)

    def prepare() -> object:
        sources = task.resample(targets, rng)
        scripts = task.edits(sources, targets)
        states = sample_states(Pairs(sources, targets), scripts, np.arange(PAIRS), "online", rng)
        return states.actions(task.template)

    ms = median_ms(prepare, repeats=20, warm_up=2)
    print(f"  {name:<5} {ms:6.1f} ms, which is {ms / (PAIRS / BATCH):5.2f} ms per batch of {BATCH}")


def run() -> None:
    """Run both for every task."""
    print(f"a batch of {BATCH} states, median; goals: online states with actions in 2 ms, an interpreter step in 1 ms")
    for name in TASKS:
        batch(name)
    print(f"\nan epoch of {PAIRS:,} pairs at once: resampled sources, edits, online states and actions")
    for name in TASKS:
        epoch(name)


if __name__ == "__main__":
    run()
