"""Sweeps as a user runs them: completed, stopped, killed, with runs that fail, on a cluster."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from stepedit.cli.sweep import _share_budget
from stepedit.evaluation.scores import read_scores
from stepedit.experiments.grid import expand
from stepedit.experiments.worker import complete
from stepedit.inference.model_folder import WEIGHTS, read_tensors

PROGRAM = "from stepedit.cli.main import main; main()"
GRID = """
task: sort
numbers: 20
length: 3
num_examples: 400
method: [recurrence, tagging]
hidden_size: 16
num_heads: 2
num_layers: 1
batch_size: 32
learning_rate: 0.005
max_epochs: 30
"""


def sweep(folder: Path, *more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*more), capture_output=True, text=True, check=False, cwd=folder)


def command(*more: object) -> list[str]:
    return [sys.executable, "-c", PROGRAM, "sweep", "grid.yaml", *map(str, more)]


def scores(folder: Path) -> dict[str, Any]:
    """Return the test scores of each run without its training time."""
    found = {}
    for path in sorted(folder.glob("*/scores-test.json")):
        found[path.parent.name] = {**json.loads(path.read_text()), "training_seconds": 0}
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "grid.yaml").write_text(GRID)
    made = sweep(folder, "--out", "whole")
    assert made.returncode == 0, made.stderr
    assert made.stdout.count("finished  ") == 2
    return folder


def test_finished_runs_are_not_run_again(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (folder / "whole").rglob("*") if path.is_file()}
    again = sweep(folder, "--out", "whole")
    assert "2 runs, 2 of them finished already" in again.stdout
    assert before == {path: path.stat().st_mtime_ns for path in (folder / "whole").rglob("*") if path.is_file()}


def test_a_dry_run_lists_the_runs_and_starts_none(folder: Path) -> None:
    shown = sweep(folder, "--dry-run", "--set", "seed=0,1", "--budget", "1h", "--out", "whole")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("finished") == 2
    assert shown.stdout.count("to do") == 2
    assert "2 of 4 runs to go, about" in shown.stdout
    assert len(list((folder / "whole").iterdir())) == 2


def ignore_sigint() -> None:
    """Ignore SIGINT, as processes do that a shell starts in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_or_killed_sweep_continues_to_the_same_scores(folder: Path, end: signal.Signals) -> None:
    out = folder / end.name
    process = subprocess.Popen(
        command("--out", out),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=ignore_sigint if end == signal.SIGTERM else None,
    )
    wait_for(lambda: any(out.glob("*/metrics.jsonl")))
    process.send_signal(end)
    _, message = process.communicate(timeout=60)
    if end != signal.SIGKILL:
        assert "the same command continues" in message
    wait_for(lambda: not workers(out))  # workers stop when their sweep is gone
    assert len(scores(out)) < 2
    before = [path.read_text().splitlines()[0] for path in sorted(out.glob("*/metrics.jsonl"))]
    assert sweep(folder, "--out", out).returncode == 0
    assert scores(out) == scores(folder / "whole")
    after = [path.read_text().splitlines()[0] for path in sorted(out.glob("*/metrics.jsonl"))]
    assert set(before) <= set(after)  # with the times of the first start: the runs were resumed


def test_a_run_scored_before_its_training_finished_is_not_finished(folder: Path) -> None:
    out = folder / "early"
    process = subprocess.Popen(
        command("--out", out, "--set", "method=recurrence"), cwd=folder, stdout=subprocess.DEVNULL
    )
    wait_for(lambda: any(out.glob("*/model.safetensors")))
    process.send_signal(signal.SIGINT)
    process.wait(60)
    (run,) = out.iterdir()
    evaluate = [sys.executable, "-c", PROGRAM, "evaluate", str(run)]
    assert subprocess.run(evaluate, capture_output=True, check=False).returncode == 0
    again = sweep(folder, "--out", out, "--set", "method=recurrence")
    assert "0 of them finished already" in again.stdout
    (name,) = scores(out)
    assert scores(out)[name] == scores(folder / "whole")[name]


def test_a_worker_that_starts_after_its_sweep_is_gone_stops(folder: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    worker = subprocess.run(
        [sys.executable, "-m", "stepedit.experiments.worker", str(folder / "orphan")],
        input=json.dumps(
            {"values": {**yaml.safe_load(GRID), "method": "recurrence", "max_epochs": 5_000}, "plugins": []}
        ),
        env={**os.environ, "STEPEDIT_SWEEP": str(gone.pid)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert worker.returncode == 130
    assert "stopped at step" in worker.stderr


def test_a_run_killed_before_its_first_checkpoint_starts_again(folder: Path) -> None:
    name = next(iter(scores(folder / "whole")))
    shutil.copytree(folder / "whole" / name, folder / "incomplete" / name)
    for lost in ("checkpoint.safetensors", "scores-test.json"):
        (folder / "incomplete" / name / lost).unlink()
    assert sweep(folder, "--out", "incomplete", "--set", f"method={name.split('-')[1]}").returncode == 0
    assert scores(folder / "incomplete")[name] == scores(folder / "whole")[name]


def test_a_run_that_the_paper_has_is_scored_as_the_authors_do_as_well(tmp_path: Path) -> None:
    values = {"task": "aec", "method": "tagging", "mode": "online", "hidden_size": 8, "num_heads": 1, "num_layers": 1}
    own = complete({**values, "programmer": "seq2seq", "max_steps": 1, "threads": 1}, tmp_path / "run")
    authors = read_scores(tmp_path / "run", scoring="authors")
    assert own.paper is not None
    assert authors is not None
    assert (authors.scoring, authors.training_steps) == ("authors", own.training_steps)
    small = complete({**values, "num_examples": 400, "batch_size": 32, "max_steps": 1}, tmp_path / "small")
    assert small.paper is None
    assert read_scores(tmp_path / "small", scoring="authors") is None


def test_a_budget_is_shared_by_all_runs_whether_finished_or_not(folder: Path) -> None:
    cells = _share_budget(expand([yaml.safe_load(GRID)], {"seed": [0, 1]}), minutes=60, jobs=2)
    assert [cell.values["max_minutes"] for cell in cells] == pytest.approx([0.95 * 60 / 2] * 4)
    shown = [sweep(folder, "--dry-run", "--budget", "1h", "--out", out).stdout for out in ("whole", "empty")]
    assert ["finished" in each for each in shown] == [True, False]
    made = sweep(folder, "--budget", "2s", "--set", "seed=0,1,2,3", "--out", "empty")
    assert "too little" in made.stderr


def test_a_failed_run_is_retried_once_and_the_others_complete(folder: Path) -> None:
    made = sweep(folder, "--set", "num_examples=400,100000", "--set", "method=recurrence", "--out", "some")
    assert made.returncode == 2
    assert [line.split()[0] for line in made.stdout.splitlines()[1:]].count("retry") == 1
    assert "failed    sort-recurrence-augmented-20N-3L-100000D" in made.stdout
    assert "1 of 2 runs failed" in made.stderr
    assert len(scores(folder / "some")) == 1


def test_another_run_in_the_folder_is_not_overwritten(folder: Path) -> None:
    name = next(iter(scores(folder / "whole")))
    other = folder / "other" / name
    other.mkdir(parents=True)
    config = json.loads((folder / "whole" / name / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "seed": 9}))
    made = sweep(folder, "--out", "other", "--set", f"method={name.split('-')[1]}")
    assert "another run is here, with other options (seed: 9, not 0)" in made.stdout
    assert json.loads((other / "config.json").read_text())["seed"] == 9


def wait_for(ready: Any, seconds: float = 300) -> None:  # a busy machine is slow
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def workers(out: Path | str) -> list[int]:
    """Return the processes whose command contains this folder or title."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(out) in words and int(path.parent.name) != os.getpid():
            found.append(int(path.parent.name))
    return found


def is_descendant(pid: int) -> bool:
    """Whether this process started the other one, or one of its ancestors."""
    while pid > 1 and pid != os.getpid():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid == os.getpid()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A Ray cluster of two nodes with one core each, on this machine."""
    ray = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--num-cpus=1", "--disable-usage-stats"]
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    address = f"127.0.0.1:{port}"
    nodes = []
    for where in (["--head", f"--port={port}", "--include-dashboard=false"], [f"--address={address}"]):
        path = tmp_path / f"{len(nodes)}.log"
        with path.open("w") as log:
            command = [*ray, "--object-store-memory=80000000", *where]
            nodes.append(subprocess.Popen(command, stdout=log, stderr=log))
        wait_for(lambda path=path: "Ray runtime started" in path.read_text())
    yield address
    for node in reversed(nodes):
        node.terminate()
    for node in nodes:
        node.wait(timeout=60)


def test_a_cluster_gives_the_same_scores_although_a_worker_is_lost(folder: Path, cluster: str) -> None:
    out = folder / "cluster"
    with subprocess.Popen(
        command("--out", out, "--ray", cluster), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            wait_for(lambda: any(out.glob("*/metrics.jsonl")))
            lost = [pid for pid in workers("ray::run_remotely") if is_descendant(pid)]  # not those of other clusters
            assert lost
            os.kill(lost[0], signal.SIGKILL)
            output, errors = process.communicate(timeout=300)
        finally:
            process.kill()
    assert process.returncode == 0, output + errors
    assert scores(out) == scores(folder / "whole")
    for name in scores(out):
        remote, local = (read_tensors(folder / out / name / WEIGHTS)[0] for out in ("cluster", "whole"))
        assert all((remote[key] == local[key]).all() for key in local)


def test_an_unreachable_cluster_is_named(folder: Path) -> None:
    made = sweep(folder, "--out", "nowhere", "--ray", "127.0.0.1:1")
    assert made.returncode == 2
    assert "no Ray cluster at 127.0.0.1:1" in made.stderr


def test_a_cluster_loads_plugins(folder: Path, cluster: str) -> None:
    plugin = Path(__file__).parents[2] / "examples" / "dedupe.py"
    grid = {"task": "dedupe", "num_examples": 400, "hidden_size": 16, "batch_size": 32, "max_epochs": 1}
    (folder / "plugin.yaml").write_text(json.dumps(grid))
    words = ["sweep", "plugin.yaml", "--out", "outside", "--ray", cluster, "--plugin", str(plugin)]
    made = subprocess.run([sys.executable, "-c", PROGRAM, *words], cwd=folder, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert "finished" in made.stdout
