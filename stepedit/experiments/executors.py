"""Where the runs of a sweep are executed: on this machine, or on a Ray cluster. Both yield events as they happen.

Neither knows how to train: both hand each run to `worker.complete`, which continues from wherever the run stands.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import time
import traceback
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from stepedit.errors import UserError
from stepedit.evaluation.scores import read_scores
from stepedit.experiments.grid import Cell
from stepedit.registry import load_plugins, loaded_plugins

LOG = "log.txt"
MAX_TRIES = 2
MAX_RETRIES = 5  # on a cluster, when a run's worker is lost
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Event:
    """Something that happened to a run."""

    cell: Cell
    kind: Literal["started", "finished", "retry", "failed"]
    note: str = ""


@dataclass
class Worker:
    """A worker process and the cores it is pinned to."""

    cell: Cell
    process: subprocess.Popen[str]
    cores: set[int]


def available_cores() -> list[int]:
    """Return the cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def run_locally(cells: Sequence[Cell], out: Path, jobs: int, threads: int) -> Generator[Event]:
    """Run cells in processes of their own, each pinned to its cores; a run that fails is tried once more."""
    waiting, tries = deque(cells), dict.fromkeys((cell.name for cell in cells), 0)
    cores = available_cores()
    free = deque({cores[(job * threads + number) % len(cores)] for number in range(threads)} for job in range(jobs))
    workers: list[Worker] = []
    try:
        while waiting or workers:
            while waiting and free:
                cell, pinned = waiting.popleft(), free.popleft()
                tries[cell.name] += 1
                workers.append(Worker(cell, _start(cell, out / cell.name, threads, pinned), pinned))
                yield Event(cell, "started")
            time.sleep(POLL_SECONDS)
            for worker in [worker for worker in workers if worker.process.poll() is not None]:
                workers.remove(worker)
                free.append(worker.cores)
                event = _ended(worker, out, tries[worker.cell.name])
                if event.kind == "retry":
                    waiting.append(worker.cell)
                yield event
    finally:  # stopped from outside: let the workers save their checkpoints
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.process.wait()


def _start(cell: Cell, folder: Path, threads: int, cores: set[int]) -> subprocess.Popen[str]:
    """Start a worker process for one run; its output goes into the run's log."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "STEPEDIT_CORES": ",".join(map(str, sorted(cores)))}
    environment["STEPEDIT_SWEEP"] = str(os.getpid())  # when this process is gone, the worker stops
    with (folder / LOG).open("a", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "stepedit.experiments.worker", str(folder)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            text=True,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches the sweep alone, which stops its workers itself
        )
    assert process.stdin is not None
    process.stdin.write(json.dumps({"values": cell.values | {"threads": threads}, "plugins": loaded_plugins()}))
    process.stdin.close()
    return process


def _ended(worker: Worker, out: Path, tries: int) -> Event:
    """Return what the end of a worker process means."""
    code = worker.process.returncode
    if code == 0:
        return Event(worker.cell, "finished")
    lines = (out / worker.cell.name / LOG).read_text(encoding="utf-8", errors="replace").splitlines()
    reason = lines[-1] if lines and code > 0 else f"ended by signal {-code}" if code < 0 else f"exit code {code}"
    return Event(worker.cell, "retry" if tries < MAX_TRIES else "failed", reason)


def run_on_ray(cells: Sequence[Cell], out: Path, address: str, threads: int) -> Generator[Event]:
    """Run cells as tasks of a Ray cluster whose nodes all see the folder `out`.

    Ray starts the run of a lost worker again on another node, where it is resumed from its checkpoint.
    """
    if find_spec("ray") is None:
        raise UserError("--ray needs Ray: pip install 'stepedit[ray]'")
    import ray

    try:
        _check_reachable(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"no Ray cluster at {address}: {str(error).splitlines()[0]}") from None
    try:
        yield from _run_on_cluster(ray, cells, out.resolve(), threads)
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Raise OSError if nothing answers at host:port; Ray itself would retry for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _run_on_cluster(ray: Any, cells: Sequence[Cell], out: Path, threads: int) -> Generator[Event]:
    if max((node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]), default=0) < threads:
        raise UserError(f"no node of this cluster has the {threads} cores that --threads asks for")
    start = ray.remote(num_cpus=threads, max_retries=MAX_RETRIES)(run_remotely)

    def submit(cell: Cell) -> Any:
        data = cell.values.get("data")
        values = cell.values | {"threads": threads, "data": str(Path(data).resolve()) if data else None}
        gpus = 1 if str(cell.values.get("device", "cpu")).startswith("cuda") else 0
        return start.options(num_gpus=gpus).remote(values, str(out / cell.name), loaded_plugins())

    tries, running = dict.fromkeys((cell.name for cell in cells), 1), {}
    for cell in cells:
        running[submit(cell)] = cell
        yield Event(cell, "started")
    while running:
        done, _ = ray.wait(list(running), timeout=None)
        cell = running.pop(done[0])
        try:
            ray.get(done[0])
            if read_scores(out / cell.name) is None:
                raise UserError(f"{out} is not the same folder on the cluster's nodes as here")
            yield Event(cell, "finished")
        except ray.exceptions.RayError as error:
            reason = (str(getattr(error, "cause", None) or error).strip().splitlines() or ["no reason given"])[-1]
            if tries[cell.name] >= MAX_TRIES:
                yield Event(cell, "failed", reason)
                continue
            tries[cell.name] += 1
            running[submit(cell)] = cell
            yield Event(cell, "retry", reason)


def run_remotely(values: dict[str, Any], folder: str, plugins: Sequence[str]) -> None:
    """Complete one run in a worker of the cluster; plugin files must exist there under the same paths."""
    from stepedit.experiments.worker import complete

    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    with (path / LOG).open("a", encoding="utf-8") as log, redirect_stdout(log), redirect_stderr(log):
        try:
            load_plugins(plugins)
            complete(values, path)
        except Exception:
            traceback.print_exc()
            raise
