"""The training loop.

Everything random follows from the seed and the number of the epoch or step, so that a resumed run is bit-identical to
an uninterrupted one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from importlib.util import find_spec
from math import isfinite
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from stepedit.config import RunConfig
from stepedit.data.states import States
from stepedit.editing.sequences import Pairs
from stepedit.errors import DataError, DivergedError, UserError
from stepedit.evaluation.evaluate import evaluate_pairs, score
from stepedit.files import write_atomic
from stepedit.inference import model_folder
from stepedit.inference.trained_on import TrainedOn, read_trained_on
from stepedit.methods.base import Method
from stepedit.programmers import pretrained
from stepedit.programmers.base import Programmer, load_weights, weights_of
from stepedit.programmers.nn.dropout import DropoutRng, dropout_rng
from stepedit.registry import PROGRAMMERS
from stepedit.training import checkpoint, distributed
from stepedit.training.checkpoint import Report, TrainerState
from stepedit.training.ema import evaluation_mode, make_average, update_average
from stepedit.training.optimizers import make_optimizers
from stepedit.training.pacing import Pacer
from stepedit.training.schedule import learning_rate_at
from stepedit.training.self_training import SelfTrainingBuffer
from stepedit.training.state_sampler import StateSampler

SAVE_EVERY = 60.0  # seconds
NEARLY_ALL, SPARE_EDITS = 0.99, 8  # edits in validations: what this share of the training windows needs, and more


class Trainer:
    """A run in progress."""

    def __init__(
        self,
        run: RunConfig,
        folder: Path,
        pairs: Mapping[str, Pairs],
        method: Method | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # pairs of an open vocabulary need the method whose task encoded them
        self.run, self.folder, self.method = run, folder, method or model_folder.make_method(run)
        self.trained_on: TrainedOn | None = None  # written when the run begins
        self.tokenizer: Path | None = None  # of a pretrained encoder
        self._check_mode()
        self.validation = pairs["val"]
        self.sampler = StateSampler(run, self.method, pairs["train"])
        self.batches = self.sampler.num_batches
        self.validating = self._validating_method()
        self.held_out = Pairs.join([part for name, part in pairs.items() if name != "train"])
        self.buffer = SelfTrainingBuffer.empty()
        self.net = self._new_network()
        self.average = make_average(self.net, run.training.ema_decay)
        self.optimizers = make_optimizers(self.net, run.training)
        self.rank, self.world_size = distributed.rank(), distributed.world_size()
        self.module: nn.Module = (
            DistributedDataParallel(self.net, find_unused_parameters=True) if self.world_size > 1 else self.net
        )
        self.copy_scores = self._copy_scores()
        self.pacer, self.state = Pacer(run, self.batches), TrainerState()
        self.pacer.plan(self.state)
        self.stopping = False  # set it to stop after the current step
        self._states: tuple[int, States] | None = None  # of the current epoch
        self._clock, self._started = clock, clock()  # the moment at which `state.seconds` was 0

    def _new_network(self) -> Programmer:
        """Return a network with its initial weights, those of a pretrained encoder included."""
        config = self.run.training
        net = PROGRAMMERS[config.programmer].from_seed(self.run.seed, self.method, config)
        if config.encoder is not None:
            stored = self.folder / model_folder.TOKENIZER
            encoder = None if (self.folder / model_folder.CHECKPOINT).exists() else pretrained.locate(config.encoder)
            self.tokenizer = stored if encoder is None else encoder / model_folder.TOKENIZER
            net.read_tokenizer(self.tokenizer)
            if encoder is not None:
                net.load_encoder(encoder)
        return net.to(_device(self.run.device))

    def _check_mode(self) -> None:
        """Raise UserError if task and method do not support the mode."""
        if self.run.mode != "self-training":
            return
        if not self.method.iterative:
            raise UserError(f"self-training searches over actions, which {self.run.method} has none of; use recurrence")
        if not self.method.task.verifiable:
            raise UserError(f"self-training needs a task with a verifier, and {self.run.task} has none")

    def _validating_method(self) -> Method:
        """Return the method with a limit of steps for text: in its first epochs a network may edit without end."""
        task, method = self.method.task, self.method
        if not (method.iterative and task.open_vocabulary):
            return method
        needed = np.quantile(self.sampler.scripts.counts, NEARLY_ALL)  # of a window, as the limit
        limit = min(method.max_steps, int(needed) + SPARE_EDITS)
        return type(method)(task, max_actions=limit, edit_order=method.edit_order)

    def _copy_scores(self) -> dict[str, float]:
        """Return the validation metrics of copying the source."""
        return score(self.method.task, self.validation.sources, self.validation).means()

    def begin(self) -> None:
        """Create the run's folder with its configuration."""
        if self.rank > 0:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write_config()

    def _write_config(self) -> None:
        model_folder.write_config(self.folder, self.run, self.method.task.vocabulary.tokens, self.method.outputs.tokens)
        if self.trained_on is not None:
            self.trained_on.write(self.folder)
        if self.tokenizer is not None and self.tokenizer.parent != self.folder:
            write_atomic(self.folder / model_folder.TOKENIZER, self.tokenizer.read_bytes())

    def extend(self, run: RunConfig) -> None:
        """Replace the limits of a resumed run; UserError if it is beyond them or they do not let it continue."""
        passed = {"max_epochs": self._epochs(), "max_steps": self.state.step, "max_minutes": self.state.seconds / 60}
        for name, value in passed.items():
            limit = getattr(run, name)
            if limit is not None and limit <= value and limit != getattr(self.run, name):
                raise UserError(f"{self.folder}: {name} is {limit:g}, and the run has made {value:.6g} already")
        was_finished, self.run = self.state.finished, run
        self.pacer = Pacer(run, self.batches)
        self.pacer.plan(self.state)
        if was_finished and self._finished():
            ends = [*model_folder.limits_of(run), f"{run.training.patience:,} epochs without improvement"]
            raise UserError(f"{self.folder}: the run has ended, and its limits are now {' or '.join(ends)}")
        if self.rank == 0:
            self._write_config()
        self.save()

    def fit(self, on_step: Callable[[int, float], None] | None = None) -> Iterator[Report]:
        """Train to the end; yield a report after every validation. DivergedError if numbers are not finite."""
        self._start_clock()
        saved, losses = self._clock(), list[float]()
        while True:
            if self.state.step >= self.state.next_plan:
                self.pacer.plan(self.state)
            # also right after resuming: the checkpoint may have been written just before a validation
            if self._validation_due():
                yield self.validate(float(np.mean(losses)) if losses else float("nan"))
                losses, saved = [], self._clock()
                continue
            if self._finished():
                self.state.finished = True
                self.save()
                self._write_graph()
                self._write_found_pairs()
                return
            losses.append(self.step(self._next_batch()))
            self._update_seconds()
            if on_step:
                on_step(self.state.step, losses[-1])
            if self._clock() - saved > SAVE_EVERY or self.stopping:
                self.save()
                saved = self._clock()
            if self.stopping:
                return

    def _start_clock(self) -> None:
        """Continue to count seconds; a plan is due at once."""
        self._started = self._clock() - self.state.seconds
        self.pacer.start_timing()
        self.state.next_plan = self.state.step

    def _update_seconds(self) -> None:
        self.state.seconds = self._clock() - self._started

    def _finished(self) -> bool:
        """Whether all steps are done or patience has run out."""
        stale = self.state.validated - self.state.best_epoch
        return 0 < self.state.total_steps <= self.state.step or stale >= self.run.training.patience

    def _validation_due(self) -> bool:
        """Whether a validation is due and has not been made."""
        return self.state.step >= self.state.next_validation and self._epochs() > self.state.validated

    def _epochs(self) -> float:
        """Return the epochs so far, whole or not."""
        whole, rest = divmod(self.state.step, self.batches)
        return self.state.step / self.batches if rest else whole

    def _next_batch(self) -> States:
        """Return the states of the next step."""
        epoch, index = divmod(self.state.step, self.batches)
        if self._states is None or self._states[0] != epoch:
            self._states = epoch, self.epoch_states(epoch)
        size = self.run.training.batch_size
        return self._states[1].take(np.arange(index * size, (index + 1) * size))

    def epoch_states(self, epoch: int) -> States:
        """Return the shuffled states of an epoch; in self-training with the model's own outputs among them."""
        if self.run.mode != "self-training":
            return self.sampler.states(epoch)
        rng = np.random.default_rng([self.run.seed, 2, epoch])
        with evaluation_mode(self.average):
            self.buffer.extend(epoch, self.average, self.method, self.held_out, rng)
        return self.sampler.states(epoch, self.buffer.mix)

    def step(self, states: States) -> float:
        """Make one optimizer step on a batch, or on this process's part of it; return the loss of the whole batch.

        DivergedError, with the weights as they were, if loss or gradients are not finite.
        """
        step, config = self.state.step, self.run.training
        rows = torch.arange(self.rank, len(states), self.world_size)
        rng = DropoutRng(torch.Generator().manual_seed(self.run.seed * 1_000_003 + step), rows, len(states))
        for group in (group for optimizer in self.optimizers for group in optimizer.param_groups):
            group["lr"] = learning_rate_at(step, self.state.progress, config) * group.get("lr_scale", 1.0)
        with dropout_rng(self.net, rng):
            loss: Tensor = self.module(states, rng)
        self.net.zero_grad(set_to_none=True)
        (loss * self.world_size).backward()  # type: ignore[no-untyped-call]  # gradients are averaged over processes
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), config.max_grad_norm)
        whole = distributed.sum_over_ranks(loss.detach().clone())
        if not isfinite(whole) or not isfinite(norm.item()):  # the same on every rank
            what = "loss" if not isfinite(whole) else "gradient"
            raise self._diverged(f"the {what} is not finite at step {step + 1:,}")
        for optimizer in self.optimizers:
            optimizer.step()
        update_average(self.average, self.net, config.ema_decay, step)
        self.pacer.advance(self.state)
        return whole

    def _diverged(self, what: str) -> DivergedError:
        """Return the error of a run whose numbers are not finite."""
        exists = (self.folder / model_folder.CHECKPOINT).exists()
        kept = "the last good checkpoint is kept" if exists else "there is no checkpoint yet"
        advice = "train anew, with a lower --learning-rate or --weight-decay, or more --warmup-steps"
        return DivergedError(f"{what}; {kept}; {advice}")

    def _check_finite(self) -> None:
        """Raise DivergedError if a weight is not finite, so that no good file is overwritten."""
        for net in (self.net, self.average):
            if not all(bool(parameter.isfinite().all()) for parameter in net.parameters()):
                raise self._diverged(f"the weights are not finite after step {self.state.step:,}")

    def validate(self, loss: float) -> Report:
        """Evaluate on validation, keep the weights if they are the best or none has a score, and save a checkpoint."""
        self._check_finite()
        began, epoch = self._clock(), self._epochs()
        names = self.method.task.metrics
        own = dict.fromkeys(names, 0.0)
        if self.rank == 0:
            with evaluation_mode(self.average):
                own = evaluate_pairs(self.average, self.validating, self.validation).means()
        metrics = dict(zip(names, distributed.broadcast_from_rank0([own[name] for name in names]), strict=True))
        self._update_seconds()
        self.state.validated = epoch
        objective = metrics[self.method.task.objective]
        better = objective > self.state.best
        kept = better or objective == self.state.best == 0  # of weights that can do nothing yet, the last ones
        if better:
            self.state.best, self.state.best_epoch = objective, epoch
        seconds, step = self.state.seconds, self.state.step
        report = Report(
            epoch=epoch,
            step=step,
            total_steps=self.state.total_steps,
            loss=loss,
            metrics=metrics,
            copy=self.copy_scores,
            best=self.state.best,
            learning_rate=learning_rate_at(step, self.state.progress, self.run.training),
            seconds=seconds,
            steps_per_second=step / max(seconds, 1e-9),
        )
        if self.rank == 0:
            if kept:
                facts = {"epoch": epoch, "step": step, "validation": metrics}
                model_folder.write_tensors(self.folder / model_folder.WEIGHTS, weights_of(self.average), facts)
                model_folder.remove_results(self.folder)  # of other weights
            checkpoint.append_report(self.folder, report)
        self.pacer.validated(self.state, self._clock() - began)
        self.save()
        return report

    def _write_graph(self) -> None:
        """Write the best weights as a graph, if the programmer has one of its own and onnx is installed."""
        has_graph = "graph" in vars(type(self.net))  # an inherited one may be that of another network
        if self.rank == 0 and has_graph and find_spec("onnx") is not None:
            graph = model_folder.make_graph(self.folder, "float32")
            write_atomic(self.folder / model_folder.GRAPH, graph)

    def _write_found_pairs(self) -> None:
        """Add the pairs that self-training found to what the folder says of its training data."""
        before = read_trained_on(self.folder) if self.rank == 0 else None
        if self.run.mode == "self-training" and before is not None:
            pairs = map(self.method.task.vocabulary.decode, (self.buffer.pairs.sources, self.buffer.pairs.targets))
            before.including(*pairs).write(self.folder)

    def save(self) -> None:
        """Write a checkpoint with all that resuming needs."""
        self._check_finite()
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
        self.state, buffer_epoch = checkpoint.unpack_facts(path, facts)
        self.buffer = SelfTrainingBuffer(checkpoint.unpack_pairs(buffer), buffer_epoch)
        self.pacer.start_timing()
        self.pacer.plan(self.state)
        if self.rank == 0:
            checkpoint.truncate_reports(self.folder, self.state.validated)


def _device(name: str) -> torch.device:
    """Return the device of this name; UserError if there is none."""
    try:
        return torch.zeros(1, device=name).cpu().to(name).device  # there and back: `meta` holds no numbers
    except (RuntimeError, AssertionError, NotImplementedError):
        raise UserError(f"no device {name!r} here; `cpu` always exists") from None
