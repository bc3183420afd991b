"""`stepedit edit` says of every result whether the task's verifier accepts it, and why the editing ended."""

import json
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-c", "from stepedit.cli.main import main; main()", "edit"]
WRONG, RIGHT = "6 10 9 5 3", "6 10 9 5 2"  # the shipped model makes a false equation of the first
REJECTED = "6 * 10 / 9 - 5 == 3"


def edit(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    made = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, input=stdin)
    assert made.returncode == 0, made.stderr
    return made


def test_a_rejected_result_is_named_on_standard_error() -> None:
    made = edit("aor", RIGHT, WRONG)
    assert made.stdout.splitlines() == ["6 + 10 - 9 - 5 == 2", REJECTED]
    assert made.stderr == f"stepedit: line 2: rejected by the verifier: '{REJECTED}'\n"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_at_most_twenty_rejected_results_are_named(workers: str) -> None:
    made = edit("aor", "--num-workers", workers, stdin=f"{RIGHT}\n" + f"{WRONG}\n" * 1_100)
    *named, total = made.stderr.splitlines()
    assert [line.split(": ")[1] for line in named] == [f"line {number}" for number in range(2, 22)]
    assert total == "stepedit: 1,100 results were rejected by the verifier; 20 are named"
    assert len(made.stdout.splitlines()) == 1_101


def test_a_trace_marks_a_rejected_result() -> None:
    made = edit("aor", WRONG, RIGHT, "--trace")
    ends = [line for line in made.stdout.splitlines() if "==" in line and "→" not in line]
    assert ends == [f"{REJECTED}   (rejected by the verifier)", "6 + 10 - 9 - 5 == 2"]
    assert made.stderr == ""


def test_json_has_the_verdict_and_the_reason_and_states_on_request() -> None:
    plain, with_states = (json.loads(edit("aor", WRONG, "--json", *more).stdout) for more in ([], ["--states"]))
    assert (plain["valid"], plain["stop_reason"], plain["finished"]) == (False, "done", True)
    assert "text" not in plain["steps"][0]
    assert with_states["steps"][-1]["text"] == REJECTED


def test_a_trace_says_why_it_stopped() -> None:
    made = edit("aor", RIGHT, "--trace", "--min-confidence", "1")
    assert made.stdout.splitlines()[-1] == (
        f"{RIGHT}   (stopped: the next edit is below the minimum confidence)   (rejected by the verifier)"
    )


def test_verify_without_a_beam_hints_at_one() -> None:
    assert edit("aor", RIGHT, "--verify").stderr.endswith("add --beam-size 10\n")
    assert edit("aor", RIGHT, "--verify", "--beam-size", "2").stderr == ""


def test_states_without_json_are_refused() -> None:
    made = subprocess.run([*COMMAND, "aor", RIGHT, "--states"], capture_output=True, text=True, check=False)
    assert (made.returncode, made.stderr.count("\n")) == (2, 1)
    assert "--states is for --json" in made.stderr


def test_a_text_may_begin_with_a_dash_and_have_no_space() -> None:
    assert edit("spelling", "-teh", "--trace", "-a").stdout.splitlines()[-1] == "-a"
    assert edit("spelling", "--min-confidence", "1", "-teh").stdout == "-teh\n"
    assert edit("spelling", "--", "--teh").stdout.startswith("--")
    for arguments, message in (
        (["spelling", "--teh"], "put -- before a text that begins with a dash"),
        (["spelling", "--min-confidence", "-1", "x"], "--min-confidence: must be at least 0, not -1"),
        (["punctuation", "--keep", "- my list.txt", "x"], "- my list.txt: no such file"),
    ):
        made = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)
        assert (made.returncode, made.stderr.count("\n")) == (2, 1)
        assert message in made.stderr
