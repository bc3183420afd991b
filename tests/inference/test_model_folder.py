"""What a folder says: limits, commands, cards without paths, thresholds, validations and tensors."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepedit.config import RunConfig
from stepedit.errors import DataError, DataWarning
from stepedit.inference import model_folder

SETTINGS: dict[str, Any] = {"task": "text", "max_epochs": 1, "eval_every": 1, "threads": 1}


def config(**values: Any) -> RunConfig:
    return RunConfig(**SETTINGS | values)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"max_epochs": 1}, ["1 epoch"]),
        ({"max_epochs": 2_000, "max_steps": 1}, ["2,000 epochs", "1 step"]),
        ({"max_epochs": None, "max_minutes": 1.5}, ["1.5 minutes"]),
    ],
)
def test_the_limits_of_a_run_are_told_in_words(limits: dict[str, Any], words: list[str]) -> None:
    assert model_folder.limits_of(config(**limits)) == words


def test_a_command_names_data_without_their_folder_and_quotes_what_needs_it() -> None:
    run = config(data="/home/me/my pairs.tsv", target_file=("/home/me/a.txt", "b.txt"), max_minutes=2.0)
    words = shlex.split(model_folder.training_command(run))
    assert words[:3] == ["stepedit", "train", "text"]
    assert words[words.index("--data") + 1] == "my pairs.tsv"
    assert [words[at + 1] for at, word in enumerate(words) if word == "--target-file"] == ["a.txt", "b.txt"]
    assert words[words.index("--max-minutes") + 1] == "2.0"
    assert not {"--num-examples", "--source-column", "--max-steps", "--device", "--disjoint-sources"} & set(words)
    assert run.data == "/home/me/my pairs.tsv", "the run itself is not changed"


def test_a_command_for_generated_data_says_how_many_and_how() -> None:
    run = config(task="aor", num_examples=40, disjoint_sources=True, device="cuda", task_args={"numbers": 7})
    words = shlex.split(model_folder.training_command(run))
    assert words[words.index("--num-examples") + 1] == "40"
    assert words[words.index("--device") + 1] == "cuda"
    assert words[words.index("--task-arg") + 1] == "numbers=7"
    assert "--disjoint-sources" in words
    assert "--data" not in words


def test_a_card_has_the_name_of_the_data_and_their_hash_and_no_folder(tmp_path: Path) -> None:
    model_folder.write_config(tmp_path, config(data="/home/me/pairs.tsv", data_hash="ab12"), ["a"], ["b"], "mine")
    card = (tmp_path / "README.md").read_text()
    assert "Training data: `pairs.tsv`, SHA-256 `ab12`" in card
    assert 'stepedit edit mine "..."' in card
    assert "/home/me" not in card
    model_folder.write_config(tmp_path, config(task="aor", num_examples=1_500, seed=7, disjoint_sources=True), [], [])
    card = (tmp_path / "README.md").read_text()
    assert "generated from seed 7, 1,500 targets, splits disjoint by source" in card
    assert f"stepedit evaluate {tmp_path.name}`" in card
    assert json.loads((tmp_path / "vocabulary.json").read_text()) == {"inputs": [], "outputs": []}


@pytest.mark.parametrize("value", ["0", "0.0", "1", "0.25"])
def test_a_threshold_is_from_0_to_1(value: str, tmp_path: Path) -> None:
    assert model_folder.read_tuned(tmp_path) == 0.0
    (tmp_path / "tuned.json").write_text(f'{{"min_confidence": {value}}}')
    assert model_folder.read_tuned(tmp_path) == float(value)


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"min_confidence": "1"}', '{"min_confidence": -0.1}', '{"min_confidence": 1.01}']
)
def test_any_other_threshold_is_damaged(content: str, tmp_path: Path) -> None:
    (tmp_path / "tuned.json").write_text(content)
    with pytest.raises(DataError, match=r"tuned\.json: damaged"):
        model_folder.read_tuned(tmp_path)


def test_an_incomplete_last_validation_is_ignored_and_other_damage_is_not(tmp_path: Path) -> None:
    assert model_folder.read_metrics(tmp_path) == []
    reports = [{"epoch": step, "step": step, "seconds": 1.5, "metrics": {}} for step in (1, 2)]
    one, two = map(json.dumps, reports)
    (tmp_path / "metrics.jsonl").write_text(f'{one}\n{two}\n{{"st')
    assert model_folder.read_metrics(tmp_path) == reports
    (tmp_path / "metrics.jsonl").write_text(f'{one}\n{{"st\n{two}\n')
    with pytest.raises(DataError, match="damaged"):
        model_folder.read_metrics(tmp_path)


def test_tensors_shapes_and_facts_are_read_as_they_were_written(tmp_path: Path) -> None:
    path, table = tmp_path / "some.safetensors", np.arange(6).reshape(2, 3)
    model_folder.write_tensors(path, {"a": table.T, "b": np.zeros(0)}, {"step": 3})
    tensors, facts = model_folder.read_tensors(path)
    assert (tensors["a"].tolist(), tensors["b"].shape, facts) == (table.T.tolist(), (0,), {"step": 3})
    assert model_folder.read_shapes(path) == {"a": (3, 2), "b": (0,)}
    assert model_folder.read_facts(tmp_path / "none") == {}
    for read in (model_folder.read_tensors, model_folder.read_shapes):
        with pytest.raises(DataError, match="no such file"):
            read(tmp_path / "none")
    path.write_bytes(path.read_bytes()[:20])
    for read in (model_folder.read_tensors, model_folder.read_shapes, model_folder.read_facts):
        with pytest.raises(DataError, match="damaged"):
            read(path)


def test_a_run_is_finished_if_its_checkpoint_says_so_or_only_its_graph_is_left(tmp_path: Path) -> None:
    assert not model_folder.is_finished(tmp_path)
    for finished in (False, True):
        model_folder.write_tensors(tmp_path / "checkpoint.safetensors", {}, {"state": {"finished": finished}})
        assert model_folder.is_finished(tmp_path) == finished
    (tmp_path / "checkpoint.safetensors").unlink()
    (tmp_path / "model.onnx").touch()
    assert model_folder.is_finished(tmp_path)
    (tmp_path / "model.safetensors").touch()
    assert not model_folder.is_finished(tmp_path)


def test_a_threshold_of_other_weights_is_removed_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / model_folder.GRAPH).touch()
    model_folder.remove_results(tmp_path)
    assert not (tmp_path / model_folder.GRAPH).exists()
    (tmp_path / model_folder.TUNED).touch()
    with pytest.warns(DataWarning, match="so the tuned threshold is removed; run `stepedit tune` again"):
        model_folder.remove_results(tmp_path)
    assert not (tmp_path / model_folder.TUNED).exists()


def test_the_folder_of_another_tool_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "roberta"}')
    with pytest.raises(DataError, match="not the configuration of a run of stepedit"):
        model_folder.read_config(tmp_path)
