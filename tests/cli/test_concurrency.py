"""Several processes on one run, as when a command is started twice."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stepedit import Editor

COMMAND = [sys.executable, "-c", "from stepedit.cli.main import main; main()"]
SMALL = ["--numbers", "20", "--length", "3", "--num-examples", "200", "--hidden-size", "16", "--num-heads", "2"]
SMALL += ["--num-layers", "1", "--batch-size", "32", "--threads", "1"]


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


def ends(*processes: subprocess.Popen[str]) -> list[tuple[int, str, str]]:
    """Return exit code, output and errors of each process."""
    outputs = [process.communicate(timeout=240) for process in processes]
    return [(process.returncode, *output) for process, output in zip(processes, outputs, strict=True)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "sort"
    ((code, _, errors),) = ends(start("train", "sort", *SMALL, "--max-epochs", 2, "--out", folder))
    assert code == 0, errors
    return folder


def test_of_two_trainings_in_one_folder_the_second_is_refused_and_writes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    options = [*SMALL, "--max-epochs", 60]
    found = ends(*(start("train", "sort", *options, "--seed", seed, "--out", folder) for seed in (0, 1)))
    (first, _, errors), (second, shown, message) = sorted(found, key=lambda end: end[0])
    assert (first, errors, second, shown) == (0, "", 2, "")
    assert message.count("\n") == 1
    assert "exists already" in message or "another process is working on this run" in message
    seed = json.loads((folder / "config.json").read_text())["seed"]
    assert f"--seed {seed} " in (folder / "README.md").read_text()
    epochs = [json.loads(line)["epoch"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert epochs == sorted(set(epochs))
    assert not list(folder.glob(".*partial*"))
    Editor.load(folder)


def test_pairs_of_standard_input_do_not_reach_the_folder_of_another_run(tmp_path: Path) -> None:
    first = start("train", "sort", *SMALL, "--max-epochs", 300, "--out", tmp_path / "run")
    assert first.stdout is not None
    assert "parameters" in first.stdout.readline()
    second = start("train", "--data", "-", "--max-epochs", 1, "--out", tmp_path / "run")
    _, message = second.communicate("a\tb\n" * 9, timeout=120)
    assert (second.returncode, message.count("\n")) == (2, 1)
    assert not (tmp_path / "run" / "pairs.tsv").exists()
    first.kill()
    first.communicate()


def test_evaluations_at_the_same_time_all_succeed(run: Path) -> None:
    found = ends(*(start("evaluate", run, "--json") for _ in range(3)))
    assert [code for code, *_ in found] == [0, 0, 0], found
    assert len({shown for _, shown, _ in found}) == 1
    assert json.loads((run / "scores-test.json").read_text()) == json.loads(found[0][1])
    assert not list(run.glob(".*partial*"))


def test_a_run_can_be_evaluated_while_it_is_trained(tmp_path: Path) -> None:
    training = start("train", "sort", *SMALL, "--max-epochs", 400, "--eval-every", 1, "--out", tmp_path / "run")
    assert training.stdout is not None
    while "epoch     1" not in training.stdout.readline():
        assert training.poll() is None
    ((code, shown, errors),) = ends(start("evaluate", tmp_path / "run", "--json"))
    assert (code, errors) == (0, "")
    assert json.loads(shown)["training_finished"] is False
    training.kill()
    training.communicate()
