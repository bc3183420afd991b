"""The only optimisation loop.

Everything random in a run follows from its seed and the number of the epoch or step, so a run that goes on from a
checkpoint sees what it would have seen anyway, and ends with the same weights, to the bit.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from math import ceil, cos, pi
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from stepedit import checkpoints, datasets
from stepedit.batches import States, sample_states
from stepedit.config import DEEP, Run
from stepedit.edits import Scripts
from stepedit.errors import DataError, UserError
from stepedit.evaluation import evaluate
from stepedit.methods.method import Method
from stepedit.methods.recurrence import Recurrence
from stepedit.optimisers import make_optimisers
from stepedit.programmers.layers import Draw, randomness
from stepedit.programmers.programmer import Programmer
from stepedit.registry import METHODS, PROGRAMMERS, TASKS
from stepedit.selfteaching import OwnPairs
from stepedit.sequences import Pairs

SAVE_EVERY = 60.0  # seconds
VALIDATIONS = 40  # in a run, at the most
LEFT_FOR_STEPS = 0.85  # of a budget; the rest goes into validations and noise
LONG_ENOUGH = 6.0  # seconds in which steps are timed
LOWEST_RATE = 0.01  # of the highest, at the end
EXAMPLES = 3


@dataclass
class Standing:
    """Where a run stands."""

    step: int = 0
    best: float = -1.0
    best_epoch: int = 0
    validated: int = 0  # epochs at the last validation
    seconds: float = 0.0
    ended: bool = False  # whether the training has come to its end


@dataclass(frozen=True)
class Coverage:
    """How many of the training pairs can be said with the actions that there are, and examples of the others."""

    pairs: int
    said: int
    others: list[tuple[str, str]]


@dataclass(frozen=True)
class Report:
    """What a run has to say after a validation."""

    epoch: int
    step: int
    loss: float
    metrics: dict[str, float]
    best: float
    rate: float
    seconds: float
    steps_per_second: float


def seed_weights(run: Run, method: Method) -> Programmer:
    """A programmer with the weights that the seed says."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        return PROGRAMMERS[run.options.programmer].for_method(method, run.options)


def settled(run: Run, method: Method) -> Run:
    """The run with what was left open settled: the programmer by the method, the rest by the task.

    Where the same sources come again and again, they are soon learned by heart: there, a higher rate and more decay
    help, and so do plans. Where an edit is right whatever becomes of the others, all of them can be learned from at
    once, by a shallow net; where edits must agree with each other, it takes depth to work out which do.
    """
    options, task = run.options, method.task
    name = method.programmer if options.programmer == "auto" else options.programmer
    rate = options.rate if options.rate is not None else (0.002 if task.redraws else 0.003)
    decay = options.weight_decay if options.weight_decay is not None else (0.3 if task.redraws else 1.0)
    others = options.others
    if others is None:
        others = float(name == "pointer" and (task.independent or not task.redraws))
    layers = options.layers if options.layers is not None else (2 if task.independent else DEEP)
    settings = {"programmer": name, "layers": layers, "rate": rate, "weight_decay": decay, "others": others}
    return run.model_copy(update={"options": options.model_copy(update=settings)})


def device(name: str) -> torch.device:
    """The device of that name; UserError if there is none here."""
    try:
        return torch.zeros(1, device=name).cpu().to(name).device  # there and back: `meta` holds no numbers
    except (RuntimeError, AssertionError, NotImplementedError):
        raise UserError(f"no device {name!r} here; `cpu` is always there") from None


def make_method(run: Run) -> Method:
    """The method of a run, for its task."""
    return METHODS[run.method](TASKS[run.task].from_options(run.task_options))


def load_pairs(
    run: Run, progress: Callable[[int, int], None] | None = None, whole: str | None = None
) -> dict[str, Pairs]:
    """The splits of a run: read from where its data lie, or made again from its seed; one of them with whole lines."""
    task = TASKS[run.task].from_options(run.task_options)
    if run.data is not None:
        if not Path(run.data).exists():
            raise DataError(
                f"{run.data}: the pairs that this was taught with are not here; `evaluate` takes others: --data"
            )
        dataset = datasets.for_training(run.data, run.targets, run.source, run.target)
        return {name: lines.encode(task, name == whole) for name, lines in dataset.splits.items()}
    pairs = task.generate(run.size, np.random.default_rng(run.seed), progress)
    return {name: pairs.take(part) for name, part in datasets.split(run.size).items()}


class Trainer:
    """A run in progress."""

    def __init__(self, run: Run, folder: Path, pairs: dict[str, Pairs]) -> None:
        self.method = make_method(run)
        run = self.run = settled(run, self.method)
        self.folder, self.validation = folder, pairs["val"]
        self.train, self.coverage = _sayable(self.method, pairs["train"])
        self.held = Pairs.join([part for name, part in pairs.items() if name != "train"])
        self.own = OwnPairs.none()
        self.stopping = False  # ask it to stop after the step it is at
        self.net = seed_weights(run, self.method).to(device(run.device))
        self.averaged = copy.deepcopy(self.net).requires_grad_(False) if run.options.average else self.net
        self.optimisers = make_optimisers(self.net, run.options)
        self.rank = distributed.get_rank() if distributed.is_initialized() else 0
        self.world = distributed.get_world_size() if distributed.is_initialized() else 1
        self.module: nn.Module = (
            DistributedDataParallel(self.net, find_unused_parameters=True) if self.world > 1 else self.net
        )
        self.standing = Standing()
        if run.mode == "self-taught" and not isinstance(self.method, Recurrence):
            raise UserError(f"self-taught looks ahead over actions, which {run.method} has none of; take recurrence")
        if run.mode == "self-taught" and not self.method.task.checks:
            raise UserError(f"self-taught needs a task that can check its own answers, which {run.task} cannot")
        if not len(self.train):
            raise DataError(f"none of the {self.coverage.pairs:,} pairs can be expressed with edits that come again")
        self.batches = len(self.train) // run.options.batch
        if not self.batches:
            raise DataError(f"{len(self.train)} training pairs do not fill one batch of {run.options.batch}")
        self.total = self.batches * run.epochs
        self._scripts: Scripts | None = None

    def begin(self) -> None:
        """Make the run's folder and write down what repeats it."""
        if self.rank > 0:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        words = self.method.task.vocabulary.tokens, self.method.outputs.tokens
        checkpoints.write_run(self.folder, self.run, *words)

    def fit(self, on_step: Callable[[int, float], None] | None = None) -> Iterator[Report]:
        """Train to the end, with a report after every validation."""
        started, saved, losses = time.monotonic() - self.standing.seconds, time.monotonic(), list[float]()
        while True:
            epoch, skip = divmod(self.standing.step, self.batches)
            # also first thing after a resumption: a checkpoint may have been the last sign of life before a validation
            if skip == 0 and self._is_due(epoch):
                yield self.validate(epoch, float(np.mean(losses)) if losses else float("nan"))
                losses, saved = [], time.monotonic()
            stale = self.standing.validated - self.standing.best_epoch
            if self.standing.step >= self.total or stale >= self.run.options.patience:
                self.standing.ended = True
                self.save()
                return
            states = self.epoch(epoch)
            for index in range(skip, self.batches):
                rows = np.arange(index * self.run.options.batch, (index + 1) * self.run.options.batch)
                losses.append(self.step(states.take(rows)))
                self.standing.seconds = time.monotonic() - started
                if on_step:
                    on_step(self.standing.step, losses[-1])
                if time.monotonic() - saved > SAVE_EVERY or self.stopping:
                    self.save()
                    saved = time.monotonic()
                if self.stopping:
                    return

    def _is_due(self, epoch: int) -> bool:
        """Whether so many epochs call for a validation that has not been made."""
        due = epoch % self.run.validate_every == 0 or epoch == self.run.epochs
        return due and epoch > self.standing.validated

    def epoch(self, number: int) -> States:
        """The states of an epoch, shuffled; sources are drawn anew where a target has many."""
        rng = np.random.default_rng([self.run.seed, 1, number])
        task, pairs = self.method.task, self.train
        if task.redraws:
            pairs = Pairs(task.resample(pairs.targets, rng), pairs.targets)
        if self.run.mode == "self-taught":
            self.own.grow(
                number, self.averaged, self.method, self.held, np.random.default_rng([self.run.seed, 2, number])
            )
            pairs = self.own.mixed(pairs, rng)
        if task.redraws or self.run.mode == "self-taught" or self._scripts is None:
            self._scripts = task.edits(pairs.sources, pairs.targets)
        scripts = self._scripts
        ids = task.blur(rng) if isinstance(self.method, Recurrence) else None
        if ids is not None:
            pairs, scripts = pairs.mapped(ids), scripts.mapped(ids)
        return sample_states(pairs, scripts, rng.permutation(len(pairs)), self.run.mode, rng, self.run.options.order)

    def step(self, states: States) -> float:
        """One step of the optimiser on this batch, or on this process's part of it; the loss of the whole."""
        step = self.standing.step
        rows = torch.arange(self.rank, len(states), self.world)
        draw = Draw(torch.Generator().manual_seed(self.run.seed * 1_000_003 + step), rows, len(states))
        for group in (group for optimiser in self.optimisers for group in optimiser.param_groups):
            group["lr"] = rate_at(step, self.total, self.run)
        with randomness(self.net, draw):
            loss: Tensor = self.module(states, draw)
        self.net.zero_grad(set_to_none=True)
        (loss * self.world).backward()  # type: ignore[no-untyped-call]  # gradients are averaged over processes
        nn.utils.clip_grad_norm_(self.net.parameters(), self.run.options.clip)
        for optimiser in self.optimisers:
            optimiser.step()
        self._average()
        self.standing.step += 1
        return self._summed(loss.detach())

    def _average(self) -> None:
        """Let the averaged weights follow; the first steps count for more, or their start would never be forgotten."""
        if self.averaged is not self.net:
            step = self.standing.step
            weight = 1 - min(self.run.options.average, (1 + step) / (10 + step))
            with torch.no_grad():
                torch._foreach_lerp_(list(self.averaged.parameters()), list(self.net.parameters()), weight)

    def _summed(self, value: Tensor) -> float:
        """A number added up over all processes."""
        if self.world > 1:
            distributed.all_reduce(value)
        return value.item()

    def validate(self, epoch: int, loss: float) -> Report:
        """Score on validation, keep the weights if they are the best so far, save where the run stands."""
        began = time.monotonic()
        names = self.method.task.metrics
        own = (
            evaluate(self.averaged, self.method, self.validation).means()
            if self.rank == 0
            else dict.fromkeys(names, 0.0)
        )
        metrics = dict(zip(names, told_by_first([own[name] for name in names]), strict=True))
        self.standing.seconds += time.monotonic() - began
        self.standing.validated = epoch
        score = metrics[self.method.task.stop_metric]
        better = score > self.standing.best
        if better:
            self.standing.best, self.standing.best_epoch = score, epoch
        seconds, step = self.standing.seconds, self.standing.step
        rate = rate_at(step, self.total, self.run)
        report = Report(epoch, step, loss, metrics, self.standing.best, rate, seconds, step / max(seconds, 1e-9))
        if self.rank == 0:
            if better:
                facts = {"epoch": epoch, "step": step, "validation": metrics}
                checkpoints.write_tensors(self.folder / checkpoints.BEST, self.averaged.state_dict(), facts)
                (self.folder / checkpoints.TUNED).unlink(missing_ok=True)  # it was for other weights
            append_report(self.folder / checkpoints.METRICS, report)
        self.save()
        return report

    def save(self) -> None:
        """Write down all that going on needs."""
        if self.rank > 0:
            return
        nets = {"net": self.net} | ({"averaged": self.averaged} if self.averaged is not self.net else {})
        tensors = {f"{kind}.{name}": tensor for kind, net in nets.items() for name, tensor in net.state_dict().items()}
        tensors |= checkpoints.pack_optimisers(self.optimisers)
        tensors |= checkpoints.pack_pairs("own", self.own.pairs)
        facts = {"standing": asdict(self.standing), "grown": self.own.grown}
        checkpoints.write_tensors(self.folder / checkpoints.LATEST, tensors, facts)

    def resume(self) -> None:
        """Go back to where the folder's run was last saved."""
        path = self.folder / checkpoints.LATEST
        if not path.exists():
            if checkpoints.exported(self.folder):
                raise DataError(f"{self.folder}: exported, so there is no checkpoint to go on from")
            if self.rank == 0:
                cut_reports(self.folder, 0)
            return  # killed before anything was saved: from the start
        tensors, facts = checkpoints.read_tensors(path)
        net, averaged, optimisers, own = (
            {name.removeprefix(kind): tensor for name, tensor in tensors.items() if name.startswith(kind)}
            for kind in ("net.", "averaged.", "optimiser.", "own.")
        )
        checkpoints.load_weights(self.net, net, path)
        if self.averaged is not self.net:
            checkpoints.load_weights(self.averaged, averaged, path)
        checkpoints.unpack_optimisers(self.optimisers, optimisers)
        self.own = OwnPairs(checkpoints.unpack_pairs(own), facts["grown"])
        self.standing = Standing(**facts["standing"])
        if self.rank == 0:
            cut_reports(self.folder, self.standing.validated)


def _sayable(method: Method, pairs: Pairs) -> tuple[Pairs, Coverage]:
    """The pairs that a programmer can be taught, and how many those are."""
    scripts = method.task.edits(pairs.sources, pairs.targets)
    can = method.sayable(pairs, scripts)
    others = pairs.take(np.flatnonzero(~can)[:EXAMPLES])
    words = method.task.vocabulary
    examples = list(zip(words.decode(others.sources), words.decode(others.targets), strict=True))
    return pairs if can.all() else pairs.take(can), Coverage(len(pairs), int(can.sum()), examples)


def seconds_per_step(trainer: Trainer, steps: int = 10) -> float:
    """How long a step takes here and now, tried on a trainer that is thrown away afterwards."""
    began = time.perf_counter()
    states = trainer.epoch(0)
    drawing = (time.perf_counter() - began) / trainer.batches
    size = trainer.run.options.batch
    taken = []
    for index in range(steps):
        rows = np.arange(size) + size * (index % trainer.batches)
        began = time.perf_counter()
        trainer.step(states.take(rows))
        taken.append(time.perf_counter() - began)
        if index >= 2 and sum(taken) > LONG_ENOUGH:
            break
    return drawing + median(taken)  # the first are slow, and a neighbour may get in the way of any


def quickest(trial: Trainer) -> tuple[int | None, float]:
    """How many threads to use, none for all, and how long a step takes then.

    Beside other work, threads wait for each other: one of them can be many times as fast as two.
    """
    threads, step, every = trial.run.threads, seconds_per_step(trial), torch.get_num_threads()
    if threads is not None or every == 1 or distributed.is_initialized():
        return threads, step
    torch.set_num_threads(1)
    alone = seconds_per_step(trial)
    if alone < step:
        return 1, alone
    torch.set_num_threads(every)
    return None, step


def plan(run: Run, folder: Path, pairs: dict[str, Pairs], minutes: float | None, every: int | None) -> Run:
    """The run with its length and its validations fixed.

    Minutes are turned into epochs by timing a few steps, validations then get a tenth of the time; and if it is not
    said how many threads to use, all or one, whichever is faster. Without minutes nothing depends on how fast the
    machine is.
    """
    epochs, least = run.epochs, 1
    if minutes is not None:
        trial = Trainer(run, folder, pairs)
        threads, step = quickest(trial)
        run, epoch = run.model_copy(update={"threads": threads}), step * trial.batches
        began = time.perf_counter()
        evaluate(trial.net, trial.method, pairs["val"])
        least = ceil((time.perf_counter() - began) / (0.1 * epoch))
        epochs = max(1, min(epochs, int(minutes * 60 * LEFT_FOR_STEPS / epoch)))
    every = every or max(least, ceil(epochs / VALIDATIONS))
    epochs, every = map(int, told_by_first([epochs, min(every, epochs)]))
    return run.model_copy(update={"epochs": epochs, "validate_every": every})


def told_by_first(values: list[float]) -> list[float]:
    """The numbers that the first process has, in all of them."""
    told = torch.tensor(values, dtype=torch.float64)
    if distributed.is_initialized():
        distributed.broadcast(told, 0)
    return told.tolist()


def rate_at(step: int, total: int, run: Run) -> float:
    """The learning rate of a step: up in a line, then down along half a cosine."""
    options = run.options
    assert options.rate is not None  # settled
    warm = min(1.0, (step + 1) / (options.warm_up + 1))
    fall = (1 + cos(pi * min(step / total, 1))) / 2 if options.decay else 1.0
    return options.rate * warm * (LOWEST_RATE + (1 - LOWEST_RATE) * fall)


def append_report(path: Path, report: Report) -> None:
    """One more line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(report)) + "\n")


def cut_reports(folder: Path, epochs: int) -> None:
    """Take back what was reported after a validation that the run goes back to."""
    kept = [report for report in checkpoints.read_reports(folder) if report["epoch"] <= epochs]
    lines = "".join(json.dumps(report) + "\n" for report in kept)
    checkpoints.write_whole(folder / checkpoints.METRICS, lines.encode())
