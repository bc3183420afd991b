"""One run of a sweep, from wherever it stands to its test scores.

`python -m stepedit.experiments.worker FOLDER` reads the run's options (JSON) from standard input. It stops, with a
checkpoint, on SIGINT or SIGTERM and when the process that started it is gone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepedit.config import RunConfig, RunSettings
from stepedit.errors import DataError, UserError
from stepedit.evaluation.paper import paper_result
from stepedit.evaluation.scores import RunScores, evaluate, read_scores
from stepedit.files import locked
from stepedit.inference.model_folder import CONFIG, read_config, user_task_args
from stepedit.registry import load_plugins
from stepedit.training.request import RunRequest, resolve

if TYPE_CHECKING:
    from stepedit.training.trainer import Trainer

STOPPED = 130  # exit code
LOCK_TIMEOUT = 600.0  # seconds that a worker of a killed sweep has to stop


class StoppedError(UserError):
    """The run was asked to stop and has saved a checkpoint."""


def complete(values: Mapping[str, Any], folder: Path, stop: threading.Event | None = None) -> RunScores:
    """Train a run to its end, resuming if it was begun, and score it on test; a finished run is left alone."""
    with locked(folder, LOCK_TIMEOUT):
        request = resolve(values)
        done = read_scores(folder)
        if done and done.training_finished and not _difference_in(folder, request):
            return done
        trainer = _open(request, folder)

        def check(step: int, loss: float) -> None:
            trainer.stopping = stop is not None and stop.is_set()

        for report in trainer.fit(check):
            scores = f"{report.metrics}, copying the source {report.copy}"
            print(f"epoch {report.epoch:g} loss {report.loss:.4f} {scores} {report.seconds:.0f} s", flush=True)
        if trainer.stopping:
            raise StoppedError(f"stopped at step {trainer.state.step:,}")
        if _is_the_papers(trainer.run):
            evaluate(folder, scoring="authors")  # before our own, whose file says that the run is finished
        return evaluate(folder)


def _is_the_papers(run: RunConfig) -> bool:
    """Whether the authors have a figure for this setting, to be set beside ours by their scoring, too."""
    return paper_result(run.task, run.method, run.mode, run.task_args, run.num_examples) is not None


def _open(request: RunRequest, folder: Path) -> Trainer:
    """Return the run's trainer, resumed if the run was begun."""
    from stepedit.training.run import new_trainer, trainer_for

    if (folder / CONFIG).exists():
        if difference := _difference_in(folder, request):
            raise DataError(f"{folder}: another run is here, with other options ({difference})")
        run = read_config(folder)
        here = {"threads": request.limits.threads or run.threads, "device": request.settings.device}
        trainer = trainer_for(run.model_copy(update=here), folder)
        trainer.resume()
    else:
        trainer = new_trainer(request, folder)
        trainer.begin()
    return trainer


def _difference_in(folder: Path, request: RunRequest) -> str:
    """Return how the run of a folder, if there is one, differs from the request."""
    return difference(read_config(folder), request) if (folder / CONFIG).exists() else ""


def difference(run: RunConfig, request: RunRequest) -> str:
    """Return the first option in which a run differs from a request; limits and device do not count."""
    old, new = _flat(run), _flat(request.settings)
    return next((f"{name}: {old[name]}, not {new[name]}" for name in old if old[name] != new.get(name)), "")


def _flat(settings: RunSettings) -> dict[str, Any]:
    """Return all settings in one dictionary, without arguments that are learned from the data, and where those are."""
    names = set(RunSettings.model_fields) - {"device", "task_args", "training"}
    names -= {"data", "target_file"} if settings.data_hash else set()
    return settings.model_dump(include=names) | settings.training.model_dump() | user_task_args(settings)


def main() -> None:
    """Complete one run as a process of its own."""
    stop, parent = threading.Event(), int(os.environ.get("STEPEDIT_SWEEP", os.getppid()))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        stop.set()

    threading.Thread(target=watch, daemon=True).start()
    cores = [int(core) for core in os.environ.get("STEPEDIT_CORES", "").split(",") if core]
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    try:
        job = json.load(sys.stdin)
        load_plugins(job["plugins"])
        complete(job["values"], Path(sys.argv[1]), stop)
    except StoppedError as error:
        print(error, file=sys.stderr)
        sys.exit(STOPPED)
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code if isinstance(error, UserError) else 2)


if __name__ == "__main__":
    main()
