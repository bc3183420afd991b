"""Run the speed benchmarks: `make bench`. The output is kept in benchmarks/results.txt, with machine and versions."""

from __future__ import annotations

import contextlib
import io
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from benchmarks import equations, inference, programmers, states
from stepedit import __version__

RESULTS = Path(__file__).with_name("results.txt")


class Tee(io.StringIO):
    """Keeps what is written and prints it at once."""

    def write(self, text: str) -> int:
        sys.__stdout__.write(text)  # type: ignore[union-attr]
        sys.__stdout__.flush()  # type: ignore[union-attr]
        return super().write(text)


def environment() -> str:
    """Return one line: commit, versions, number of threads and CPU."""
    try:
        command = ["git", "describe", "--always", "--dirty"]
        commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        commit = "unknown"
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.processor())
    versions = f"python {platform.python_version()}, numpy {np.__version__}, torch {torch.__version__}"
    return f"stepedit {__version__} at {commit}; {versions}; {torch.get_num_threads()} threads on {model}"


def main() -> None:
    """Run all benchmarks and write the results."""
    output = Tee()
    with contextlib.redirect_stdout(output):
        print(environment(), "\n")
        for benchmark in (equations, states, inference, programmers):
            benchmark.run()
            print()
    RESULTS.write_text(output.getvalue().rstrip() + "\n")


if __name__ == "__main__":
    main()
