"""Numbers that are not finite stop a run at once, and no good file is overwritten; options have bounds."""

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from stepedit.config import Limits, RunSettings, TrainingConfig
from stepedit.errors import DivergedError, UserError
from stepedit.evaluation.metrics import METRICS
from stepedit.inference import model_folder
from stepedit.training.request import resolve
from stepedit.training.trainer import Trainer
from tests.training.test_trainer import make_config, make_trainer


def spoil(trainer: Trainer, value: float = float("nan")) -> None:
    """Make one weight of the network not finite."""
    with torch.no_grad():
        next(trainer.net.parameters()).view(-1)[0] = value


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in (model_folder.CHECKPOINT, model_folder.WEIGHTS)}


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("ema_decay", [0.0, 0.99])
def test_a_loss_that_is_not_finite_stops_the_run_at_once(value: float, ema_decay: float, tmp_path: Path) -> None:
    trainer = make_trainer(make_config("aor", "recurrence", max_epochs=9, ema_decay=ema_decay), tmp_path / "run")
    before: list[dict[str, bytes]] = []

    def check(step: int, loss: float) -> None:
        if step == 2 * trainer.batches + 1:
            before.append(contents(trainer.folder))
            with torch.no_grad():
                for parameter in trainer.net.parameters():
                    parameter.fill_(value)

    with pytest.raises(DivergedError, match=f"not finite at step {2 * trainer.batches + 2}; the last good checkpoint"):
        list(trainer.fit(check))
    assert before == [contents(trainer.folder)]
    assert not model_folder.is_finished(trainer.folder)


def test_a_gradient_that_is_not_finite_leaves_the_weights_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer(make_config("aor", "recurrence"), tmp_path / "run")
    before = [parameter.clone() for parameter in trainer.net.parameters()]
    parameter = next(trainer.net.parameters())
    parameter.register_hook(lambda gradient: torch.full_like(gradient, math.inf))
    with pytest.raises(DivergedError, match="the gradient is not finite at step 1; there is no checkpoint yet"):
        list(trainer.fit())
    assert all(torch.equal(one, two) for one, two in zip(before, trainer.net.parameters(), strict=True))


@pytest.mark.parametrize(
    "write", [Trainer.save, lambda trainer: trainer.validate(1.0)], ids=["checkpoint", "validation"]
)
def test_weights_that_are_not_finite_are_never_written(write: Callable[[Trainer], object], tmp_path: Path) -> None:
    trainer = make_trainer(make_config("aor", "recurrence"), tmp_path / "run")
    list(trainer.fit())
    before = contents(trainer.folder)
    trainer.state.best = -1.0
    spoil(trainer)
    with pytest.raises(DivergedError, match="the weights are not finite after step 6"):
        write(trainer)
    assert contents(trainer.folder) == before


def test_the_command_exits_with_1_and_one_line(tmp_path: Path) -> None:
    program = """
import torch
from stepedit.cli.main import main
from stepedit.training import trainer
usual = trainer.update_average
def spoiling(average, net, decay, step):
    usual(average, net, decay, step)
    if step == 10:
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.fill_(float("nan"))
trainer.update_average = spoiling
main()
"""
    words = ["train", "sort", "--num-examples", "200", "--batch-size", "32", "--hidden-size", "16", "--num-layers", "1"]
    words += ["--max-epochs", "9", "--eval-every", "1", "--threads", "1", "--out", str(tmp_path / "run")]
    made = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert made.returncode == 1
    assert made.stderr.startswith(
        "stepedit: the loss is not finite at step 12; the last good checkpoint is kept; train anew, with a lower"
    )
    assert made.stderr.count("\n") == 1
    tensors, facts = model_folder.read_tensors(tmp_path / "run" / model_folder.CHECKPOINT)
    assert facts["state"]["step"] == 8
    assert all(np.isfinite(tensor).all() for tensor in tensors.values())


NUMBERS = [
    (name, field.annotation)
    for model in (RunSettings, Limits, TrainingConfig)
    for name, field in model.model_fields.items()
    if field.annotation in (int, float, int | None, float | None)
]


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 10**15, -1])
@pytest.mark.parametrize(("name", "kind"), NUMBERS)
def test_every_number_has_bounds(name: str, kind: type, value: float) -> None:
    with pytest.raises(UserError, match=f"^{name}: ") as caught:
        resolve({"task": "aor", name: value})
    assert "\n" not in str(caught.value)


def test_reports_have_the_score_of_copying_the_source_beside_the_models(tmp_path: Path) -> None:
    trainer = make_trainer(make_config("aec", "recurrence", max_epochs=1), tmp_path / "run")
    (report,) = trainer.fit()
    validation = trainer.validation
    assert report.copy == {
        name: METRICS[name](validation.sources, validation).mean() for name in trainer.method.task.metrics
    }
    assert 0 < report.copy["token"] < 1
    assert model_folder.read_metrics(trainer.folder)[0]["copy"] == report.copy
