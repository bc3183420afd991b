"""The command line, run as a user runs it: as a process."""

import json
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stepedit import __version__
from stepedit.registry import TASKS

COMMAND = [sys.executable, "-c", "from stepedit.cli.main import main; main()"]


def stepedit(*arguments: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False, timeout=120)


def test_generate_writes_a_data_set_that_inspect_shows(tmp_path: Path) -> None:
    options = ["--numbers", 10, "--length", 5, "--num-examples", 200, "--seed", 0]
    made = stepedit("generate", "aor", *options, "--out", "d", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "wrote 200 pairs (train 140, val 30, test 30) to d" in made.stdout
    card = json.loads((tmp_path / "d" / "dataset.json").read_text())
    assert card["task"] == "aor"
    assert card["task_args"] == {"numbers": 10, "length": 5, "generation": "exact"}
    assert (card["num_examples"], card["seed"], card["stepedit"]) == (200, 0, __version__)
    shown = stepedit("inspect", "d", "--pairs", 1, folder=tmp_path)
    assert shown.returncode == 0, shown.stderr
    source = (tmp_path / "d" / "train_x.txt").read_text().splitlines()[0]
    assert "the edits of task aor" in shown.stdout
    assert f"source   {source}" in shown.stdout
    assert "[→ ==]" in shown.stdout
    assert "140" in shown.stdout


@pytest.mark.parametrize("task", TASKS)
def test_the_same_seed_writes_the_same_bytes(task: str, tmp_path: Path) -> None:
    for folder, seed in (("a", 5), ("b", 5), ("c", 6)):
        assert (
            stepedit("generate", task, "--num-examples", 40, "--seed", seed, "--out", tmp_path / folder).returncode == 0
        )
    first, again, other = ((tmp_path / folder / "train_x.txt").read_bytes() for folder in "abc")
    assert first == again != other


def test_task_arguments_reach_the_task(tmp_path: Path) -> None:
    options = ["--numbers", 12, "--num-examples", 400, "--task-arg", "division=true"]
    made = stepedit("generate", "aes", *options, "--out", tmp_path / "d")
    assert made.returncode == 0, made.stderr
    brackets = [
        part for line in (tmp_path / "d" / "train_x.txt").read_text().split("(")[1:] for part in [line.split(")")[0]]
    ]
    assert any("/" in bracket for bracket in brackets)


@pytest.mark.parametrize("task", TASKS)
def test_the_expert_reaches_the_target_step_by_step(task: str) -> None:
    source, target = TASKS[task].example_pair()
    shown = stepedit("expert", task, "--source", source, "--target", target)
    assert shown.returncode == 0, shown.stderr
    verdict = "   (valid)" if TASKS[task].verifiable else ""
    assert shown.stdout.endswith(f"\nresult: {target}{verdict}\n")
    assert "<done>" in shown.stdout
    generated = stepedit("expert", task, "--seed", 4).stdout
    assert "<done>" in generated
    assert generated.endswith("(valid)\n") == TASKS[task].verifiable


def test_tasks_are_listed_with_an_example_each() -> None:
    listed = stepedit("tasks")
    assert listed.returncode == 0
    for name in TASKS:
        assert f"{name}  {TASKS[name].title}" in listed.stdout
        assert f"target     {TASKS[name].example_pair()[1]}" in listed.stdout


def test_a_file_of_pairs_can_be_inspected(tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text("teh cat sat\tthe cat sat\na [b] c\ta [b] c\n")
    shown = stepedit("inspect", tmp_path / "p.tsv")
    assert shown.returncode == 0, shown.stderr
    assert "edits    [ teh→ the] cat sat" in shown.stdout
    assert "1 (50.0%)" in shown.stdout
    assert "source   a [b] c" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["generate", "aro", "--out", "d"], "unknown task 'aro' (did you mean 'aor'?); available: aec, aes, aor, sort"),
        (["generate", "aor", "--num-examples", "84380", "--out", "d"], "has exactly 84,379"),
        (["generate", "aor", "--num-examples", "3", "--out", "d"], "--num-examples must be at least 4"),
        (["generate", "aor", "--numbers", "0", "--out", "d"], "task aor: --numbers: "),
        (["generate", "aor", "--task-arg", "division=true", "--out", "d"], "unknown argument 'division'"),
        (["generate", "aes", "--task-arg", "division", "--out", "d"], "--task-arg takes NAME=VALUE, not 'division'"),
        (["generate", "aes", "--task-arg", "division=maybe", "--out", "d"], "task aes: division"),
        (["generate", "aor", "--out", "full"], "full exists already"),
        (["generate", "aor", "--out", "full/file/deeper"], "full/file/deeper cannot be written"),
        (
            ["generate", "aor", "--num-examples", "many", "--out", "d"],
            "--num-examples': must be a whole number",
        ),
        (["generate", "aor"], "Missing option '--out'"),
        (["genrate", "aor"], "No such command 'genrate'"),
        (["generate", "aor", "--out", "d", "--sede", "3"], "No such option"),
        (["inspect", "nowhere"], "nowhere: no such file or folder"),
        (["inspect", "full"], "full: no data set here"),
        (["inspect", "bad.tsv"], "bad.tsv:2: 1 columns where 2 were expected"),
        (["inspect", "good.tsv", "--task", "aor"], "these texts contain no integer, so they are not of task 'aor'"),
        (["inspect", "sums.tsv", "--task", "aor"], "sums.tsv:1: the source is not the target without its operators"),
        (["generate", "aor", "--out", "."], "is the current folder"),
        (["inspect", "named.tsv", "--source-column", "from"], "named.tsv:1: no column 'from'; the columns are: a, b"),
        (["inspect", "damaged"], "dataset.json: unknown task 'aro'"),
        (["expert", "aor", "--source", "2 3"], "--source and --target belong together"),
        (["expert", "aor", "--source", "2 x", "--target", "2"], "unknown token 'x'"),
    ],
)
def test_a_user_error_is_one_line_and_exit_code_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    (tmp_path / "bad.tsv").write_text("a\tb\nc\n")
    (tmp_path / "good.tsv").write_text("a\tb\n")
    (tmp_path / "sums.tsv").write_text("2 3\t2 + 4 == 6\n")
    (tmp_path / "named.tsv").write_text("a\tb\nc\td\n")
    (tmp_path / "damaged").mkdir()
    for name, content in (("train_x.txt", "2\n"), ("train_y.txt", "2\n"), ("dataset.json", '{"task": "aro"}')):
        (tmp_path / "damaged" / name).write_text(content)
    result = stepedit(*arguments, folder=tmp_path)
    assert result.returncode == 2, result.stdout + result.stderr
    assert message in result.stderr
    assert result.stderr.startswith("stepedit: ")
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "d").exists()


def test_help_shows_every_option_with_its_default() -> None:
    shown = stepedit("generate", "--help").stdout
    for option in ("--numbers", "--length", "--num-examples", "--seed", "--out", "--force", "--task-arg", "--plugin"):
        assert option in shown
    assert "10000" in shown
    assert "Example: stepedit generate aor" in shown


def test_help_shows_the_defaults_of_presets_and_encoders() -> None:
    shown = " ".join(stepedit("train", "--help").stdout.split())
    assert "[default: (256; --encoder: 32)]" in shown
    assert "[default: (0.05; paper, paper-fast: 0.5; --encoder: 0.2)]" in shown


def test_without_arguments_the_commands_are_listed() -> None:
    for arguments in ([], ["--help"]):
        shown = stepedit(*arguments)
        assert all(name in shown.stdout + shown.stderr for name in ("generate", "inspect", "tasks", "expert"))


def test_python_m_stepedit_runs_the_command_line() -> None:
    command = [sys.executable, "-m", "stepedit", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"stepedit {__version__}\n"


def test_control_characters_are_escaped_on_output(tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text("a \x1b[31mred\tb \u202ered\n", encoding="utf-8")
    shown = stepedit("inspect", tmp_path / "p.tsv")
    assert shown.returncode == 0
    assert "\x1b" not in shown.stdout
    assert "\\x1b[31mred" in shown.stdout
    assert "\\u202ered" in shown.stdout


def test_a_very_long_pair_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text(f"{'a ' * 50_000}b\t{'a ' * 50_000}c\n")
    shown = stepedit("inspect", tmp_path / "p.tsv")
    assert shown.returncode == 0
    assert "too long to show" in shown.stdout


def test_version_is_printed() -> None:
    assert stepedit("--version").stdout == f"stepedit {__version__}\n"


def test_a_folder_name_that_looks_like_markup_is_printed_as_it_is(tmp_path: Path) -> None:
    made = stepedit("generate", "aor", "--num-examples", 20, "--out", "d[/x]", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "to d[/x] in" in made.stdout


def test_an_ascii_terminal_gets_replacement_characters(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = subprocess.run([*COMMAND, "tasks"], capture_output=True, text=True, check=False, env=environment)
    assert shown.returncode == 0, shown.stderr


def test_an_interrupted_command_reports_it_and_leaves_no_files(tmp_path: Path) -> None:
    options = ["--numbers", "100", "--length", "20", "--num-examples", "1000000", "--out", str(tmp_path / "d")]
    command = [*COMMAND, "generate", "aor", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(6)  # by then it is sampling, and has hours to go
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=30)
    assert message == "stepedit: stopped\n"
    assert process.returncode == 130
    assert list(tmp_path.iterdir()) == []


def test_a_long_command_shows_its_progress_on_a_terminal(tmp_path: Path) -> None:
    reader, terminal = pty.openpty()
    options = ["--numbers", "100", "--length", "9", "--num-examples", "20000", "--out", str(tmp_path / "d")]
    command = [*COMMAND, "generate", "aor", *options]
    process = subprocess.Popen(command, stderr=terminal, stdout=subprocess.DEVNULL, env={**os.environ, "TERM": "xterm"})
    os.close(terminal)
    shown = b""
    while process.poll() is None or select.select([reader], [], [], 0)[0]:
        try:
            shown += os.read(reader, 65536)
        except OSError:
            break
    os.close(reader)
    assert process.wait() == 0
    assert b"sampling targets" in shown
    assert b"20000" in shown


def test_a_closed_output_pipe_is_no_error(tmp_path: Path) -> None:
    stepedit("generate", "aor", "--num-examples", 4000, "--disjoint-sources", "--out", tmp_path / "d")
    command = f"{shlex.join(COMMAND)} inspect {tmp_path / 'd'} --pairs 2000"
    piped = subprocess.run(f"{command} | head -n 1", shell=True, capture_output=True, text=True, check=False)
    assert piped.stderr == ""
    assert piped.stdout.count("\n") == 1


@pytest.mark.parametrize("words", [["edit", "nosuch"], ["edit", "spelling", "--verify"]])
def test_wrong_arguments_are_reported_without_any_input(words: list[str]) -> None:
    run = subprocess.run([*COMMAND, *words], capture_output=True, text=True, input="", check=False)
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1


def test_errors_name_flags_and_those_about_files_the_names_in_them(tmp_path: Path) -> None:
    (tmp_path / "options.json").write_text('{"hidden_size": 2}')
    for arguments, message in (
        (["edit", "aor", "2 3", "--beam-size", "0"], "--beam-size: must be at least 1, not 0"),
        (["edit", "aes", "2", "--edits-per-step", "2", "--beam-size", "2"], "--edits-per-step needs greedy decoding"),
        (["train", "aor", "--config", "options.json", "--out", "x"], "hidden_size: must be at least 4, not 2"),
    ):
        run = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert run.returncode == 2
        assert run.stderr.startswith(f"stepedit: {message}"), run.stderr


def test_a_text_may_begin_with_a_dash() -> None:
    texts = ["- 33 + 25 + 75 - 60 == ( 30 - 23 )", "2 == ( 4 - 2 )", "- 3 + 5 == ( 4 - 2 )"]
    run = subprocess.run([*COMMAND, "edit", "aes", *texts], capture_output=True, text=True, check=False)
    assert run.stdout.splitlines() == ["- 33 + 25 + 75 - 60 == 7", "2 == 2", "- 3 + 5 == 2"], run.stderr
    named = subprocess.run(
        [*COMMAND, "edit", "aes", "--keep=my words.txt", "2"], capture_output=True, text=True, check=False
    )
    assert "my words.txt" in named.stderr
    assert named.returncode == 2, "an option whose value has a space"
    wrong = subprocess.run([*COMMAND, "edit", "aes", "--beem", "2"], capture_output=True, text=True, check=False)
    assert "No such option: --beem" in wrong.stderr
