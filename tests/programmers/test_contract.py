"""What every programmer owes: padding never leaks, what it says when asked is what it was taught to say."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from rapidfuzz.distance import Levenshtein

from stepedit.batches import States, sample_states
from stepedit.config import Options
from stepedit.errors import UserError
from stepedit.interpreter import step, step_batch
from stepedit.methods.method import Method
from stepedit.programmers.layers import Draw, randomness
from stepedit.programmers.programmer import Programmer
from stepedit.programmers.seq2seq import SeqToSeq
from stepedit.registry import METHODS, PROGRAMMERS, TASKS
from stepedit.sequences import Sequences

KINDS = [
    {"cell": "transformer"},
    {"cell": "transformer", "layers": 2, "value_features": False},
    {"cell": "rnn", "attention": "dot"},
    {"cell": "gru", "attention": "concat", "layers": 2},
    {"cell": "lstm", "attention": "general"},
    {"cell": "lstm", "attention": "none", "bidirectional": False},
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
    small = {"hidden": 16, "heads": 2, "layers": 1, "dropout": 0.5} | ({"others": 0.5} if name == "pointer" else {})
    options = Options.model_validate({**small, **kind})
    return method, PROGRAMMERS[name].for_method(method, options).eval()


def some_states(method: Method, size: int = 20) -> States:
    rng = np.random.default_rng(0)
    pairs = method.task.generate(size, rng)
    return sample_states(pairs, method.task.edits(pairs.sources, pairs.targets), np.arange(size), "online", rng)


@every_case
def test_a_rows_answer_does_not_depend_on_its_company(name: str, kind: dict[str, object], method_name: str) -> None:
    method, net = make(name, kind, method_name)
    states = some_states(method)
    together = net.write(states.ids, states.lengths)
    wide = replace(states, ids=torch.nn.functional.pad(states.ids, (0, 9)))
    torch.testing.assert_close(net(wide), net(states), atol=1e-5, rtol=1e-4)
    for row in range(20):
        one = states.take(np.array([row]))
        alone = net.write(one.ids, one.lengths)
        size = alone.symbols.shape[1]
        assert torch.equal(alone.symbols[0], together.symbols[row, :size])
        torch.testing.assert_close(alone.confidence[0], together.confidence[row], atol=1e-5, rtol=1e-4)


@every_case
def test_the_parts_of_a_batch_add_up_to_its_loss(name: str, kind: dict[str, object], method_name: str) -> None:
    method, net = make(name, kind, method_name)
    states = some_states(method)
    parts = [Draw(torch.Generator(), torch.arange(first, 20, 2), 20) for first in (0, 1)]
    torch.testing.assert_close(sum(net(states, part) for part in parts), net(states), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("method_name", METHODS)
@pytest.mark.parametrize("kind", KINDS, ids=["-".join(map(str, kind.values())) for kind in KINDS])
def test_writing_goes_step_by_step_through_what_teaching_sees_at_once(
    kind: dict[str, object], method_name: str
) -> None:
    method, net = make("seq2seq", kind, method_name)
    assert isinstance(net, SeqToSeq)
    method.meaning = lambda symbols: symbols  # type: ignore[method-assign]  # to see the outputs themselves
    sources = method.task.generate(20, np.random.default_rng(0)).sources
    ids, lengths = torch.from_numpy(sources.ids), torch.from_numpy(sources.lengths)
    said = net.write(ids, lengths)
    with torch.inference_mode():
        probabilities = net.teach(ids, lengths, said.symbols).softmax(2)
        stepwise = net.teach(ids, lengths, said.symbols, forcing=0.0).softmax(2)
    inside = said.symbols != 0
    best, symbols = probabilities.max(2)
    assert torch.equal(symbols[inside], said.symbols[inside])
    torch.testing.assert_close(stepwise[inside], probabilities[inside], atol=1e-5, rtol=1e-3)
    expected = torch.where(inside, best, 1.0).prod(1)
    torch.testing.assert_close(said.confidence, expected, atol=1e-5, rtol=1e-3)


@every_task
@pytest.mark.parametrize("cell", ["transformer", "gru"])
def test_a_pointers_confidence_is_what_its_loss_says(task: str, cell: str) -> None:
    """Where it says the expert's action, its confidence is exp(-loss)."""
    method, net = make("pointer", {"cell": cell, "others": 0.0, "rate": 0.01, "hidden": 32}, "recurrence", task)
    states = some_states(method, 6)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(150):  # until it says what the expert says
        optimiser.zero_grad()
        net(states).backward()
        optimiser.step()
    said, expected = net.write(states.ids, states.lengths), states.actions(method.task.template)
    assert torch.equal(said.symbols, expected)
    for row in range(len(states)):
        loss = net(states.take(np.array([row])))
        torch.testing.assert_close(said.confidence[row], torch.exp(-loss.detach()), atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize(
    ("programmer", "task"), [("pointer", "aec"), ("pointer", "aes"), ("pointer", "text"), ("seq2seq", "aec")]
)
def test_how_likely_an_action_is_can_be_asked(programmer: str, task: str) -> None:
    method, net = make(programmer, {"others": 0.0}, "recurrence", task)
    states = some_states(method, 8)
    symbols = len(method.task.template.fields) if programmer == "seq2seq" else 1  # the loss is a mean over these
    losses = [net(states.take(np.array([row]))) * symbols for row in range(len(states))]
    torch.testing.assert_close(net.says(states), -torch.stack(losses).detach(), atol=1e-4, rtol=1e-3)


def test_with_the_dynamic_oracle_any_edit_that_brings_nearer_is_right() -> None:
    """The loss is minus the log of all right actions' probability together: here, told by asking for every action."""
    method, net = make("pointer", {"oracle": "dynamic"}, "recurrence", "aec")
    states = some_states(method, 8)
    expected = []
    for row in range(8):
        one = states.take(np.array([row]))
        text, target = one.ids[0, : one.lengths[0]].tolist(), one.targets.rows()[0]
        actions, says = net.propose(one.ids, one.lengths, 2_000)
        least, chance = Levenshtein.distance(text, target), 0.0
        for action, say in zip(actions[0].tolist(), says[0].exp().tolist(), strict=True):
            after, done, _ = step(text, action, method.task.template)
            chance += say * (text == target if done else Levenshtein.distance(after, target) < least)
        expected.append(-np.log(chance))
    assert float(net(states).detach()) == pytest.approx(np.mean(expected), rel=1e-3)


def test_what_only_the_pointer_knows_is_refused_elsewhere() -> None:
    for option in ({"others": 0.5}, {"oracle": "dynamic"}):
        with pytest.raises(UserError, match="pointer"):
            make("seq2seq", option, "recurrence")


def test_the_dynamic_oracle_is_for_edits_of_single_tokens() -> None:
    for task in ("aes", "sort"):
        with pytest.raises(UserError, match=task):
            make("pointer", {"oracle": "dynamic"}, "recurrence", task)


@every_task
@pytest.mark.parametrize("cell", ["transformer", "lstm"])
def test_a_pointer_names_nothing_that_does_not_fit(task: str, cell: str) -> None:
    method, net = make("pointer", {"cell": cell}, "recurrence", task)
    rng = np.random.default_rng(0)
    for size in (0, 1, 2, 3, 50):  # also longer than any text of the task
        ids = torch.from_numpy(rng.integers(1, len(method.task.vocabulary), (64, size)))
        lengths = torch.full((64,), size)
        result = step_batch(ids, lengths, net.write(ids, lengths).symbols, method.task.template)
        assert not result.skipped.any()


def test_a_pointer_has_nothing_to_say_where_there_are_no_actions() -> None:
    with pytest.raises(UserError, match="tagging"):
        make("pointer", {}, "tagging")


@every_programmer
@pytest.mark.parametrize("kind", KINDS, ids=["-".join(map(str, kind.values())) for kind in KINDS])
def test_an_empty_text_is_no_trouble(name: str, kind: dict[str, object]) -> None:
    method, net = make(name, kind, "recurrence")
    empty = Sequences.from_rows([[], [method.task.vocabulary.ids(["2"])[0]]])
    for texts in (empty, empty.take([0])):
        said = net.write(torch.from_numpy(texts.ids), torch.from_numpy(texts.lengths))
        assert torch.isfinite(said.confidence).all()


@every_programmer
def test_dropout_draws_from_the_generator_it_is_given(name: str) -> None:
    method, net = make(name, {}, "recurrence")
    net.train()
    states = some_states(method, 8)
    answers = []
    for seed in (1, 1, 2):
        torch.manual_seed(len(answers))  # the global one must not matter
        answers.append(loss_with(net, states, seed, torch.arange(8)))
    assert answers[0] == answers[1]
    assert answers[0] != answers[2]
    halves = [loss_with(net, states, 1, torch.arange(first, 8, 2)) for first in (0, 1)]
    assert sum(halves) == pytest.approx(answers[0], rel=1e-5)


def loss_with(net: Programmer, states: States, seed: int, rows: torch.Tensor) -> float:
    draw = Draw(torch.Generator().manual_seed(seed), rows, len(states))
    with randomness(net, draw), torch.no_grad():
        return float(net(states, draw))
