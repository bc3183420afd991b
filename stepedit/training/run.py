"""Train a run: resolve what is asked for, prepare the data, train, return an editor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from stepedit.config import RunConfig, RunSettings
from stepedit.data.dataset import load_splits
from stepedit.editing.sequences import Pairs
from stepedit.errors import DataError, UserError
from stepedit.files import LOCK, locked
from stepedit.inference.editor import Editor
from stepedit.inference.model_folder import PAIRS, read_config
from stepedit.programmers import runtime
from stepedit.tasks.base import Progress
from stepedit.training import distributed
from stepedit.training.budget import plan
from stepedit.training.checkpoint import Report
from stepedit.training.request import RunRequest, extended, resolve
from stepedit.training.trainer import Trainer


def train(
    task: str | None = None,
    *,
    out: str | Path,
    resume: bool = False,
    on_step: Callable[[int, float], None] | None = None,
    on_report: Callable[[Report], None] | None = None,
    **options: Any,
) -> Editor:
    """Train a model as `stepedit train` does, and return an editor with the best weights.

    `options` are those of the command with underscores: `train("aor", out="runs/aor", mode="online", max_epochs=20)`.
    PyTorch's number of threads and treatment of denormals are restored at the end.
    """
    folder = Path(out)
    with (
        runtime.restored(),
        open_trainer(folder, {"task": task, **options}, resume) as trainer,
    ):
        for report in trainer.fit(on_step):
            if on_report:
                on_report(report)
    return Editor.load(folder)


@contextmanager
def open_trainer(
    folder: Path, options: Mapping[str, Any], resume: bool = False, progress: Progress | None = None
) -> Iterator[Trainer]:
    """Yield the trainer of a new run or of the folder's run, which may be extended; the folder is locked meanwhile."""
    distributed.init_from_environment()
    if resume:
        run = read_config(folder)
        longer = extended(run, options)
        trainer = trainer_for(run, folder, progress)
    else:
        refuse_existing(folder)
        trainer = new_trainer(resolve(options), folder, progress)
    with locked(folder) if trainer.rank == 0 else nullcontext():
        if resume:
            trainer.resume()
            if longer != run:
                trainer.extend(longer)
        else:
            trainer.begin()
        yield trainer


def new_trainer(request: RunRequest, folder: Path, progress: Progress | None = None) -> Trainer:
    """Return the trainer of a new run; with a time budget, steps were timed. Nothing is written yet."""
    _prepare(request.limits.threads)
    pairs = _load(request.settings, progress)
    run, timing = plan(request, folder, pairs)
    trainer = Trainer(run, folder, pairs)
    trainer.state.seconds_per_step, trainer.state.validation_seconds = timing
    return trainer


def trainer_for(run: RunConfig, folder: Path, progress: Progress | None = None) -> Trainer:
    """Return the trainer of a run that is configured already."""
    _prepare(run.threads)
    return Trainer(run, folder, _load(run, progress))


def _prepare(threads: int | None) -> None:
    runtime.flush_denormals()
    torch.set_num_threads(threads or torch.get_num_threads())


def _load(run: RunSettings, progress: Progress | None) -> dict[str, Pairs]:
    pairs = load_splits(run, progress)
    if not {"train", "val"} <= set(pairs):
        raise DataError(f"{run.data}: training needs splits called train and val, there are: {', '.join(pairs)}")
    return pairs


def refuse_existing(folder: Path) -> None:
    """Raise DataError if a new run's folder is not empty."""
    if folder.is_file():
        raise UserError(f"{folder} is a file; name a folder to be created")
    if folder.exists() and any(path.name not in (LOCK, PAIRS) for path in folder.iterdir()):
        raise DataError(f"{folder} exists already; choose another folder, or --resume to continue the run in it")
