"""The results that the paper's authors logged: 240 runs on one GPU, and the validation curves of the main table's.

Where the paper prints another figure than the log has (AES, Tagging offline: 43.80), it is the printed one.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

AXES = {"numbers": "N", "length": "L", "num_examples": "D"}
COLUMNS = {"token": "token_acc", "sequence": "seq_acc", "equation": "equation_acc"}


@dataclass(frozen=True)
class PaperResult:
    """One run of the authors: test accuracies and cost."""

    metrics: dict[str, float]
    epochs: int
    steps: int
    gpu_hours: float


@cache
def _results() -> dict[tuple[str, ...], PaperResult]:
    with (files("stepedit.evaluation") / "paper.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        tuple(row[key] for key in ("task", "method", "training", "N", "L", "D")): PaperResult(
            {name: float(row[column]) for name, column in COLUMNS.items() if row[column]},
            int(row["epochs"]),
            int(row["steps"]),
            _hours(row["gpu_time"]),
        )
        for row in rows
    }


def _hours(text: str) -> float:
    """Convert `1 day, 0:03:55.695949` to hours."""
    days, _, clock = text.rpartition(", ")
    hours, minutes, seconds = map(float, clock.split(":"))
    return 24 * float(days.split()[0] if days else 0) + hours + minutes / 60 + seconds / 3600


def paper_result(
    task: str, method: str, mode: str, task_args: Mapping[str, Any], num_examples: int
) -> PaperResult | None:
    """Return the authors' result for a setting, if they ran it; augmented training is set beside their online one."""
    fixed = {"division": False, "errors": 3}  # arguments that they did not vary
    if any(task_args.get(name, value) != value for name, value in fixed.items()):
        return None
    training = "offline" if mode == "offline" else "online"
    setting = task_args.get("numbers"), task_args.get("length"), num_examples
    return _results().get((task, method, training, *map(str, setting)))


@dataclass(frozen=True)
class CurvePoint:
    """A validation of the authors; epochs are those that were completed."""

    epoch: int
    step: int
    metrics: dict[str, float]


@cache
def paper_curve(task: str, method: str, mode: str, numbers: int) -> list[CurvePoint]:
    """Return the authors' validations of a run with L = 5 and D = 10,000, about 120 of them; empty if there is none."""
    with (files("stepedit.evaluation") / "paper_curves.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["task"] == task]
    wanted = (method, mode, str(numbers))
    return [
        CurvePoint(int(row["epoch"]) + 1, int(row["step"]), {name: float(row[name]) for name in COLUMNS if row[name]})
        for row in rows
        if (row["method"], row["mode"], row["numbers"]) == wanted
    ]


def settings_along(task: str, axis: str) -> list[dict[str, int]]:
    """Return the settings in which the authors varied one of N, L and D, the other two fixed."""
    found = sorted(tuple(map(int, key[3:])) for key in _results() if key[0] == task)
    lines: dict[tuple[int, ...], list[dict[str, int]]] = {}
    for setting in (dict(zip(AXES, values, strict=True)) for values in dict.fromkeys(found)):
        lines.setdefault(tuple(setting[name] for name in AXES if name != axis), []).append(setting)
    return max(lines.values(), key=len)
