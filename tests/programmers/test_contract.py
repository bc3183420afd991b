"""What every programmer owes: padding never leaks, what it says when asked is what it was taught to say."""

import numpy as np
import pytest
import torch

from stepedit.batches import sample_states
from stepedit.config import Options
from stepedit.methods.method import Method
from stepedit.programmers.programmer import Programmer
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
every_kind = pytest.mark.parametrize("kind", KINDS, ids=["-".join(map(str, kind.values())) for kind in KINDS])
every_programmer = pytest.mark.parametrize("name", PROGRAMMERS)
every_method = pytest.mark.parametrize("method_name", METHODS)


def make(name: str, kind: dict[str, object], method_name: str) -> tuple[Method, Programmer]:
    method = METHODS[method_name](TASKS["aec"]())
    torch.manual_seed(0)
    options = Options.model_validate({"hidden": 16, "heads": 2, "layers": 1, "dropout": 0.5, **kind})
    return method, PROGRAMMERS[name].for_method(method, options).eval()


@every_programmer
@every_kind
@every_method
def test_a_rows_answer_does_not_depend_on_its_company(name: str, kind: dict[str, object], method_name: str) -> None:
    method, net = make(name, kind, method_name)
    rng = np.random.default_rng(0)
    pairs = method.task.generate(20, rng)
    states = sample_states(pairs, method.task.edits(pairs.sources, pairs.targets), np.arange(20), "online", rng)
    outputs, _ = method.render(states)
    together = net(states.ids, states.lengths, outputs)
    wide = torch.nn.functional.pad(states.ids, (0, 9))
    torch.testing.assert_close(net(wide, states.lengths, outputs), together, atol=1e-5, rtol=1e-4)
    for row in range(20):
        one = states.take(np.array([row]))
        alone = net(one.ids, one.lengths, outputs[row : row + 1])
        torch.testing.assert_close(alone, together[row : row + 1], atol=1e-5, rtol=1e-4)


@every_programmer
@every_kind
@every_method
def test_writing_goes_step_by_step_through_what_teaching_sees_at_once(
    name: str, kind: dict[str, object], method_name: str
) -> None:
    method, net = make(name, kind, method_name)
    sources = method.task.generate(20, np.random.default_rng(0)).sources
    ids, lengths = torch.from_numpy(sources.ids), torch.from_numpy(sources.lengths)
    said = net.write(ids, lengths, method.longest, method.end)
    with torch.inference_mode():
        probabilities = net(ids, lengths, said.symbols).softmax(2)
        stepwise = net(ids, lengths, said.symbols, forcing=0.0).softmax(2)
    inside = said.symbols != 0
    best, symbols = probabilities.max(2)
    assert torch.equal(symbols[inside], said.symbols[inside])
    torch.testing.assert_close(stepwise[inside], probabilities[inside], atol=1e-5, rtol=1e-3)
    expected = torch.where(inside, best, 1.0).prod(1)
    torch.testing.assert_close(said.confidence, expected, atol=1e-5, rtol=1e-3)


@every_programmer
@every_kind
def test_an_empty_text_is_no_trouble(name: str, kind: dict[str, object]) -> None:
    method, net = make(name, kind, "recurrence")
    empty = Sequences.from_rows([[], [method.task.vocabulary.ids(["2"])[0]]])
    for texts in (empty, empty.take([0])):
        said = net.write(torch.from_numpy(texts.ids), torch.from_numpy(texts.lengths), method.longest, method.end)
        assert torch.isfinite(said.confidence).all()


@every_programmer
def test_dropout_draws_from_the_generator_it_is_given(name: str) -> None:
    from stepedit.programmers.layers import Draw, randomness

    method, net = make(name, {}, "recurrence")
    net.train()
    pairs = method.task.generate(8, np.random.default_rng(0))
    ids, lengths = torch.from_numpy(pairs.sources.ids), torch.from_numpy(pairs.sources.lengths)
    outputs = torch.ones(8, 3, dtype=torch.long)
    answers = []
    for seed in (1, 1, 2):
        torch.manual_seed(len(answers))  # the global one must not matter
        with randomness(net, Draw(torch.Generator().manual_seed(seed), torch.arange(8), 8)):
            answers.append(net(ids, lengths, outputs))
    assert torch.equal(answers[0], answers[1])
    assert not torch.equal(answers[0], answers[2])
    half = torch.arange(1, 8, 2)
    with randomness(net, Draw(torch.Generator().manual_seed(1), half, 8)):
        torch.testing.assert_close(net(ids[half], lengths[half], outputs[half]), answers[0][half])
