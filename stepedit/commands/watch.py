"""What a training shows while it runs: a bar on a terminal, a line for every validation, TensorBoard if asked."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from stepedit.commands.common import console
from stepedit.display import visible
from stepedit.errors import UserError

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from stepedit.training import Report, Trainer


def watched(trainer: Trainer, out: Path, board: SummaryWriter | None) -> None:
    """Train with a bar on a terminal, and a line for every validation."""
    lines, screen = console(), Console(stderr=True)
    lines.quiet = trainer.rank > 0
    run = trainer.run
    count = sum(parameter.numel() for parameter in trainer.net.parameters())
    size = f"{count:,} parameters, {run.epochs:,} epochs of {trainer.batches} batches"
    lines.print(Text(f"{run.task} {run.method} {run.mode}: {size}, validation every {run.validate_every}"))
    if trainer.method.task.learned:
        lines.print(_data(trainer))
    shown = "epoch {task.fields[epoch]}  loss {task.fields[loss]:.4f}  {task.fields[speed]:.1f} steps/s"
    columns = (TextColumn(shown), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal or trainer.rank > 0) as bar:
        done, loss = trainer.standing.step, float("nan")
        work = bar.add_task("", total=trainer.total, completed=done, epoch=0, loss=loss, speed=0.0)

        def show(step: int, loss: float) -> None:
            speed = step / max(trainer.standing.seconds, 1e-9)
            bar.update(work, completed=step, epoch=step // trainer.batches, loss=loss, speed=speed)

        with stopping_between_steps(trainer):
            for report in trainer.fit(show):
                lines.print(_line(report))
                if board:
                    _track(board, report)
    if trainer.stopping:
        step = f"{trainer.standing.step:,}"
        raise UserError(f"stopped at step {step}; go on with: stepedit train --resume --out {out}")
    metric = trainer.method.task.stop_metric
    lines.print(
        Text(f"best validation {metric} {trainer.standing.best:.2%} at epoch {trainer.standing.best_epoch}; in {out}")
    )


def _data(trainer: Trainer) -> Text:
    """What a run learns from, and how much of it can be said."""
    coverage, task = trainer.coverage, trainer.method.task
    share = coverage.said / max(1, coverage.pairs)
    parts = "" if Path(trainer.run.data or "").is_dir() else ", divided by target"
    text = f"{coverage.pairs:,} pairs to learn from, {len(trainer.validation):,} for validation{parts}; "
    text += f"{len(task.vocabulary) - 1:,} tokens known, {len(task.template.tokens):,} may be brought\n"
    text += f"{share:.1%} of the pairs can be expressed"
    for source, target in coverage.others:
        text += "\n" + visible(f"  not: {source!r} -> {target!r}")
    return Text(text)


@contextmanager
def stopping_between_steps(trainer: Trainer) -> Iterator[None]:
    """Ctrl-C ends a run after the step it is at, saved; a second one ends it at once, where it was last saved."""

    def stop(number: int, frame: object) -> None:
        trainer.stopping = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _track(board: SummaryWriter, report: Report) -> None:
    """A report's numbers as TensorBoard wants them."""
    numbers = {"loss": report.loss, "rate": report.rate, "steps per second": report.steps_per_second}
    numbers |= {f"validation/{name}": value for name, value in report.metrics.items()}
    for name, value in numbers.items():
        board.add_scalar(name, value, report.step)
    board.flush()


def _line(report: Report) -> Text:
    metrics = "  ".join(f"{name} {value:.2%}" for name, value in report.metrics.items())
    speed = f"{report.steps_per_second:.1f} steps/s"
    return Text(f"epoch {report.epoch:>5}  loss {report.loss:.4f}  {metrics}  {speed}  {report.seconds / 60:.1f} min")


def need_tensorboard() -> None:
    """UserError if TensorBoard is not installed."""
    if find_spec("tensorboard") is None:
        raise UserError("--tensorboard needs TensorBoard: pip install 'stepedit[track]'")


def make_board(out: Path, step: int) -> SummaryWriter:
    """Where TensorBoard looks; what was written after this step is taken back."""
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(out / "tensorboard", purge_step=step + 1)
