"""Training learns, and a killed run resumes to the same weights as an uninterrupted one."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from stepedit.config import Mode, RunConfig, TrainingConfig, preset
from stepedit.errors import DataError, UserError
from stepedit.inference import model_folder
from stepedit.inference.editor import Editor
from stepedit.registry import METHODS, TASKS
from stepedit.training import budget
from stepedit.training.request import task_defaults
from stepedit.training.schedule import learning_rate_at
from stepedit.training.trainer import Trainer

SMALL = {"hidden_size": 16, "num_heads": 2, "num_layers": 1, "batch_size": 32, "warmup_steps": 5}
TASK_ARGS = {"sort": {"numbers": 30, "length": 3}, "text": {}}


def make_config(task: str, method: str, mode: str = "online", max_epochs: int = 2, **training: object) -> RunConfig:
    args = TASK_ARGS.get(task, {"numbers": 10, "length": 4})
    defaults = task_defaults(TASKS[task].from_args(args), METHODS[method].default_programmer)
    return RunConfig.model_validate(
        {
            "task": task,
            "task_args": args,
            "method": method,
            "mode": mode,
            "max_epochs": max_epochs,
            "eval_every": 1,
            "threads": 1,
            "training": {**defaults, **SMALL, **training},
        }
    )


def make_trainer(run: RunConfig, folder: Path, size: int = 128) -> Trainer:
    pairs = model_folder.make_task(run).generate(size, np.random.default_rng(0))
    splits = {"train": pairs.take(slice(size * 3 // 4)), "val": pairs.take(slice(size * 3 // 4, None))}
    trainer = Trainer(run, folder, splits)
    trainer.begin()
    return trainer


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", TASKS)
def test_every_combination_trains_and_its_run_can_edit(task: str, method: str, mode: str, tmp_path: Path) -> None:
    run = make_config(task, method, mode)
    if mode == "self-training" and (method != "recurrence" or not TASKS[task].verifiable):
        with pytest.raises(UserError, match="self-training"):
            make_trainer(run, tmp_path / "run")
        return
    trainer = make_trainer(run, tmp_path / "run")
    reports = list(trainer.fit())
    assert len(reports) == 2
    assert all(np.isfinite(report.loss) for report in reports)
    assert set(reports[-1].metrics) == set(TASKS[task].metrics)
    text = trainer.method.task.vocabulary.decode(trainer.validation.sources)[0]
    assert Editor.load(tmp_path / "run").edit([text], trace=True)[0].source == text


@pytest.mark.parametrize("architecture", ["rnn", "gru", "lstm", "transformer"])
def test_a_small_network_learns_to_sort(architecture: str, tmp_path: Path) -> None:
    training = {"architecture": architecture, "hidden_size": 32, "learning_rate": 0.004}
    run = make_config("sort", "recurrence", max_epochs=60, **training, dropout=0.0, weight_decay=0.0)
    trainer = make_trainer(run, tmp_path / "run", size=512)
    reports = list(trainer.fit())
    assert reports[-1].best > 0.8
    assert reports[0].metrics["sequence"] < 0.6


def test_self_training_finds_valid_new_pairs_and_never_held_out_ones(tmp_path: Path) -> None:
    """With N=10, L=3 there are 1,000 sources: none of validation may be searched, valid ones of the others must be."""
    run = make_config("aor", "recurrence", "self-training", max_epochs=25, hidden_size=32, learning_rate=0.004)
    run = run.model_copy(update={"task_args": {"numbers": 10, "length": 3}})
    pairs = model_folder.make_task(run).generate(60, np.random.default_rng(0))
    train = pairs.take(np.resize(np.arange(40), 128))
    trainer = Trainer(run, tmp_path / "run", {"train": train, "val": pairs.take(slice(40, None))})
    trainer.begin()
    list(trainer.fit())
    own = trainer.buffer.pairs
    assert len(own) > 10
    assert trainer.method.task.check(own.sources, own.targets).all()
    assert not np.isin(own.sources.keys(), trainer.held_out.sources.keys()).any()
    assert not np.isin(own.targets.keys(), trainer.held_out.targets.keys()).any()
    assert len(own.sources.distinct()) == len(own)
    assert (~np.isin(own.sources.keys(), trainer.train.sources.keys())).any(), "nothing new was found"


@pytest.mark.parametrize(("mode", "ema_decay"), [("self-training", 0.99), ("online", 0.0)])
def test_a_run_stopped_between_steps_resumes_to_the_same_weights(mode: str, ema_decay: float, tmp_path: Path) -> None:
    run = make_config("sort", "recurrence", mode, max_epochs=6, ema_decay=ema_decay)
    whole = make_trainer(run, tmp_path / "whole")
    list(whole.fit())
    first = make_trainer(run, tmp_path / "stopped")

    def stop(step: int, loss: float) -> None:
        first.stopping = step == 10

    list(first.fit(stop))
    assert (first.state.step, first.state.step % first.batches) == (10, 1)
    assert len(first.buffer.pairs) > 0 or mode == "online"
    second = make_trainer(run, tmp_path / "stopped")
    second.resume()
    list(second.fit())
    for one, two in ((whole.net, second.net), (whole.average, second.average)):
        for (name, mine), other in zip(one.state_dict().items(), two.state_dict().values(), strict=True):
            assert torch.equal(mine, other), name
    assert whole.buffer.pairs.targets.rows() == second.buffer.pairs.targets.rows()


def test_a_run_killed_many_times_resumes_to_the_same_weights(tmp_path: Path) -> None:
    """With SIGKILL at random times, also while a checkpoint is being written."""
    program = """
import sys
from pathlib import Path
from stepedit.training import trainer as module
from tests.training.test_trainer import make_config, make_trainer
module.SAVE_EVERY = 0.02
trainer = make_trainer(make_config("aec", "recurrence", max_epochs=12, dropout=0.1), Path(sys.argv[1]))
trainer.resume()
for report in trainer.fit():
    print(report.epoch, flush=True)
"""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    command = [sys.executable, "-c", program]
    subprocess.run([*command, str(whole)], check=True, capture_output=True)
    rng, kills = random.Random(1), 0
    for _ in range(30):
        with subprocess.Popen([*command, str(killed)], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(rng.uniform(0, 0.1))
            if process.poll() is not None:
                break
            process.send_signal(signal.SIGKILL)
            kills += 1
    subprocess.run([*command, str(killed)], check=True, capture_output=True)
    assert kills >= 3
    for name in (model_folder.CHECKPOINT, model_folder.WEIGHTS):
        first, second = (model_folder.read_tensors(folder / name)[0] for folder in (whole, killed))
        assert all(np.array_equal(first[key], second[key]) for key in first)
    for folder in (whole, killed):
        reports = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert [report["epoch"] for report in reports] == list(range(1, 13))
    metrics = [
        [json.loads(line)["metrics"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
        for folder in (whole, killed)
    ]
    assert metrics[0] == metrics[1]


def test_a_run_killed_just_before_a_validation_makes_it_after_resuming(tmp_path: Path) -> None:
    run = make_config("aor", "recurrence", max_epochs=3)
    whole = make_trainer(run, tmp_path / "whole", size=180)
    list(whole.fit())
    killed = make_trainer(run, tmp_path / "killed", size=180)
    states = killed.epoch_states(0)
    for index in range(killed.batches):
        killed.step(states.take(np.arange(index * 32, (index + 1) * 32)))
    killed.save()  # and now it is killed
    resumed = make_trainer(run, tmp_path / "killed", size=180)
    resumed.resume()
    assert [report.epoch for report in resumed.fit()] == [1, 2, 3]
    assert resumed.state.best == whole.state.best


def test_a_failed_write_keeps_the_last_good_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer(make_config("aor", "recurrence"), tmp_path / "run", size=180)
    list(trainer.fit())
    before = (tmp_path / "run" / model_folder.CHECKPOINT).read_bytes()

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        trainer.save()
    assert (tmp_path / "run" / model_folder.CHECKPOINT).read_bytes() == before
    assert not list((tmp_path / "run").glob(".*"))


def test_the_learning_rate_warms_up_and_decays() -> None:
    config = make_config("aor", "recurrence", learning_rate=0.004).training
    rates = [learning_rate_at(step, step / 100, config) for step in range(100)]
    assert max(rates) <= config.learning_rate
    assert np.argmax(rates) == config.warmup_steps
    assert rates[-1] < 0.02 * config.learning_rate
    constant = TrainingConfig.model_validate(preset("paper"))
    assert {learning_rate_at(step, step / 100, constant) for step in range(100)} == {1e-4}


def without_graph(folder: Path) -> Path:
    (folder / model_folder.GRAPH).unlink()
    return folder / model_folder.WEIGHTS


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "config.json").unlink(), "no run here"),
        (lambda folder: (folder / "config.json").write_text("{"), "damaged"),
        (lambda folder: (folder / "config.json").write_text('{"format": 9}'), "another version"),
        (
            lambda folder: (folder / "config.json").write_text('{"format": 3, "task": "aor", "epoch": 3}'),
            "unknown option",
        ),
        (lambda folder: (folder / "vocabulary.json").write_text("[]"), "not the vocabulary of the task"),
        (lambda folder: (folder / "model.onnx").write_bytes(b"garbage"), "model.onnx: damaged"),
        (lambda folder: without_graph(folder).write_bytes(b"garbage"), "model.safetensors: damaged"),
        (lambda folder: without_graph(folder).unlink(), "no model here"),
    ],
)
def test_a_damaged_run_is_reported_in_one_line(damage: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    list(make_trainer(make_config("aor", "recurrence", max_epochs=1), tmp_path / "run", size=180).fit())
    damage(tmp_path / "run")
    with pytest.raises(DataError, match=message) as caught:
        Editor.load(tmp_path / "run")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("single", "threads"), [(0.1, 1), (0.3, 2)])
def test_one_thread_is_used_where_that_is_faster(
    single: float, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = torch.get_num_threads()
    monkeypatch.setattr(budget, "seconds_per_step", lambda _: single if torch.get_num_threads() == 1 else 0.2)
    try:
        torch.set_num_threads(2)
        trial = make_trainer(make_config("aor", "recurrence"), tmp_path / "run", size=180)
        assert budget.choose_num_threads(trial, fixed=False) == (threads, min(single, 0.2))
        assert torch.get_num_threads() == threads
        torch.set_num_threads(2)
        assert budget.choose_num_threads(trial, fixed=True) == (2, 0.2), "a given number of threads is kept"
    finally:
        torch.set_num_threads(usual)


def test_too_few_pairs_for_a_batch_are_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="do not fill one batch"):
        make_trainer(make_config("aor", "recurrence", batch_size=1000), tmp_path / "run")
