"""Folders that cannot be written, runs that have no model yet, exports that are killed."""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepedit.errors import DataWarning, UserError
from stepedit.evaluation import scores
from stepedit.inference import model_folder

COMMAND = [sys.executable, "-c", "from stepedit.cli.main import main; main()"]
SMALL = ["--numbers", "20", "--length", "3", "--num-examples", "200", "--hidden-size", "16", "--num-heads", "2"]
SMALL += ["--num-layers", "1", "--batch-size", "32", "--threads", "1"]


def obey_permissions() -> None:
    """Give up the right of the superuser to write where nobody may."""
    drop, override = 24, 1  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE
    ctypes.CDLL(None).prctl(drop, override, 0, 0, 0)


def stepedit(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=obey_permissions)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "sort"
    made = stepedit("train", "sort", *SMALL, "--max-epochs", 1, "--out", folder)
    assert made.returncode == 0, made.stderr
    return folder


@pytest.fixture
def read_only(run: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of the run that nobody may write to."""
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run").chmod(0o555)
    yield tmp_path / "run"
    (tmp_path / "run").chmod(0o755)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_evaluate_prints_the_result_of_a_read_only_run_and_warns(read_only: Path) -> None:
    before = names(read_only)
    shown = stepedit("evaluate", read_only, "--json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["pairs"] == 30
    assert shown.stderr == f"stepedit: warning: {read_only}: the scores were not written: Permission denied\n"
    assert names(read_only) == before


def test_other_commands_on_a_read_only_run_say_what_they_cannot_write(read_only: Path) -> None:
    assert stepedit("edit", read_only, "3 2 1").returncode == 0
    assert stepedit("export", read_only, "--out", read_only.parent / "copy").returncode == 0
    for command in (
        ["export", read_only, "--out", read_only / "copy"],
        ["train", "--resume", "--out", read_only],
        ["train", "sort", *SMALL, "--out", read_only / "deeper"],
        ["generate", "sort", "--num-examples", 20, "--out", read_only / "data"],
        ["report", read_only, "--format", "csv", "--out", read_only / "report.csv"],
    ):
        refused = stepedit(*command)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
        assert "Permission denied" in refused.stderr


def test_a_disk_that_is_full_costs_no_result(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(scores, "write_atomic", full)
    with pytest.warns(DataWarning, match="the scores were not written: No space left on device"):
        assert scores.evaluate(run).pairs == 30


def test_a_run_that_was_stopped_before_its_first_validation_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [*COMMAND, "train", "sort", *SMALL, "--max-epochs", "50", "--eval-every", "50", "--out", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "parameters" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=60)
    assert f"resume with: stepedit train --resume --out {folder}" in message
    for words in (["edit", folder, "3 2 1"], ["evaluate", folder], ["inspect", folder], ["serve", folder]):
        shown = stepedit(*words)
        assert (shown.returncode, shown.stderr.count("\n")) == (2, 1), shown.stderr
        assert f"no validation yet, so there is no model; continue with: stepedit train --resume --out {folder}" in (
            shown.stderr
        )
    assert "no validation yet" in stepedit("export", folder, "--out", tmp_path / "copy").stderr
    assert names(tmp_path) == {"run"}
    resumed = stepedit("train", "--resume", "--out", folder)
    assert resumed.returncode == 0, resumed.stderr
    assert stepedit("edit", folder, "3 2 1").returncode == 0
    assert f"{folder} is a run, not a data set; its data: generated" in stepedit("inspect", folder).stderr


def test_a_killed_export_leaves_nothing_that_looks_like_a_model(run: Path, tmp_path: Path) -> None:
    program = """
import os, signal, sys
from pathlib import Path
from stepedit.inference import model_folder

sync, calls = os.fsync, iter(range(99))

def die_at_the_third(descriptor):
    sync(descriptor)
    if next(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)

os.fsync = die_at_the_third
model_folder.export(Path(sys.argv[1]), Path(sys.argv[2]))
"""
    killed = subprocess.run([sys.executable, "-c", program, str(run), str(tmp_path / "copy")], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "copy").exists()
    assert stepedit("export", run, "--out", tmp_path / "copy").returncode == 0
    assert names(tmp_path) == {"copy"}
    assert "stepedit edit copy" in (tmp_path / "copy" / "README.md").read_text()


def test_export_asks_for_extras_before_it_reads_or_writes(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(path: Path) -> None:
        raise AssertionError("the weights are read")

    monkeypatch.setattr(model_folder, "find_spec", lambda name: None if name == "onnx" else name)
    monkeypatch.setattr(model_folder, "read_tensors", read)
    with pytest.raises(UserError, match="making a graph needs onnx"):
        model_folder.export(run, tmp_path / "new" / "copy")
    assert os.listdir(tmp_path) == []  # noqa: PTH208
