"""What runs came to: folders read back, runs that differ only in their seed put together, the paper's beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from stepedit import checkpoints, results
from stepedit.checkpoints import said_options
from stepedit.config import Options, Run
from stepedit.errors import DataError, UserError
from stepedit.experiments.grid import PAPER
from stepedit.experiments.places import LOG
from stepedit.reference import Figures, paper
from stepedit.registry import METHODS, TASKS
from stepedit.results import Result
from stepedit.training import make_method, settled


class Setting(NamedTuple):
    """What runs have in common that are one row of a table."""

    task: str
    method: str
    mode: str
    numbers: int
    length: int
    size: int
    variant: str = ""  # options other than the preset's


@dataclass(frozen=True)
class Kept:
    """A finished run."""

    folder: Path
    run: Run
    result: Result
    curve: list[dict[str, Any]]  # its validations


@dataclass(frozen=True)
class Row:
    """All runs of a setting, one for each seed; none where they are missing."""

    setting: Setting
    runs: tuple[Kept, ...]

    @property
    def theirs(self) -> Figures | None:
        """The authors' run."""
        at = self.setting
        return paper(at.task, at.method, at.mode, {"numbers": at.numbers, "length": at.length}, at.size)

    @property
    def headline(self) -> str:
        """The task's main figure."""
        return TASKS[self.setting.task].metrics[0]

    def ours(self, metric: str) -> float | None:
        """The mean over the runs."""
        return mean(kept.result.metrics[metric][0] for kept in self.runs) if self.runs else None

    def interval(self, metric: str) -> tuple[float, float] | None:
        """The mean of the runs' 95 % intervals."""
        if not self.runs:
            return None
        low, high = (mean(kept.result.metrics[metric][side] for kept in self.runs) for side in (1, 2))
        return low, high

    def spread(self, metric: str) -> float | None:
        """The standard deviation over seeds."""
        values = [kept.result.metrics[metric][0] for kept in self.runs]
        return stdev(values) if len(values) > 1 else None

    @property
    def minutes(self) -> float | None:
        """Time of training."""
        return mean(kept.result.seconds for kept in self.runs) / 60 if self.runs else None

    @property
    def steps(self) -> float | None:
        """Steps of the optimiser."""
        return mean(kept.result.steps for kept in self.runs) if self.runs else None


@dataclass(frozen=True)
class Collection:
    """All runs under a folder, and one line for each that could not be used."""

    rows: dict[Setting, Row]
    problems: list[str]

    def row(self, setting: Setting) -> Row:
        """The runs of a setting, or a row without any."""
        return self.rows.get(setting, Row(setting, ()))

    def any_variant(self, setting: Setting) -> Row:
        """Likewise; where there are none with the preset's options, those with others, if these are all the same."""
        others = [row for at, row in self.rows.items() if at._replace(variant="") == setting]
        return others[0] if len(others) == 1 else self.row(setting)

    def table(self) -> list[Row]:
        """The paper's main table."""
        return [self.row(setting) for setting in main_settings()]

    def others(self) -> list[Row]:
        """What the main table does not hold."""
        main = set(main_settings())
        return [row for setting, row in sorted(self.rows.items()) if setting not in main]


def main_settings() -> list[Setting]:
    """The 18 cells of the paper's main table."""
    return [
        Setting(task, method, mode, *_main(task))
        for task in PAPER
        for mode in ("offline", "online")
        for method in ("end2end", "tagging", "recurrence")
        if method in METHODS
    ]


def _main(task: str) -> tuple[int, int, int]:
    standard: Any = TASKS[task].from_options({})
    return standard.numbers, standard.length, Run.model_fields["size"].default


def collect(root: Path) -> Collection:
    """Every run under a folder; DataError if there is none at all."""
    rows: dict[Setting, list[Kept]] = {}
    problems = list[str]()
    places = sorted(path.parent for path in root.rglob(checkpoints.CONFIG)) if root.is_dir() else []
    for folder in places:
        try:
            kept = _read(folder)
            rows.setdefault(setting_of(kept), []).append(kept)
        except UserError as error:
            problems.append(str(error))
        except (KeyError, ValueError, TypeError):
            problems.append(f"{folder}: damaged")
    problems += [f"{path.parent}: failed; see {path.name}" for path in _failed(root)]
    if not places:
        raise DataError(f"{root}: no runs here")
    return Collection({setting: _row(setting, runs, problems) for setting, runs in rows.items()}, problems)


def _failed(root: Path) -> list[Path]:
    """Logs of runs that came to nothing."""
    return sorted(log for log in root.rglob(LOG) if not (log.parent / checkpoints.CONFIG).exists())


def _row(setting: Setting, runs: list[Kept], problems: list[str]) -> Row:
    """The runs of a setting, one for each seed and all taught with the same data; what is left out is a problem."""
    chosen: dict[int, Kept] = {}
    runs = sorted(runs, key=lambda kept: (-kept.result.steps, str(kept.folder)))
    for kept in runs:
        if kept.run.data != runs[0].run.data:
            problems.append(f"{kept.folder}: taught with other data than {runs[0].folder}, which is shown")
        elif kept.run.seed in chosen:
            problems.append(f"{kept.folder}: {chosen[kept.run.seed].folder} is the same with more steps, and is shown")
        else:
            chosen[kept.run.seed] = kept
    return Row(setting, tuple(chosen.values()))


def _read(folder: Path) -> Kept:
    run, result = checkpoints.read_run(folder), results.read(folder)
    if result is None:
        raise DataError(f"{folder}: not scored on test yet; `stepedit evaluate {folder}` does that")
    if not result.ended:
        raise DataError(f"{folder}: was scored before its training had ended")
    headline = TASKS[run.task].metrics[0]
    curve = checkpoints.read_reports(folder)
    if headline not in result.metrics or any(headline not in point["metrics"] for point in curve):
        raise DataError(f"{folder}: damaged (no {headline} accuracy)")
    return Kept(folder, run, result, curve)


def setting_of(kept: Kept) -> Setting:
    """The row that a run belongs to."""
    run = kept.run
    numbers, length = (int(run.task_options.get(name, 0)) for name in ("numbers", "length"))
    return Setting(run.task, run.method, run.mode, numbers, length, kept.result.size, _variant(run))


def _variant(run: Run) -> str:
    """The options in which a run differs from its preset, and its preset if it is not the default one."""
    method = make_method(run)
    mine = settled(run, method).options.model_dump()
    usual = settled(run.model_copy(update={"options": Options.preset(run.preset)}), method).options.model_dump()
    standard: Any = TASKS[run.task].from_options({})
    others = {name: value for name, value in said_options(run).items() if name not in ("numbers", "length")}
    said = [f"preset={run.preset}"] * (run.preset != "fast")
    said += [f"{name}={value}" for name, value in mine.items() if usual[name] != value]
    said += [f"{name}={value}" for name, value in others.items() if getattr(standard, name) != value]
    return ", ".join(said)


def shown_metrics(row: Row) -> Sequence[str]:
    """The figures that the paper reports of a task: the headline, and equation accuracy where it is another."""
    reported = row.theirs.metrics if row.theirs else {}
    return [row.headline, *(name for name in ("equation",) if name != row.headline and name in reported)]
