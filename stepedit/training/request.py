"""From what a person says about a run to its settings: the one place where defaults are filled in.

The command line, a configuration file and a grid of runs all use the same flat names: options of `train`, of the
network and its training, and the task's own arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import yaml

from stepedit.config import (
    FINE_TUNING,
    FINE_TUNING_EPOCHS,
    PAPER_PRESETS,
    EncoderShape,
    Limits,
    Mode,
    RunConfig,
    RunSettings,
    TrainingConfig,
    checked,
    preset,
)
from stepedit.data import dataset as datasets
from stepedit.data.dataset import Dataset
from stepedit.data.location import Location
from stepedit.errors import DataError, UserError, located
from stepedit.programmers import pretrained
from stepedit.registry import METHODS, PROGRAMMERS, TASKS, did_you_mean
from stepedit.tasks.base import Task

DEFAULT_MINUTES = 30.0
MAX_VALIDATIONS = 40  # in a run
VALIDATION_SHARE = 0.1  # of the training time, at most
MIN_BATCHES = 8  # of an epoch of your own pairs
DATA_OPTIONS = ("data", "target_file", "source_column", "target_column", "strip")
RUN_OPTIONS = tuple(name for name in RunSettings.model_fields if name not in ("task_args", "training", "data_hash"))
LIMITS = tuple(Limits.model_fields)
TRAINING_OPTIONS = tuple(name for name in TrainingConfig.model_fields if name != "encoder_shape")
NEEDS = {  # options that mean nothing without another one
    "data": DATA_OPTIONS[1:],
    "encoder": ("encoder_learning_rate", "frozen_layers", "pooling", "precision"),
}
EXTENDABLE = ("max_epochs", "max_steps", "max_minutes")  # also when a run is resumed


@dataclass(frozen=True)
class RunRequest:
    """Complete settings of a run, and how long it may take."""

    settings: RunSettings
    limits: Limits

    def config(
        self,
        max_epochs: int | None,
        eval_every: int | None,
        threads: int,
        max_steps: int | None = None,
        max_minutes: float | None = None,
    ) -> RunConfig:
        """Return the configuration with its limits decided."""
        limits = {"max_epochs": max_epochs, "max_steps": max_steps, "max_minutes": max_minutes}
        return RunConfig(**self.settings.model_dump(), **limits, eval_every=eval_every, threads=threads)


def option_names(task: str) -> list[str]:
    """Return the names of all options of a run of this task."""
    return [*RUN_OPTIONS, *LIMITS, *TRAINING_OPTIONS, *TASKS[task].user_arg_names()]


def resolve(values: Mapping[str, Any]) -> RunRequest:
    """Return the run that these values describe; UserError names the first one that is unknown or out of range."""
    values = {name: value for name, value in values.items() if value is not None}
    values |= {name: str(value) for name, value in values.items() if isinstance(value, Path)}
    values |= _target_files(values)
    dataset = _dataset(values)
    if "task" not in values:
        values["task"] = _task_of(dataset)
    known = option_names(values["task"])
    for name in values:
        if name not in known:
            raise UserError(did_you_mean("option", name, known))
    limits = checked(Limits, {name: values[name] for name in LIMITS if name in values})
    if limits.max_minutes is None and limits.max_epochs is None and limits.max_steps is None:
        epochs = FINE_TUNING_EPOCHS if "encoder" in values else None
        limits = limits.model_copy(update={"max_minutes": DEFAULT_MINUTES, "max_epochs": epochs})
    args = {name: values[name] for name in TASKS[values["task"]].user_arg_names() if name in values}
    values |= _encoder(values)
    if "encoder" in values:
        args = {"level": "word"} | args
    task = _task(values["task"], dataset, args)
    settings = {"mode": default_mode(values)} | {name: values[name] for name in RUN_OPTIONS if name in values}
    settings |= _identified(settings)
    settings |= {"task_args": asdict(task), "training": _training(values, task, dataset)}  # type: ignore[call-overload]
    request = RunRequest(checked(RunSettings, settings), limits)
    _require_effect(values)
    return request


def _require_effect(values: Mapping[str, Any]) -> None:
    """Raise UserError if an option means nothing without another one."""
    for needed, names in NEEDS.items():
        for name in names:
            if values.get(name) and needed not in values:
                raise UserError(f"{name} means nothing without {needed}")


def _encoder(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return where a pretrained encoder is, whatever folder one is in, and its shape; UserError if it does not fit."""
    if "encoder" not in values:
        return {}
    if not TASKS[values["task"]].open_vocabulary:
        raise UserError(f"a pretrained encoder is for text, and task {values['task']} has a vocabulary of its own")
    method = METHODS[values.get("method", RunSettings.model_fields["method"].default)]
    if values.get("programmer", method.default_programmer) != "pointer":
        raise UserError("a pretrained encoder needs the pointer programmer and method recurrence")
    folder = pretrained.locate(str(values["encoder"]))
    local = Path(values["encoder"]).is_dir()
    shape = pretrained.read_shape(folder)
    return {"encoder": str(folder.absolute()) if local else values["encoder"], "encoder_shape": shape}


def encoder_defaults(shape: EncoderShape, device: str) -> dict[str, Any]:
    """Return the defaults for a pretrained encoder."""
    from stepedit.programmers.runtime import multiplies_bfloat16

    return {
        **FINE_TUNING,
        "hidden_size": shape.hidden_size,
        "num_heads": shape.num_heads,
        "precision": "bfloat16" if device == "cpu" and multiplies_bfloat16() else "float32",
    }


def default_mode(values: Mapping[str, Any]) -> Mode:
    """Return the mode that is used if none is given: what we recommend; for the paper's presets, what the paper has."""
    method = METHODS[values.get("method", RunSettings.model_fields["method"].default)]
    return "augmented" if method.iterative and values.get("preset") not in PAPER_PRESETS else "online"


def extended(run: RunConfig, values: Mapping[str, Any]) -> RunConfig:
    """Return a begun run with other limits; UserError names every other value that differs from the run's."""
    values = {name: value for name, value in values.items() if value is not None}
    for name in values:
        if name not in (known := option_names(run.task)):
            raise UserError(did_you_mean("option", name, known))
    limits = checked(Limits, {name: values.pop(name) for name in EXTENDABLE if name in values})
    old, new = _flat(run), _flat(_with_values(run, values))
    different = [f"{name} is {old[name]}, not {new[name]}" for name in values if old[name] != new[name]]
    if different:
        raise UserError(f"a run is resumed with its own options, and {'; '.join(different)}")
    return run.model_copy(update=limits.model_dump(exclude_none=True))


def _with_values(run: RunConfig, values: Mapping[str, Any]) -> RunConfig:
    """Return a run with some of its options replaced, each checked as for a new run."""
    if "task" in values:
        TASKS[values["task"]]
    training = {name: value for name, value in values.items() if name in TrainingConfig.model_fields}
    args = {name: value for name, value in values.items() if name in TASKS[run.task].user_arg_names()}
    others = {name: value for name, value in values.items() if name in RunConfig.model_fields}
    others |= {"data": _same_path(others["data"], run.data)} if "data" in others else {}
    others |= _same_paths(_target_files(others), run.target_file or ())
    try:
        task = TASKS[run.task].from_args(run.task_args | args)
    except UserError:
        different = [f"{name} is {run.task_args[name]}, not {args[name]}" for name in args if name in run.task_args]
        raise UserError(f"a run is resumed with its own options, and {'; '.join(different)}") from None
    if "encoder" in training and run.training.encoder is None:
        raise UserError(f"a run is resumed with its own options, and it has no encoder, not {training['encoder']}")
    training |= {"encoder": _same_path(training["encoder"], run.training.encoder)} if "encoder" in training else {}
    config = checked(TrainingConfig, run.training.model_dump() | training)
    return checked(RunConfig, run.model_dump() | {"training": config, "task_args": asdict(task)} | others)  # type: ignore[call-overload]


def _same_path(given: str | Path, own: str | None) -> str | None:
    """Return the run's own path if this is another way to write it."""
    return own if own is not None and Path(given).resolve() == Path(own).resolve() else str(given)


def _same_paths(given: Mapping[str, tuple[str, ...]], own: tuple[str, ...]) -> dict[str, tuple[str | None, ...]]:
    """Return files of targets, each as the run writes it."""
    return {
        name: tuple(_same_path(file, known) for file, known in zip_longest(files, own[: len(files)]))
        for name, files in given.items()
    }


def _flat(run: RunConfig) -> dict[str, Any]:
    """Return all options of a run in one dictionary."""
    return run.model_dump() | run.training.model_dump() | run.task_args


def _training(values: Mapping[str, Any], task: Task, dataset: Dataset | None) -> TrainingConfig:
    """Return the training configuration: what is said, then the preset's values, then the task's defaults."""
    method = METHODS[values.get("method", RunSettings.model_fields["method"].default)]
    name = values.get("preset", RunSettings.model_fields["preset"].default)
    chosen = preset_values(name, task)
    chosen = chosen | {name: value for name, value in values.items() if name in TrainingConfig.model_fields}
    programmer = chosen.get("programmer", method.default_programmer)
    PROGRAMMERS[programmer]
    defaults = task_defaults(task, programmer)
    if "encoder_shape" in chosen:
        defaults |= encoder_defaults(chosen["encoder_shape"], values.get("device", "cpu"))
    if chosen.get("edit_order") == "any":
        defaults["plan_loss_weight"] = 0.0  # a plan has an order
    config = checked(TrainingConfig, defaults | chosen)
    if "batch_size" in chosen or not task.open_vocabulary or dataset is None or "train" not in dataset.splits:
        return config
    largest = max(1, len(dataset.splits["train"]) // MIN_BATCHES)
    return config.model_copy(update={"batch_size": min(config.batch_size, largest)})


def preset_values(name: str, task: Task) -> dict[str, Any]:
    """Return the values of a preset for a task: the paper's also stop where the paper does."""
    return preset(name) | ({"max_actions": task.paper_max_actions} if name in PAPER_PRESETS else {})


def task_defaults(task: Task, programmer: str) -> dict[str, Any]:
    """Return the defaults that depend on the task.

    Where the same sources come every epoch, they are soon memorized: a higher learning rate, more weight decay and
    plans help. Where edits are independent, all of them can be learned at once by a shallow network; where they must
    agree, it takes depth.
    """
    plans = PROGRAMMERS[programmer].can_plan and (task.independent_edits or not task.resamples_sources)
    return {
        "offline_states": "sources" if task.resamples_sources else "fixed",
        "programmer": programmer,
        "num_layers": 2 if task.independent_edits else 4,
        "learning_rate": 0.002 if task.resamples_sources else 0.003,
        "weight_decay": 0.3 if task.resamples_sources else 1.0,
        "plan_loss_weight": float(plans),
    }


def _dataset(values: Mapping[str, Any]) -> Dataset | None:
    """Return the data that these values name, if they are needed to know the task and its arguments."""
    if "data" not in values:
        return None
    task = values.get("task")
    if task is not None and not TASKS[task].open_vocabulary and set(TASKS[task].user_arg_names()) & set(values):
        return None
    return datasets.read_splits(str(values["data"]), *(values.get(name) for name in DATA_OPTIONS[1:]))


def _identified(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return where the data are, whatever folder one is in, and the hash of their content."""
    if "data" not in settings:
        return {}
    data, *targets = (Path(path).absolute() for path in (settings["data"], *settings.get("target_file", ())))
    target_file = {"target_file": tuple(map(str, targets))} if targets else {}
    return {"data_hash": Location(data, tuple(targets)).hash(), "data": str(data), **target_file}


def _target_files(values: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the option as several files, if it is given; people may name one."""
    given = values.get("target_file")
    files = (given,) if isinstance(given, str | Path) else given or ()
    return {"target_file": tuple(map(str, files))} if files else {}


def _task_of(dataset: Dataset | None) -> str:
    """Return the task of data without a named task: the card's, or text."""
    if dataset is None:
        raise UserError(f"which task? one of {', '.join(TASKS)}; or --data FILE for your own pairs")
    return dataset.card.task if dataset.card and dataset.card.task else "text"


def _task(name: str, dataset: Dataset | None, args: Mapping[str, Any]) -> Task:
    """Return the task with these arguments, or fitted to existing data."""
    if dataset is None:
        return TASKS[name].from_args(args)
    with located(dataset.path):
        return datasets.task_for(dataset, name, args)


def read_options(path: Path) -> dict[str, Any]:
    """Return the options of a YAML or JSON file; DataError if it holds anything else."""
    try:
        values = yaml.safe_load(path.read_bytes())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise DataError(f"{path}{f':{mark.line + 1}' if mark else ''}: neither valid YAML nor JSON") from None
    except (ValueError, RecursionError):
        raise DataError(f"{path}: a value in it cannot be read (a very long number, or nested too deeply)") from None
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise DataError(f"{path}: expected names and values of options")
    return {name.replace("-", "_"): value for name, value in values.items()}
