"""What every method owes for every task: what the expert would say, said, gives the target."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from stepedit.batches import sample_states, states_after
from stepedit.config import Mode
from stepedit.methods.method import Method, OneShot, Said
from stepedit.registry import METHODS, TASKS
from stepedit.sequences import Pairs, Sequences

every_task = pytest.mark.parametrize("task", TASKS)
every_method = pytest.mark.parametrize("name", METHODS)
SIZE = 60


def make(task: str, name: str, rng: np.random.Generator) -> tuple[Method, Pairs]:
    setting = TASKS[task]()
    return METHODS[name](setting), setting.generate(SIZE, rng)


def saying(method: Method, pairs: Pairs) -> Callable[[Tensor, Tensor], Said]:
    """A writer that knows the answers: it finds the pair a text is on the way of, by trying."""
    scripts = method.task.edits(pairs.sources, pairs.targets)
    answers: dict[tuple[int, ...], list[int]] = {}
    for taken in range(int(scripts.counts.max(initial=0)) + 1):
        states = states_after(pairs, scripts, np.minimum(taken, scripts.counts))
        outputs, lengths = method.render(states)
        texts = Sequences(states.ids.numpy(), states.lengths.numpy()).rows()
        for text, output, length in zip(texts, outputs.tolist(), lengths.tolist(), strict=True):
            answers.setdefault(tuple(text), output[:length])

    def write(ids: Tensor, lengths: Tensor) -> Said:
        rows = [answers[tuple(row[:length])] for row, length in zip(ids.tolist(), lengths.tolist(), strict=True)]
        return Said(method.meaning(torch.from_numpy(Sequences.from_rows(rows).ids)), torch.ones(len(rows)))

    return write


@every_task
@every_method
def test_the_expert_rendered_and_realised_gives_the_target(task: str, name: str, rng: np.random.Generator) -> None:
    method, pairs = make(task, name, rng)
    assert len(pairs.sources.distinct()) == SIZE, "two pairs share a source: choose another seed"
    outcomes = method.run(pairs.sources, saying(method, pairs), trace=True)
    assert all(outcome.finished for outcome in outcomes)
    assert [list(outcome.tokens) for outcome in outcomes] == pairs.targets.rows()


@every_task
@every_method
def test_outputs_fit_the_vocabulary_and_the_longest_length(task: str, name: str, rng: np.random.Generator) -> None:
    method, pairs = make(task, name, rng)
    scripts = method.task.edits(pairs.sources, pairs.targets)
    states = sample_states(pairs, scripts, rng.integers(0, SIZE, 200), "online", rng)
    outputs, lengths = method.render(states)
    assert int(outputs.max()) < len(method.outputs)
    assert int(lengths.max()) <= method.longest
    inside = torch.arange(outputs.shape[1]) < lengths[:, None]
    assert (outputs[inside] > 0).all()
    assert (outputs[~inside] == 0).all()
    if method.end is not None:
        assert (outputs.gather(1, lengths[:, None] - 1) == method.end).all()


@every_task
@pytest.mark.parametrize("name", [name for name in METHODS if issubclass(METHODS[name], OneShot)])
@pytest.mark.parametrize("mode", ["online", "augmented"])
def test_every_state_on_the_way_is_rendered_without_loss(
    task: str, name: str, mode: Mode, rng: np.random.Generator
) -> None:
    method, pairs = make(task, name, rng)
    assert isinstance(method, OneShot)
    scripts = method.task.edits(pairs.sources, pairs.targets)
    states = sample_states(pairs, scripts, rng.integers(0, SIZE, 300), mode, rng)
    ids, lengths = method.realise(states.ids, states.lengths, method.render(states)[0])
    assert Sequences(ids.numpy(), lengths.numpy()).rows() == states.targets.rows()


@every_task
@pytest.mark.parametrize("name", [name for name in METHODS if issubclass(METHODS[name], OneShot)])
def test_any_output_at_all_is_realised_somehow(task: str, name: str, rng: np.random.Generator) -> None:
    method, pairs = make(task, name, rng)
    assert isinstance(method, OneShot)
    nonsense = torch.from_numpy(rng.integers(0, len(method.outputs), (SIZE, 40)))
    texts, sizes = method.realise(
        torch.from_numpy(pairs.sources.ids), torch.from_numpy(pairs.sources.lengths), nonsense
    )
    assert int(texts.max()) < len(method.task.vocabulary)
    inside = torch.arange(texts.shape[1]) < sizes[:, None]
    assert (texts[inside] > 0).all()
    assert (texts[~inside] == 0).all()


def names(method: Method, source: str, target: str) -> str:
    pairs = method.task.encode([source], [target])
    scripts = method.task.edits(pairs.sources, pairs.targets)
    outputs, lengths = method.render(states_after(pairs, scripts, np.zeros(1, np.int64)))
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
def test_the_papers_printed_outputs(task: str, name: str, expected: str) -> None:
    assert names(METHODS[name](TASKS[task]()), *TASKS[task].example) == expected


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("<keep> <keep> <insert_+> <end>", "2 3 +"),  # behind the last token
        ("<insert_7> <insert_8> <delete> <end>", "7 8 3"),  # what no tag reaches is kept
        ("<delete> <delete> <delete> <insert_4> <end> <insert_5>", "4"),  # beyond the text, and beyond the end
        ("<end>", "2 3"),
    ],
)
def test_tags_are_realised_without_loss(tags: str, expected: str) -> None:
    method = METHODS["tagging"](TASKS["aec"]())
    assert isinstance(method, OneShot)
    source = method.task.vocabulary.encode(["2 3"])
    symbols = torch.from_numpy(method.outputs.encode([tags]).ids)
    ids, lengths = method.realise(torch.from_numpy(source.ids), torch.from_numpy(source.lengths), symbols)
    assert method.task.vocabulary.decode(Sequences(ids.numpy(), lengths.numpy())) == [expected]
