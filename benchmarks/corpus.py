"""Throughput and memory of `stepedit edit` on a long file.

    python -m benchmarks.corpus RUN LINES.txt [--lines 1000000] [--num-workers 1 2]

The lines of the file are repeated up to --lines. The share of changed lines is printed as well: a line without errors
takes one prediction, any other line one per edit and one more.
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


def write_lines(lines: Path, count: int, out: Path) -> None:
    """Write a file of `count` lines, those of `lines` repeated."""
    with lines.open("rb") as source, out.open("wb") as target:
        target.writelines(islice(cycle([line.rstrip(b"\n") + b"\n" for line in source]), count))


def measure(run: str, source: Path, target: Path, num_workers: int) -> tuple[float, float]:
    """Edit a file; return the seconds, and the peak memory of the largest process in MB."""
    command = [sys.executable, "-m", "stepedit", "edit", run, "--num-workers", str(num_workers)]
    started = time.perf_counter()
    with source.open("rb") as lines, target.open("wb") as out:
        process = Popen(command, stdin=lines, stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(process.returncode)
    return time.perf_counter() - started, usage.ru_maxrss / 1024


def count_changed(source: Path, target: Path) -> tuple[int, int]:
    """Return the number of lines, and of changed lines."""
    with source.open("rb") as before, target.open("rb") as after:
        same = [one == other for one, other in zip(before, after, strict=True)]
    return len(same), len(same) - sum(same)


def main(run: str, lines: Path, count: int, workers: list[int]) -> None:
    """Measure a short and a long file: memory must not grow with the length."""
    with TemporaryDirectory() as folder:
        source, target = Path(folder) / "source.txt", Path(folder) / "target.txt"
        for number in (1_000, count):
            write_lines(lines, number, source)
            for num_workers in workers:
                seconds, memory = measure(run, source, target, num_workers)
                total, changed = count_changed(source, target)
                print(
                    f"{total:>9,} lines, {changed / total:6.1%} changed, {num_workers} workers: {seconds:7.1f} s, "
                    f"{total / seconds:7,.0f} lines/s, peak memory {memory:5,.0f} MB",
                    flush=True,
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure `stepedit edit` on a long file.")
    parser.add_argument("run")
    parser.add_argument("file", type=Path)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--num-workers", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    main(args.run, args.file, args.lines, args.num_workers)
