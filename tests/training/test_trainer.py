"""Training really learns, and a run that is killed and goes on ends as if nothing had happened."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from stepedit import checkpoints, training
from stepedit.config import Mode, Options, Run
from stepedit.editor import Editor
from stepedit.errors import DataError, UserError
from stepedit.registry import METHODS, TASKS
from stepedit.training import Trainer, rate_at

SMALL = {"hidden": 16, "heads": 2, "layers": 1, "batch": 32, "warm_up": 5}


SETTINGS = {"sort": {"numbers": 30, "length": 3}, "text": {}}


def make_run(task: str, method: str, mode: str = "online", epochs: int = 2, **options: object) -> Run:
    return Run.model_validate(
        {
            "task": task,
            "task_options": SETTINGS.get(task, {"numbers": 10, "length": 4}),
            "method": method,
            "mode": mode,
            "epochs": epochs,
            "options": {**SMALL, **options},
        }
    )


def make_trainer(run: Run, folder: Path, size: int = 128) -> Trainer:
    task = TASKS[run.task].from_options(run.task_options)
    pairs = task.generate(size, np.random.default_rng(0))
    splits = {"train": pairs.take(slice(size * 3 // 4)), "val": pairs.take(slice(size * 3 // 4, None))}
    trainer = Trainer(run, folder, splits)
    trainer.begin()
    return trainer


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", TASKS)
def test_every_cell_of_the_table_trains_and_its_run_can_edit(task: str, method: str, mode: str, tmp_path: Path) -> None:
    if mode == "self-taught" and (method != "recurrence" or not TASKS[task].checks):
        with pytest.raises(UserError, match="self-taught"):
            make_trainer(make_run(task, method, mode), tmp_path / "run")
        return
    trainer = make_trainer(make_run(task, method, mode), tmp_path / "run")
    reports = list(trainer.fit())
    assert len(reports) == 2
    assert all(np.isfinite(report.loss) for report in reports)
    assert set(reports[-1].metrics) == set(TASKS[task].metrics)
    text = trainer.method.task.vocabulary.decode(trainer.validation.sources)[0]
    assert Editor.load(tmp_path / "run").edit([text], trace=True)[0].source == text


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm", "transformer"])
def test_a_small_net_learns_to_sort(cell: str, tmp_path: Path) -> None:
    run = make_run("sort", "recurrence", epochs=60, cell=cell, hidden=32, rate=0.004, dropout=0.0, weight_decay=0.0)
    trainer = make_trainer(run, tmp_path / "run", size=512)
    reports = list(trainer.fit())
    assert reports[-1].best > 0.8
    assert reports[0].metrics["sequence"] < 0.6


def test_a_programmer_makes_pairs_of_its_own_and_never_of_what_is_held_back(
    tmp_path: Path,
) -> None:
    """Of N=10, L=3 there are 1,000 sources: those of validation must not turn up, right ones of the others must."""
    run = make_run("aor", "recurrence", "self-taught", epochs=25, hidden=32, rate=0.004)
    run = run.model_copy(update={"task_options": {"numbers": 10, "length": 3}})
    pairs = TASKS["aor"].from_options(run.task_options).generate(60, np.random.default_rng(0))
    train = pairs.take(np.resize(np.arange(40), 128))
    trainer = Trainer(run, tmp_path / "run", {"train": train, "val": pairs.take(slice(40, None))})
    trainer.begin()
    list(trainer.fit())
    own = trainer.own.pairs
    assert len(own) > 10
    assert trainer.method.task.check(own.sources, own.targets).all()
    assert not np.isin(own.sources.keys(), trainer.held.sources.keys()).any()
    assert not np.isin(own.targets.keys(), trainer.held.targets.keys()).any()
    assert len(own.sources.distinct()) == len(own)
    assert (~np.isin(own.sources.keys(), trainer.train.sources.keys())).any(), "nothing new was found"


@pytest.mark.parametrize(("mode", "average"), [("self-taught", 0.99), ("online", 0.0)])
def test_a_run_stopped_between_steps_goes_on_as_if_never_stopped(mode: str, average: float, tmp_path: Path) -> None:
    run = make_run("sort", "recurrence", mode, epochs=6, average=average)
    whole = make_trainer(run, tmp_path / "whole")
    list(whole.fit())
    first = make_trainer(run, tmp_path / "broken")

    def stop(step: int, loss: float) -> None:
        first.stopping = step == 10

    list(first.fit(stop))
    assert (first.standing.step, first.standing.step % first.batches) == (10, 1)
    assert len(first.own.pairs) > 0 or mode == "online"
    second = make_trainer(run, tmp_path / "broken")
    second.resume()
    list(second.fit())
    for one, two in ((whole.net, second.net), (whole.averaged, second.averaged)):
        for (name, mine), other in zip(one.state_dict().items(), two.state_dict().values(), strict=True):
            assert torch.equal(mine, other), name
    assert whole.own.pairs.targets.rows() == second.own.pairs.targets.rows()


def test_killed_again_and_again_a_run_ends_with_the_same_weights(tmp_path: Path) -> None:
    """With SIGKILL, at random moments, also while a checkpoint is being written."""
    program = """
import sys
from pathlib import Path
from stepedit import training
from tests.test_training import make_run, make_trainer
training.SAVE_EVERY = 0.02
trainer = make_trainer(make_run("aec", "recurrence", epochs=12, dropout=0.1), Path(sys.argv[1]))
trainer.resume()
for report in trainer.fit():
    print(report.epoch, flush=True)
"""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    command = [sys.executable, "-c", program]
    subprocess.run([*command, str(whole)], check=True, capture_output=True)
    chance, kills = random.Random(1), 0
    for _ in range(30):
        with subprocess.Popen([*command, str(broken)], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(chance.uniform(0, 0.4))
            if process.poll() is not None:
                break
            process.send_signal(signal.SIGKILL)
            kills += 1
    subprocess.run([*command, str(broken)], check=True, capture_output=True)
    assert kills >= 3
    for name in (checkpoints.LATEST, checkpoints.BEST):
        first, second = (checkpoints.read_tensors(folder / name)[0] for folder in (whole, broken))
        assert all(torch.equal(first[key], second[key]) for key in first)
    for folder in (whole, broken):
        reports = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert [report["epoch"] for report in reports] == list(range(1, 13))
    scores = [
        [json.loads(line)["metrics"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
        for folder in (whole, broken)
    ]
    assert scores[0] == scores[1]


def test_a_run_killed_just_before_a_validation_makes_up_for_it(tmp_path: Path) -> None:
    whole = make_trainer(make_run("aor", "recurrence", epochs=3), tmp_path / "whole", size=180)
    list(whole.fit())
    broken = make_trainer(make_run("aor", "recurrence", epochs=3), tmp_path / "broken", size=180)
    states = broken.epoch(0)
    for index in range(broken.batches):
        broken.step(states.take(np.arange(index * 32, (index + 1) * 32)))
    broken.save()  # and now it is killed
    again = make_trainer(make_run("aor", "recurrence", epochs=3), tmp_path / "broken", size=180)
    again.resume()
    assert [report.epoch for report in again.fit()] == [1, 2, 3]
    assert again.standing.best == whole.standing.best


def test_a_failed_write_leaves_the_last_good_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer(make_run("aor", "recurrence"), tmp_path / "run", size=180)
    list(trainer.fit())
    before = (tmp_path / "run" / checkpoints.LATEST).read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        trainer.save()
    assert (tmp_path / "run" / checkpoints.LATEST).read_bytes() == before
    assert not list((tmp_path / "run").glob(".*"))


def test_the_rate_rises_then_falls() -> None:
    run = make_run("aor", "recurrence", rate=0.004)
    rates = [rate_at(step, 100, run) for step in range(100)]
    assert run.options.rate is not None
    assert max(rates) <= run.options.rate
    assert np.argmax(rates) == run.options.warm_up
    assert rates[-1] < 0.02 * run.options.rate
    flat = Run.model_validate({"task": "aor", "epochs": 1, "options": Options.preset("paper")})
    assert {rate_at(step, 100, flat) for step in range(100)} == {1e-5}


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda folder: (folder / "config.json").unlink(), "no run here"),
        (lambda folder: (folder / "config.json").write_text("{"), "damaged"),
        (lambda folder: (folder / "config.json").write_text('{"format": 9}'), "another version"),
        (
            lambda folder: (folder / "config.json").write_text('{"format": 2, "task": "aor", "epoch": 3}'),
            "unknown option",
        ),
        (lambda folder: (folder / "vocabulary.json").write_text("[]"), "not the words of the task"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"garbage"), "damaged"),
        (lambda folder: (folder / "model.safetensors").unlink(), "no such file"),
    ],
)
def test_a_damaged_run_is_told_in_one_line(damage: object, complaint: str, tmp_path: Path) -> None:
    list(make_trainer(make_run("aor", "recurrence", epochs=1), tmp_path / "run", size=180).fit())
    damage(tmp_path / "run")  # type: ignore[operator]
    with pytest.raises(DataError, match=complaint) as caught:
        Editor.load(tmp_path / "run")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("alone", "threads"), [(0.1, 1), (0.3, None)])
def test_one_thread_is_used_where_several_get_in_each_others_way(
    alone: float, threads: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = torch.get_num_threads()
    monkeypatch.setattr(training, "seconds_per_step", lambda _: alone if torch.get_num_threads() == 1 else 0.2)
    try:
        torch.set_num_threads(2)
        trial = make_trainer(make_run("aor", "recurrence"), tmp_path / "run", size=180)
        assert training.quickest(trial) == (threads, min(alone, 0.2))
        assert torch.get_num_threads() == (threads or 2)
        torch.set_num_threads(2)
        trial.run = trial.run.model_copy(update={"threads": 2})
        assert training.quickest(trial) == (2, 0.2), "as it was said"
    finally:
        torch.set_num_threads(usual)


def test_too_few_pairs_for_a_batch_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="do not fill one batch"):
        make_trainer(make_run("aor", "recurrence", batch=1000), tmp_path / "run")
