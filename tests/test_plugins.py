"""Tasks that live outside the package: a complete one through every command, and the ways to register it."""

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest

import stepedit
from stepedit.editing.sequences import BoolArray, Sequences
from stepedit.errors import DataError, UserError
from stepedit.experiments.grid import expand, grids
from stepedit.inference.model_folder import read_config
from stepedit.registry import METHODS, PROGRAMMERS, TASKS, Registry, load_plugins, loaded_plugins
from stepedit.testing import check_task

PLUGIN = Path(__file__).parent.parent / "examples" / "dedupe.py"
SMALL = ["--num-examples", "1500", "--hidden-size", "32", "--batch-size", "32", "--warmup-steps", "20"]
SMALL += ["--learning-rate", "0.01", "--max-epochs", "12", "--eval-every", "4", "--threads", "1"]


def command(*words: str, cwd: Path, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stepedit", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        input=stdin,
        env=os.environ | environment,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run of the outside task."""
    place = tmp_path_factory.mktemp("plugin")
    made = command("train", "dedupe", *SMALL, "--out", "run", "--plugin", str(PLUGIN), cwd=place)
    assert made.returncode == 0, made.stderr
    return place


def test_the_example_is_short() -> None:
    assert len(PLUGIN.read_text().splitlines()) < 60


def test_an_outside_task_is_trained_evaluated_and_used(folder: Path) -> None:
    scored = command("evaluate", "run", "--json", "--plugin", str(PLUGIN), cwd=folder)
    assert json.loads(scored.stdout)["metrics"]["sequence"][0] > 0.9, scored.stderr
    edited = command("edit", "run", "a b b c a a", "--plugin", str(PLUGIN), cwd=folder)
    assert edited.stdout == "a b c a\n", edited.stderr
    verified = command("edit", "run", "a a b", "--verify", "--json", "--plugin", str(PLUGIN), cwd=folder)
    assert json.loads(verified.stdout)["valid"] is True
    listed = command("tasks", "--plugin", str(PLUGIN), cwd=folder)
    assert "delete repeated tokens" in listed.stdout
    shown = command("expert", "dedupe", "--source", "a a b", "--target", "a b", "--plugin", str(PLUGIN), cwd=folder)
    assert "result: a b   (valid)" in shown.stdout, shown.stderr


def test_worker_processes_load_the_plugin(folder: Path) -> None:
    lines = "a b b\n" * 3
    done = command("edit", "run", "--num-workers", "2", "--plugin", str(PLUGIN), cwd=folder, stdin=lines)
    assert done.stdout == "a b\n" * 3, done.stderr
    swept = command(
        *["sweep", "grid.yaml", "--out", "runs", "--jobs", "1", "--plugin", str(PLUGIN)],
        cwd=_with_grid(folder),
    )
    assert swept.returncode == 0, swept.stderr
    assert "finished" in swept.stdout


def _with_grid(folder: Path) -> Path:
    grid = {"task": "dedupe", "num_examples": 400, "hidden_size": 16, "batch_size": 32, "max_epochs": 1}
    (folder / "grid.yaml").write_text(json.dumps(grid))
    return folder


def fetch(request: Request) -> dict[str, Any]:
    with urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_the_server_serves_an_outside_task(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["serve", "run", "--port", str(port), "--plugin", str(PLUGIN)]
    server = subprocess.Popen([sys.executable, "-m", "stepedit", *words], cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        assert "serving run" in server.stdout.readline()
        body = json.dumps({"text": "a a b b"}).encode()
        headers = {"content-type": "application/json"}
        for _ in range(50):
            try:
                answer = fetch(Request(f"http://127.0.0.1:{port}/api/edit", body, headers))
                break
            except OSError:
                time.sleep(0.1)
        assert answer["results"][0]["text"] == "a b"
        assert answer["results"][0]["valid"] is True
        example = fetch(Request(f"http://127.0.0.1:{port}/api/models/run/example?seed=1"))
        assert set(example) == {"source", "target"}
    finally:
        server.terminate()
        server.communicate(timeout=30)


def test_a_run_of_an_unregistered_task_names_the_option(folder: Path) -> None:
    refused = command("edit", "run", "a b b", cwd=folder)
    assert refused.returncode == 2
    assert "the task 'dedupe' is not registered" in refused.stderr
    assert "--plugin" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_what_a_folder_names_is_never_imported(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text("open('imported', 'w')\n")
    config = json.loads((folder / "run" / "config.json").read_text())
    (tmp_path / "run").mkdir()
    for name in ("evil:Task", "evil", "../evil.py"):
        (tmp_path / "run" / "config.json").write_text(json.dumps(config | {"task": name}))
        with pytest.raises(DataError, match="not registered"):
            read_config(tmp_path / "run")
        command("edit", "run", "a b b", cwd=tmp_path)
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        ("def (", "SyntaxError"),
        ("raise RuntimeError('no')", "RuntimeError: no"),
        (
            "import stepedit\nfrom stepedit.tasks.base import Task\nstepedit.register_task('aor', Task)",
            "registered already",
        ),
    ],
)
def test_a_bad_plugin_is_one_line(content: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "plugin.py"
    if content is not None:
        path.write_text(content)
    refused = command("tasks", "--plugin", str(path), cwd=tmp_path)
    assert refused.returncode == 2
    assert message in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_entry_points_of_installed_packages_are_found(tmp_path: Path) -> None:
    info = tmp_path / "outside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[stepedit.tasks]\ndedupe = outside:Dedupe\n")
    source = PLUGIN.read_text().replace('stepedit.register_task("dedupe", Dedupe)', "")
    (tmp_path / "outside.py").write_text(source)
    listed = command("tasks", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert "delete repeated tokens" in listed.stdout, listed.stderr


def test_a_plugin_is_loaded_once(tmp_path: Path) -> None:
    path = tmp_path / "counting.py"
    path.write_text("import os\nos.environ['COUNTED'] = os.environ.get('COUNTED', '') + 'x'\n")
    load_plugins([path, path])
    load_plugins([path])
    assert os.environ.pop("COUNTED") == "x"
    assert str(path.resolve()) in loaded_plugins()


def test_files_of_the_same_name_do_not_replace_each_other(tmp_path: Path) -> None:
    source = "import stepedit\nclass Mine(stepedit.SimpleTask): name = 'mine'\nstepedit.register_task('mine', Mine)\n"
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tasks.py").write_text(source)
    refused = command("tasks", *(f"--plugin={tmp_path / folder / 'tasks.py'}" for folder in "ab"), cwd=tmp_path)
    assert refused.returncode == 2
    assert "registered already" in refused.stderr


def test_a_broken_entry_point_is_one_line(tmp_path: Path) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[stepedit.tasks]\nbroken = nowhere:Task\n")
    refused = command("tasks", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert refused.returncode == 2
    assert "the installed plugin 'broken' (nowhere:Task) cannot be loaded" in refused.stderr
    assert command("edit", "aor", "6 10 9 5 2", cwd=tmp_path, PYTHONPATH=str(tmp_path)).returncode == 0


def test_built_in_names_do_not_scan_installed_packages() -> None:
    program = (
        "from stepedit.registry import TASKS; TASKS['aor']; 'aor' in TASKS; assert '_installed' not in vars(TASKS)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_papers_sweeps_do_not_depend_on_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS._entries, "other", METHODS["tagging"])
    assert len(expand(grids("table", []), {"max_epochs": 1})) == 18


@pytest.mark.parametrize("registry", [TASKS, METHODS, PROGRAMMERS])
def test_a_taken_name_is_refused(registry: Registry[type]) -> None:
    name = next(iter(registry))
    before = registry[name]
    with pytest.raises(UserError, match="registered already"):
        registry.register(name, type("Other", (), {}))
    assert registry[name] is before


@dataclass(frozen=True)
class Reverse(stepedit.SimpleTask):
    """A task with faults to be switched on."""

    fault: str = ""

    name = "reverse"
    tokens = tuple("abcd")
    max_length = 9

    def sample_target(self, rng: np.random.Generator) -> list[str]:
        return [
            str(token) for token in rng.choice(self.tokens, 1 + int(rng.integers(6 if self.fault != "long" else 20)))
        ]

    def sample_source(self, target: list[str], rng: np.random.Generator) -> list[str]:
        if self.fault == "fixed":
            return list(target)
        return target[::-1] if rng.random() < 0.7 else list(target)

    def check(self, sources: Sequences, predictions: Sequences) -> BoolArray:
        if self.fault == "rejects":
            return np.zeros(len(sources), np.bool_)
        return super().check(sources, predictions)


@pytest.mark.parametrize(
    ("fault", "message"), [("long", "max_length"), ("fixed", "resample"), ("rejects", "check rejects a target")]
)
def test_check_task_finds_faults(fault: str, message: str) -> None:
    check_task(Reverse())
    check_task(Reverse)
    with pytest.raises(AssertionError, match=message):
        check_task(Reverse(fault=fault))


def test_a_task_can_be_trained_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TASKS, "_entries", dict(TASKS._entries))  # as it was, for other tests
    stepedit.register_task("reverse", Reverse)
    stepedit.register_task("reverse", Reverse)  # again is fine
    losses: list[float] = []
    editor = stepedit.train(
        "reverse",
        out=tmp_path / "run",
        num_examples=300,
        hidden_size=16,
        batch_size=32,
        max_epochs=2,
        threads=1,
        on_step=lambda step, loss: losses.append(loss),
    )
    assert len(losses) == 2 * (300 * 70 // 100 // 32)
    assert editor.run.task == "reverse"
    assert stepedit.evaluate(tmp_path / "run").pairs == 45
    assert editor.edit(["a b c"], stepedit.Decoding(beam_size=2))[0].source == "a b c"
