"""`stepedit train`: train a model."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from stepedit.cli.arguments import Length, Numbers, TaskArgs, parse_pairs, require_torch, with_options
from stepedit.cli.progress import progress_bar, require_tensorboard, show_training, stopping_between_steps
from stepedit.config import Limits, RunSettings, TrainingConfig
from stepedit.registry import TASKS


@with_options(
    "options", RunSettings, Limits, TrainingConfig, skip=("task", "task_args", "training", "data_hash", "encoder_shape")
)
def train(
    task: Annotated[str | None, typer.Argument(help=f"Task: {', '.join(TASKS.known())}.", show_default=False)] = None,
    *,
    out: Annotated[Path, typer.Option(help="Folder of the run, to be created.", show_default=False)],
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in --out; larger limits extend it.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            help="YAML or JSON file with any of these options; command-line options take precedence.",
            show_default=False,
        ),
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write to OUT/tensorboard; needs the extra [track].")
    ] = False,
    level: Annotated[
        str | None, typer.Option(metavar="word|char", help="Tokens of your own text.", show_default="char")
    ] = None,
    segmentation: Annotated[
        str | None,
        typer.Option(
            metavar="line|word",
            help="Edit your own text by line or word by word.",
            show_default="word if nearly all pairs are single words",
        ),
    ] = None,
    numbers: Numbers = None,
    length: Length = None,
    task_arg: TaskArgs = None,
    options: dict[str, Any],
) -> None:
    """Train a model and keep the checkpoint with the best validation score.

    Example: stepedit train aor --method recurrence --mode online --numbers 10 --length 5 --out runs/aor

    Your own pairs: stepedit train --data pairs.tsv --level word --out runs/mine

    Several processes share each batch under torchrun: torchrun --nproc-per-node 2 -m stepedit train aor --out runs/aor
    """
    require_torch("training")
    from stepedit.inference.model_folder import PAIRS
    from stepedit.training.request import read_options
    from stepedit.training.run import open_trainer

    if tensorboard:
        require_tensorboard()
    named = {"task": task, "level": level, "segmentation": segmentation, "numbers": numbers, "length": length}
    given = options | parse_pairs(task_arg) | {name: value for name, value in named.items() if value is not None}
    given = (read_options(config) if config else {}) | given
    pairs = sys.stdin.buffer.read() if given.get("data") == "-" and not resume else None
    if pairs is not None:
        given["data"] = str(out / PAIRS)
    with ExitStack() as stack:
        with progress_bar("preparing data") as progress:
            trainer = stack.enter_context(open_trainer(out, given, resume, progress, pairs))
        stack.enter_context(stopping_between_steps(trainer))
        board = _tensorboard(out, trainer.state.step) if tensorboard and trainer.rank == 0 else None
        show_training(trainer, out, board)


def _tensorboard(out: Path, step: int) -> Any:
    """Return a TensorBoard writer; what was written after this step is removed."""
    from stepedit.training.tracking import summary_writer

    return summary_writer(out / "tensorboard", step)
