"""The contract of a method, tested for every task: the expert's outputs, applied, give the target."""

import numpy as np
import pytest

from stepedit.config import Mode
from stepedit.data.states import sample_states, states_after
from stepedit.editing.interpreter import Prediction
from stepedit.editing.sequences import Pairs, Sequences
from stepedit.inference import greedy
from stepedit.inference.greedy import Predict
from stepedit.methods.base import Method, SinglePassMethod
from stepedit.registry import METHODS, TASKS

every_task = pytest.mark.parametrize("task", TASKS)
every_method = pytest.mark.parametrize("name", METHODS)
single_pass = pytest.mark.parametrize("name", [name for name in METHODS if not METHODS[name].iterative])
SIZE = 60


def make(task: str, name: str, rng: np.random.Generator) -> tuple[Method, Pairs]:
    instance = TASKS[task]()
    return METHODS[name](instance), instance.generate(SIZE, rng)


def expert(method: Method, pairs: Pairs) -> Predict:
    """Return a policy that looks up the expert's output for every state of every trajectory."""
    scripts = method.task.edits(pairs.sources, pairs.targets)
    answers: dict[tuple[int, ...], list[int]] = {}
    for count in range(int(scripts.counts.max(initial=0)) + 1):
        states = states_after(pairs, scripts, np.minimum(count, scripts.counts))
        outputs, lengths = method.targets(states)
        for text, output, length in zip(states.texts.rows(), outputs.tolist(), lengths.tolist(), strict=True):
            answers.setdefault(tuple(text), output[:length])

    def predict(texts: Sequences) -> Prediction:
        outputs = Sequences.from_rows([answers[tuple(row)] for row in texts.rows()])
        return Prediction(method.decode_outputs(outputs.ids), np.zeros(len(texts)))

    return predict


@every_task
@every_method
def test_the_experts_outputs_lead_to_the_target(task: str, name: str, rng: np.random.Generator) -> None:
    method, pairs = make(task, name, rng)
    assert len(pairs.sources.distinct()) == SIZE, "two pairs share a source: choose another seed"
    outcomes = greedy.run(pairs.sources, expert(method, pairs), method, trace=True)
    assert all(outcome.finished for outcome in outcomes)
    assert [list(outcome.tokens) for outcome in outcomes] == pairs.targets.rows()


@every_task
@every_method
def test_outputs_fit_the_output_vocabulary_and_the_maximum_length(
    task: str, name: str, rng: np.random.Generator
) -> None:
    method, pairs = make(task, name, rng)
    scripts = method.task.edits(pairs.sources, pairs.targets)
    states = sample_states(pairs, scripts, rng.integers(0, SIZE, 200), "online", rng)
    outputs, lengths = method.targets(states)
    assert int(outputs.max()) < len(method.outputs)
    assert int(lengths.max()) <= method.max_output_length
    inside = np.arange(outputs.shape[1]) < lengths[:, None]
    assert (outputs[inside] > 0).all()
    assert (outputs[~inside] == 0).all()
    if method.end is not None:
        assert (outputs[np.arange(len(outputs)), lengths - 1] == method.end).all()


@every_task
@single_pass
@pytest.mark.parametrize("mode", ["online", "augmented"])
def test_the_targets_of_every_training_state_are_lossless(
    task: str, name: str, mode: Mode, rng: np.random.Generator
) -> None:
    method, pairs = make(task, name, rng)
    assert isinstance(method, SinglePassMethod)
    scripts = method.task.edits(pairs.sources, pairs.targets)
    states = sample_states(pairs, scripts, rng.integers(0, SIZE, 300), mode, rng)
    assert method.rewrite(states.texts, method.targets(states)[0]).rows() == states.targets.rows()


@every_task
@single_pass
def test_random_outputs_give_a_well_formed_text(task: str, name: str, rng: np.random.Generator) -> None:
    method, pairs = make(task, name, rng)
    assert isinstance(method, SinglePassMethod)
    outputs = rng.integers(0, len(method.outputs), (SIZE, 40))
    texts = method.rewrite(pairs.sources, outputs)
    assert int(texts.ids.max()) < len(method.task.vocabulary)
    assert (texts.ids[texts.mask()] > 0).all()
    assert (texts.ids[~texts.mask()] == 0).all()


def first_output(method: Method, source: str, target: str) -> str:
    pairs = method.task.encode([source], [target])
    scripts = method.task.edits(pairs.sources, pairs.targets)
    outputs, lengths = method.targets(states_after(pairs, scripts, np.zeros(1, np.int64)))
    return method.outputs.text(outputs[0, : lengths[0]].tolist())


@pytest.mark.parametrize(
    ("task", "name", "expected"),
    [
        ("aor", "end2end", "- 8 * 2 / 8 + 4 == 2 <end>"),
        ("aor", "recurrence", "<pos_0> -"),
        ("aes", "recurrence", "<pos_9> <pos_13> 7"),
        ("aec", "recurrence", "<delete> <pos_5> <pos_5>"),
        ("sort", "recurrence", "<swap> <pos_1>"),
        (
            "aor",
            "tagging",
            "<insert_-> <keep> <insert_*> <keep> <insert_/> <keep> <insert_+> <keep> <insert_==> <keep> <end>",
        ),
        ("aes", "tagging", "<keep> " * 9 + "<sub_7> <delete> <delete> <delete> <delete> <end>"),
        ("aec", "tagging", "<keep> " * 5 + "<delete> <sub_-> <sub_8> <keep> <keep> <end>"),
    ],
)
def test_outputs_are_those_printed_in_the_paper(task: str, name: str, expected: str) -> None:
    assert first_output(METHODS[name](TASKS[task]()), *TASKS[task].example_pair()) == expected


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("<keep> <keep> <insert_+> <end>", "2 3 +"),  # after the last token
        ("<insert_7> <insert_8> <delete> <end>", "7 8 3"),  # tokens that no tag reaches are kept
        ("<delete> <delete> <delete> <insert_4> <end> <insert_5>", "4"),  # beyond the text, and beyond the end
        ("<end>", "2 3"),
    ],
)
def test_tags_are_applied_without_loss(tags: str, expected: str) -> None:
    method = METHODS["tagging"](TASKS["aec"]())
    assert isinstance(method, SinglePassMethod)
    source = method.task.vocabulary.encode(["2 3"])
    result = method.rewrite(source, method.outputs.encode([tags]).ids)
    assert method.task.vocabulary.decode(result) == [expected]
