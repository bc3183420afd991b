"""Every option of every command with awkward values: one line and an exit code, never a traceback.

All values of a command are tried in one process, because starting one costs more than most commands do.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stepedit.cli.main import COMMANDS

VALUES = ["", " ", "-1", "0", "1.5", "nan", "inf", "9" * 20, "9" * 5000, "x", "[/red]", "a=b", "{", "é" * 300, "\udce9"]
SMALL = ["--num-examples", "40", "--hidden-size", "4", "--num-heads", "1", "--num-layers", "1", "--batch-size", "8"]
SMALL += ["--max-epochs", "1", "--threads", "1"]
BASES = {
    "tasks": [],
    "expert": ["aor"],
    "generate": ["aor", "--num-examples", "8", "--out", "NEW"],
    "inspect": ["pairs.tsv"],
    "corrupt": ["clean.txt", "--out", "NEW.jsonl"],
    "train": ["sort", *SMALL, "--numbers", "9", "--length", "3", "--out", "NEW"],
    "evaluate": ["run"],
    "tune": ["run"],
    "edit": ["aor", "6 10 9 5 2"],
    "export": ["run", "--out", "NEW"],
    "sweep": ["grid.yaml", "--dry-run", "--out", "NEW"],
    "report": ["run", "--format", "csv"],
    "serve": ["nowhere"],
}
PROGRAM = """
import contextlib, io, json, os, shutil, signal, sys, traceback
import click, typer
from stepedit.cli import main as cli

class TooLong(BaseException):
    pass

def stop(*_):
    raise TooLong

def call(arguments):
    sys.argv = ["stepedit", *arguments]
    shown, errors = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    signal.alarm(10)
    try:
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(errors):
            cli.main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except TooLong:
        code = 0  # it was accepted, and works
    except BaseException:
        code = traceback.format_exc()
    finally:
        signal.alarm(0)
    errors.flush()
    return code, errors.buffer.getvalue().decode()

signal.signal(signal.SIGALRM, stop)
name, base, values = json.load(sys.stdin)
sys.stdin = open(os.devnull)
command = typer.main.get_command(cli.make_app([name]))
command = command.commands[name] if hasattr(command, "commands") else command
tried = [[name, *base, value] for value in values] + [[name, value] for value in values]
for parameter in command.params:
    if parameter.param_type_name == "option" and not getattr(parameter, "is_flag", False):
        tried += [[name, *base, parameter.opts[0], value] for value in values]
wrong = []
for number, arguments in enumerate(tried):
    arguments = [word.replace("NEW", f"new{number}") for word in arguments]
    code, errors = call(arguments)
    if code not in (0, 1, 2) or "Traceback" in errors or (code and errors.count("\\n") != 1):
        wrong.append([[word[:40] for word in arguments], code, errors[-2000:]])
    for path in os.listdir("."):
        if path not in ("pairs.tsv", "clean.txt", "grid.yaml", "run"):
            shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) else os.unlink(path)
print(json.dumps([len(tried), wrong]))
"""


@pytest.fixture
def folder(tmp_path: Path, run: Path) -> Path:
    (tmp_path / "pairs.tsv").write_text("teh cat\tthe cat\n" * 3)
    (tmp_path / "clean.txt").write_text("The cat sat on the mat, and so on.\n")
    (tmp_path / "grid.yaml").write_text("task: sort\nnumbers: 9\nlength: 3\nmax_epochs: 1\nnum_examples: 400\n")
    (tmp_path / "run").symlink_to(run)
    return tmp_path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    setting = ["sort", *SMALL, "--numbers", "9", "--length", "3", "--out", str(folder)]
    subprocess.run([sys.executable, "-m", "stepedit", "train", *setting], check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_no_value_of_any_option_gives_a_traceback(name: str, folder: Path) -> None:
    job = json.dumps([name, BASES[name], VALUES])
    tried = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=job, capture_output=True, text=True, check=False, cwd=folder
    )
    assert tried.returncode == 0, tried.stderr
    count, wrong = json.loads(tried.stdout.splitlines()[-1])
    assert count >= 2 * len(VALUES)
    assert not wrong, "\n".join(_shown(*case) for case in wrong)


def _shown(arguments: list[str], code: Any, errors: str) -> str:
    return f"{arguments}: {code} {errors}"
