"""Train, evaluate, edit, go on: the commands, run as a user runs them."""

import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from stepedit.checkpoints import read_tensors

COMMAND = [sys.executable, "-c", "from stepedit.cli import main; main()"]
SMALL = ["--hidden", "16", "--heads", "2", "--layers", "1", "--batch", "32", "--rate", "0.005", "--threads", "1"]


def stepedit(
    *arguments: object, given: str | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, input=given, cwd=folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "sort"
    setting = ["sort", "--numbers", 20, "--length", 3, "--size", 400]
    made = stepedit("train", *setting, *SMALL, "--max-epochs", 70, "--seed", 1, "--out", folder)
    assert made.returncode == 0, made.stderr
    assert "best validation sequence" in made.stdout
    (folder.parent / "pairs.tsv").write_text("3 2\t2 3\n" * 40)
    return folder


def test_a_run_holds_what_repeats_it(run: Path) -> None:
    names = {path.name for path in run.iterdir()}
    assert {"config.json", "vocabulary.json", "model.safetensors", "metrics.jsonl", "README.md"} <= names
    config = json.loads((run / "config.json").read_text())
    assert (config["task"], config["seed"], config["options"]["hidden"]) == ("sort", 1, 16)
    assert json.loads((run / "vocabulary.json").read_text())["outputs"][:3] == ["<pad>", "<done>", "<swap>"]
    assert "stepedit evaluate sort" in (run / "README.md").read_text()
    reports = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [report["epoch"] for report in reports] == sorted(report["epoch"] for report in reports)


def test_evaluate_gives_all_metrics_with_intervals_and_predictions(run: Path) -> None:
    shown = stepedit("evaluate", run, "--json")
    assert shown.returncode == 0, shown.stderr
    summary = json.loads(shown.stdout)
    assert set(summary["metrics"]) == {"sequence", "token"}
    mean, low, high = summary["metrics"]["sequence"]
    assert 0.5 < low <= mean <= high <= 1
    assert summary["pairs"] == sum(count for count, _ in summary["by_edits"].values()) == 60
    rows = [json.loads(line) for line in (run / "predictions-test.jsonl").read_text().splitlines()]
    assert sum(row["sequence"] for row in rows) / len(rows) == pytest.approx(mean)
    table = stepedit("evaluate", run, "--split", "val").stdout
    assert "95 % interval" in table
    assert "edits needed" in table


def test_edit_keeps_the_order_of_lines_and_shows_steps(run: Path) -> None:
    texts = ["3 2 1", "1 2 3", "9 9 1", "5 4 4"]
    plain = stepedit("edit", run, given="".join(f"{text}\n" for text in texts))
    assert plain.returncode == 0, plain.stderr
    traced = stepedit("edit", run, *texts, "--json")
    results = [json.loads(line) for line in traced.stdout.splitlines()]
    assert [result["source"] for result in results] == texts
    assert [result["text"] for result in results] == plain.stdout.splitlines()
    for result in results:
        for step in result["steps"]:
            words = {"text", "before", "after", "tokens", "gone", "came"}
            assert {"operation", "position", "skipped", "confidence"} | words == set(step)
            assert 0 <= step["confidence"] <= 1
    shown = stepedit("edit", run, "3 2 1", "--trace").stdout
    assert "→" in shown
    assert "%" in shown


def test_looking_ahead_with_the_check_is_at_least_as_right(run: Path) -> None:
    greedy, ahead = (
        json.loads(stepedit("evaluate", run, "--json", *more).stdout) for more in ([], ["--beam", 4, "--verify"])
    )
    assert ahead["metrics"]["sequence"][0] >= greedy["metrics"]["sequence"][0]
    assert (ahead["beam"], ahead["verify"]) == (4, True)
    assert (run / "predictions-test-beam-4-verified.jsonl").exists()
    found = stepedit("edit", run, "3 2 1", "--beam", 4, "--verify", "--trace")
    assert found.stdout.splitlines()[-1] == "1 2 3"
    assert found.stderr == ""
    known = json.loads(stepedit("edit", run, "3 2 1", "--beam", 4, "--verify", "--json").stdout)
    assert known["verified"] is True
    long = " ".join(str(place % 19) for place in range(60, 0, -1))  # far beyond what it has learned
    hopeless = stepedit("edit", run, long, "--verify")
    assert (hopeless.returncode, len(hopeless.stdout.splitlines())) == (0, 1)
    assert "the check does not accept" in hopeless.stderr


def test_what_can_not_be_is_told_in_one_line(tmp_path: Path) -> None:
    for wrong, complaint in (
        (["--heads", 3], "can't be shared by 3 heads"),
        (["--device", "meta"], "no device 'meta' here"),
        (["--method", "tagging", "--mode", "self-taught"], "self-taught looks ahead"),
    ):
        made = stepedit("train", "aor", "--size", 200, *SMALL, *wrong, "--max-epochs", 1, "--out", tmp_path / "run")
        assert (made.returncode, made.stderr.count("\n")) == (2, 1), made.stderr
        assert complaint in made.stderr
        assert not (tmp_path / "run").exists()


def test_an_exported_run_is_small_and_edits_the_same(run: Path, tmp_path: Path) -> None:
    made = stepedit("export", run, "--out", tmp_path / "small")
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "small" / "model.safetensors").stat().st_size < 0.7 * (run / "model.safetensors").stat().st_size
    texts = ["3 2 1", "9 9 1", "5 4 4"]
    assert stepedit("edit", tmp_path / "small", *texts).stdout == stepedit("edit", run, *texts).stdout
    again = stepedit("export", run, "--out", tmp_path / "small")
    assert (again.returncode, "exists already" in again.stderr) == (2, True)


def test_the_command_on_the_card_repeats_the_run(run: Path, tmp_path: Path) -> None:
    (command,) = re.findall(r"Made by: `stepedit (.*)`", (run / "README.md").read_text())
    made = stepedit(*shlex.split(command.replace("--out RUN", f"--out {tmp_path}/again")))
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "again" / "config.json").read_text() == (run / "config.json").read_text()
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()


def test_python_can_edit_too(run: Path) -> None:
    from stepedit import Editor

    (result,) = Editor.load(run).edit(["3 2 1"], trace=True)
    assert result.source == "3 2 1"
    assert result.outcome.trace[0].operation == "swap"


def test_tensorboard_sees_what_metrics_jsonl_holds(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    setting = ["aor", "--size", 200, *SMALL, "--max-epochs", 3, "--validate-every", 1, "--out", tmp_path / "run"]
    made = stepedit("train", *setting, "--tensorboard")
    assert made.returncode == 0, made.stderr
    reports = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    board = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    seen = [(event.step, event.value) for event in board.Scalars("validation/token")]
    assert seen == [(report["step"], pytest.approx(report["metrics"]["token"])) for report in reports]


def test_a_device_that_is_not_there_is_told(tmp_path: Path) -> None:
    for name in ("cuda:77", "nonsense"):
        made = stepedit("train", "aor", "--size", 200, *SMALL, "--device", name, "--out", tmp_path / "run")
        assert made.returncode == 2
        assert f"no device '{name}' here" in made.stderr
    assert not (tmp_path / "run").exists()


def test_the_papers_figure_stands_beside_ours(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "run"
    assert stepedit("data", "aor", "--out", data).returncode == 0
    assert stepedit("train", "aor", "--data", data, *SMALL, "--max-epochs", 1, "--out", out).returncode == 0
    assert "58.53%" in stepedit("evaluate", out, "--split", "val").stdout


def test_an_interrupted_run_says_how_to_go_on_and_does(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    setting = ["train", "aec", "--size", "400", *SMALL, "--max-epochs", "60", "--out", str(folder)]
    with subprocess.Popen([*COMMAND, *setting], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "loss" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert f"go on with: stepedit train --resume --out {folder}" in said
    went_on = stepedit("train", "--resume", "--out", folder)
    assert went_on.returncode == 0, went_on.stderr
    epochs = [json.loads(line)["epoch"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert epochs[-1] == 60
    assert epochs == sorted(set(epochs))


@pytest.mark.parametrize("dropout", ["0", "0.2"])
def test_two_processes_have_the_loss_curve_of_one(dropout: str, tmp_path: Path) -> None:
    setting = [
        "train",
        "aec",
        "--size",
        "200",
        *SMALL,
        "--dropout",
        dropout,
        "--max-epochs",
        "6",
        "--validate-every",
        "1",
    ]
    setting.append("--out")
    alone = stepedit(*setting, tmp_path / "one")
    assert alone.returncode == 0, alone.stderr
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, "-m", "stepedit", *setting, str(tmp_path / "two")]
    both = subprocess.run(command, capture_output=True, text=True, check=False)
    assert both.returncode == 0, both.stderr
    assert both.stdout.count("best validation") == 1
    lines = [(tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in ("one", "two")]
    losses = [[json.loads(line)["loss"] for line in part] for part in lines]
    assert len(losses[0]) == 6
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    first, second = (read_tensors(tmp_path / name / "checkpoint.safetensors")[0] for name in ("one", "two"))
    for name in first:
        torch.testing.assert_close(first[name], second[name], atol=2e-3, rtol=2e-2)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("o.json", '{"hidden": 8, "heads": 2, "batch": 64, "cell": "gru"}'),
        ("o.yaml", "hidden: 8\nheads: 2\nbatch: 64\ncell: gru\n"),
    ],
)
def test_existing_splits_and_a_file_of_options_can_be_used(name: str, content: str, tmp_path: Path) -> None:
    assert stepedit("data", "aor", "--size", 300, "--out", tmp_path / "d").returncode == 0
    (tmp_path / name).write_text(content)
    made = stepedit(
        *["train", "aor", "--data", tmp_path / "d", "--config", tmp_path / name, "--max-epochs", 1],
        *["--threads", 1, "--method", "tagging", "--hidden", 12, "--out", tmp_path / "run"],
    )
    assert made.returncode == 0, made.stderr
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["options"]["cell"], config["method"], config["data"]) == ("gru", "tagging", str(tmp_path / "d"))
    assert config["options"]["hidden"] == 12, "the command line wins over the file"
    assert stepedit("evaluate", tmp_path / "run").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["train", "--out", "x"], "which task?"),
        (["train", "sort", "--method", "tagger", "--out", "x"], "unknown method 'tagger' (did you mean 'tagging'?)"),
        (["train", "sort", "--mode", "onlin", "--out", "x"], "mode: "),
        (["train", "sort", "--hidden", "two", "--out", "x"], "hidden: "),
        (["train", "sort", "--preset", "fats", "--out", "x"], "unknown preset 'fats' (did you mean 'fast'?)"),
        (["train", "sort", "--size", "40", "--out", "x"], "do not fill one batch"),
        (
            ["train", "sort", "--data", "{run}/../pairs.tsv", "--out", "x"],
            "1 different targets; train, val and test need one each",
        ),
        (["train", "sort", "--config", "{run}/README.md", "--out", "x"], "README.md"),
        (["train", "sort", "--out", "{run}"], "exists already"),
        (["train", "--resume", "--out", "nowhere"], "nowhere: no run here"),
        (["evaluate", "nowhere"], "nowhere: no run here, and no model that comes with stepedit (aec, aes, aor,"),
        (["edit", "no/where", "1 2"], "no/where: no run here (config.json is missing)"),
        (["evaluate", "{run}", "--split", "tset"], "no split 'tset'; there are: train, val, test"),
        (["edit", "{run}", "3 x 1"], "input: unknown token 'x'"),
        (["edit", "{run}", "3 2 1", "3 x 1"], "input: line 2: unknown token 'x'"),
        (["edit", "{run}", ""], "input: the text is empty"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments: list[str], complaint: str, run: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.iterdir()}
    answer = stepedit(*(argument.format(run=run) for argument in arguments), folder=tmp_path)
    assert answer.returncode == 2, answer.stdout + answer.stderr
    assert complaint in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert not (tmp_path / "x").exists()
    assert before == {path: path.stat().st_mtime_ns for path in run.iterdir()}
