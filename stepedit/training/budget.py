"""Before a run: what it is limited by, and with a time budget how long steps and a validation take."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import distributed

from stepedit.config import RunConfig
from stepedit.editing.sequences import Pairs, Sequences
from stepedit.methods.base import Method
from stepedit.tasks.base import Segment, Task
from stepedit.training.distributed import broadcast_from_rank0
from stepedit.training.ema import evaluation_mode
from stepedit.training.request import EXTENDABLE, MAX_VALIDATIONS, RunRequest
from stepedit.training.trainer import Trainer

TIMED_SECONDS = 6.0  # long enough to time steps
MAX_TIMED, TIMED_TOGETHER = 128, 32  # texts of the validation split; of about the same length


class Timing(NamedTuple):
    """What a step and a validation take, in seconds; 0: not measured."""

    step: float = 0.0
    validation: float = 0.0


def plan(
    request: RunRequest, folder: Path, pairs: Mapping[str, Pairs], method: Method | None = None
) -> tuple[RunConfig, Timing]:
    """Return the configuration of a run and, with a time budget, first timings.

    With a time budget, steps are timed with all threads and with one, unless the number of threads is given, and the
    faster is used. Without one, nothing depends on the speed of the machine.
    """
    limits = request.limits
    ends: dict[str, Any] = {name: getattr(limits, name) for name in EXTENDABLE}
    threads, timing, eval_every = limits.threads or torch.get_num_threads(), Timing(), limits.eval_every
    if limits.max_minutes is not None:
        trial = Trainer(request.config(**ends, eval_every=eval_every, threads=threads), folder, pairs, method)
        threads, seconds = choose_num_threads(trial, fixed=limits.threads is not None)
        timing = Timing(seconds, _validation_seconds(trial))
    elif limits.max_epochs is not None:
        eval_every = min(eval_every or ceil(limits.max_epochs / MAX_VALIDATIONS), limits.max_epochs)
    return request.config(**ends, eval_every=eval_every, threads=threads), timing


def _validation_seconds(trial: Trainer) -> float:
    """Return about how many seconds a validation takes, from one look at some of its texts.

    An untrained network may edit until the step limit, so its own validation would say little, after a long time.
    """
    size = len(trial.validation)
    pairs, method = trial.validation.take(np.arange(0, size, ceil(size / MAX_TIMED))), trial.method
    texts = Sequences.from_rows([part.tokens for row in pairs.sources.rows() for part in _segments(method.task, row)])
    looks = 1 + trial.sampler.scripts.counts.mean() if method.iterative else 1
    in_order = np.argsort(texts.lengths, kind="stable")
    began = time.perf_counter()
    with evaluation_mode(trial.net):
        for begin in range(0, len(texts), TIMED_TOGETHER):
            trial.net.predict(texts.take(in_order[begin : begin + TIMED_TOGETHER]))
    return float(time.perf_counter() - began) * looks * size / len(pairs)


def _segments(task: Task, row: Sequence[int]) -> list[Segment]:
    """Return what is edited of a text: windows of a long one, not the whole of it."""
    return [part for part in task.segments(row, task.vocabulary) if part.editable]


def choose_num_threads(trial: Trainer, fixed: bool) -> tuple[int, float]:
    """Return the faster of all threads and one, and its seconds per step.

    Beside other work threads wait for each other: one of them can be many times as fast as two.
    """
    seconds, threads = seconds_per_step(trial), torch.get_num_threads()
    if fixed or threads == 1 or distributed.is_initialized():
        return threads, seconds
    torch.set_num_threads(1)
    single = seconds_per_step(trial)
    if single < seconds:
        return 1, single
    torch.set_num_threads(threads)
    return threads, seconds


def seconds_per_step(trainer: Trainer, steps: int = 10) -> float:
    """Return the seconds of a step, tried on a trainer that is not used afterwards."""
    began = time.perf_counter()
    states = trainer.epoch_states(0)
    sampling = (time.perf_counter() - began) / trainer.batches
    size = trainer.run.training.batch_size
    times = list[float]()
    for index in range(steps):
        rows = np.arange(size) + size * (index % trainer.batches)
        began = time.perf_counter()
        trainer.step(states.take(rows))
        times.append(time.perf_counter() - began)
        # rank 0 decides: all ranks must make the same number of steps
        if index >= 2 and broadcast_from_rank0([sum(times)])[0] > TIMED_SECONDS:
            break
    return sampling + median(times)  # the first ones are slow, and other processes may disturb any
