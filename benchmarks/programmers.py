"""The presets `small` and `base` beside the paper's network: training, editing, and how a step's time grows."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.timing import Job, interleaved, verdict
from stepedit.data.states import States, states_after
from stepedit.editing.interpreter import StepResult, step_batch
from stepedit.inference.model_folder import make_task
from stepedit.training.request import resolve
from stepedit.training.trainer import Trainer

PAIRS = 1024
PAPER, SMALL, BASE = "paper", "small", "base"  # presets
NOWHERE = Path("nowhere")  # nothing is written


def make_trainer(preset: str, length: int = 5, **options: object) -> Trainer:
    """Return a trainer on AOR with N=10, ready to make steps."""
    values = {"task": "aor", "preset": preset, "numbers": 10, "length": length, "num_examples": PAIRS, **options}
    run = resolve(values).config(max_epochs=1_000_000, eval_every=1, threads=torch.get_num_threads())
    pairs = make_task(run).generate(PAIRS, np.random.default_rng(0))
    return Trainer(run, NOWHERE, {"train": pairs, "val": pairs.take(slice(100))})


def step(trainer: Trainer) -> float:
    """Make one training step."""
    rows = np.arange(trainer.run.training.batch_size) % PAIRS
    return trainer.step(trainer.epoch_states(0).take(rows))


def speed() -> None:
    """Measure sequences per second of each preset, interleaved."""
    trainers = {preset: make_trainer(preset) for preset in (PAPER, SMALL, BASE)}
    print(
        "AOR, N=10, L=5, interleaved. Presets: paper (LSTM, hidden size 512), small (Transformer pointer, 3 layers of"
    )
    print("80; more accurate than paper), base (the default: 4 layers of 128; the most accurate)")
    jobs = {preset: partial(step, trainer) for preset, trainer in trainers.items()}
    _print_rates("training, batch 256", 256, interleaved(jobs, rounds=7), 5)
    for trainer in trainers.values():
        trainer.net.eval()
    _print_rates("editing, batch 256", 256, interleaved(edit_jobs(trainers, 256), rounds=7), 8)
    _print_rates("editing, batch 1", 1, interleaved(edit_jobs(trainers, 1), rounds=41), 3)


def edit_jobs(trainers: Mapping[str, Trainer], size: int) -> dict[str, Job]:
    """Return a job per trainer; all edit the same texts."""
    trajectory = expert_trajectory(trainers[PAPER], size)
    return {name: partial(edit, trainer, trajectory) for name, trainer in trainers.items()}


def expert_trajectory(trainer: Trainer, size: int) -> list[States]:
    """Return the states after 0, 1, ... expert edits; finished rows leave.

    An untrained network does not finish by itself, so it is asked for an action on each of these states.
    """
    pairs = trainer.sampler.pairs.take(slice(size))
    scripts = trainer.method.task.edits(pairs.sources, pairs.targets)
    trajectory = []
    for count in range(int(scripts.counts.max()) + 1):
        rows = np.flatnonzero(scripts.counts >= count)
        trajectory.append(states_after(pairs.take(rows), scripts.take(rows), np.full(len(rows), count)))
    return trajectory


def edit(trainer: Trainer, trajectory: list[States]) -> list[StepResult]:
    """Predict an action on every state and apply it."""
    template = trainer.method.task.template
    return [step_batch(states.texts, trainer.net.predict(states.texts).symbols, template) for states in trajectory]


def _print_rates(title: str, size: int, times: Mapping[str, float], goal: float) -> None:
    print(f"  {title:<20} {PAPER:<18} {size / times[PAPER]:8,.0f}/s")
    for name in times:
        if name != PAPER:
            ratio = times[PAPER] / times[name]
            rate = f"{size / times[name]:8,.0f}/s {ratio:7.1f} x"
            print(f"  {'':<20} {name:<18} {rate}   {verdict(ratio >= goal)} ({goal} x)")


def scaling() -> None:
    """Measure a training step of preset base at several text lengths and batch sizes."""
    for architecture in ("transformer", "lstm"):
        jobs = {
            str(length): partial(step, make_trainer(BASE, length, architecture=architecture, ema_decay=0.0))
            for length in (5, 10, 20, 40)
        }
        times = interleaved(jobs, rounds=3)
        cost = "   ".join(f"L={length} {1e3 * value:6.0f} ms" for length, value in times.items())
        ratio = times["40"] / times["5"]
        goal = verdict(ratio <= 8) if architecture == "lstm" else "no goal"
        print(f"a training step, batch 256, {architecture:<12} {cost}   8 times the length: {ratio:.1f} x   {goal}")
    jobs = {str(size): partial(step, make_trainer(BASE, batch_size=size, ema_decay=0.0)) for size in (64, 256, 1024)}
    times = interleaved(jobs, rounds=5)
    each = "   ".join(f"{size}: {1e6 * value / int(size):6.0f}" for size, value in times.items())
    print(f"microseconds per sequence, by batch size   {each}")
    print(f"peak memory so far: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")


def run() -> None:
    """Run both."""
    speed()
    print()
    scaling()


if __name__ == "__main__":
    run()
