"""The contract of every programmer: padding never leaks, and predictions have the probabilities that are trained."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rapidfuzz.distance import Levenshtein

from stepedit.config import TrainingConfig
from stepedit.data.states import States, sample_states
from stepedit.editing.interpreter import step, step_batch
from stepedit.editing.sequences import Sequences
from stepedit.errors import DataError, UserError
from stepedit.inference.model_folder import write_tensors
from stepedit.methods.base import Method
from stepedit.programmers.base import Programmer, weights_of
from stepedit.programmers.nn.dropout import DropoutRng, dropout_rng
from stepedit.programmers.seq2seq import SeqToSeq
from stepedit.registry import METHODS, PROGRAMMERS, TASKS

KINDS = [
    {"architecture": "transformer"},
    {"architecture": "transformer", "num_layers": 2, "numeric_features": False},
    {"architecture": "rnn", "attention": "dot"},
    {"architecture": "gru", "attention": "concat", "num_layers": 2},
    {"architecture": "lstm", "attention": "general"},
    {"architecture": "lstm", "attention": "none", "bidirectional": False},
    {"architecture": "lstm", "attention": "additive", "dropout_per_token": True},
]
CASES = [
    pytest.param(name, kind, method, id="-".join([name, *map(str, kind.values()), method]))
    for name in PROGRAMMERS
    for kind in KINDS
    for method in METHODS
    if name != "pointer" or method == "recurrence"
]
every_case = pytest.mark.parametrize(("name", "kind", "method_name"), CASES)
every_programmer = pytest.mark.parametrize("name", PROGRAMMERS)
every_task = pytest.mark.parametrize("task", TASKS)


def make(name: str, kind: dict[str, object], method_name: str, task: str = "aec") -> tuple[Method, Programmer]:
    method = METHODS[method_name](TASKS[task]())
    torch.manual_seed(0)
    small = {"hidden_size": 16, "num_heads": 2, "num_layers": 1, "dropout": 0.5}
    small |= {"plan_loss_weight": 0.5} if name == "pointer" else {}
    config = TrainingConfig.model_validate({**small, **kind})
    return method, PROGRAMMERS[name].from_config(method, config).eval()


def some_states(method: Method, size: int = 20) -> States:
    rng = np.random.default_rng(0)
    pairs = method.task.generate(size, rng)
    return sample_states(pairs, method.task.edits(pairs.sources, pairs.targets), np.arange(size), "online", rng)


@every_case
def test_a_rows_prediction_does_not_depend_on_its_batch(name: str, kind: dict[str, object], method_name: str) -> None:
    method, net = make(name, kind, method_name)
    states = some_states(method)
    together = net.predict(states.texts)
    wide = replace(states, texts=states.texts.widened(states.texts.ids.shape[1] + 9))
    torch.testing.assert_close(net(wide), net(states), atol=1e-5, rtol=1e-4)
    for row in range(20):
        alone = net.predict(states.texts.take([row]))
        size = alone.symbols.shape[1]
        assert np.array_equal(alone.symbols[0], together.symbols[row, :size])
        probabilities = np.exp(alone.log_probs[0]), np.exp(together.log_probs[row])
        np.testing.assert_allclose(*probabilities, atol=1e-5, rtol=1e-4)


@every_case
def test_the_losses_of_a_batchs_parts_add_up_to_its_loss(name: str, kind: dict[str, object], method_name: str) -> None:
    method, net = make(name, kind, method_name)
    states = some_states(method)
    parts = [DropoutRng(torch.Generator(), torch.arange(first, 20, 2), 20) for first in (0, 1)]
    torch.testing.assert_close(sum(net(states, part) for part in parts), net(states), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("method_name", METHODS)
@pytest.mark.parametrize("kind", KINDS, ids=["-".join(map(str, kind.values())) for kind in KINDS])
def test_decoding_step_by_step_equals_teacher_forcing_on_the_same_outputs(
    kind: dict[str, object], method_name: str
) -> None:
    method, net = make("seq2seq", kind, method_name)
    assert isinstance(net, SeqToSeq)
    method.decode_outputs = lambda outputs: outputs  # type: ignore[method-assign]  # to see the outputs themselves
    sources = method.task.generate(20, np.random.default_rng(0)).sources
    prediction = net.predict(sources)
    outputs = torch.from_numpy(prediction.symbols)
    with torch.inference_mode():
        probabilities = net.output_logits(*net.tensors(sources), outputs).softmax(2)
        stepwise = net.output_logits(*net.tensors(sources), outputs, teacher_forcing=0.0).softmax(2)
    inside = outputs != 0
    best, symbols = probabilities.max(2)
    assert torch.equal(symbols[inside], outputs[inside])
    torch.testing.assert_close(stepwise[inside], probabilities[inside], atol=1e-5, rtol=1e-3)
    expected = torch.where(inside, best, 1.0).prod(1)
    torch.testing.assert_close(torch.from_numpy(prediction.log_probs).exp(), expected, atol=1e-5, rtol=1e-3)


@every_task
@pytest.mark.parametrize("architecture", ["transformer", "gru"])
def test_a_pointers_log_prob_is_minus_its_loss(task: str, architecture: str) -> None:
    """Where it predicts the expert's action, the probability of that is exp(-loss)."""
    kind = {"architecture": architecture, "plan_loss_weight": 0.0, "learning_rate": 0.01, "hidden_size": 32}
    method, net = make("pointer", kind, "recurrence", task)
    states = some_states(method, 6)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(150):  # until it predicts the expert's actions
        optimizer.zero_grad()
        net(states).backward()
        optimizer.step()
    prediction, expected = net.predict(states.texts), states.actions(method.task.template)
    assert np.array_equal(prediction.symbols, expected)
    for row in range(len(states)):
        loss = net(states.take(np.array([row]))).item()
        assert np.exp(prediction.log_probs[row]) == pytest.approx(np.exp(-loss), abs=1e-4, rel=1e-3)


@pytest.mark.parametrize(
    ("programmer", "task"), [("pointer", "aec"), ("pointer", "aes"), ("pointer", "text"), ("seq2seq", "aec")]
)
def test_log_prob_of_the_experts_action_is_minus_the_loss(programmer: str, task: str) -> None:
    method, net = make(programmer, {"plan_loss_weight": 0.0}, "recurrence", task)
    states = some_states(method, 8)
    symbols = len(method.task.template.fields) if programmer == "seq2seq" else 1  # the loss is a mean over these
    losses = [net(states.take(np.array([row]))).item() * symbols for row in range(len(states))]
    np.testing.assert_allclose(net.log_prob(states), -np.array(losses), atol=1e-4, rtol=1e-3)


def test_with_the_dynamic_oracle_any_edit_that_reduces_the_distance_is_correct() -> None:
    """The loss is minus the log of the probability of all optimal actions: here, summed over every action."""
    method, net = make("pointer", {"oracle": "dynamic"}, "recurrence", "aec")
    states = some_states(method, 8)
    expected = []
    for row in range(8):
        one = states.take(np.array([row]))
        text, target = one.texts.rows()[0], one.targets.rows()[0]
        actions, log_probs = net.top_k(one.texts, 2_000)
        distance, probability = Levenshtein.distance(text, target), 0.0
        for action, log_prob in zip(actions[0].tolist(), log_probs[0], strict=True):
            after, done, _ = step(text, action, method.task.template)
            optimal = text == target if done else Levenshtein.distance(after, target) < distance
            probability += np.exp(log_prob) * optimal
        expected.append(-np.log(probability))
    assert float(net(states).detach()) == pytest.approx(np.mean(expected), rel=1e-3)


def test_options_of_the_pointer_are_refused_by_other_programmers() -> None:
    for option in ({"plan_loss_weight": 0.5}, {"oracle": "dynamic"}):
        with pytest.raises(UserError, match="pointer"):
            make("seq2seq", option, "recurrence")


def test_the_dynamic_oracle_needs_edits_of_single_tokens() -> None:
    for task in ("aes", "sort"):
        with pytest.raises(UserError, match=task):
            make("pointer", {"oracle": "dynamic"}, "recurrence", task)


@every_task
@pytest.mark.parametrize("architecture", ["transformer", "lstm"])
def test_a_pointer_predicts_only_actions_that_fit(task: str, architecture: str) -> None:
    method, net = make("pointer", {"architecture": architecture}, "recurrence", task)
    rng = np.random.default_rng(0)
    for size in (0, 1, 2, 3, 50):  # also longer than any text of the task
        texts = Sequences(rng.integers(1, len(method.task.vocabulary), (64, size)), np.full(64, size))
        result = step_batch(texts, net.predict(texts).symbols, method.task.template)
        assert not result.skipped.any()


def test_a_pointer_needs_an_iterative_method() -> None:
    with pytest.raises(UserError, match="tagging"):
        make("pointer", {}, "tagging")


@every_programmer
@pytest.mark.parametrize("kind", KINDS, ids=["-".join(map(str, kind.values())) for kind in KINDS])
def test_the_prediction_for_an_empty_text_is_finite(name: str, kind: dict[str, object]) -> None:
    method, net = make(name, kind, "recurrence")
    empty = Sequences.from_rows([[], [method.task.vocabulary.ids(["2"])[0]]])
    for texts in (empty, empty.take([0])):
        assert np.isfinite(net.predict(texts).log_probs).all()


@every_programmer
def test_dropout_uses_the_generator_that_is_passed_in(name: str) -> None:
    method, net = make(name, {}, "recurrence")
    net.train()
    states = some_states(method, 8)
    losses = []
    for seed in (1, 1, 2):
        torch.manual_seed(len(losses))  # the global generator must not matter
        losses.append(loss_with(net, states, seed, torch.arange(8)))
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]
    halves = [loss_with(net, states, 1, torch.arange(first, 8, 2)) for first in (0, 1)]
    assert sum(halves) == pytest.approx(losses[0], rel=1e-5)


def loss_with(net: Programmer, states: States, seed: int, rows: torch.Tensor) -> float:
    rng = DropoutRng(torch.Generator().manual_seed(seed), rows, len(states))
    with dropout_rng(net, rng), torch.no_grad():
        return float(net(states, rng))


@every_case
def test_the_shapes_of_the_weights_are_known_before_they_are_allocated(
    name: str, kind: dict[str, object], method_name: str, tmp_path: Path
) -> None:
    method, net = make(name, kind, method_name)
    config = TrainingConfig.model_validate({"hidden_size": 16, "num_heads": 2, "num_layers": 1, **kind})
    write_tensors(tmp_path / "weights", weights_of(net), {})
    type(net).require_weights(tmp_path / "weights", method, config)
    larger = config.model_copy(update={"hidden_size": 4096, "num_layers": 24})  # 20 GB
    with pytest.raises(DataError, match="these weights do not belong to the network"):
        type(net).require_weights(tmp_path / "weights", method, larger)
