"""A long file through `stepedit edit`: lines in a second, and the most memory that a process took.

    python -m benchmarks.lines RUN LINES.txt [--lines 1000000] [--workers 1 2]

The lines of the file are repeated until there are enough of them. How many come back changed is said: a line that needs
no edit takes one look, any other as many as it has edits and one more.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from itertools import cycle, islice
from pathlib import Path
from subprocess import Popen
from tempfile import TemporaryDirectory


def prepare(lines: Path, count: int, place: Path) -> None:
    """A file of so many lines."""
    with lines.open("rb") as source, place.open("wb") as long:
        long.writelines(islice(cycle([line.rstrip(b"\n") + b"\n" for line in source]), count))


def measure(run: str, source: Path, target: Path, workers: int) -> tuple[float, float]:
    """Seconds, and megabytes of the process that took most."""
    command = [sys.executable, "-m", "stepedit", "edit", run, "--workers", str(workers)]
    began = time.perf_counter()
    with source.open("rb") as lines, target.open("wb") as out:
        process = Popen(command, stdin=lines, stdout=out)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(process.returncode)
    return time.perf_counter() - began, used.ru_maxrss / 1024


def changed(source: Path, target: Path) -> tuple[int, int]:
    """How many lines there are, and how many came back changed."""
    with source.open("rb") as before, target.open("rb") as after:
        same = [one == other for one, other in zip(before, after, strict=True)]
    return len(same), len(same) - sum(same)


def main(run: str, lines: Path, count: int, workers: list[int]) -> None:
    """Measure."""
    with TemporaryDirectory() as folder:
        source, target = Path(folder) / "source.txt", Path(folder) / "target.txt"
        for number in (1_000, count):  # a short file, too: memory must not grow with the length
            prepare(lines, number, source)
            for each in workers:
                seconds, memory = measure(run, source, target, each)
                total, other = changed(source, target)
                print(
                    f"{total:>9,} lines, {other / total:6.1%} changed, {each} workers: {seconds:7.1f} s, "
                    f"{total / seconds:7,.0f} lines/s, {memory:5,.0f} MB at the most",
                    flush=True,
                )


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description="Edit a long file.")
    asked.add_argument("run")
    asked.add_argument("file", type=Path)
    asked.add_argument("--lines", type=int, default=1_000_000)
    asked.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    said = asked.parse_args()
    main(said.run, said.file, said.lines, said.workers)
