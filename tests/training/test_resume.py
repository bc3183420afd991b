"""Resuming: other options are refused by name, larger limits extend a run; a library call leaves PyTorch as it was."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from stepedit.errors import UserError
from stepedit.evaluation.scores import evaluate
from stepedit.inference import model_folder
from stepedit.inference.editor import Editor
from stepedit.programmers.runtime import flushes_denormals
from stepedit.training.run import train
from stepedit.training.schedule import learning_rate_at
from tests.cli.test_train import stepedit

SMALL: dict[str, Any] = {"hidden_size": 16, "num_heads": 2, "num_layers": 1, "batch_size": 32, "threads": 1}
SORT: dict[str, Any] = {**SMALL, "numbers": 20, "length": 3, "num_examples": 200, "learning_rate": 0.005}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A finished run of 3 epochs with 4 batches each."""
    train("sort", out=tmp_path / "run", **SORT, max_epochs=3)
    return tmp_path / "run"


def state(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = model_folder.read_facts(folder / model_folder.CHECKPOINT)["state"]
    return found


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    ("task", "options", "messages"),
    [
        ("sort", {"learning_rate": 0.1}, ["learning_rate is 0.005, not 0.1"]),
        ("sort", {"seed": 1, "hidden_size": 32}, ["seed is 0, not 1", "hidden_size is 16, not 32"]),
        ("sort", {"numbers": 21}, ["numbers is 20, not 21"]),
        ("aor", {}, ["task is sort, not aor"]),
        (None, {"mode": "offline", "max_epochs": 9}, ["mode is augmented, not offline"]),
        (None, {"data": "elsewhere"}, ["data is None, not elsewhere"]),
        (None, {"eval_every": 2}, ["eval_every is 1, not 2"]),
        (None, {"preset": "paper"}, ["preset is base, not paper"]),
        (None, {"learn_rate": 0.1}, ["unknown option 'learn_rate' (did you mean 'learning_rate'?)"]),
        (None, {"learning_rate": -1}, ["learning_rate: must be greater than 0"]),
        (None, {"max_epochs": 2}, ["max_epochs is 2, and the run has made 3 already"]),
        (None, {"max_steps": 11, "max_epochs": 5}, ["max_steps is 11, and the run has made 12 already"]),
        (None, {"max_steps": 12}, ["max_steps is 12, and the run has made 12 already"]),
        (None, {"max_minutes": 60}, ["the run has ended, and its limits are now 3 epochs or 60.0 minutes"]),
    ],
)
def test_other_options_are_refused_by_name_and_change_nothing(
    task: str | None, options: dict[str, Any], messages: list[str], run: Path
) -> None:
    before = files(run)
    with pytest.raises(UserError) as caught:
        train(task, out=run, resume=True, **options)
    assert all(message in str(caught.value) for message in messages), caught.value
    assert "\n" not in str(caught.value)
    assert files(run) == before


def test_equal_options_are_accepted(run: Path) -> None:
    train("sort", out=run, resume=True, **SORT, max_epochs=3, eval_every=1)
    train(out=run, resume=True, numbers="20", learning_rate="5e-3")
    assert state(run)["step"] == 12


def test_a_finished_run_is_extended_over_the_new_length(run: Path) -> None:
    before = model_folder.read_metrics(run)
    train(out=run, resume=True, max_epochs=5)
    assert (state(run)["step"], state(run)["finished"], state(run)["total_steps"]) == (20, True, 20)
    assert json.loads((run / "config.json").read_text())["max_epochs"] == 5
    assert "--max-epochs 5" in (run / "README.md").read_text()
    reports = model_folder.read_metrics(run)
    assert [report["epoch"] for report in reports] == [1, 2, 3, 4, 5]
    assert reports[:3] == before
    config = model_folder.read_config(run).training
    assert [report["learning_rate"] for report in reports[3:]] == [
        learning_rate_at(step, step / 20, config) for step in (16, 20)
    ]


def test_a_run_with_a_time_budget_is_extended_by_minutes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train("sort", out=folder, **SORT, max_minutes=0.02)
    first = state(folder)
    assert first["finished"]
    train(out=folder, resume=True, max_minutes=0.05)
    second = state(folder)
    assert second["finished"]
    assert second["step"] > first["step"]
    assert second["seconds"] > 0.8 * 3
    with pytest.raises(UserError, match=r"max_minutes is 0\.03, and the run has made"):
        train(out=folder, resume=True, max_minutes=0.03)


def test_a_stopped_run_can_be_shortened_to_what_lies_ahead(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    class StopError(Exception):
        pass

    def stop(report: Any) -> None:
        if report.epoch == 3:
            raise StopError

    with pytest.raises(StopError):
        train("sort", out=folder, **SORT, max_epochs=50, eval_every=1, on_report=stop)
    train(out=folder, resume=True, max_epochs=4)
    assert state(folder)["step"] == 16


def test_the_command_and_a_configuration_file_are_checked_alike(run: Path, tmp_path: Path) -> None:
    (tmp_path / "o.yaml").write_text(yaml.safe_dump({"learning-rate": 0.005, "dropout": 0.3}))
    refused = stepedit("train", "sort", "--resume", "--config", tmp_path / "o.yaml", "--hidden-size", 8, "--out", run)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "dropout is 0.05, not 0.3; --hidden-size is 16, not 8" in refused.stderr
    assert "learning_rate" not in refused.stderr
    extended = stepedit("train", "sort", "--resume", "--learning-rate", 0.005, "--max-epochs", 4, "--out", run)
    assert extended.returncode == 0, extended.stderr
    assert "copying the source on validation: sequence" in extended.stdout
    assert extended.stdout.count("(copying ") == 1
    assert state(run)["step"] == 16


@pytest.mark.parametrize("flushes", [False, True])
def test_library_calls_leave_threads_and_denormals_as_they_were(flushes: bool, tmp_path: Path) -> None:
    usual = torch.get_num_threads(), flushes_denormals()
    seen = []

    def check(step: int, loss: float) -> None:
        seen.append((torch.get_num_threads(), flushes_denormals()))

    try:
        torch.set_num_threads(3)
        torch.set_flush_denormal(flushes)
        train("sort", out=tmp_path / "run", **SORT, max_epochs=1, on_step=check)
        assert (torch.get_num_threads(), flushes_denormals()) == (3, flushes)
        assert set(seen) == {(1, True)}, "while it trains, steps must be fast"
        with pytest.raises(UserError):
            train("sort", out=tmp_path / "run", **SORT, max_epochs=1)
        Editor.load(tmp_path / "run").edit(["3 2 1"])
        evaluate(tmp_path / "run")
        assert (torch.get_num_threads(), flushes_denormals()) == (3, flushes)
        tiny = np.float64(2.3e-308)
        assert (float(tiny / 2) == 0) == flushes
    finally:
        torch.set_num_threads(usual[0])
        torch.set_flush_denormal(usual[1])


FRESH = """
import sys
import torch
from stepedit import Editor, evaluate, train
from stepedit.programmers.runtime import flushes_denormals

torch.set_num_threads(3)
small = {"hidden_size": 16, "num_heads": 2, "num_layers": 1, "batch_size": 32, "threads": 1, "num_examples": 200}
calls = {
    "load": lambda: Editor.load("aor"),
    "edit": lambda: Editor.load("aor").edit(["6 10 9 5 2"]),
    "train": lambda: train("sort", out=sys.argv[2], numbers=20, length=3, max_epochs=1, **small),
    "evaluate": lambda: (calls["train"](), evaluate(sys.argv[2])),
}
calls[sys.argv[1]]()
print(torch.get_num_threads(), flushes_denormals())
"""


@pytest.mark.parametrize("call", ["load", "edit", "train", "evaluate"])
def test_a_first_library_call_leaves_threads_and_denormals_as_they_were(call: str, tmp_path: Path) -> None:
    """In a process of its own: onnxruntime's first session may set the mode of its thread, later ones do not."""
    command = [sys.executable, "-c", FRESH, call, str(tmp_path / "run")]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.stdout == "3 False\n", made.stderr
