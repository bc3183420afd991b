"""Progress of long work: a bar on a terminal, a line per validation, TensorBoard on request."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from stepedit.cli.display import console, expressible_shares, visible
from stepedit.errors import UserError
from stepedit.inference.model_folder import limits_of
from stepedit.registry import loaded_plugins

if TYPE_CHECKING:
    from stepedit.config import RunConfig
    from stepedit.training.checkpoint import Report, TrainerState
    from stepedit.training.trainer import Trainer

LINE_EVERY = 60.0  # seconds between lines of progress where there is no terminal for a bar


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function (done, total) that moves a bar on standard error, if that is a terminal."""
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    screen = Console(stderr=True)
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        work = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(work, completed=done, total=total)


def show_training(trainer: Trainer, out: Path, board: Any | None) -> None:
    """Train with a progress bar and a line per validation."""
    lines = console()
    lines.quiet = trainer.rank > 0
    run, metric = trainer.run, trainer.method.task.objective
    size = f"{trainer.net.num_parameters:,} parameters, epochs of {trainer.batches:,} batches"
    lines.print(Text(f"{run.task} {run.method} {run.mode}: {size}, {_length(run)}"))
    if trainer.method.task.open_vocabulary:
        lines.print(_data_summary(trainer))
    copying = "  ".join(f"{name} {value:.2%}" for name, value in trainer.copy_scores.items())
    lines.print(Text(f"copying the source on validation: {copying}"))
    with _training_bar(trainer) as show:
        for report in trainer.fit(show):
            lines.print(_line(report, metric))
            if board:
                _track(board, report)
    if trainer.stopping:
        plugins = "".join(f" --plugin {path}" for path in loaded_plugins())
        command = f"stepedit train --resume --out {out}{plugins}"
        raise UserError(f"stopped at step {trainer.state.step:,}; resume with: {command}")
    state = trainer.state
    found = f"best validation {metric} {state.best:.2%} at epoch {_epochs(state.best_epoch)}; saved in {out}"
    if not state.best:
        found = f"validation {metric} stayed at {state.best:.2%}; the last weights are saved in {out}"
    lines.print(Text(found))


@contextmanager
def _training_bar(trainer: Trainer) -> Iterator[Callable[[int, float], None]]:
    """Yield a function (step, loss) that shows progress on standard error: a bar, or lines if it is not a terminal."""
    screen = Console(stderr=True)
    if not screen.is_terminal and trainer.rank == 0:
        yield progress_lines(trainer.state)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True, disable=trainer.rank > 0) as bar:
        work = bar.add_task("training", total=trainer.state.total_steps or None, completed=trainer.state.step)

        def show(step: int, loss: float) -> None:
            speed, total = step / max(trainer.state.seconds, 1e-9), trainer.state.total_steps or None
            shown = f"epoch {step // trainer.batches}  loss {loss:.4f}  {speed:.1f} steps/s"
            bar.update(work, completed=step, total=total, description=shown)

        yield show


def progress_lines(state: TrainerState) -> Callable[[int, float], None]:
    """Return a function (step, loss) that writes a line a minute to standard error."""
    written = state.seconds

    def show(step: int, loss: float) -> None:
        nonlocal written
        if state.seconds - written < LINE_EVERY:
            return
        written = state.seconds
        total = f" of {state.total_steps:,}" if state.total_steps else ""
        speed = f"{step / state.seconds:.1f} steps/s  {state.seconds / 60:.1f} min"
        print(f"step {step:,}{total}  loss {loss:.4f}  {speed}", file=sys.stderr, flush=True)

    return show


def _data_summary(trainer: Trainer) -> Text:
    """Return what a run is trained on, and how much of it can be expressed."""
    coverage, task = trainer.sampler.coverage, trainer.method.task
    split = "" if Path(trainer.run.data or "").is_dir() else ", split by family"
    text = f"{coverage.pairs:,} training pairs, {len(trainer.validation):,} for validation{split}; "
    text += f"{len(task.vocabulary) - 1:,} known tokens, {len(task.template.tokens):,} of them insertable\n"
    text += expressible_shares(coverage.pairs, coverage.expressible, coverage.without_forms, task)
    for source, target in coverage.others:
        text += "\n" + visible(f"  not: {source!r} -> {target!r}")
    return Text(text)


@contextmanager
def stopping_between_steps(trainer: Trainer) -> Iterator[None]:
    """On Ctrl-C, stop after the current step with a checkpoint; on a second one, stop at once."""

    def stop(number: int, frame: object) -> None:
        trainer.stopping = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _line(report: Report, metric: str) -> Text:
    """Return a validation: all metrics and, beside the one that chooses the weights, that of copying the source."""
    shown = {name: f"{name} {value:.2%}" for name, value in report.metrics.items()}
    shown[metric] += f" (copying {report.copy[metric]:.2%})"
    metrics = "  ".join(shown.values())
    parts = [f"epoch {_epochs(report.epoch):>5}", f"loss {report.loss:.4f}", metrics]
    return Text("  ".join([*parts, f"{report.steps_per_second:.1f} steps/s", f"{report.seconds / 60:.1f} min"]))


def _epochs(epochs: float) -> str:
    """Return a number of epochs, with one digit if it is not whole."""
    return f"{epochs:.1f}".removesuffix(".0")


def _length(run: RunConfig) -> str:
    """Return how long a run may take, and when it is validated."""
    often = f", validation every {run.eval_every}" if run.eval_every else ""
    return f"at most {' or '.join(limits_of(run))}{often}"


def _track(board: Any, report: Report) -> None:
    """Write a report to TensorBoard."""
    numbers = {"loss": report.loss, "learning rate": report.learning_rate}
    numbers |= {"steps per second": report.steps_per_second}
    numbers |= {f"validation/{name}": value for name, value in report.metrics.items()}
    for name, value in numbers.items():
        board.add_scalar(name, value, report.step)
    board.flush()


def require_tensorboard() -> None:
    """Raise UserError if TensorBoard is not installed."""
    if find_spec("tensorboard") is None:
        raise UserError("--tensorboard needs TensorBoard: pip install 'stepedit[track]'")
