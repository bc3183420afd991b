"""What people say about a run, in one flat list of names and values, made into a run.

The command line, a configuration file and a grid of runs all speak in these names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
import yaml

from stepedit import datasets
from stepedit.config import Options, Run, checked
from stepedit.errors import DataError, UserError, located
from stepedit.registry import METHODS, PROGRAMMERS, TASKS, did_you_mean
from stepedit.sequences import Pairs
from stepedit.training import Trainer, load_pairs, plan

UNLIMITED = 100_000  # epochs
MINUTES = 30.0  # unless something else is said
FEWEST = 8  # batches of an epoch
WHERE = ("data", "targets", "source", "target")
RUN = ("task", "method", "mode", "preset", *WHERE, "size", "seed", "threads", "device")
LIMITS = ("max_epochs", "max_minutes", "validate_every")


@dataclass(frozen=True)
class Wanted:
    """A run, and how long it may take: its epochs are known only once a step has been timed."""

    run: Run
    minutes: float | None = None
    every: int | None = None


def wanted(values: Mapping[str, Any]) -> Wanted:
    """The run that these values describe; UserError names the first that is unknown or out of range."""
    dataset = _dataset(values)
    if values.get("task") is None:
        values = {**values, "task": _task_of(dataset)}
    known = task_options(values["task"])
    for name in values:
        if name not in (*RUN, *LIMITS, *Options.model_fields, *known):
            raise UserError(did_you_mean("option", name, [*RUN, *LIMITS, *Options.model_fields, *known]))
    said = {name: value for name, value in values.items() if value is not None}
    METHODS[said.get("method", "recurrence")]
    if said.get("programmer", "auto") != "auto":
        PROGRAMMERS[said["programmer"]]
    teaching = {name: value for name, value in said.items() if name in Options.model_fields}
    setting = _setting(said["task"], dataset, {name: said[name] for name in known if name in said})
    options = Options.preset(said.get("preset", "fast"), **teaching)
    epochs = _number(said, "max_epochs", int, 1)
    minutes = _number(said, "max_minutes", float, 0.01)
    run = {name: said[name] for name in RUN if name in said}
    run |= {"options": options.model_dump(), "task_options": setting, "epochs": epochs or UNLIMITED}
    if minutes is None and epochs is None:
        minutes = MINUTES
    return Wanted(checked(Run, run), minutes, _number(said, "validate_every", int, 1))


def task_options(task: str) -> list[str]:
    """The names of a task's own options that people may set."""
    return [field.name for field in fields(TASKS[task]) if field.name not in TASKS[task].learned]  # type: ignore[arg-type]


def _dataset(values: Mapping[str, Any]) -> datasets.Dataset | None:
    """The data that these values name, if any, in splits; they are not looked at where all is said without them."""
    if values.get("data") is None:
        return None
    task = values.get("task")
    if (
        task is not None
        and not TASKS[task].learned
        and any(values.get(name) is not None for name in task_options(task))
    ):
        return None
    return datasets.for_training(str(values["data"]), *(values.get(name) for name in WHERE[1:]))


def _task_of(dataset: datasets.Dataset | None) -> str:
    """The task of data that nobody has named: what is written beside them, or a text of one's own."""
    if dataset is None:
        raise UserError(f"which task? one of {', '.join(TASKS)}; or --data FILE for your own pairs")
    return dataset.card.task if dataset.card and dataset.card.task else "text"


def _number(values: Mapping[str, Any], name: str, kind: type, least: float) -> Any:
    """A limit, if it is given."""
    try:
        number = None if name not in values else kind(values[name])
    except (TypeError, ValueError, OverflowError):
        number = least - 1
    if number is not None and not number >= least:
        raise UserError(f"{name}: a number of at least {least} was expected, not {values[name]!r}")
    return number


def _setting(task: str, dataset: datasets.Dataset | None, said: dict[str, Any]) -> dict[str, Any]:
    """The task's options: those said, or those that existing data need."""
    if dataset is None:
        return asdict(TASKS[task].from_options(said))  # type: ignore[call-overload]
    with located(dataset.place):
        return asdict(datasets.setting(dataset, task, said))  # type: ignore[call-overload]


def make_trainer(
    asked: Wanted, folder: Path, progress: Callable[[int, int], None] | None = None, begun: bool = False
) -> Trainer:
    """What trains a run; nothing is written yet. The length of one that is not begun is fitted to its minutes."""
    run = asked.run
    torch.set_flush_denormal(True)  # tiny numbers would make a step three times as slow
    torch.set_num_threads(run.threads or torch.get_num_threads())
    pairs = load_pairs(run, progress)
    if not {"train", "val"} <= set(pairs):
        raise DataError(f"{run.data}: training needs splits called train and val, here are: {', '.join(pairs)}")
    if not begun:
        run = plan(_with_batches(run, pairs), folder, pairs, asked.minutes, asked.every)
    return Trainer(run, folder, pairs)


def _with_batches(run: Run, pairs: Mapping[str, Pairs]) -> Run:
    """The run with smaller batches where one's own pairs are few; a data set that is made to measure is as it is."""
    size = min(run.options.batch, max(1, len(pairs["train"]) // FEWEST))
    if not TASKS[run.task].learned or size == run.options.batch:
        return run
    return run.model_copy(update={"options": run.options.model_copy(update={"batch": size})})


def read_values(path: Path) -> dict[str, Any]:
    """Names and values from a YAML or JSON file (JSON is YAML, too); DataError if it holds anything else."""
    try:
        values = yaml.safe_load(path.read_bytes())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise DataError(f"{path}{f':{mark.line + 1}' if mark else ''}: neither valid YAML nor JSON") from None
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise DataError(f"{path}: names and values of options were expected")
    return {name.replace("-", "_"): value for name, value in values.items()}
