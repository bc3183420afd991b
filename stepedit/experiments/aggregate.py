"""The results of runs: read back, grouped by what they have in common but the seed, beside the paper's results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from stepedit.config import RunConfig, RunSettings, TrainingConfig
from stepedit.errors import DataError, UserError
from stepedit.evaluation.paper import PaperResult, paper_result
from stepedit.evaluation.scores import RunScores, read_scores
from stepedit.experiments.executors import LOG
from stepedit.experiments.grid import PAPER_METHODS, PAPER_TASKS
from stepedit.files import read_json
from stepedit.inference.model_folder import (
    CONFIG,
    make_task,
    read_config,
    read_metrics,
    require_model,
    user_task_args,
)
from stepedit.registry import METHODS, TASKS
from stepedit.training.request import preset_values, task_defaults

ONE_NETWORK = "programmer=seq2seq"  # the variant of Recurrence with the network that the other methods have
TABLE_METRICS = {"aor": ("equation",), "aes": ("sequence",), "aec": ("sequence", "equation")}


class Setting(NamedTuple):
    """What the runs of one row of a table have in common."""

    task: str
    method: str
    mode: str
    numbers: int
    length: int
    num_examples: int
    variant: str = ""  # options that differ from the default


@dataclass(frozen=True)
class FinishedRun:
    """A finished run."""

    folder: Path
    run: RunConfig
    scores: RunScores
    curve: list[dict[str, Any]]  # its validations
    authors: RunScores | None  # by the authors' scoring
    version: str  # of stepedit, when the run was begun


@dataclass(frozen=True)
class Row:
    """All runs of a setting, one per seed; none if they are missing."""

    setting: Setting
    runs: tuple[FinishedRun, ...]

    @property
    def paper(self) -> PaperResult | None:
        """The authors' run."""
        at = self.setting
        return paper_result(at.task, at.method, at.mode, {"numbers": at.numbers, "length": at.length}, at.num_examples)

    @property
    def objective(self) -> str:
        """The task's objective."""
        return TASKS[self.setting.task].objective

    def ours(self, metric: str) -> float | None:
        """Return the mean over the runs."""
        return mean(each.scores.metrics[metric][0] for each in self.runs) if self.runs else None

    def authors_scoring(self, metric: str) -> float | None:
        """Return the mean over the runs by the authors' scoring; None if a run was not scored so."""
        scores = [each.authors for each in self.runs]
        values = [each.metrics[metric][0] for each in scores if each and metric in each.metrics]
        return mean(values) if values and len(values) == len(self.runs) else None

    def interval(self, metric: str) -> tuple[float, float] | None:
        """Return the range of the seeds; for one seed, the run's 95 % interval."""
        figures = [each.scores.metrics[metric] for each in self.runs]
        if len(figures) == 1:
            return figures[0][1:]
        means = [figure[0] for figure in figures]
        return (min(means), max(means)) if means else None

    def spread(self, metric: str) -> float | None:
        """Return the standard deviation over seeds."""
        values = [each.scores.metrics[metric][0] for each in self.runs]
        return stdev(values) if len(values) > 1 else None

    @property
    def minutes(self) -> float | None:
        """The training time."""
        return mean(each.scores.training_seconds for each in self.runs) / 60 if self.runs else None

    @property
    def steps(self) -> float | None:
        """The number of optimizer steps."""
        return mean(each.scores.training_steps for each in self.runs) if self.runs else None


@dataclass(frozen=True)
class Results:
    """All runs under a folder, and one line for each folder that could not be used."""

    rows: dict[Setting, Row]
    problems: list[str]

    def row(self, setting: Setting) -> Row:
        """Return the runs of a setting, or a row without runs."""
        return self.rows.get(setting, Row(setting, ()))

    def any_variant(self, setting: Setting) -> Row:
        """Return the runs of a setting, also those with other options, if all of these have the same ones."""
        others = [row for at, row in self.rows.items() if at._replace(variant="") == setting]
        return others[0] if len(others) == 1 else self.row(setting)

    @property
    def one_network(self) -> bool:
        """Whether Recurrence was trained with the network of the other methods, as in the paper."""
        return any(at in self.rows for at in _table_settings(one_network=True) if at.variant)

    def table(self) -> list[Row]:
        """Return the rows of the paper's main table: with one network for all methods, if there are such runs."""
        return [self.row(setting) for setting in _table_settings(self.one_network)]

    def others(self) -> list[Row]:
        """Return the rows that the main table does not have."""
        main = set(_table_settings(self.one_network))
        return [row for setting, row in sorted(self.rows.items()) if setting not in main]

    def beside_the_paper(self) -> list[Row]:
        """Return the rows that have runs and a result of the authors."""
        return [row for row in self.table() + self.others() if row.runs and row.paper]


def main_settings() -> list[Setting]:
    """Return the 18 cells of the paper's main table."""
    return [
        Setting(task, method, mode, *_main(task))
        for task in PAPER_TASKS
        for mode in ("offline", "online")
        for method in PAPER_METHODS
    ]


def _table_settings(one_network: bool) -> list[Setting]:
    """Return the main table's cells, with the default networks, or with one for the three methods."""
    variants = {name: ONE_NETWORK for name in PAPER_METHODS if METHODS[name].default_programmer != "seq2seq"}
    return [at._replace(variant=variants.get(at.method, "") if one_network else "") for at in main_settings()]


def _main(task: str) -> tuple[int, int, int]:
    standard: Any = TASKS[task].from_args({})
    return standard.numbers, standard.length, RunSettings.model_fields["num_examples"].default


def collect(root: Path) -> Results:
    """Read every run under a folder; DataError if there is none at all."""
    rows: dict[Setting, list[FinishedRun]] = {}
    problems = list[str]()
    folders = sorted(path.parent for path in root.rglob(CONFIG)) if root.is_dir() else []
    for folder in folders:
        try:
            finished = _read(folder)
            rows.setdefault(setting_of(finished), []).append(finished)
        except UserError as error:
            problems.append(str(error))
        except (KeyError, ValueError, TypeError):
            problems.append(f"{folder}: damaged")
    problems += [f"{path.parent}: failed; see {path.name}" for path in _failed(root)]
    if not folders:
        raise DataError(f"{root}: no runs here")
    return Results({setting: _row(setting, runs, problems) for setting, runs in rows.items()}, problems)


def _failed(root: Path) -> list[Path]:
    """Return the logs of runs that were never begun."""
    return sorted(log for log in root.rglob(LOG) if not (log.parent / CONFIG).exists())


def _row(setting: Setting, runs: list[FinishedRun], problems: list[str]) -> Row:
    """Return the runs of a setting, one per seed and all trained on the same data; the others become problems."""
    chosen: dict[int, FinishedRun] = {}
    runs = sorted(runs, key=lambda each: (-each.scores.training_steps, str(each.folder)))
    for each in runs:
        seed = each.run.seed
        if _data_of(each.run) != _data_of(runs[0].run):
            problems.append(f"{each.folder}: trained on other data than {runs[0].folder}, which is shown")
        elif seed in chosen:
            problems.append(f"{each.folder}: {chosen[seed].folder} is the same with more steps, and is shown")
        else:
            chosen[seed] = each
    return Row(setting, tuple(chosen.values()))


def _data_of(run: RunConfig) -> str:
    """Return what tells the data of runs apart, wherever they are, or however they are generated."""
    return run.data_hash or run.data or str(run.task_args.get("generation", "exact"))


def _read(folder: Path) -> FinishedRun:
    run, scores = read_config(folder), read_scores(folder)
    if scores is None:
        require_model(folder)
        raise DataError(f"{folder}: not scored on test yet; run `stepedit evaluate {folder}`")
    if not scores.training_finished:
        raise DataError(f"{folder}: was scored before its training had finished")
    objective = TASKS[run.task].objective
    curve = read_metrics(folder)
    if objective not in scores.metrics or any(objective not in point["metrics"] for point in curve):
        raise DataError(f"{folder}: damaged (no {objective})")
    authors = read_scores(folder, scoring="authors")
    same = authors is not None and authors.training_steps == scores.training_steps
    version = str(read_json(folder / CONFIG).get("stepedit", ""))
    return FinishedRun(folder, run, scores, curve, authors if same else None, version)


def setting_of(finished: FinishedRun) -> Setting:
    """Return the row that a run belongs to."""
    run = finished.run
    numbers, length = (int(run.task_args.get(name, 0)) for name in ("numbers", "length"))
    return Setting(run.task, run.method, run.mode, numbers, length, finished.scores.num_examples, _variant(run))


def _variant(run: RunConfig) -> str:
    """Return the options in which a run differs from its preset, and the preset if it is not the default one."""
    task, method = make_task(run), METHODS[run.method]
    chosen = preset_values(run.preset, task)
    programmer = chosen.get("programmer", method.default_programmer)
    defaults = TrainingConfig(**(task_defaults(task, run.training.programmer) | chosen)).model_dump()
    defaults["programmer"] = programmer  # what follows from another one is not a difference of its own
    standard: Any = TASKS[run.task].from_args({})
    of_data = ("numbers", "length", "generation")
    args = {name: value for name, value in user_task_args(run).items() if name not in of_data}
    parts = [f"preset={run.preset}"] * (run.preset != RunSettings.model_fields["preset"].default)
    parts += [f"{name}={value}" for name, value in run.training.model_dump().items() if defaults[name] != value]
    parts += [f"{name}={value}" for name, value in args.items() if getattr(standard, name) != value]
    return ", ".join(parts)


def shown_metrics(row: Row) -> Sequence[str]:
    """Return the metrics of a task in the paper's main table; for other tasks and settings the objective."""
    return TABLE_METRICS.get(row.setting.task, ()) if row.paper else (row.objective,)
