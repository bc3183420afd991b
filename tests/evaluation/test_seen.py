"""Scores say which pairs of a split were trained on."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stepedit.data.dataset import Loaded, load, split_pairs
from stepedit.data.readers import Lines
from stepedit.errors import DataError, DataWarning
from stepedit.evaluation.scores import evaluate
from stepedit.inference import model_folder
from stepedit.inference.trained_on import MAX_HASHES, TrainedOn, read_trained_on, text_hashes
from stepedit.registry import TASKS
from stepedit.training.run import open_trainer
from tests.cli.test_train import SMALL, stepedit


def test_hashes_of_texts_are_stable() -> None:
    assert text_hashes(["", "2 + 2 == 4"]).tolist() == [0xB4B2797457A0A6E4, 0x52BE8DC9CD92CDC0]


def test_a_list_that_is_too_long_is_sampled_and_says_so(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(1_000)]
    whole, sample = TrainedOn.from_texts(texts, texts), TrainedOn.from_texts(texts, texts, limit=100)
    assert whole.complete
    assert whole.has_target([*texts, "another"]).tolist() == [True] * 1_000 + [False]
    assert not sample.complete
    assert sample.has_target(texts).sum() == 100
    sample.write(tmp_path)
    read = read_trained_on(tmp_path)
    assert read is not None
    assert (read.num_targets, len(read.sources), read.complete) == (1_000, 100, False)
    assert MAX_HASHES * 16 < 2_000_000


def test_a_damaged_list_is_reported(tmp_path: Path) -> None:
    model_folder.write_tensors(tmp_path / model_folder.TRAINED_ON, {"targets": np.zeros((2, 2), np.uint64)}, {})
    with pytest.raises(DataError, match=r"trained-on\.safetensors: damaged"):
        read_trained_on(tmp_path)
    assert read_trained_on(tmp_path / "nowhere") is None


@pytest.mark.parametrize("name", ["aor", "aes", "aec"])
def test_the_included_arithmetic_models_say_what_they_were_trained_on(name: str) -> None:
    folder = model_folder.find(name)
    run, trained = model_folder.read_config(folder), read_trained_on(folder)
    splits = load(run, model_folder.make_task(run))
    assert trained is not None
    assert trained.complete == (run.mode != "self-training")
    assert trained.has_target(splits.lines("train").targets).all()
    assert not trained.has_target(splits.lines("test").targets).any()


def test_pairs_that_were_trained_on_are_counted_and_warned_about(tmp_path: Path) -> None:
    run = model_folder.read_config(model_folder.find("aor"))
    splits = load(run, model_folder.make_task(run))
    train, test = splits.lines("train"), splits.lines("test")
    lines = Lines([*train.sources[:30], *test.sources[:70]], [*train.targets[:30], *test.targets[:70]])
    with pytest.warns(DataWarning, match="of 100 pairs, at least 30 have a target that the model was trained on"):
        scores = evaluate("aor", "all", data={"all": lines})
    assert not scores.by_seen, "which sources self-training found is not known"
    folder = shutil.copytree(model_folder.find("aor"), tmp_path / "aor")
    trained = read_trained_on(folder)
    assert trained is not None
    replace(trained, partial=False).write(folder)
    with pytest.warns(DataWarning, match="of 100 pairs, 30 have a target that the model was trained on"):
        scores = evaluate(folder, "all", data={"all": lines})
    known = set(train.sources)
    assert scores.trained_on == 30
    assert scores.by_seen["source in train"][0] == sum(source in known for source in lines.sources) >= 30
    assert sum(count for count, _ in scores.by_seen.values()) == 100
    total = sum(count * mean for count, mean in scores.by_seen.values())
    assert total / 100 == pytest.approx(scores.metrics["equation"][0])


def test_the_pairs_that_self_training_found_are_among_those_trained_on(tmp_path: Path) -> None:
    options = {"numbers": 6, "length": 4, "num_examples": 300, "hidden_size": 16, "num_heads": 2, "num_layers": 1}
    options |= {"batch_size": 16, "learning_rate": 0.005, "threads": 1}
    options |= {"task": "aor", "mode": "self-training", "max_epochs": 12, "eval_every": 12}
    with open_trainer(tmp_path / "r", options, False) as trainer:
        begun = read_trained_on(tmp_path / "r")
        list(trainer.fit())
        decode, found = trainer.method.task.vocabulary.decode, trainer.buffer.pairs
    ended = read_trained_on(tmp_path / "r")
    assert begun is not None
    assert ended is not None
    assert (begun.complete, ended.complete) == (False, True)
    assert len(found) > 0
    assert ended.has_source(decode(found.sources)).all()
    assert ended.has_target(decode(found.targets)).all()
    assert not begun.has_source(decode(found.sources)).all()
    assert ended.has_target(load(trainer.run, trainer.method.task).lines("train").targets).all()


@pytest.mark.parametrize("size", [300, 800])
def test_splits_that_are_disjoint_by_source_share_none_and_lose_nothing(size: int) -> None:
    task = TASKS["aor"](numbers=6, length=4)
    pairs = task.generate(size, np.random.default_rng(0))
    usual, disjoint = (Loaded(task, split_pairs(pairs, 0, disjoint_sources=each)) for each in (False, True))
    assert set(usual.lines("train").sources) & set(usual.lines("test").sources)
    sources = [set(disjoint.lines(name).sources) for name in ("train", "val", "test")]
    assert sum(map(len, sources)) == len(set().union(*sources))
    targets = [target for name in ("train", "val", "test") for target in disjoint.lines(name).targets]
    assert sorted(targets) == sorted(task.vocabulary.decode(pairs.targets))
    assert len(disjoint.pairs["train"]) / size == pytest.approx(0.7, abs=0.03)


def test_too_few_sources_cannot_be_disjoint() -> None:
    task = TASKS["sort"](numbers=9, length=3)
    pairs = task.generate(10, np.random.default_rng(0)).take(np.zeros(10, np.int64))
    with pytest.raises(DataError, match="too few different sources"):
        split_pairs(pairs, 0, disjoint_sources=True)


def test_commands_warn_about_splits_that_overlap(tmp_path: Path) -> None:
    setting = ["aor", "--numbers", 6, "--length", 4, "--num-examples", 800]
    assert stepedit("generate", *setting, "--out", "d", folder=tmp_path).returncode == 0
    message = "stepedit: warning: d: of 120 val pairs "
    inspected = stepedit("inspect", "d", folder=tmp_path)
    assert inspected.stderr.startswith(message)
    assert len(inspected.stderr.splitlines()) == 1
    more = [*SMALL, "--batch-size", 16, "--max-epochs", 1]
    trained = stepedit("train", "--data", "d", *more, "--out", "r", folder=tmp_path)
    assert trained.returncode == 0
    overlap = "of 120 {} pairs "
    assert trained.stderr.startswith(f"stepedit: warning: {tmp_path / 'd'}: {overlap.format('val')}")
    assert (tmp_path / "r" / "trained-on.safetensors").exists()
    evaluated = stepedit("evaluate", "r", "--json", folder=tmp_path)
    assert f"stepedit: warning: {tmp_path / 'd'}: {overlap.format('test')}" in evaluated.stderr
    assert "source" in evaluated.stderr
    scores = json.loads(evaluated.stdout)
    assert set(scores["by_seen"]) == {"source in train", "source not in train"}
    assert "source not in train" in stepedit("evaluate", "r", folder=tmp_path).stdout
    assert stepedit("evaluate", "r", "--split", "train", folder=tmp_path).stderr == ""


def test_disjoint_sources_are_kept_in_the_configuration_and_give_no_warning(tmp_path: Path) -> None:
    setting = ["aor", "--numbers", 6, "--length", 4, "--num-examples", 800, "--disjoint-sources"]
    assert stepedit("generate", *setting, "--out", "d", folder=tmp_path).returncode == 0
    assert json.loads((tmp_path / "d" / "dataset.json").read_text())["disjoint_sources"] is True
    assert stepedit("inspect", "d", folder=tmp_path).stderr == ""
    more = [*SMALL, "--batch-size", 16, "--max-epochs", 1]
    assert stepedit("train", *setting, *more, "--out", "r", folder=tmp_path).returncode == 0
    assert json.loads((tmp_path / "r" / "config.json").read_text())["disjoint_sources"] is True
    assert "--disjoint-sources" in (tmp_path / "r" / "README.md").read_text()
    scores = json.loads(stepedit("evaluate", "r", "--json", folder=tmp_path).stdout)
    assert (scores["by_seen"], scores["trained_on"]) == ({}, 0)
