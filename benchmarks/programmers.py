"""Our programmers against the paper's at its sizes: teaching, editing, and how the cost grows."""

from __future__ import annotations

import resource
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.timing import seconds, verdict
from stepedit.batches import States, states_after
from stepedit.config import Options, Run
from stepedit.interpreter import step_batch
from stepedit.training import Trainer, make_method

PAIRS = 1024
Jobs = dict[str, Callable[[], object]]
PAPER = "the paper's"
PROGRAMMERS = {
    PAPER: Options.preset("paper"),
    "small": Options.preset("small"),
    "default": Options.preset("fast"),
}
COMPILED = ", compiled"
NOWHERE = Path("nowhere")  # nothing is written


def trainer(options: Options, **setting: int) -> Trainer:
    """One that can take steps on AOR."""
    run = Run(task="aor", task_options=setting, options=options, epochs=1_000_000, size=PAIRS, seed=0, validate_every=1)
    pairs = make_method(run).task.generate(PAIRS, np.random.default_rng(0))
    return Trainer(run, NOWHERE, {"train": pairs, "val": pairs.take(slice(100))})


def interleaved(jobs: Jobs, rounds: int) -> dict[str, float]:
    """Seconds that each job takes, median of several rounds in which all take turns; the first does not count."""
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds + 1):
        for name, job in jobs.items():
            taken[name].append(seconds(job))
    return {name: median(values[1:]) for name, values in taken.items()}


def step(of: Trainer) -> float:
    """One step of teaching."""
    rows = np.arange(of.run.options.batch) % PAIRS
    return of.step(of.epoch(0).take(rows))


def speed() -> None:
    """Sequences in a second, ours and the paper's in turns."""
    nets = {name: trainer(options, numbers=10, length=5) for name, options in PROGRAMMERS.items()}
    print(
        "AOR, N=10, L=5, in turns: the paper's programmer (preset paper, hidden 512), the small pointer, which learns"
    )
    print("more (preset small, three layers of 80), and the default, which learns most (four layers of 128)")
    jobs: Jobs = {name: partial(step, each) for name, each in nets.items()}
    _line("teaching, batch 256", 256, interleaved(jobs, rounds=7), 5)
    for each in nets.values():
        each.net.eval()
    _line("editing, batch 256", 256, interleaved(editing(nets, 256), rounds=7), 8)
    _line("editing, batch 1", 1, interleaved(editing(nets | compiled(), 1), rounds=41), 3)


def compiled() -> dict[str, Trainer]:
    """Our programmers again, with what can be compiled."""
    made = {
        name + COMPILED: trainer(options, numbers=10, length=5)
        for name, options in PROGRAMMERS.items()
        if name != PAPER
    }
    return {name: each for name, each in made.items() if each.net.eval().speed_up()}


def editing(nets: dict[str, Trainer], size: int) -> Jobs:
    """The same texts for all."""
    ways = way(nets[PAPER], size)
    return {name: partial(edit, each, ways) for name, each in nets.items()}


def way(of: Trainer, size: int) -> list[States]:
    """The states on the expert's way, without those that are done: what an untaught net says would end anywhere."""
    pairs = of.train.take(slice(size))
    scripts = of.method.task.edits(pairs.sources, pairs.targets)
    ways = []
    for taken in range(int(scripts.counts.max()) + 1):
        going = np.flatnonzero(scripts.counts >= taken)
        ways.append(states_after(pairs.take(going), scripts.take(going), np.full(len(going), taken)))
    return ways


def edit(of: Trainer, ways: list[States]) -> object:
    """Ask for an action on every state, and make the edit."""
    made = []
    for states in ways:
        actions = of.net.write(states.ids, states.lengths).symbols
        made.append(step_batch(states.ids, states.lengths, actions, of.method.task.template))
    return made


def _line(what: str, size: int, taken: dict[str, float], aim: float) -> None:
    print(f"  {what:<20} {PAPER:<18} {size / taken[PAPER]:8,.0f}/s")
    for name in taken:
        if name != PAPER:
            ratio = taken[PAPER] / taken[name]
            print(
                f"  {'':<20} {name:<18} {size / taken[name]:8,.0f}/s {ratio:7.1f} x   {verdict(ratio >= aim)} ({aim} x)"
            )


def growth() -> None:
    """What a step costs as texts and batches grow."""
    small: dict[str, Any] = {"hidden": 128, "average": 0.0}
    for cell in ("transformer", "lstm"):
        jobs: Jobs = {
            str(length): partial(step, trainer(Options.preset("fast", cell=cell, **small), numbers=10, length=length))
            for length in (5, 10, 20, 40)
        }
        taken = interleaved(jobs, rounds=3)
        cost = "   ".join(f"L={length} {1e3 * value:6.0f} ms" for length, value in taken.items())
        ratio = taken["40"] / taken["5"]
        aim = verdict(ratio <= 8) if cell == "lstm" else "no aim"
        print(f"a step of teaching, batch 256, {cell:<12} {cost}   8 times the length: {ratio:.1f} x   {aim}")
    jobs = {
        str(batch): partial(step, trainer(Options.preset("fast", batch=batch, **small), numbers=10, length=5))
        for batch in (64, 256, 1024)
    }
    taken = interleaved(jobs, rounds=5)
    each = "   ".join(f"{batch}: {1e6 * value / int(batch):6.0f}" for batch, value in taken.items())
    print(f"microseconds for a sequence, by batch   {each}")
    print(f"most memory in use so far: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")


def run() -> None:
    """All of it."""
    speed()
    print()
    growth()
