"""Training learns, and a killed run resumes to the same weights as an uninterrupted one."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from stepedit.config import Mode, RunConfig, TrainingConfig, preset
from stepedit.editing import actions
from stepedit.editing.actions import Operation
from stepedit.editing.edits import Edit, Scripts
from stepedit.editing.interpreter import Prediction
from stepedit.editing.sequences import BoolArray, Pairs, Sequences
from stepedit.errors import DataError, UserError
from stepedit.inference import model_folder
from stepedit.inference.editor import Editor
from stepedit.registry import METHODS, TASKS
from stepedit.text.error_model import ErrorModel, Errors
from stepedit.training import budget
from stepedit.training.request import task_defaults
from stepedit.training.schedule import learning_rate_at
from stepedit.training.trainer import SPARE_EDITS, Trainer

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


@pytest.mark.parametrize(("spelled", "learned"), [(True, True), (False, False)])
def test_a_network_sees_the_letters_of_words_that_it_has_never_read(
    spelled: bool, learned: bool, tmp_path: Path
) -> None:
    """`a` becomes `an` before a vowel; every noun is in one text only, so it is unknown."""
    rng = random.Random(0)
    nouns = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(640)]
    targets = [f"see {'an' if noun[0] in 'aeiou' else 'a'} {noun}" for noun in nouns[:320]]
    targets += [f"see an {rng.choice('aeiou')}{noun}" for noun in nouns[320:]]
    rng.shuffle(targets)
    sources = [target.replace(" an ", " a ") for target in targets]
    task = TASKS["text"].for_data(sources[:512], targets[:512], {"level": "word", "spelled": spelled})
    run = make_config("text", "recurrence", "augmented", 25, hidden_size=32, learning_rate=0.004, weight_decay=0.0)
    run = run.model_copy(update={"task_args": asdict(task), "eval_every": 25})
    method = model_folder.make_method(run)
    pairs = method.task.encode(sources, targets)
    splits = {"train": pairs.take(slice(512)), "val": pairs.take(slice(512, None))}
    trainer = Trainer(run, tmp_path / "run", splits, method)
    trainer.begin()
    assert (list(trainer.fit())[-1].metrics["sequence"] > 0.9) == learned


def text_trainer(tmp_path: Path, **training: object) -> Trainer:
    """Return a trainer for pairs with `in` for `on`, and without errors."""
    targets = [f"come on {day} {number}" for number in range(32) for day in ("monday", "friday")]
    sources = [target.replace(" on ", " in ") if row % 4 else target for row, target in enumerate(targets)]
    task = TASKS["text"].for_data(sources, targets, {"level": "word"})
    run = make_config("text", "recurrence", "augmented", max_epochs=3, **training)
    run = run.model_copy(update={"task_args": asdict(task)})
    method = model_folder.make_method(run)
    pairs = method.task.encode(sources, targets)
    trainer = Trainer(run, tmp_path, {"train": pairs, "val": pairs.take(slice(8))}, method)
    trainer.begin()
    return trainer


def errors_of(trainer: Trainer) -> ErrorModel:
    assert trainer.sampler.errors is not None
    return trainer.sampler.errors


def synthetic(trainer: Trainer, seed: int) -> Pairs:
    sampler = trainer.sampler
    rng = np.random.default_rng(seed)
    pairs, scripts = sampler.with_synthetic_errors(errors_of(trainer), sampler.pairs, sampler.scripts, rng)
    expected = trainer.method.task.edits(pairs.sources, pairs.targets)
    assert [scripts.row(row) for row in range(len(pairs))] == [expected.row(row) for row in range(len(pairs))]
    return pairs


def test_a_share_of_the_sources_is_synthetic_and_new_in_every_epoch(tmp_path: Path) -> None:
    trainer = text_trainer(tmp_path / "run", synthetic_share=1.0)
    decode = trainer.method.task.vocabulary.decode
    made = [decode(synthetic(trainer, seed).sources) for seed in range(3)]
    assert made[0] != made[1] != made[2]
    assert {source.split()[1] for sources in made for source in sources} == {"in", "on"}
    assert decode(trainer.sampler.pairs.sources) not in made
    half = text_trainer(tmp_path / "half", synthetic_share=0.5)
    mixed, own = synthetic(half, 0), half.sampler.pairs
    kept = mixed.sources.equals(own.sources).mean()
    assert 0.5 < kept < 0.9, "some of the new sources are as before"
    assert mixed.targets.equals(own.targets).all()
    assert all(np.isfinite(report.loss) for report in half.fit())


def test_a_validation_is_timed_on_windows_not_on_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, read = text_trainer(tmp_path), list[int]()
    line, window = "come on monday " * 400, 12
    task = replace(trainer.method.task, window=window)  # type: ignore[type-var]
    trainer.method.task, trainer.validation = task, task.encode([line, "come in"], [line, "come on"], whole=True)
    assert trainer.validation.sources.lengths.max() > 1_000
    monkeypatch.setattr(trainer.net, "predict", lambda texts: read.append(texts.ids.shape[1]))
    assert budget._validation_seconds(trainer) > 0
    assert max(read) <= window


def test_a_synthetic_source_that_no_edits_can_correct_is_not_used(tmp_path: Path) -> None:
    trainer = text_trainer(tmp_path / "run", synthetic_share=1.0)
    errors = errors_of(trainer)
    unknown = trainer.method.task.vocabulary.ids([" zebra"])[0]
    errors.behind, errors.endings = {}, {}
    monday = trainer.method.task.vocabulary.ids([" monday"])[0]
    errors.phrases = {(monday,): Errors(1.0, [(unknown,)], [1])}
    before = trainer.method.expressible

    def expressible(pairs: Pairs, scripts: Scripts) -> BoolArray:
        return before(pairs, scripts) & ~(pairs.sources.ids == unknown).any(1)

    trainer.method.expressible = expressible  # type: ignore[method-assign]
    made = synthetic(trainer, 0)
    fridays = np.arange(len(made)) % 2 == 1
    assert made.sources.equals(trainer.sampler.pairs.sources)[~fridays].all(), "the pairs as they were"
    assert made.sources.equals(trainer.sampler.pairs.targets)[fridays].all(), "targets without errors"


@pytest.mark.parametrize(("times", "max_edits", "used"), [(1, 1, True), (1, 0, False), (40, 1, False)])
def test_a_synthetic_source_with_too_many_edits_or_tokens_is_not_used(
    times: int, max_edits: int, used: bool, tmp_path: Path
) -> None:
    trainer = text_trainer(tmp_path / "run", synthetic_share=1.0)
    task, errors, own = trainer.method.task, errors_of(trainer), trainer.sampler.pairs
    (on,), (wrong,) = task.vocabulary.ids([" on"]), task.vocabulary.ids([" in"])
    errors.behind, errors.endings, errors.phrases = {}, {}, {(on,): Errors(1.0, [(wrong,) * times], [1])}
    trainer.method.task = replace(task, max_window_edits=max_edits)  # type: ignore[type-var]
    changed = ~synthetic(trainer, 0).sources.equals(own.sources)
    assert changed.sum() == (16 if used else 0), "a quarter of the pairs has no error of its own"


def test_fixed_states_of_offline_training_stay_when_other_sources_are_synthetic(tmp_path: Path) -> None:
    trainer = text_trainer(tmp_path / "run", synthetic_share=0.5)
    task, own = trainer.method.task, trainer.sampler.pairs
    longest = trainer.sampler.scripts.counts.max()
    first = trainer.sampler.offline_counts(trainer.sampler.scripts)
    assert first is not None
    for seed in range(3):
        mixed = synthetic(trainer, seed)
        found = trainer.sampler.offline_counts(task.edits(mixed.sources, mixed.targets))
        kept = mixed.sources.equals(own.sources)
        assert found is not None
        assert np.array_equal(found[kept], first[kept])
        assert (found <= longest).all()


def test_a_validation_of_text_stops_a_network_that_edits_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, looks = text_trainer(tmp_path / "run"), list[int]()
    limit, word = 1 + SPARE_EDITS, trainer.method.task.vocabulary.ids([" in"])[0]
    assert trainer.validating.max_steps == limit < trainer.method.max_steps
    insert = [actions.operation(Operation.INSERT), actions.position(0), actions.position(0), actions.token(word)]

    def predict(texts: Sequences) -> Prediction:
        looks.append(len(texts))
        return Prediction(np.array([insert] * len(texts)), np.zeros(len(texts)))

    monkeypatch.setattr(trainer.average, "predict", predict)
    trainer.validate(0.0)
    assert len(looks) == limit
    assert make_trainer(make_config("sort", "recurrence"), tmp_path / "sort").validating.max_steps == 8


def test_validations_of_text_allow_the_edits_of_nearly_all_training_windows(tmp_path: Path) -> None:
    trainer = text_trainer(tmp_path / "run")
    trainer.sampler.scripts = Scripts.from_rows([*[[]] * 7, [Edit(0, 0, (1,))] * 2])
    assert trainer._validating_method().max_steps == 1 + SPARE_EDITS, "nearly two"


def test_a_run_with_synthetic_errors_resumes_to_the_same_weights(tmp_path: Path) -> None:
    whole, first = (text_trainer(tmp_path / name, synthetic_share=0.5) for name in ("whole", "stopped"))
    list(whole.fit())

    def stop(step: int, loss: float) -> None:
        first.stopping = step == 3

    list(first.fit(stop))
    second = text_trainer(tmp_path / "stopped", synthetic_share=0.5)
    second.resume()
    list(second.fit())
    one, other = (model_folder.read_tensors(each.folder / model_folder.CHECKPOINT)[0] for each in (whole, second))
    assert all(np.array_equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize(("scores", "kept"), [([0.0, 0.0, 0.0], 3), ([0.0, 0.5, 0.5], 2), ([0.5, 0.0, 0.0], 1)])
def test_the_best_weights_are_kept_and_the_last_of_those_that_can_do_nothing(
    scores: list[float], kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, left = text_trainer(tmp_path / "run"), list(scores)

    class Scored:
        def means(self) -> dict[str, float]:
            return {"f0.5": left.pop(0), "sequence": 0.0}

    monkeypatch.setattr("stepedit.training.trainer.evaluate_pairs", lambda *_: Scored())
    list(trainer.fit())
    assert model_folder.read_tensors(tmp_path / "run" / model_folder.WEIGHTS)[1]["epoch"] == kept


def test_synthetic_errors_are_for_text(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="synthetic_share is for text"):
        make_trainer(make_config("sort", "recurrence", synthetic_share=0.5), tmp_path / "run")


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
    assert (~np.isin(own.sources.keys(), trainer.sampler.pairs.sources.keys())).any(), "nothing new was found"


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
