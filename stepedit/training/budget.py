"""A time budget turned into epochs: a few steps are timed, and the run's length is fitted to them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import ceil
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import distributed

from stepedit.config import RunConfig
from stepedit.editing.sequences import Pairs
from stepedit.evaluation.evaluate import evaluate_pairs
from stepedit.methods.base import Method
from stepedit.training.distributed import broadcast_from_rank0
from stepedit.training.ema import evaluation_mode
from stepedit.training.request import TRAINING_SHARE, UNLIMITED, RunRequest
from stepedit.training.trainer import Trainer

MAX_VALIDATIONS = 40  # in a run
VALIDATION_SHARE = 0.1  # of the training time, at most
TIMED_SECONDS = 6.0  # long enough to time steps


def plan(request: RunRequest, folder: Path, pairs: Mapping[str, Pairs], method: Method | None = None) -> RunConfig:
    """Return the configuration of a run with its length decided.

    With a time budget, steps are timed with all threads and with one, unless the number of threads is given, and the
    faster is used. Without one, nothing depends on the speed of the machine.
    """
    limits = request.limits
    epochs, min_interval = limits.max_epochs or UNLIMITED, 1
    threads = limits.threads or torch.get_num_threads()
    if limits.max_minutes is not None:
        trial = Trainer(request.config(epochs, 1, threads), folder, pairs, method)
        threads, seconds = choose_num_threads(trial, fixed=limits.threads is not None)
        epoch = seconds * trial.batches
        began = time.perf_counter()
        with evaluation_mode(trial.net):
            evaluate_pairs(trial.net, trial.method, pairs["val"])
        min_interval = ceil((time.perf_counter() - began) / (VALIDATION_SHARE * epoch))
        epochs = max(1, min(epochs, int(limits.max_minutes * 60 * TRAINING_SHARE / epoch)))
    eval_every = limits.eval_every or max(min_interval, ceil(epochs / MAX_VALIDATIONS))
    epochs, eval_every = map(int, broadcast_from_rank0([epochs, min(eval_every, epochs)]))
    return request.config(epochs, eval_every, threads)


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
        if index >= 2 and sum(times) > TIMED_SECONDS:
            break
    return sampling + median(times)  # the first ones are slow, and other processes may disturb any
