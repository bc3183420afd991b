"""What training keeps: the average of the weights, a threshold only for its weights, no held-out target."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from stepedit.editing.interpreter import Outcome
from stepedit.editing.sequences import Pairs, Sequences
from stepedit.errors import DataWarning
from stepedit.inference import model_folder
from stepedit.registry import METHODS, TASKS
from stepedit.training import self_training
from stepedit.training.ema import make_average, update_average
from stepedit.training.self_training import SelfTrainingBuffer
from tests.training.test_trainer import make_config, make_trainer


@pytest.mark.parametrize(
    ("step", "kept"),
    [(0, 0.1), (10, 11 / 20), (100_000, 0.9)],  # the start is forgotten faster
)
def test_the_average_keeps_the_decay_of_itself_and_takes_the_rest_of_the_weights(step: int, kept: float) -> None:
    net = nn.Linear(2, 1, bias=False)
    average = make_average(net, 0.9)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[10.0, -4.0]]))
        average.weight.copy_(torch.tensor([[2.0, 4.0]]))
    update_average(average, net, 0.9, step)
    expected = kept * torch.tensor([[2.0, 4.0]]) + (1 - kept) * torch.tensor([[10.0, -4.0]])
    torch.testing.assert_close(average.weight.detach(), expected)
    assert net.weight.tolist() == [[10.0, -4.0]]


def test_a_step_updates_the_average_and_validation_keeps_it(tmp_path: Path) -> None:
    trainer = make_trainer(make_config("sort", "recurrence", ema_decay=0.99), tmp_path / "run")
    states = trainer.epoch_states(0)
    for step in range(3):
        before = [parameter.clone() for parameter in trainer.average.parameters()]
        trainer.step(states.take(np.arange(32)))
        kept = min(0.99, (1 + step) / (10 + step))
        for old, new, own in zip(before, trainer.average.parameters(), trainer.net.parameters(), strict=True):
            torch.testing.assert_close(new, kept * old + (1 - kept) * own.detach())
    trainer.validate(1.0)
    stored, _ = model_folder.read_tensors(tmp_path / "run" / model_folder.WEIGHTS)
    for name, parameter in trainer.average.named_parameters():
        assert np.array_equal(stored[name], parameter.numpy())
    assert any(
        not torch.equal(one, two)
        for one, two in zip(trainer.average.parameters(), trainer.net.parameters(), strict=True)
    )


@pytest.mark.parametrize(("best", "kept"), [(-1.0, False), (2.0, True)])
def test_what_was_made_for_other_weights_is_removed_when_weights_are_better(
    best: float, kept: bool, tmp_path: Path
) -> None:
    trainer = make_trainer(make_config("sort", "recurrence", max_epochs=1), tmp_path / "run")
    list(trainer.fit())
    names = (
        model_folder.TUNED,
        model_folder.GRAPH,
        "scores-test.json",
        "scores-val-beam-4.json",
        "predictions-test.jsonl",
    )
    for name in names:
        (tmp_path / "run" / name).write_text("{}")
    trainer.state.best = best
    with nullcontext() if kept else pytest.warns(DataWarning, match="so the tuned threshold is removed"):
        trainer.validate(1.0)
    assert [(tmp_path / "run" / name).exists() for name in names] == [kept] * len(names)


def test_self_training_keeps_no_held_out_target_that_a_new_source_leads_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """In AEC a target has many sources: one that is not held out can be edited to a target that is."""
    task = TASKS["aec"].from_args({"numbers": 10, "length": 4})
    method, rng = METHODS["recurrence"](task), np.random.default_rng(0)
    pairs = task.generate(60, rng)
    held_out = pairs.take(slice(30))
    sources = task.resample(pairs.targets, rng)
    answers = dict(zip(sources.keys().tolist(), pairs.targets.rows(), strict=True))

    def search(texts: Sequences, *_: Any) -> list[Outcome]:
        return [Outcome(answers[key], 1, True) for key in texts.keys().tolist()]

    monkeypatch.setattr(type(task), "draw_sources", lambda *_: sources)
    monkeypatch.setattr(self_training, "search", search)
    policy: Any = type("Policy", (), {"top_k": None})
    buffer, nothing = SelfTrainingBuffer.empty(), SelfTrainingBuffer.empty().pairs
    buffer.extend(0, policy, method, nothing, rng)
    leaked = np.isin(buffer.pairs.targets.keys(), held_out.targets.keys())
    assert leaked.sum() > 20, "without held-out pairs, these targets are found and valid"
    buffer = SelfTrainingBuffer.empty()
    buffer.extend(0, policy, method, held_out, rng)
    found: Pairs = buffer.pairs
    assert len(found) > 20
    assert not np.isin(found.targets.keys(), held_out.targets.keys()).any()
    assert not np.isin(found.sources.keys(), held_out.sources.keys()).any()
