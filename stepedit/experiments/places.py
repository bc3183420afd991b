"""Where the runs of a sweep run: on this machine, or on a Ray cluster. Either says what happens as it happens.

Neither knows how to train: both hand each run to `worker.complete`, which goes on from wherever the run stands.
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

from stepedit import results
from stepedit.errors import UserError
from stepedit.experiments.grid import Cell

LOG = "log.txt"
TRIES = 2
REPLACED = 5  # times that a cluster starts a run again elsewhere when its worker is lost
PAUSE = 0.2  # seconds between looks at the workers


@dataclass(frozen=True)
class Event:
    """Something that happened to a run."""

    cell: Cell
    kind: Literal["started", "finished", "again", "failed"]
    note: str = ""


@dataclass
class Seat:
    """A worker process and the cores it keeps to."""

    cell: Cell
    process: subprocess.Popen[str]
    cores: set[int]


def cores() -> list[int]:
    """The cores this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def on_this_machine(cells: Sequence[Cell], out: Path, workers: int, threads: int) -> Generator[Event]:
    """Run cells in processes of their own, each pinned to its cores; a run that fails is tried once more."""
    waiting, tries = deque(cells), dict.fromkeys((cell.name for cell in cells), 0)
    all_cores = cores()
    free = deque(
        {all_cores[(worker * threads + number) % len(all_cores)] for number in range(threads)}
        for worker in range(workers)
    )
    seats: list[Seat] = []
    try:
        while waiting or seats:
            while waiting and free:
                cell, kept = waiting.popleft(), free.popleft()
                tries[cell.name] += 1
                seats.append(Seat(cell, _start(cell, out / cell.name, threads, kept), kept))
                yield Event(cell, "started")
            time.sleep(PAUSE)
            for seat in [seat for seat in seats if seat.process.poll() is not None]:
                seats.remove(seat)
                free.append(seat.cores)
                event = _ended(seat, out, tries[seat.cell.name])
                if event.kind == "again":
                    waiting.append(seat.cell)
                yield event
    finally:  # stopped from outside: let the workers save where they stand
        for seat in seats:
            seat.process.terminate()
        for seat in seats:
            seat.process.wait()


def _start(cell: Cell, folder: Path, threads: int, kept: set[int]) -> subprocess.Popen[str]:
    """A worker process for one run; what it says goes into the run's log."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "STEPEDIT_CORES": ",".join(map(str, sorted(kept)))}
    environment["STEPEDIT_SWEEP"] = str(os.getpid())  # when this process is gone, the worker stops
    with (folder / LOG).open("a", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "stepedit.experiments.worker", str(folder)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            text=True,
            env=environment,
            start_new_session=True,  # Ctrl-C comes to the sweep alone, which stops its workers itself
        )
    assert process.stdin is not None
    process.stdin.write(json.dumps(cell.values | {"threads": threads}))
    process.stdin.close()
    return process


def _ended(seat: Seat, out: Path, tried: int) -> Event:
    """What the end of a worker process means."""
    code = seat.process.returncode
    if code == 0:
        return Event(seat.cell, "finished")
    lines = (out / seat.cell.name / LOG).read_text(encoding="utf-8", errors="replace").splitlines()
    said = lines[-1] if lines and code > 0 else f"ended by signal {-code}" if code < 0 else f"exit code {code}"
    return Event(seat.cell, "again" if tried < TRIES else "failed", said)


def on_ray(cells: Sequence[Cell], out: Path, address: str, threads: int) -> Generator[Event]:
    """Run cells as tasks of a Ray cluster whose nodes all see the folder `out`.

    Ray starts the run of a lost worker again on another; there it goes on from its checkpoint.
    """
    if find_spec("ray") is None:
        raise UserError("--ray needs Ray: pip install 'stepedit[ray]'")
    import ray

    try:
        _reach(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"no Ray cluster at {address}: {str(error).splitlines()[0]}") from None
    try:
        yield from _on_cluster(ray, cells, out.resolve(), threads)
    finally:
        ray.shutdown()


def _reach(address: str) -> None:
    """OSError if nobody answers at host:port; Ray itself would go on trying for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _on_cluster(ray: Any, cells: Sequence[Cell], out: Path, threads: int) -> Generator[Event]:
    if max((node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]), default=0) < threads:
        raise UserError(f"no node of this cluster has the {threads} cores that --threads asks for")
    start = ray.remote(num_cpus=threads, max_retries=REPLACED)(remotely)

    def submit(cell: Cell) -> Any:
        data = cell.values.get("data")
        values = cell.values | {"threads": threads, "data": str(Path(data).resolve()) if data else None}
        graphics = 1 if str(cell.values.get("device", "cpu")).startswith("cuda") else 0
        return start.options(num_gpus=graphics).remote(values, str(out / cell.name))

    tries, running = dict.fromkeys((cell.name for cell in cells), 1), {}
    for cell in cells:
        running[submit(cell)] = cell
        yield Event(cell, "started")
    while running:
        done, _ = ray.wait(list(running), timeout=None)
        cell = running.pop(done[0])
        try:
            ray.get(done[0])
            if results.read(out / cell.name) is None:
                raise UserError(f"{out} is not the same folder on the cluster's nodes as here")
            yield Event(cell, "finished")
        except ray.exceptions.RayError as error:
            said = (str(getattr(error, "cause", None) or error).strip().splitlines() or ["no reason given"])[-1]
            if tries[cell.name] >= TRIES:
                yield Event(cell, "failed", said)
                continue
            tries[cell.name] += 1
            running[submit(cell)] = cell
            yield Event(cell, "again", said)


def remotely(values: dict[str, Any], folder: str) -> None:
    """One run, in a worker of the cluster."""
    from stepedit.experiments.worker import complete

    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    with (place / LOG).open("a", encoding="utf-8") as log, redirect_stdout(log), redirect_stderr(log):
        try:
            complete(values, place)
        except Exception:
            traceback.print_exc()
            raise
