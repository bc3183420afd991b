"""What a person says becomes complete settings, and the command of a model card gives the same settings again."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from stepedit.cli.arguments import parse_pairs
from stepedit.config import TrainingConfig
from stepedit.errors import UserError
from stepedit.inference.model_folder import training_command
from stepedit.training.request import extended, resolve


@pytest.mark.parametrize(
    "values",
    [
        {"task": "aor"},
        {"task": "aor", "plan_loss_weight": 0.0},
        {"task": "aes", "num_layers": 4, "learning_rate": 0.003},
        {"task": "aec", "preset": "paper", "method": "tagging", "numeric_features": True},
        {"task": "aec", "preset": "small", "errors": 2, "bidirectional": False},
    ],
)
def test_the_training_command_resolves_to_the_same_settings(values: dict[str, Any]) -> None:
    settings = resolve({**values, "max_epochs": 3}).settings
    config = resolve({**values, "max_epochs": 3}).config(3, 1, 1)
    words = shlex.split(training_command(config))[2:]
    again: dict[str, Any] = {"task": words.pop(0)}
    while words:
        flag = words.pop(0).removeprefix("--").replace("-", "_")
        if flag.removeprefix("no_") in TrainingConfig.model_fields and isinstance(
            getattr(config.training, flag.removeprefix("no_")), bool
        ):
            again[flag.removeprefix("no_")] = not flag.startswith("no_")
        elif flag == "task_arg":
            again |= parse_pairs([words.pop(0)])
        else:
            again[flag] = words.pop(0)
    assert again.pop("out") == "RUN"
    assert resolve(again).settings == settings


def test_paths_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"w{n} teh\tw{n} the\n" for n in range(20)))
    assert resolve({"data": tmp_path / "pairs.tsv", "max_epochs": 1}).settings.data == str(tmp_path / "pairs.tsv")


def test_a_given_batch_size_is_kept(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"w{n} teh\tw{n} the\n" for n in range(80)))
    data = {"data": str(tmp_path / "pairs.tsv"), "max_epochs": 1}
    assert resolve({**data, "batch_size": 20}).settings.training.batch_size == 20
    assert resolve(data).settings.training.batch_size < 20


@pytest.mark.parametrize(
    ("values", "mode"),
    [
        ({}, "augmented"),
        ({"method": "recurrence", "preset": "small"}, "augmented"),
        ({"preset": "paper"}, "online"),
        ({"method": "tagging"}, "online"),
        ({"method": "end2end"}, "online"),
        ({"mode": "offline"}, "offline"),
        ({"preset": "paper", "mode": "augmented"}, "augmented"),
    ],
)
def test_the_default_mode_is_the_recommended_one(values: dict[str, str], mode: str) -> None:
    assert resolve({"task": "aor", **values}).settings.mode == mode


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"frozen_layers": 2}, "frozen_layers means nothing without encoder"),
        ({"precision": "float32"}, "precision means nothing without encoder"),
        ({"strip": True}, "strip means nothing without data"),
        ({"source_column": "wrong"}, "source_column means nothing without data"),
    ],
)
def test_options_that_would_have_no_effect_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}$"):
        resolve({"task": "text", "max_epochs": 1, **values})


def test_a_run_is_resumed_with_its_own_data_however_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "pairs.tsv").write_text("".join(f"{word}x\t{word}\n" for word in "abcdefghijklmnopqrst"))
    run = resolve({"task": "text", "data": str(tmp_path / "pairs.tsv"), "max_epochs": 3}).config(3, 1, 1)
    monkeypatch.chdir(tmp_path / "here")
    assert extended(run, {"data": "../pairs.tsv", "max_epochs": 4}).max_epochs == 4
    with pytest.raises(UserError, match=r"data is .*pairs\.tsv, not pairs\.tsv"):
        extended(run, {"data": "pairs.tsv"})
    with pytest.raises(UserError, match="it has no encoder, not roberta-base"):
        extended(run, {"encoder": "roberta-base"})
