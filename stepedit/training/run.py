"""Train a run: resolve what is asked for, prepare the data, train, return an editor."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from stepedit.config import RunConfig, RunSettings
from stepedit.data.dataset import Dataset, Loaded, load, overlap_warning, space_warning
from stepedit.errors import DataError, DataWarning, UserError
from stepedit.files import LOCK, locked, write_atomic
from stepedit.inference.editor import Editor
from stepedit.inference.model_folder import PAIRS, make_method, read_config
from stepedit.inference.trained_on import TrainedOn
from stepedit.methods.base import Method
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
    folder: Path,
    options: Mapping[str, Any],
    resume: bool = False,
    progress: Progress | None = None,
    pairs: bytes | None = None,
) -> Iterator[Trainer]:
    """Yield the trainer of a new run or of the folder's, which may be extended; the folder is locked from the start.

    `pairs` are those of `--data -`; they are stored in the folder, because they are needed again.
    """
    distributed.init_from_environment()
    if resume:
        read_config(folder)  # a folder without a run is not created
    if folder.is_file():
        raise UserError(f"{folder} is a file; name a folder to be created")
    with locked(folder) if distributed.rank() == 0 else nullcontext():
        if resume:
            run = read_config(folder)
            longer = extended(run, options)
            trainer = trainer_for(run, folder, progress)
            trainer.resume()
            if longer != run:
                trainer.extend(longer)
        else:
            refuse_existing(folder)
            with _stored(folder, pairs):
                trainer = new_trainer(resolve(options), folder, progress)
                trainer.begin()
        yield trainer


@contextmanager
def _stored(folder: Path, pairs: bytes | None) -> Iterator[None]:
    """Store pairs of standard input in a run's folder; they are removed again if the run cannot begin."""
    if pairs is None:
        yield
        return
    if distributed.world_size() > 1:
        raise UserError("--data - works in one process; write the pairs to a file first")
    if (folder / PAIRS).exists():
        raise DataError(f"{folder / PAIRS} exists already; choose another folder, or name it with --data")
    write_atomic(folder / PAIRS, pairs)
    try:
        yield
    except BaseException:
        (folder / PAIRS).unlink()
        raise


def new_trainer(request: RunRequest, folder: Path, progress: Progress | None = None) -> Trainer:
    """Return the trainer of a new run; with a time budget, steps were timed. Nothing is written yet."""
    _prepare(request.limits.threads)
    splits, method = _load(request.settings, progress, folder)
    run, timing = plan(request, folder, splits.pairs, method)
    trainer = Trainer(run, folder, splits.pairs, method)
    trainer.trained_on = TrainedOn.of_run(run, splits)
    trainer.state.seconds_per_step, trainer.state.validation_seconds = timing
    return trainer


def trainer_for(run: RunConfig, folder: Path, progress: Progress | None = None) -> Trainer:
    """Return the trainer of a run that is configured already."""
    _prepare(run.threads)
    splits, method = _load(run, progress, folder)
    return Trainer(run, folder, splits.pairs, method)


def _prepare(threads: int | None) -> None:
    runtime.flush_denormals()
    torch.set_num_threads(threads or torch.get_num_threads())


def _load(run: RunSettings, progress: Progress | None, folder: Path) -> tuple[Loaded, Method]:
    """Return the splits of a run and its method, with one task for both; warn about doubtful data."""
    method = make_method(run)
    splits = load(run, method.task, progress, folder=folder)
    names = splits.pairs
    if not {"train", "val"} <= set(names):
        raise DataError(f"{run.data}: training needs splits called train and val, there are: {', '.join(names)}")
    if run.data and distributed.rank() == 0:
        for message in filter(None, _warnings(run.data, splits)):
            warnings.warn(message, DataWarning, stacklevel=2)
    return splits, method


def _warnings(path: str, splits: Loaded) -> Iterator[str | None]:
    """Yield what may be wrong with given data."""
    is_text, lines = splits.task.open_vocabulary, {name: splits.lines(name) for name in splits.pairs}
    if Path(path).is_dir():
        yield overlap_warning(Dataset(lines, path=path), is_text)
    if is_text:
        yield space_warning(lines["train"])


def refuse_existing(folder: Path) -> None:
    """Raise DataError if a new run's folder is not empty."""
    if folder.exists() and any(path.name not in (LOCK, PAIRS) for path in folder.iterdir()):
        raise DataError(f"{folder} exists already; choose another folder, or --resume to continue the run in it")
