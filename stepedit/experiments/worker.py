"""One run of a sweep, from wherever it stands to its scores on test.

`python -m stepedit.experiments.worker FOLDER` reads the run's values (JSON) from standard input. It stops, saved, when
it is told to, and when whoever started it is gone.
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
from typing import Any

from stepedit import checkpoints, results
from stepedit.config import Run
from stepedit.errors import DataError, UserError
from stepedit.registry import TASKS
from stepedit.results import Result
from stepedit.runs import Wanted, make_trainer, wanted
from stepedit.training import Trainer, make_method, settled

STOPPED = 130  # exit code
PATIENCE = 600.0  # seconds that a worker of a sweep that was killed has for coming to its end


class StoppedError(UserError):
    """The run was asked to stop, and is saved."""


def complete(values: Mapping[str, Any], folder: Path, stop: threading.Event | None = None) -> Result:
    """Train a run to its end, or go on with it, and score it on test; what is finished is left alone."""
    with checkpoints.locked(folder, PATIENCE):
        asked = wanted(values)
        done = results.read(folder)
        if done and done.ended and not _other(asked, folder):
            return done
        trainer = _begun(asked, folder)

        def look(step: int, loss: float) -> None:
            trainer.stopping = stop is not None and stop.is_set()

        for report in trainer.fit(look):
            print(f"epoch {report.epoch} loss {report.loss:.4f} {report.metrics} {report.seconds:.0f} s", flush=True)
        if trainer.stopping:
            raise StoppedError(f"stopped at step {trainer.standing.step:,}")
        return results.score(folder)


def _begun(asked: Wanted, folder: Path) -> Trainer:
    """The run's trainer, where it left off if it was begun."""
    if (folder / checkpoints.CONFIG).exists():
        if other := _other(asked, folder):
            raise DataError(f"{folder}: another run is here, with other options ({other})")
        here = {"threads": asked.run.threads, "device": asked.run.device}
        trainer = make_trainer(Wanted(checkpoints.read_run(folder).model_copy(update=here)), folder, begun=True)
        trainer.resume()
    else:
        trainer = make_trainer(asked, folder)
        trainer.begin()
    return trainer


def _other(asked: Wanted, folder: Path) -> str:
    """In what the run of a folder, if there is one, is not the one asked for."""
    return differs(checkpoints.read_run(folder), asked.run) if (folder / checkpoints.CONFIG).exists() else ""


def differs(one: Run, other: Run) -> str:
    """The first option in which two runs differ, their length and where they run apart."""
    free = {"epochs", "validate_every", "threads", "device", "task_options"}
    old, new = (
        settled(run, make_method(run)).model_dump(mode="json", exclude=free) | checkpoints.said_options(run)
        for run in (one, other)
    )
    old, new = ({**each, **each.pop("options")} for each in (old, new))
    if TASKS[one.task].learned:
        new["batch"] = old["batch"]  # which is made smaller where pairs are few
    return next((f"{name}: {old[name]}, not {new[name]}" for name in old if old[name] != new[name]), "")


def main() -> None:
    """Complete one run, as a process of its own."""
    stop, parent = threading.Event(), int(os.environ.get("STEPEDIT_SWEEP", os.getppid()))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        stop.set()

    threading.Thread(target=watch, daemon=True).start()
    kept = [int(core) for core in os.environ.get("STEPEDIT_CORES", "").split(",") if core]
    if kept and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, kept)
    try:
        complete(json.load(sys.stdin), Path(sys.argv[1]), stop)
    except StoppedError as error:
        print(error, file=sys.stderr)
        sys.exit(STOPPED)
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
