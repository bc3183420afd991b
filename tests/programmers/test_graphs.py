"""Graphs predict what the networks predict: every architecture, attention, method and task, one by one and batched."""

from pathlib import Path

import numpy as np
import pytest
import torch

from stepedit.config import TrainingConfig
from stepedit.data.states import States, sample_states
from stepedit.editing.actions import DONE, Operation
from stepedit.editing.sequences import Sequences
from stepedit.errors import UserError
from stepedit.inference.onnx_runtime import load_policy
from stepedit.methods.base import Method, Policy
from stepedit.programmers.base import Programmer, weights_of
from stepedit.registry import METHODS, PROGRAMMERS, TASKS
from stepedit.tasks.base import Task

NUM_STATES = 1_000
KINDS = [
    {"architecture": "transformer"},
    {"architecture": "transformer", "num_layers": 3, "numeric_features": False},
    *(
        {"architecture": architecture, "attention": attention, "num_layers": layers, "bidirectional": both}
        for architecture, attention, layers, both in [
            ("rnn", "dot", 1, True),
            ("rnn", "none", 2, False),
            ("gru", "concat", 2, True),
            ("gru", "general", 1, False),
            ("lstm", "general", 2, True),
            ("lstm", "concat", 1, False),
            ("lstm", "none", 1, True),
            ("lstm", "dot", 1, True),
            ("lstm", "additive", 1, True),
            ("gru", "additive", 2, False),
        ]
    ),
]
CASES = [("seq2seq", kind, method, "aec") for kind in KINDS for method in METHODS]
CASES += [("seq2seq", KINDS[0], "tagging", "text"), ("seq2seq", KINDS[6], "recurrence", "aes")]
CASES += [("pointer", kind, "recurrence", "aec") for kind in KINDS]
CASES += [("pointer", kind, "recurrence", task) for kind in (KINDS[0], KINDS[6]) for task in TASKS if task != "aec"]
every_case = pytest.mark.parametrize(
    ("programmer", "kind", "method", "task"),
    CASES,
    ids=["-".join([name, *map(str, kind.values()), method, task]) for name, kind, method, task in CASES],
)


def make(
    folder: Path, programmer: str, kind: dict[str, object], method: str, task: str | Task, dtype: str = "float32"
) -> tuple[Method, Programmer, Policy]:
    """A network with weights that make decided predictions, and its graph."""
    made = METHODS[method](TASKS[task].from_args({}) if isinstance(task, str) else task)
    small = {"programmer": programmer, "hidden_size": 16, "num_heads": 2, "num_layers": 2}
    config = TrainingConfig.model_validate({**small, **kind})
    net = PROGRAMMERS[programmer].from_seed(1, made, config).eval()
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if "embedding" in name or "head" in name:
                parameter.mul_(3)
    weights = weights_of(net)
    if dtype == "float16":  # a graph in half precision has these weights exactly
        weights = {name: array.astype(np.float16).astype(np.float32) for name, array in weights.items()}
        net.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    (folder / "model.onnx").write_bytes(PROGRAMMERS[programmer].graph(made, config, weights, dtype))
    return made, net, load_policy(folder / "model.onnx", made, 1)


def mixed_states(method: Method, size: int = NUM_STATES) -> States:
    rng = np.random.default_rng(0)
    pairs = method.task.generate(200, rng)
    scripts = method.task.edits(pairs.sources, pairs.targets)
    states = sample_states(pairs, scripts, rng.integers(0, 200, size), "online", rng)
    assert len(np.unique(states.texts.lengths)) > 1 or method.task.name == "sort"
    return states


def agree(net: Policy, policy: Policy, texts: Sequences) -> None:
    expected, found = net.predict(texts), policy.predict(texts)
    confidence, other = np.exp(expected.log_probs), np.exp(found.log_probs)
    assert np.array_equal(expected.symbols, found.symbols)
    np.testing.assert_allclose(other, confidence, atol=1e-4)


@every_case
def test_a_graph_predicts_what_its_network_predicts(
    programmer: str, kind: dict[str, object], method: str, task: str, tmp_path: Path
) -> None:
    made, net, policy = make(tmp_path, programmer, kind, method, task)
    states = mixed_states(made)
    assert policy.num_parameters == net.num_parameters
    agree(net, policy, states.texts)
    for row in range(12):
        agree(net, policy, states.texts.take([row]))
    np.testing.assert_allclose(policy.log_prob(states), net.log_prob(states), atol=1e-3)
    empty = Sequences.from_rows([[], states.texts.rows()[0]])
    for texts in (empty, empty.take([0])):
        agree(net, policy, texts)


def text_with_runs_and_forms() -> tuple[Task, States]:
    words = ["cat", "dog", "mat", "tree", "house", "river"]
    sources = [f"the {a} no wait the {b} walk far on and on" for a in words for b in words]
    targets = [f"the {b} walked far away" for _ in words for b in words]
    task = TASKS["text"].for_data(sources, targets, {"level": "word"})
    sources = [source.replace("river", f"lake{index}") for index, source in enumerate(sources)]  # unknown words
    pairs = task.encode(sources, targets)
    rng = np.random.default_rng(0)
    return task, sample_states(pairs, task.edits(pairs.sources, pairs.targets), np.arange(len(pairs)), "online", rng)


@pytest.mark.parametrize("kind_of_policy", ["network", "graph"])
def test_in_any_order_the_most_probable_action_is_made_whatever_done_has(kind_of_policy: str, tmp_path: Path) -> None:
    """With the same weights it is that of a model for one order; only its confidence is another."""
    task, states = text_with_runs_and_forms()
    found = []
    for order in ("left-to-right", "any"):
        folder = tmp_path / order
        folder.mkdir()
        _, net, policy = make(folder, "pointer", {"edit_order": order, "plan_loss_weight": 0.0}, "recurrence", task)
        found.append((net if kind_of_policy == "network" else policy).predict(states.texts))
    ordered, free = found
    edits = (ordered.symbols != DONE).any(1)
    assert edits.sum() > 20
    assert np.array_equal(ordered.symbols[edits], free.symbols[edits])
    assert (free.log_probs[edits] > ordered.log_probs[edits]).all()


@pytest.mark.parametrize("method", ["tagging", "end2end"])
def test_a_graph_of_seq2seq_reads_the_characters_of_words_as_its_network(method: str, tmp_path: Path) -> None:
    task, states = text_with_runs_and_forms()
    _, net, policy = make(tmp_path, "seq2seq", KINDS[0], method, task)
    assert len(net.token_embedding.bucket_sizes) > 1  # type: ignore[union-attr, arg-type]
    agree(net, policy, states.texts)


@pytest.mark.parametrize("order", ["any", "left-to-right"])
def test_a_graph_names_runs_and_word_forms_as_its_network(order: str, tmp_path: Path) -> None:
    task, states = text_with_runs_and_forms()
    assert {Operation.REPLACE, Operation.TRANSFORM} <= set(task.template.operations)
    assert task.vocabulary.bucket_sizes[1:]
    assert (states.texts.ids >= len(task.vocabulary)).any()
    kind: dict[str, object] = {"edit_order": order, "plan_loss_weight": 1.0}
    _, net, policy = make(tmp_path, "pointer", kind, "recurrence", task)
    agree(net, policy, states.texts)
    for k in (4, 30):
        log_probs = net.top_k(states.texts, k)[1]
        found, other = policy.top_k(states.texts, k)
        np.testing.assert_allclose(np.exp(other), np.exp(log_probs), atol=1e-4)
        fields = dict(zip(task.template.fields, np.moveaxis(found, 2, 0), strict=True))
        possible = (found != DONE).any(2) & np.isfinite(other)
        assert (fields["first"] <= fields["last"])[possible].all()
        assert (fields["first"] < fields["last"])[possible].any()
    np.testing.assert_allclose(policy.log_prob(states), net.log_prob(states), atol=1e-3)
    opened = task.vocabulary.opened()
    texts = opened.encode(["the lake no wait the dog walk far", "a pond jump"])  # new words, with the forms of these
    agree(net.reading(opened), policy.reading(opened), texts)
    if order == "left-to-right":
        np.testing.assert_allclose(policy.plan(states.texts, 3)[1], net.plan(states.texts, 3)[1], atol=1e-3)


@pytest.mark.parametrize("k", [1, 3, 10, 40])
@pytest.mark.parametrize(
    ("programmer", "kind", "task"),
    [("pointer", KINDS[0], task) for task in TASKS] + [("pointer", KINDS[6], "aes"), ("seq2seq", KINDS[6], "aec")],
)
def test_a_graph_has_the_same_most_probable_actions(
    programmer: str, kind: dict[str, object], task: str, k: int, tmp_path: Path
) -> None:
    made, net, policy = make(tmp_path, programmer, kind, "recurrence", task)
    texts = mixed_states(made, 40).texts
    (actions, log_probs), (expected_actions, expected) = policy.top_k(texts, k), net.top_k(texts, k)
    assert actions.shape == expected_actions.shape == (40, k, len(made.task.template.fields))
    assert np.array_equal(np.isfinite(log_probs), np.isfinite(expected))
    np.testing.assert_allclose(np.exp(log_probs), np.exp(expected), atol=1e-4)
    shares = np.where(np.isfinite(expected), expected, -1e4 * np.arange(1, k + 1))
    apart = np.pad(-np.diff(shares, axis=1), ((0, 0), (1, 1)), constant_values=np.inf) > 1e-3
    clear = np.isfinite(expected) & apart[:, 1:] & apart[:, :-1]  # equally probable actions may come in any order
    assert np.array_equal(actions[clear], expected_actions[clear])


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize(
    ("kind", "task"), [*((KINDS[0], task) for task in TASKS), (KINDS[6], "aes"), (KINDS[3], "aec")]
)
def test_a_graph_makes_the_same_plans(kind: dict[str, object], task: str, size: int, tmp_path: Path) -> None:
    made, net, policy = make(tmp_path, "pointer", {**kind, "plan_loss_weight": 1.0}, "recurrence", task)
    texts = mixed_states(made, 60).texts
    (actions, log_probs), (expected_actions, expected) = policy.plan(texts, size), net.plan(texts, size)
    assert policy.plans
    assert net.plans
    assert actions.shape == expected_actions.shape
    possible = np.isfinite(expected)
    assert np.array_equal(np.isfinite(log_probs), possible)
    assert np.array_equal(actions[possible], expected_actions[possible])
    np.testing.assert_allclose(np.exp(log_probs), np.exp(expected), atol=1e-4)
    first = policy.predict(texts)  # a plan begins with the most probable action
    assert np.array_equal(actions[:, 0], first.symbols)
    np.testing.assert_allclose(log_probs[:, 0], first.log_probs, atol=1e-4)


@pytest.mark.parametrize(("programmer", "method"), [("pointer", "recurrence"), ("seq2seq", "end2end")])
def test_weights_are_stored_in_half_precision_and_computed_in_full(
    programmer: str, method: str, tmp_path: Path
) -> None:
    made, net, policy = make(tmp_path, programmer, {"hidden_size": 64}, method, "aor", "float16")
    half = (tmp_path / "model.onnx").stat().st_size
    agree(net, policy, mixed_states(made).texts)
    make(tmp_path, programmer, {"hidden_size": 64}, method, "aor", "float32")
    assert half < 0.7 * (tmp_path / "model.onnx").stat().st_size


def test_a_programmer_without_a_graph_says_so() -> None:
    method = METHODS["recurrence"](TASKS["aor"].from_args({}))
    with pytest.raises(UserError, match="has no graph"):
        Programmer.graph(method, TrainingConfig(programmer="other"), {}, "float32")


def test_a_weight_that_float16_does_not_hold_is_refused(tmp_path: Path) -> None:
    made, net, _ = make(tmp_path, "pointer", KINDS[0], "recurrence", "aor")
    config, weights = TrainingConfig(hidden_size=16, num_heads=2, num_layers=2), weights_of(net)
    name = next(name for name in weights if name.endswith(".bias"))
    weights[name] = np.full_like(weights[name], 1e6)
    assert PROGRAMMERS["pointer"].graph(made, config, weights, "float32")
    with pytest.raises(UserError, match=f"a weight of {name} is too large for float16; use --dtype float32"):
        PROGRAMMERS["pointer"].graph(made, config, weights, "float16")
