"""Progress of long work: a bar on a terminal, a line per validation, TensorBoard on request."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from stepedit.cli.display import console, visible
from stepedit.errors import UserError
from stepedit.registry import loaded_plugins

if TYPE_CHECKING:
    from stepedit.training.checkpoint import Report
    from stepedit.training.trainer import Trainer


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
    run = trainer.run
    epochs = f"{run.max_epochs:,} epoch{'s' * (run.max_epochs > 1)} of {trainer.batches} batches"
    size = f"{trainer.net.num_parameters:,} parameters, {epochs}"
    lines.print(Text(f"{run.task} {run.method} {run.mode}: {size}, validation every {run.eval_every}"))
    if trainer.method.task.open_vocabulary:
        lines.print(_data_summary(trainer))
    with _training_bar(trainer) as show, stopping_between_steps(trainer):
        for report in trainer.fit(show):
            lines.print(_line(report))
            if board:
                _track(board, report)
    if trainer.stopping:
        plugins = "".join(f" --plugin {path}" for path in loaded_plugins())
        command = f"stepedit train --resume --out {out}{plugins}"
        raise UserError(f"stopped at step {trainer.state.step:,}; resume with: {command}")
    metric, state = trainer.method.task.early_stopping_metric, trainer.state
    lines.print(Text(f"best validation {metric} {state.best:.2%} at epoch {state.best_epoch}; saved in {out}"))


@contextmanager
def _training_bar(trainer: Trainer) -> Iterator[Callable[[int, float], None]]:
    shown = "epoch {task.fields[epoch]}  loss {task.fields[loss]:.4f}  {task.fields[speed]:.1f} steps/s"
    columns = (TextColumn(shown), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    screen = Console(stderr=True)
    hidden = not screen.is_terminal or trainer.rank > 0
    with Progress(*columns, console=screen, transient=True, disable=hidden) as bar:
        start = {"completed": trainer.state.step, "epoch": 0, "loss": float("nan"), "speed": 0.0}
        work = bar.add_task("", total=trainer.total_steps, **start)  # type: ignore[arg-type]

        def show(step: int, loss: float) -> None:
            speed = step / max(trainer.state.seconds, 1e-9)
            bar.update(work, completed=step, epoch=step // trainer.batches, loss=loss, speed=speed)

        yield show


def _data_summary(trainer: Trainer) -> Text:
    """Return what a run is trained on, and how much of it can be expressed."""
    coverage, task = trainer.coverage, trainer.method.task
    share = coverage.expressible / max(1, coverage.pairs)
    split = "" if Path(trainer.run.data or "").is_dir() else ", split by family"
    text = f"{coverage.pairs:,} training pairs, {len(trainer.validation):,} for validation{split}; "
    text += f"{len(task.vocabulary) - 1:,} known tokens, {len(task.template.tokens):,} of them insertable\n"
    text += f"{share:.1%} of the pairs can be expressed"
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


def _line(report: Report) -> Text:
    metrics = "  ".join(f"{name} {value:.2%}" for name, value in report.metrics.items())
    speed = f"{report.steps_per_second:.1f} steps/s"
    return Text(f"epoch {report.epoch:>5}  loss {report.loss:.4f}  {metrics}  {speed}  {report.seconds / 60:.1f} min")


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
