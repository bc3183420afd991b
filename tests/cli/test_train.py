"""Train, evaluate, edit, resume: the commands, run as a user runs them."""

import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stepedit import Editor
from stepedit.cli.progress import progress_lines
from stepedit.inference.model_folder import read_tensors
from stepedit.training.checkpoint import TrainerState

COMMAND = [sys.executable, "-c", "from stepedit.cli.main import main; main()"]
SMALL = ["--hidden-size", "16", "--num-heads", "2", "--num-layers", "1", "--batch-size", "32"]
SMALL += ["--learning-rate", "0.005", "--threads", "1"]


def stepedit(
    *arguments: object, stdin: str | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, input=stdin, cwd=folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "sort"
    setting = ["sort", "--numbers", 20, "--length", 3, "--num-examples", 400]
    made = stepedit("train", *setting, *SMALL, "--max-epochs", 70, "--seed", 1, "--out", folder)
    assert made.returncode == 0, made.stderr
    assert "best validation sequence" in made.stdout
    (folder.parent / "pairs.tsv").write_text("3 2\t2 3\n" * 40)
    return folder


def test_a_run_folder_has_all_that_repeats_the_run(run: Path) -> None:
    names = {path.name for path in run.iterdir()}
    assert {"config.json", "vocabulary.json", "model.safetensors", "model.onnx", "metrics.jsonl", "README.md"} <= names
    config = json.loads((run / "config.json").read_text())
    assert (config["task"], config["seed"], config["training"]["hidden_size"]) == ("sort", 1, 16)
    assert json.loads((run / "vocabulary.json").read_text())["outputs"][:4] == ["<pad>", "<start>", "<done>", "<swap>"]
    assert "stepedit evaluate sort" in (run / "README.md").read_text()
    reports = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [report["epoch"] for report in reports] == sorted(report["epoch"] for report in reports)


def test_evaluate_reports_all_metrics_with_intervals_and_writes_predictions(run: Path) -> None:
    shown = stepedit("evaluate", run, "--json")
    assert shown.returncode == 0, shown.stderr
    scores = json.loads(shown.stdout)
    assert set(scores["metrics"]) == {"sequence", "token"}
    mean, low, high = scores["metrics"]["sequence"]
    assert 0.5 < low <= mean <= high <= 1
    assert scores["pairs"] == sum(count for count, _ in scores["by_edits"].values()) == 60
    assert set(scores["stop_reasons"]) == {"done", "confidence", "limit", "cycle"}
    assert sum(scores["stop_reasons"].values()) == pytest.approx(1)
    rows = [json.loads(line) for line in (run / "predictions-test.jsonl").read_text().splitlines()]
    assert sum(row["stop_reason"] == "done" for row in rows) / 60 == pytest.approx(scores["stop_reasons"]["done"])
    assert sum(row["sequence"] for row in rows) / len(rows) == pytest.approx(mean)
    table = stepedit("evaluate", run, "--split", "val").stdout
    assert "95 % interval" in table
    assert "edits needed" in table
    assert re.search(r"pairs, [0-9.]+% done", table)


def test_edit_keeps_the_order_of_lines_and_shows_steps(run: Path) -> None:
    texts = ["3 2 1", "1 2 3", "9 9 1", "5 4 4"]
    plain = stepedit("edit", run, stdin="".join(f"{text}\n" for text in texts))
    assert plain.returncode == 0, plain.stderr
    traced = stepedit("edit", run, *texts, "--json")
    results = [json.loads(line) for line in traced.stdout.splitlines()]
    assert [result["source"] for result in results] == texts
    assert [result["text"] for result in results] == plain.stdout.splitlines()
    for result in results:
        outcome = {"source", "text", "stop_reason", "finished", "valid"}
        assert set(result) == outcome | {"tokens", "steps", "final_candidates", "changes"}
        for step in result["steps"]:
            assert set(step) == {
                *("operation", "position", "before", "after", "confidence"),
                *("deleted", "inserted", "candidates"),
            }
            assert 0 <= step["confidence"] <= 1
    shown = stepedit("edit", run, "3 2 1", "--trace").stdout
    assert "→" in shown
    assert "%" in shown


def test_verified_beam_search_is_at_least_as_accurate_as_greedy_decoding(run: Path) -> None:
    greedy, verified = (
        json.loads(stepedit("evaluate", run, "--json", *more).stdout) for more in ([], ["--beam-size", 4, "--verify"])
    )
    assert verified["metrics"]["sequence"][0] >= greedy["metrics"]["sequence"][0]
    assert (verified["beam_size"], verified["verify"]) == (4, True)
    assert (run / "predictions-test-beam-4-verified.jsonl").exists()
    found = stepedit("edit", run, "3 2 1", "--beam-size", 4, "--verify", "--trace")
    assert found.stdout.splitlines()[-1] == "1 2 3"
    assert found.stderr == ""
    result = json.loads(stepedit("edit", run, "3 2 1", "--beam-size", 4, "--verify", "--json").stdout)
    assert result["valid"] is True
    long = " ".join(str(number % 19) for number in range(60, 0, -1))  # far longer than in training
    invalid = stepedit("edit", run, long, "--verify")
    assert (invalid.returncode, len(invalid.stdout.splitlines())) == (0, 1)
    hint, rejected = invalid.stderr.splitlines()
    assert "add --beam-size 10" in hint
    assert rejected == f"stepedit: line 1: rejected by the verifier: {invalid.stdout[:-1]!r}"


def test_options_that_cannot_work_are_refused_in_one_line(tmp_path: Path) -> None:
    setting = ["aor", "--num-examples", 200, *SMALL, "--max-epochs", 1]
    for options, message in (
        (["--num-heads", 3], "--hidden-size 16 is not divisible by --num-heads 3"),
        (["--device", "meta"], "no device 'meta' here"),
        (
            ["--method", "tagging", "--mode", "self-training"],
            "self-training searches over actions, which tagging has none of",
        ),
    ):
        made = stepedit("train", *setting, *options, "--out", tmp_path / "run")
        assert (made.returncode, made.stderr.count("\n")) == (2, 1), made.stderr
        assert message in made.stderr
        assert not (tmp_path / "run").exists()


def test_an_exported_model_is_smaller_and_gives_the_same_results(run: Path, tmp_path: Path) -> None:
    made = stepedit("export", run, "--out", tmp_path / "exported")
    assert made.returncode == 0, made.stderr
    exported, original = ((folder / "model.onnx").stat().st_size for folder in (tmp_path / "exported", run))
    assert exported < 0.8 * original
    assert not (tmp_path / "exported" / "model.safetensors").exists()
    texts = ["3 2 1", "9 9 1", "5 4 4"]
    assert stepedit("edit", tmp_path / "exported", *texts).stdout == stepedit("edit", run, *texts).stdout
    again = stepedit("export", run, "--out", tmp_path / "exported")
    assert (again.returncode, "exists already" in again.stderr) == (2, True)


def test_the_training_command_of_the_model_card_repeats_the_run(run: Path, tmp_path: Path) -> None:
    (command,) = re.findall(r"Training command: `stepedit (.*)`", (run / "README.md").read_text())
    made = stepedit(*shlex.split(command.replace("--out RUN", f"--out {tmp_path}/again")))
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "again" / "config.json").read_text() == (run / "config.json").read_text()
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()


def test_python_edits_with_the_same_model(run: Path) -> None:
    (result,) = Editor.load(run).edit(["3 2 1"], trace=True)
    assert result.source == "3 2 1"
    assert result.steps[0].operation == "swap"


def test_tensorboard_has_the_metrics_of_metrics_jsonl(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    setting = ["aor", "--num-examples", 200, *SMALL, "--max-epochs", 3, "--eval-every", 1, "--out", tmp_path / "run"]
    made = stepedit("train", *setting, "--tensorboard")
    assert made.returncode == 0, made.stderr
    reports = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    board = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    logged = [(event.step, event.value) for event in board.Scalars("validation/token")]
    assert logged == [(report["step"], pytest.approx(report["metrics"]["token"])) for report in reports]


def test_an_unavailable_device_is_named(tmp_path: Path) -> None:
    for name in ("cuda:77", "nonsense"):
        made = stepedit("train", "aor", "--num-examples", 200, *SMALL, "--device", name, "--out", tmp_path / "run")
        assert made.returncode == 2
        assert f"no device '{name}' here" in made.stderr
    assert not (tmp_path / "run").exists()


def test_evaluate_shows_the_papers_result(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "run"
    assert stepedit("generate", "aor", "--out", data).returncode == 0
    assert stepedit("train", "aor", "--data", data, *SMALL, "--max-epochs", 1, "--out", out).returncode == 0
    assert "58.53%" in stepedit("evaluate", out, "--split", "val").stdout


def test_an_interrupted_run_can_be_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    setting = ["train", "aec", "--num-examples", "400", *SMALL, "--max-epochs", "60", "--out", str(folder)]
    with subprocess.Popen([*COMMAND, *setting], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "loss" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=60)
    assert process.returncode == 2
    assert f"resume with: stepedit train --resume --out {folder}" in message
    resumed = stepedit("train", "--resume", "--out", folder)
    assert resumed.returncode == 0, resumed.stderr
    epochs = [json.loads(line)["epoch"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert epochs[-1] == 60
    assert epochs == sorted(set(epochs))


@pytest.mark.parametrize("dropout", ["0", "0.2"])
def test_two_processes_have_the_loss_curve_of_one(dropout: str, tmp_path: Path) -> None:
    setting = ["train", "aec", "--num-examples", "200", *SMALL, "--dropout", dropout]
    setting += ["--max-epochs", "6", "--eval-every", "1", "--out"]
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
        np.testing.assert_allclose(first[name], second[name], atol=2e-3, rtol=2e-2)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("o.json", '{"hidden_size": 8, "num_heads": 2, "batch_size": 64, "architecture": "gru"}'),
        ("o.yaml", "hidden-size: 8\nnum_heads: 2\nbatch_size: 64\narchitecture: gru\n"),
    ],
)
def test_a_run_can_use_existing_splits_and_a_configuration_file(name: str, content: str, tmp_path: Path) -> None:
    assert stepedit("generate", "aor", "--num-examples", 300, "--out", tmp_path / "d").returncode == 0
    (tmp_path / name).write_text(content)
    made = stepedit(
        *["train", "aor", "--data", tmp_path / "d", "--config", tmp_path / name, "--max-epochs", 1],
        *["--threads", 1, "--method", "tagging", "--hidden-size", 12, "--out", tmp_path / "run"],
    )
    assert made.returncode == 0, made.stderr
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["method"], config["data"]) == ("tagging", str(tmp_path / "d"))
    assert config["training"]["architecture"] == "gru"
    assert config["training"]["hidden_size"] == 12, "command-line options take precedence"
    assert stepedit("evaluate", tmp_path / "run").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--out", "x"], "which task?"),
        (["train", "sort", "--method", "tagger", "--out", "x"], "unknown method 'tagger' (did you mean 'tagging'?)"),
        (["train", "sort", "--mode", "onlin", "--out", "x"], "--mode: "),
        (["train", "sort", "--hidden-size", "two", "--out", "x"], "--hidden-size': must be a whole number"),
        (
            ["train", "sort", "--hidden-size", "2", "--out", "x"],
            "stepedit: --hidden-size: must be at least 4, not 2",
        ),
        (["train", "sort", "--preset", "bsae", "--out", "x"], "unknown preset 'bsae' (did you mean 'base'?)"),
        (["train", "sort", "--num-examples", "40", "--out", "x"], "do not fill one batch"),
        (
            ["train", "sort", "--data", "{run}/../pairs.tsv", "--out", "x"],
            "share a text or a stem): 1; train, val and test need one each",
        ),
        (["train", "sort", "--config", "{run}/README.md", "--out", "x"], "README.md"),
        (["train", "sort", "--out", "{run}"], "exists already"),
        (["train", "--resume", "--out", "nowhere"], "nowhere: no run here"),
        (["evaluate", "nowhere"], "nowhere: no run here, and no model that comes with stepedit (aec, aes, aor,"),
        (["edit", "no/where", "1 2"], "no/where: no run here (config.json is missing)"),
        (["evaluate", "{run}", "--split", "tset"], "no split 'tset'; there are: train, val, test"),
        (["edit", "{run}", "3 x 1"], "stepedit: unknown token 'x'"),
        (["edit", "{run}", "3 2 1", "3 x 1"], "stepedit: line 2: unknown token 'x'"),
        (["edit", "{run}", ""], "stepedit: the text is empty"),
    ],
)
def test_a_user_error_is_one_line_and_changes_nothing(
    arguments: list[str], message: str, run: Path, tmp_path: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.iterdir()}
    result = stepedit(*(argument.format(run=run) for argument in arguments), folder=tmp_path)
    assert result.returncode == 2, result.stdout + result.stderr
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "x").exists()
    assert before == {path: path.stat().st_mtime_ns for path in run.iterdir()}


def test_without_a_terminal_a_line_a_minute_says_how_far_training_is(capsys: pytest.CaptureFixture[str]) -> None:
    state = TrainerState(total_steps=9_000, seconds=30.0)  # resumed after half a minute
    show = progress_lines(state)
    for step, seconds in ((100, 60.0), (150, 90.0), (151, 90.6), (300, 180.0)):
        state.seconds = seconds
        show(step, 5.25)
    assert capsys.readouterr().err.splitlines() == [
        "step 150 of 9,000  loss 5.2500  1.7 steps/s  1.5 min",
        "step 300 of 9,000  loss 5.2500  1.7 steps/s  3.0 min",
    ]
