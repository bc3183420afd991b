"""Sweeps as a user runs them: to the end, stopped, killed, with runs that fail, on a cluster."""

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

from stepedit.checkpoints import BEST, read_tensors

PROGRAM = "from stepedit.cli import main; main()"
GRID = """
task: sort
numbers: 20
length: 3
size: 400
method: [recurrence, tagging]
hidden: 16
heads: 2
layers: 1
batch: 32
rate: 0.005
max_epochs: 30
"""


def sweep(folder: Path, *more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*more), capture_output=True, text=True, check=False, cwd=folder)


def command(*more: object) -> list[str]:
    return [sys.executable, "-c", PROGRAM, "sweep", "grid.yaml", *map(str, more)]


def figures(folder: Path) -> dict[str, Any]:
    """What came of each run, but for the time it took."""
    found = {}
    for path in sorted(folder.glob("*/scores-test.json")):
        found[path.parent.name] = {**json.loads(path.read_text()), "seconds": 0}
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "grid.yaml").write_text(GRID)
    made = sweep(folder, "--out", "whole")
    assert made.returncode == 0, made.stderr
    assert made.stdout.count("finished  ") == 2
    return folder


def test_what_is_finished_is_not_run_again(place: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (place / "whole").rglob("*") if path.is_file()}
    again = sweep(place, "--out", "whole")
    assert "2 runs, 2 of them finished already" in again.stdout
    assert before == {path: path.stat().st_mtime_ns for path in (place / "whole").rglob("*") if path.is_file()}


def test_a_plan_says_what_would_run_and_runs_nothing(place: Path) -> None:
    shown = sweep(place, "--plan", "--set", "seed=0,1", "--budget", "1h", "--out", "whole")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("finished") == 2
    assert shown.stdout.count("to do") == 2
    assert "2 of 4 runs to go, about" in shown.stdout
    assert len(list((place / "whole").iterdir())) == 2


def in_background() -> None:
    """As a shell starts what it does not wait for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_sweep_that_was_ended_goes_on_to_the_same_figures(place: Path, end: signal.Signals) -> None:
    out = place / end.name
    process = subprocess.Popen(
        command("--out", out),
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=in_background if end == signal.SIGTERM else None,
    )
    wait_for(lambda: any(out.glob("*/metrics.jsonl")))
    process.send_signal(end)
    _, said = process.communicate(timeout=60)
    if end != signal.SIGKILL:
        assert "the same command goes on" in said
    wait_for(lambda: not workers(out))  # they end by themselves when the sweep is gone
    assert len(figures(out)) < 2
    before = [path.read_text().splitlines()[0] for path in sorted(out.glob("*/metrics.jsonl"))]
    assert sweep(place, "--out", out).returncode == 0
    assert figures(out) == figures(place / "whole")
    after = [path.read_text().splitlines()[0] for path in sorted(out.glob("*/metrics.jsonl"))]
    assert set(before) <= set(after)  # with the seconds of the first time: it did not begin anew


def test_a_run_scored_too_early_is_not_finished(place: Path) -> None:
    out = place / "early"
    process = subprocess.Popen(
        command("--out", out, "--set", "method=recurrence"), cwd=place, stdout=subprocess.DEVNULL
    )
    wait_for(lambda: any(out.glob("*/model.safetensors")))
    process.send_signal(signal.SIGINT)
    process.wait(60)
    (run,) = out.iterdir()
    scored = [sys.executable, "-c", PROGRAM, "evaluate", str(run)]
    assert subprocess.run(scored, capture_output=True, check=False).returncode == 0
    again = sweep(place, "--out", out, "--set", "method=recurrence")
    assert "0 of them finished already" in again.stdout
    (name,) = figures(out)
    assert figures(out)[name] == figures(place / "whole")[name]


def test_a_worker_that_starts_after_its_sweep_is_gone_stops_by_itself(place: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    worker = subprocess.run(
        [sys.executable, "-m", "stepedit.experiments.worker", str(place / "orphan")],
        input=json.dumps(
            {"task": "sort", "max_epochs": 5_000, "hidden": 16, "heads": 2, "layers": 1, "size": 400, "batch": 32}
        ),
        env={**os.environ, "STEPEDIT_SWEEP": str(gone.pid)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert worker.returncode == 130
    assert "stopped at step" in worker.stderr


def test_a_kill_before_the_first_checkpoint_starts_anew(place: Path) -> None:
    name = next(iter(figures(place / "whole")))
    shutil.copytree(place / "whole" / name, place / "torn" / name)
    for lost in ("checkpoint.safetensors", "scores-test.json"):
        (place / "torn" / name / lost).unlink()
    assert sweep(place, "--out", "torn", "--set", f"method={name.split('-')[1]}").returncode == 0
    assert figures(place / "torn")[name] == figures(place / "whole")[name]


def test_a_second_start_gives_the_same_budget_to_each_run(place: Path) -> None:
    shown = [sweep(place, "--plan", "--budget", "1h", "--out", out).stdout for out in ("whole", "empty")]
    assert "finished" in shown[0]
    made = sweep(place, "--budget", "2s", "--set", "seed=0,1,2,3", "--out", "empty")
    assert "too little" in made.stderr


def test_a_run_that_fails_is_tried_once_more_and_the_others_go_on(place: Path) -> None:
    made = sweep(place, "--set", "size=400,100000", "--set", "method=recurrence", "--out", "some")
    assert made.returncode == 2
    assert [line.split()[0] for line in made.stdout.splitlines()[1:]].count("again") == 1
    assert "failed    sort-recurrence-online-20N-3L-100000D" in made.stdout
    assert "1 of 2 runs failed" in made.stderr
    assert len(figures(place / "some")) == 1


def test_another_run_in_the_folder_is_left_alone(place: Path) -> None:
    name = next(iter(figures(place / "whole")))
    other = place / "other" / name
    other.mkdir(parents=True)
    config = json.loads((place / "whole" / name / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "seed": 9}))
    made = sweep(place, "--out", "other", "--set", f"method={name.split('-')[1]}")
    assert "another run is here, with other options (seed: 9, not 0)" in made.stdout
    assert json.loads((other / "config.json").read_text())["seed"] == 9


def wait_for(ready: Any, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def workers(out: Path | str) -> list[int]:
    """Processes whose command names this folder or title."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(out) in words and int(path.parent.name) != os.getpid():
            found.append(int(path.parent.name))
    return found


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


def test_a_cluster_gives_the_same_figures_although_a_worker_is_lost(place: Path, cluster: str) -> None:
    out = place / "cluster"
    process = subprocess.Popen(
        command("--out", out, "--ray", cluster), cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_for(lambda: any(out.glob("*/metrics.jsonl")))
    lost = workers("ray::remotely")
    assert lost
    os.kill(lost[0], signal.SIGKILL)
    said, wrong = process.communicate(timeout=180)
    assert process.returncode == 0, said + wrong
    assert figures(out) == figures(place / "whole")
    for name in figures(out):
        ours, theirs = (read_tensors(place / where / name / BEST)[0] for where in ("cluster", "whole"))
        assert all((ours[key] == theirs[key]).all() for key in theirs)


def test_no_cluster_there_is_told_in_one_line(place: Path) -> None:
    made = sweep(place, "--out", "nowhere", "--ray", "127.0.0.1:1")
    assert made.returncode == 2
    assert "no Ray cluster at 127.0.0.1:1" in made.stderr
