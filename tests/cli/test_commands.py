"""The command line, run as a user runs it: as a process of its own."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stepedit import __version__
from stepedit.registry import TASKS


def stepedit(*arguments: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from stepedit.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False, timeout=120)


def test_data_writes_what_inspect_shows(tmp_path: Path) -> None:
    made = stepedit(
        "data", "aor", "--numbers", 10, "--length", 5, "--size", 200, "--seed", 0, "--out", "d", folder=tmp_path
    )
    assert made.returncode == 0, made.stderr
    assert "wrote 200 pairs (train 140, val 30, test 30) to d" in made.stdout
    card = json.loads((tmp_path / "d" / "dataset.json").read_text())
    assert card["task"] == "aor"
    assert card["options"] == {"numbers": 10, "length": 5}
    assert (card["size"], card["seed"], card["stepedit"]) == (200, 0, __version__)
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
        assert stepedit("data", task, "--size", 40, "--seed", seed, "--out", tmp_path / folder).returncode == 0
    first, again, other = ((tmp_path / folder / "train_x.txt").read_bytes() for folder in "abc")
    assert first == again != other


def test_options_of_a_task_reach_it(tmp_path: Path) -> None:
    made = stepedit("data", "aes", "--numbers", 12, "--size", 400, "--option", "division=true", "--out", tmp_path / "d")
    assert made.returncode == 0, made.stderr
    brackets = [
        part for line in (tmp_path / "d" / "train_x.txt").read_text().split("(")[1:] for part in [line.split(")")[0]]
    ]
    assert any("/" in bracket for bracket in brackets)


@pytest.mark.parametrize("task", TASKS)
def test_walk_reaches_the_target_step_by_step(task: str) -> None:
    source, target = TASKS[task].example
    walked = stepedit("walk", task, "--source", source, "--target", target)
    assert walked.returncode == 0, walked.stderr
    assert f"result: {target}   (right" in walked.stdout
    assert "<done>" in walked.stdout
    assert stepedit("walk", task, "--seed", 4).stdout.count("right") == 1


def test_tasks_are_listed_with_an_example_each() -> None:
    listed = stepedit("tasks")
    assert listed.returncode == 0
    for name in TASKS:
        assert f"{name}  {TASKS[name].title}" in listed.stdout
        assert f"target   {TASKS[name].example[1]}" in listed.stdout


def test_a_bare_file_of_pairs_can_be_inspected(tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text("teh cat sat\tthe cat sat\na [b] c\ta [b] c\n")
    shown = stepedit("inspect", tmp_path / "p.tsv")
    assert shown.returncode == 0, shown.stderr
    assert "edits    [teh → the] cat sat" in shown.stdout
    assert "1 (50.0%)" in shown.stdout
    assert "source   a [b] c" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["data", "aro", "--out", "d"], "unknown task 'aro' (did you mean 'aor'?); available: aec, aes, aor, sort"),
        (["data", "aor", "--size", "84380", "--out", "d"], "has exactly 84,379"),
        (["data", "aor", "--size", "3", "--out", "d"], "size must be at least 4"),
        (["data", "aor", "--numbers", "0", "--out", "d"], "task aor: numbers"),
        (["data", "aor", "--option", "division=true", "--out", "d"], "unknown option 'division'"),
        (["data", "aes", "--option", "division", "--out", "d"], "--option takes NAME=VALUE, not 'division'"),
        (["data", "aes", "--option", "division=maybe", "--out", "d"], "task aes: division"),
        (["data", "aor", "--out", "full"], "full exists already"),
        (["data", "aor", "--out", "full/file/deeper"], "full/file/deeper cannot be written"),
        (["data", "aor", "--size", "many", "--out", "d"], "--size': Input should be a valid integer"),
        (["data", "aor"], "Missing option '--out'"),
        (["dta", "aor"], "No such command 'dta'"),
        (["data", "aor", "--out", "d", "--sede", "3"], "No such option"),
        (["inspect", "nowhere"], "nowhere: no such file or folder"),
        (["inspect", "full"], "full: no data set here"),
        (["inspect", "bad.tsv"], "bad.tsv:2: 1 columns where 2 were expected"),
        (["inspect", "good.tsv", "--task", "aor"], "there is no integer in these texts"),
        (["inspect", "sums.tsv", "--task", "aor"], "sums.tsv:1: the source is not the target without its operators"),
        (["data", "aor", "--out", "."], "is the folder we are in"),
        (["inspect", "named.tsv", "--source", "from"], "named.tsv:1: no column 'from'; the columns are: a, b"),
        (["inspect", "damaged"], "dataset.json: unknown task 'aro'"),
        (["walk", "aor", "--source", "2 3"], "--source and --target belong together"),
        (["walk", "aor", "--source", "2 x", "--target", "2"], "unknown token 'x'"),
    ],
)
def test_what_a_user_can_cause_ends_in_one_line_and_exit_code_2(
    arguments: list[str], complaint: str, tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    (tmp_path / "bad.tsv").write_text("a\tb\nc\n")
    (tmp_path / "good.tsv").write_text("a\tb\n")
    (tmp_path / "sums.tsv").write_text("2 3\t2 + 4 == 6\n")
    (tmp_path / "named.tsv").write_text("a\tb\nc\td\n")
    (tmp_path / "damaged").mkdir()
    for name, content in (("train_x.txt", "2\n"), ("train_y.txt", "2\n"), ("dataset.json", '{"task": "aro"}')):
        (tmp_path / "damaged" / name).write_text(content)
    answer = stepedit(*arguments, folder=tmp_path)
    assert answer.returncode == 2, answer.stdout + answer.stderr
    assert complaint in answer.stderr
    assert answer.stderr.startswith("stepedit: ")
    assert answer.stderr.count("\n") == 1
    assert not (tmp_path / "d").exists()


def test_help_shows_every_option_with_its_default() -> None:
    shown = stepedit("data", "--help").stdout
    for option in ("--numbers", "--length", "--size", "--seed", "--out", "--force", "--option"):
        assert option in shown
    assert "10000" in shown
    assert "Example: stepedit data aor" in shown


def test_without_arguments_it_says_what_it_can_do() -> None:
    for arguments in ([], ["--help"]):
        shown = stepedit(*arguments)
        assert all(name in shown.stdout + shown.stderr for name in ("data", "inspect", "tasks", "walk"))


def test_python_can_run_it_as_a_module() -> None:
    command = [sys.executable, "-m", "stepedit", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"stepedit {__version__}\n"


def test_what_could_play_tricks_on_a_terminal_is_shown_as_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text("a \x1b[31mred\tb \u202ered\n", encoding="utf-8")
    shown = stepedit("inspect", tmp_path / "p.tsv")
    assert shown.returncode == 0
    assert "\x1b" not in shown.stdout
    assert "\\x1b[31mred" in shown.stdout
    assert "\\u202ered" in shown.stdout


def test_a_very_long_pair_is_not_drawn(tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text(f"{'a ' * 50_000}b\t{'a ' * 50_000}c\n")
    shown = stepedit("inspect", tmp_path / "p.tsv")
    assert shown.returncode == 0
    assert "too long to draw" in shown.stdout


def test_version() -> None:
    assert stepedit("--version").stdout == f"stepedit {__version__}\n"


def test_names_that_look_like_markup_are_only_names(tmp_path: Path) -> None:
    made = stepedit("data", "aor", "--size", 20, "--out", "d[/x]", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "to d[/x] in" in made.stdout


def test_a_terminal_without_the_letters_gets_others(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-c", "from stepedit.cli import main; main()", "tasks"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert shown.returncode == 0, shown.stderr


def test_interrupted_it_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from stepedit.cli import main; main()", "data", "aor", "--numbers", "100"]
    command += ["--length", "20", "--size", "1000000", "--out", str(tmp_path / "d")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(6)  # by then it is drawing, and has hours to go
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=30)
    assert complaint == "stepedit: stopped\n"
    assert process.returncode == 130
    assert list(tmp_path.iterdir()) == []


def test_a_long_job_shows_its_progress_on_a_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "from stepedit.cli import main; main()", "data", "aor", "--numbers", "100"]
    command += ["--length", "9", "--size", "20000", "--out", str(tmp_path / "d")]
    process = subprocess.Popen(command, stderr=theirs, stdout=subprocess.DEVNULL, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    shown = b""
    while process.poll() is None or select.select([ours], [], [], 0)[0]:
        try:
            shown += os.read(ours, 65536)
        except OSError:
            break
    os.close(ours)
    assert process.wait() == 0
    assert b"drawing targets" in shown
    assert b"20000" in shown


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    stepedit("data", "aor", "--size", 4000, "--out", tmp_path / "d")
    command = f"{sys.executable} -c 'from stepedit.cli import main; main()' inspect {tmp_path / 'd'} --pairs 2000"
    piped = subprocess.run(f"{command} | head -n 1", shell=True, capture_output=True, text=True, check=False)
    assert piped.stderr == ""
    assert piped.stdout.count("\n") == 1
