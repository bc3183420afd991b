"""The preset `paper` is the network that the paper's authors ran: its sizes, its outputs, its initial weights."""

from pathlib import Path

import numpy as np
import pytest
import torch

from stepedit.config import PRESETS, TrainingConfig
from stepedit.data.states import States, states_after
from stepedit.methods.base import Method
from stepedit.programmers.nn.dropout import Dropout, DropoutRng, dropout_rng
from stepedit.programmers.seq2seq import SeqToSeq
from stepedit.registry import METHODS, TASKS
from stepedit.training.request import resolve
from stepedit.training.trainer import Trainer

SIZES = {  # outputs with padding, start and end or done; parameters
    ("aor", "end2end"): (18, 5_017_106),
    ("aor", "tagging"): (9, 5_007_881),
    ("aor", "recurrence"): (17, 5_016_081),
    ("aes", "end2end"): (108, 5_156_460),
    ("aes", "tagging"): (105, 5_153_385),
    ("aes", "recurrence"): (138, 5_187_210),
    ("aec", "end2end"): (18, 5_017_106),
    ("aec", "tagging"): (35, 5_034_531),
    ("aec", "recurrence"): (31, 5_030_431),
}


def make(task: str, method: str, preset: str = "paper") -> tuple[Method, SeqToSeq]:
    made = METHODS[method](TASKS[task]())
    return made, SeqToSeq.from_seed(0, made, TrainingConfig(**PRESETS[preset]))


@pytest.mark.parametrize(("task", "method"), SIZES)
def test_it_has_the_authors_outputs_and_parameters(task: str, method: str) -> None:
    made, net = make(task, method)
    assert (len(made.outputs), net.num_parameters) == SIZES[task, method]


@pytest.mark.parametrize(("task", "method"), SIZES)
def test_the_faster_schedule_trains_the_same_network(task: str, method: str) -> None:
    paper, fast = (make(task, method, preset)[1].state_dict() for preset in ("paper", "paper-fast"))
    assert list(paper) == list(fast)
    assert all(torch.equal(paper[name], fast[name]) for name in paper)


def test_the_faster_preset_differs_in_its_schedule_alone() -> None:
    slow, fast = (
        resolve({"task": "aor", "preset": name, "max_epochs": 1}).settings.model_copy(update={"preset": ""})
        for name in ("paper", "paper-fast")
    )
    assert fast.model_dump(exclude={"training"}) == slow.model_dump(exclude={"training"})
    one, other = slow.training.model_dump(), fast.training.model_dump()
    different = {name: value for name, value in other.items() if one[name] != value}
    assert different == {"learning_rate": 2e-3, "warmup_steps": 200, "lr_schedule": "cosine", "ema_decay": 0.998}


def test_weights_start_small_and_biases_and_the_attentions_vector_at_zero() -> None:
    net = make("aor", "recurrence")[1]
    for name, parameter in net.named_parameters():
        if parameter.ndim == 1 or name == "decoder.collapse.weight":
            assert not parameter.any(), name
        else:
            assert float(parameter.detach().std()) == pytest.approx(0.01, rel=0.05), name


def test_the_preset_stops_and_learns_as_the_authors_did() -> None:
    config = resolve({"task": "aec", "preset": "paper", "max_epochs": 1}).settings
    training = config.training
    assert (config.mode, training.learning_rate, training.teacher_forcing) == ("online", 1e-4, 0.5)
    assert (training.max_actions, training.dropout_per_token) == (5, True)
    assert METHODS["recurrence"](TASKS["aec"](), max_actions=training.max_actions).max_steps == 5


def test_plain_dropout_has_a_mask_for_every_token() -> None:
    rng = DropoutRng(torch.Generator().manual_seed(0), torch.arange(3), 3)
    ones = torch.ones(3, 5, 64)
    for per_token in (False, True):
        layer = Dropout(0.5, per_token)
        with dropout_rng(layer, rng):
            dropped = layer(ones)
        assert (dropped == dropped[:, :1]).all() != per_token
        assert set(dropped.unique().tolist()) == {0.0, 2.0}


def test_teacher_forcing_has_one_coin_for_the_whole_batch() -> None:
    method, net = make("aor", "recurrence")
    pairs = method.task.generate(32, np.random.default_rng(0))
    scripts = method.task.edits(pairs.sources, pairs.targets)
    states = states_after(pairs, scripts, np.zeros(32, np.int64))
    given = list[torch.Tensor]()
    net.symbol_embedding.register_forward_hook(lambda module, inputs, output: given.append(inputs[0]))
    outputs = torch.from_numpy(method.targets(states)[0])
    seen = set[bool]()
    for seed in range(20):
        given.clear()
        net.eval()
        rng = DropoutRng(torch.Generator().manual_seed(seed), torch.arange(32), 32)
        logits = net.output_logits(*net.tensors(states.texts), outputs, 0.5, rng)
        forced = bool((given[1][:, 0] == outputs[:, 0]).all())
        assert forced or bool((given[1][:, 0] == logits[:, 0].argmax(1)).all())
        seen.add(forced)
    assert seen == {True, False}


def epoch_texts(trainer: Trainer, epoch: int) -> dict[tuple[int, ...], tuple[int, ...]]:
    states: States = trainer.epoch_states(epoch)
    return {tuple(target): tuple(text) for target, text in zip(states.targets.rows(), states.texts.rows(), strict=True)}


@pytest.mark.parametrize("offline_states", [None, "sources"])
def test_offline_recurrence_on_aor_sees_one_state_of_each_trajectory_or_the_source(
    offline_states: str | None, tmp_path: Path
) -> None:
    values = {"task": "aor", "mode": "offline", "preset": "small", "batch_size": 50, "offline_states": offline_states}
    run = resolve({**values, "max_epochs": 2}).config(max_epochs=2, eval_every=1, threads=1)
    pairs = TASKS["aor"]().generate(200, np.random.default_rng(0))
    trainer = Trainer(run, tmp_path, {"train": pairs, "val": pairs})
    first, second = epoch_texts(trainer, 0), epoch_texts(trainer, 1)
    assert first == second, "drawn once, fixed for the whole training"
    done = sum(text == target for target, text in first.items())
    sources = sum(len(text) == 5 for text in first.values())
    if offline_states == "sources":
        assert (done, sources) == (0, 200)
    else:
        assert 15 <= done <= 65
        assert 15 <= sources <= 65


def test_offline_recurrence_sees_sources_where_they_are_resampled() -> None:
    assert resolve({"task": "aec", "mode": "offline", "max_epochs": 1}).settings.training.offline_states == "sources"
