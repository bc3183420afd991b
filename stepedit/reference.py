"""The figures that the paper's authors logged, to set beside ours: 240 runs on one graphics card."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

AXES = {"numbers": "N", "length": "L", "size": "D"}
COLUMNS = {"token": "token_acc", "sequence": "seq_acc", "equation": "equation_acc"}


@dataclass(frozen=True)
class Figures:
    """One run of the authors: accuracies on test, and what it took."""

    metrics: dict[str, float]
    epochs: int
    steps: int
    gpu_hours: float


@cache
def _runs() -> dict[tuple[str, ...], Figures]:
    with (files("stepedit") / "data" / "paper.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        tuple(row[key] for key in ("task", "method", "training", "N", "L", "D")): Figures(
            {name: float(row[column]) for name, column in COLUMNS.items() if row[column]},
            int(row["epochs"]),
            int(row["steps"]),
            _hours(row["gpu_time"]),
        )
        for row in rows
    }


def _hours(text: str) -> float:
    """`1 day, 0:03:55.695949` in hours."""
    days, _, clock = text.rpartition(", ")
    hours, minutes, seconds = map(float, clock.split(":"))
    return 24 * float(days.split()[0] if days else 0) + hours + minutes / 60 + seconds / 3600


def paper(task: str, method: str, mode: str, setting: Mapping[str, Any], size: int) -> Figures | None:
    """What the authors got for a setting, if it is one of theirs; beside augmented states stand their online ones."""
    others = {"division": False, "errors": 3}  # what they left as it is
    if any(setting.get(name, value) != value for name, value in others.items()):
        return None
    trained = "offline" if mode == "offline" else "online"
    where = setting.get("numbers"), setting.get("length"), size
    return _runs().get((task, method, trained, *map(str, where)))


def line(task: str, axis: str) -> list[dict[str, int]]:
    """The settings along which the authors varied one of N, L and D, the two others held."""
    found = sorted(tuple(map(int, key[3:])) for key in _runs() if key[0] == task)
    lines: dict[tuple[int, ...], list[dict[str, int]]] = {}
    for setting in (dict(zip(AXES, values, strict=True)) for values in dict.fromkeys(found)):
        lines.setdefault(tuple(setting[name] for name in AXES if name != axis), []).append(setting)
    return max(lines.values(), key=len)
