"""The training loop.

Everything random follows from the seed and the number of the epoch or step, so that a resumed run is bit-identical to
an uninterrupted one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from stepedit.config import RunConfig
from stepedit.data.states import States, sample_states
from stepedit.editing.edits import Scripts
from stepedit.editing.sequences import IntArray, Pairs
from stepedit.errors import DataError, UserError
from stepedit.evaluation.evaluate import evaluate_pairs
from stepedit.files import write_atomic
from stepedit.inference import model_folder
from stepedit.inference.trained_on import TrainedOn
from stepedit.methods.base import Method
from stepedit.programmers.base import load_weights, weights_of
from stepedit.programmers.nn.dropout import DropoutRng, dropout_rng
from stepedit.registry import PROGRAMMERS
from stepedit.training import checkpoint, distributed
from stepedit.training.checkpoint import Report, TrainerState
from stepedit.training.ema import evaluation_mode, make_average, update_average
from stepedit.training.optimizers import make_optimizers
from stepedit.training.schedule import learning_rate_at
from stepedit.training.self_training import SelfTrainingBuffer

SAVE_EVERY = 60.0  # seconds
EXAMPLES = 3


@dataclass(frozen=True)
class Coverage:
    """How many training pairs can be expressed with the method's outputs, and examples of the others."""

    pairs: int
    expressible: int
    others: list[tuple[str, str]]


class Trainer:
    """A run in progress."""

    def __init__(self, run: RunConfig, folder: Path, pairs: Mapping[str, Pairs], method: Method | None = None) -> None:
        # pairs of an open vocabulary need the method whose task encoded them
        self.run, self.folder, self.method = run, folder, method or model_folder.make_method(run)
        self.trained_on: TrainedOn | None = None  # written when the run begins
        self._check_mode()
        self.validation = pairs["val"]
        self.train, self.coverage = _expressible(self.method, pairs["train"])
        self.batches = self._num_batches()
        self.total_steps = self.batches * run.max_epochs
        self.held_out = Pairs.join([part for name, part in pairs.items() if name != "train"])
        self.buffer = SelfTrainingBuffer.empty()
        programmer = PROGRAMMERS[run.training.programmer]
        self.net = programmer.from_seed(run.seed, self.method, run.training).to(_device(run.device))
        self.average = make_average(self.net, run.training.ema_decay)
        self.optimizers = make_optimizers(self.net, run.training)
        self.rank, self.world_size = distributed.rank(), distributed.world_size()
        self.module: nn.Module = (
            DistributedDataParallel(self.net, find_unused_parameters=True) if self.world_size > 1 else self.net
        )
        self.state = TrainerState()
        self.stopping = False  # set it to stop after the current step
        self._scripts: Scripts | None = None

    def _check_mode(self) -> None:
        """Raise UserError if task and method do not support the mode."""
        if self.run.mode != "self-training":
            return
        if not self.method.iterative:
            raise UserError(f"self-training searches over actions, which {self.run.method} has none of; use recurrence")
        if not self.method.task.verifiable:
            raise UserError(f"self-training needs a task with a verifier, and {self.run.task} has none")

    def _num_batches(self) -> int:
        """Return the number of batches of an epoch; DataError if there is none."""
        if not len(self.train):
            raise DataError(f"none of the {self.coverage.pairs:,} pairs can be expressed with the edits of this task")
        size = self.run.training.batch_size
        if len(self.train) < size:
            raise DataError(f"{len(self.train)} training pairs do not fill one batch of {size}")
        return len(self.train) // size

    def begin(self) -> None:
        """Create the run's folder with its configuration."""
        if self.rank > 0:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        model_folder.write_config(self.folder, self.run, self.method.task.vocabulary.tokens, self.method.outputs.tokens)
        if self.trained_on is not None:
            self.trained_on.write(self.folder)

    def fit(self, on_step: Callable[[int, float], None] | None = None) -> Iterator[Report]:
        """Train to the end; yield a report after every validation."""
        started, saved, losses = time.monotonic() - self.state.seconds, time.monotonic(), list[float]()
        while True:
            epoch, skip = divmod(self.state.step, self.batches)
            # also right after resuming: the checkpoint may have been written just before a validation
            if skip == 0 and self._validation_due(epoch):
                yield self.validate(epoch, float(np.mean(losses)) if losses else float("nan"))
                losses, saved = [], time.monotonic()
            if self._finished():
                self.state.finished = True
                self.save()
                self._write_graph()
                return
            states = self.epoch_states(epoch)
            for index in range(skip, self.batches):
                size = self.run.training.batch_size
                losses.append(self.step(states.take(np.arange(index * size, (index + 1) * size))))
                self.state.seconds = time.monotonic() - started
                if on_step:
                    on_step(self.state.step, losses[-1])
                if time.monotonic() - saved > SAVE_EVERY or self.stopping:
                    self.save()
                    saved = time.monotonic()
                if self.stopping:
                    return

    def _finished(self) -> bool:
        """Whether all steps are done or patience has run out."""
        stale = self.state.validated - self.state.best_epoch
        return self.state.step >= self.total_steps or stale >= self.run.training.patience

    def _validation_due(self, epoch: int) -> bool:
        """Whether a validation is due after so many epochs and has not been made."""
        due = epoch % self.run.eval_every == 0 or epoch == self.run.max_epochs
        return due and epoch > self.state.validated

    def epoch_states(self, epoch: int) -> States:
        """Return the shuffled states of an epoch; sources are resampled where a target has many."""
        rng = np.random.default_rng([self.run.seed, 1, epoch])
        task, pairs, self_training = self.method.task, self.train, self.run.mode == "self-training"
        if task.resamples_sources:
            pairs = Pairs(task.resample(pairs.targets, rng), pairs.targets)
        if self_training:
            own_rng = np.random.default_rng([self.run.seed, 2, epoch])
            with evaluation_mode(self.average):
                self.buffer.extend(epoch, self.average, self.method, self.held_out, own_rng)
            pairs = self.buffer.mix(pairs, rng)
        if task.resamples_sources or self_training or self._scripts is None:
            self._scripts = task.edits(pairs.sources, pairs.targets)
        scripts = self._scripts
        ids = task.unk_dropout(rng) if self.method.iterative else None
        if ids is not None:
            pairs, scripts = pairs.mapped(ids), scripts.mapped(ids)
        order = self.run.training.edit_order
        offline = self._offline_counts(scripts)
        return sample_states(pairs, scripts, rng.permutation(len(pairs)), self.run.mode, rng, order, offline)

    def _offline_counts(self, scripts: Scripts) -> IntArray | None:
        """Return (B,) how many edits each pair's fixed state has, the same in every epoch; None for sources."""
        if not self.method.iterative or self.run.training.offline_states == "sources":
            return None
        return np.random.default_rng([self.run.seed, 3]).integers(0, scripts.counts + 1)

    def step(self, states: States) -> float:
        """Make one optimizer step on a batch, or on this process's part of it; return the loss of the whole batch."""
        step, config = self.state.step, self.run.training
        rows = torch.arange(self.rank, len(states), self.world_size)
        rng = DropoutRng(torch.Generator().manual_seed(self.run.seed * 1_000_003 + step), rows, len(states))
        for group in (group for optimizer in self.optimizers for group in optimizer.param_groups):
            group["lr"] = learning_rate_at(step, self.total_steps, config)
        with dropout_rng(self.net, rng):
            loss: Tensor = self.module(states, rng)
        self.net.zero_grad(set_to_none=True)
        (loss * self.world_size).backward()  # type: ignore[no-untyped-call]  # gradients are averaged over processes
        nn.utils.clip_grad_norm_(self.net.parameters(), config.max_grad_norm)
        for optimizer in self.optimizers:
            optimizer.step()
        update_average(self.average, self.net, config.ema_decay, step)
        self.state.step += 1
        return distributed.sum_over_ranks(loss.detach())

    def validate(self, epoch: int, loss: float) -> Report:
        """Evaluate on validation, keep the weights if they are the best so far, and save a checkpoint."""
        began = time.monotonic()
        names = self.method.task.metrics
        own = dict.fromkeys(names, 0.0)
        if self.rank == 0:
            with evaluation_mode(self.average):
                own = evaluate_pairs(self.average, self.method, self.validation).means()
        metrics = dict(zip(names, distributed.broadcast_from_rank0([own[name] for name in names]), strict=True))
        self.state.seconds += time.monotonic() - began
        self.state.validated = epoch
        score = metrics[self.method.task.objective]
        better = score > self.state.best
        if better:
            self.state.best, self.state.best_epoch = score, epoch
        seconds, step = self.state.seconds, self.state.step
        rate = learning_rate_at(step, self.total_steps, self.run.training)
        report = Report(epoch, step, loss, metrics, self.state.best, rate, seconds, step / max(seconds, 1e-9))
        if self.rank == 0:
            if better:
                facts = {"epoch": epoch, "step": step, "validation": metrics}
                model_folder.write_tensors(self.folder / model_folder.WEIGHTS, weights_of(self.average), facts)
                for name in (model_folder.TUNED, model_folder.GRAPH):  # made for other weights
                    (self.folder / name).unlink(missing_ok=True)
            checkpoint.append_report(self.folder, report)
        self.save()
        return report

    def _write_graph(self) -> None:
        """Write the best weights as a graph, if the programmer has one of its own and onnx is installed."""
        has_graph = "graph" in vars(type(self.net))  # an inherited one may be that of another network
        if self.rank == 0 and has_graph and find_spec("onnx") is not None:
            graph = model_folder.make_graph(self.folder, "float32")
            write_atomic(self.folder / model_folder.GRAPH, graph)

    def save(self) -> None:
        """Write a checkpoint with all that resuming needs."""
        if self.rank > 0:
            return
        nets = {"net": self.net} | ({"average": self.average} if self.average is not self.net else {})
        tensors = {f"{kind}.{name}": tensor for kind, net in nets.items() for name, tensor in weights_of(net).items()}
        tensors |= checkpoint.pack_optimizers(self.optimizers)
        tensors |= checkpoint.pack_pairs("buffer", self.buffer.pairs)
        facts = {"state": asdict(self.state), "buffer_epoch": self.buffer.epoch}
        model_folder.write_tensors(self.folder / model_folder.CHECKPOINT, tensors, facts)

    def resume(self) -> None:
        """Go back to the last checkpoint of the folder."""
        path = self.folder / model_folder.CHECKPOINT
        if not path.exists():
            if model_folder.is_exported(self.folder):
                raise DataError(f"{self.folder}: an exported model has no checkpoint to resume from")
            if self.rank == 0:
                checkpoint.truncate_reports(self.folder, 0)
            return  # killed before the first checkpoint: from the start
        tensors, facts = model_folder.read_tensors(path)
        net, average, optimizers, buffer = (
            checkpoint.with_prefix(tensors, prefix) for prefix in ("net.", "average.", "optimizer.", "buffer.")
        )
        load_weights(self.net, net, path)
        if self.average is not self.net:
            load_weights(self.average, average, path)
        checkpoint.unpack_optimizers(self.optimizers, optimizers)
        self.buffer = SelfTrainingBuffer(checkpoint.unpack_pairs(buffer), facts["buffer_epoch"])
        self.state = TrainerState(**facts["state"])
        if self.rank == 0:
            checkpoint.truncate_reports(self.folder, self.state.validated)


def _expressible(method: Method, pairs: Pairs) -> tuple[Pairs, Coverage]:
    """Return the pairs that the method's outputs can express, and how many those are."""
    scripts = method.task.edits(pairs.sources, pairs.targets)
    possible = method.expressible(pairs, scripts)
    others = pairs.take(np.flatnonzero(~possible)[:EXAMPLES])
    vocabulary = method.task.vocabulary
    examples = list(zip(vocabulary.decode(others.sources), vocabulary.decode(others.targets), strict=True))
    return pairs if possible.all() else pairs.take(possible), Coverage(len(pairs), int(possible.sum()), examples)


def _device(name: str) -> torch.device:
    """Return the device of this name; UserError if there is none."""
    try:
        return torch.zeros(1, device=name).cpu().to(name).device  # there and back: `meta` holds no numbers
    except (RuntimeError, AssertionError, NotImplementedError):
        raise UserError(f"no device {name!r} here; `cpu` always exists") from None
