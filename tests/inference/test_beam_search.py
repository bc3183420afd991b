"""Search finds what is likeliest, and with a verifier what is right."""

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from stepedit.actions import DONE, Operation, operation, position
from stepedit.config import Options
from stepedit.errors import UserError
from stepedit.evaluation import Looking, predict
from stepedit.interpreter import step
from stepedit.programmers.pointer import WIDTH
from stepedit.registry import METHODS, PROGRAMMERS, TASKS
from stepedit.search import search
from stepedit.sequences import BoolArray, Sequences
from stepedit.tasks.task import Task


class Scripted:
    """A programmer whose probabilities are known: a fixed random distribution over a few actions for each text."""

    def __init__(self, task: Task, count: int) -> None:
        self.task, self.count = task, count
        self.asked = list[int]()

    def known(self, text: tuple[int, ...]) -> list[tuple[tuple[int, ...], float]]:
        rng = np.random.default_rng([len(text), *text])
        fields = len(self.task.template.fields)
        tokens = sorted(self.task.template.tokens)
        actions = {(DONE,) * fields}
        while len(actions) < self.count:
            actions.add((4 * int(rng.integers(0, len(text) + 1)) + 1, 4 * int(rng.choice(tokens))))
        chances = rng.dirichlet(np.ones(self.count))
        return sorted(zip(sorted(actions), np.log(chances).tolist(), strict=True), key=lambda pair: -pair[1])

    def propose(self, ids_BT: Tensor, lengths_B: Tensor, width: int) -> tuple[Tensor, Tensor]:
        self.asked.append(len(ids_BT))
        rows = [self.known(tuple(row[:size])) for row, size in zip(ids_BT.tolist(), lengths_B.tolist(), strict=True)]
        fill = [((DONE, DONE), float("-inf"))] * width
        best = [(row + fill)[:width] for row in rows]
        return torch.tensor([[a for a, _ in row] for row in best]), torch.tensor([[p for _, p in row] for row in best])


def every_way(programmer: Scripted, source: tuple[int, ...], turns: int) -> dict[tuple[int, ...], float]:
    """All texts that can be finished in so many turns, each with its likeliest way's log-probability."""
    reached, finished = {source: 0.0}, dict[tuple[int, ...], float]()
    for _ in range(turns):
        following = dict[tuple[int, ...], float]()
        for text, score in reached.items():
            for action, chance in programmer.known(text):
                after, done, _ = step(text, action, programmer.task.template)
                place = finished if done else following
                place[after] = max(place.get(after, float("-inf")), score + chance)
        reached = following
    return finished


def test_a_wide_beam_finds_the_likeliest_result() -> None:
    task = TASKS["aor"](numbers=4, length=3)
    programmer = Scripted(task, count=3)
    sources = task.vocabulary.encode(["2 3 4", "5 5 2", "4 2 2", "3 2 5"])
    outcomes = search(sources, programmer, task.template, limit=4, width=40, trace=True)
    for source, outcome in zip(sources.rows(), outcomes, strict=True):
        ways = every_way(programmer, tuple(source), 4)
        assert outcome.finished
        assert outcome.tokens == max(ways, key=lambda text: ways[text])
        assert len(outcome.trace) == outcome.steps
        done = dict(programmer.known(outcome.tokens))[(DONE, DONE)]
        told = np.prod([step.confidence for step in outcome.trace]) * np.exp(done)
        assert told == pytest.approx(np.exp(ways[outcome.tokens]), rel=1e-4)
        assert (outcome.trace[-1].state if outcome.trace else tuple(source)) == outcome.tokens


def test_the_verifier_decides_and_what_it_accepts_leaves_the_batch() -> None:
    task = TASKS["aor"](numbers=4, length=3)
    programmer = Scripted(task, count=4)
    sources = task.vocabulary.encode([" ".join(text) for text in itertools.product("2345", repeat=3)])
    wanted = {tuple(source): len(source) + 1 + index % 2 for index, source in enumerate(sources.rows())}

    def check(asked: Sequences, texts: Sequences) -> BoolArray:
        return np.array([wanted[tuple(source)] for source in asked.rows()]) == texts.lengths

    outcomes = search(sources, programmer, task.template, limit=4, width=50, check=check)
    assert [len(outcome.tokens) for outcome in outcomes] == list(wanted.values())
    assert programmer.asked == sorted(programmer.asked, reverse=True)
    assert programmer.asked[-1] < programmer.asked[0]


class Swapping(Scripted):
    """One whose texts come back: it swaps neighbours, there and back again."""

    def known(self, text: tuple[int, ...]) -> list[tuple[tuple[int, ...], float]]:
        rng = np.random.default_rng([len(text), *text])
        swap = operation(Operation.SWAP)
        actions = [(DONE, DONE), *((swap, position(place)) for place in range(len(text) - 1))]
        chances = rng.dirichlet(np.ones(len(actions)))
        return sorted(zip(actions, np.log(chances).tolist(), strict=True), key=lambda pair: -pair[1])


def test_texts_that_come_back_are_followed_once() -> None:
    task = TASKS["sort"](numbers=9, length=3)
    programmer = Swapping(task, count=3)
    sources = task.vocabulary.encode(["1 2 3", "3 3 1", "4 8 2", "5 6 7"])
    outcomes = search(sources, programmer, task.template, limit=6, width=30, trace=True)
    for source, outcome in zip(sources.rows(), outcomes, strict=True):
        ways = every_way(programmer, tuple(source), 6)
        assert outcome.tokens == max(ways, key=lambda text: ways[text])
    never = search(sources, programmer, task.template, 50, 30, lambda asked, texts: np.zeros(len(texts), np.bool_))
    assert len(programmer.asked) < 20, "there are at most six orders of three integers"
    assert [outcome.tokens for outcome in never] == [outcome.tokens for outcome in outcomes]


def test_nothing_accepted_leaves_the_likeliest_and_nothing_finished_what_there_is() -> None:
    task = TASKS["aor"](numbers=4, length=3)
    programmer = Scripted(task, count=3)
    sources = task.vocabulary.encode(["2 3 4"])
    never = search(sources, programmer, task.template, 4, 40, check=lambda asked, texts: np.zeros(len(texts), np.bool_))
    free = search(sources, programmer, task.template, 4, 40)
    assert never[0].tokens == free[0].tokens
    (none,) = search(sources, programmer, task.template, limit=0, width=3)
    assert (none.tokens, none.finished) == (tuple(sources.rows()[0]), False)

    class Endless(Scripted):
        def known(self, text: tuple[int, ...]) -> list[tuple[tuple[int, ...], float]]:
            return [pair for pair in super().known(text) if pair[0] != (DONE, DONE)]

    (endless,) = search(sources, Endless(task, count=3), task.template, limit=3, width=2, trace=True)
    assert (len(endless.tokens), endless.finished, endless.steps, len(endless.trace)) == (6, False, 3, 3)
    assert endless.trace[-1].state == endless.tokens


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", PROGRAMMERS)
def test_proposals_are_distinct_ordered_and_begin_with_what_is_written(name: str, task: str) -> None:
    method = METHODS["recurrence"](TASKS[task]())
    if name == "seq2seq" and method.task.template.copies:
        with pytest.raises(UserError, match="cannot copy"):
            PROGRAMMERS[name].for_method(method, Options())  # type: ignore[call-arg]
        return
    torch.manual_seed(1)
    net = PROGRAMMERS[name].for_method(method, Options.model_validate({"hidden": 16, "heads": 2})).eval()
    sources = method.task.generate(12, np.random.default_rng(0)).sources
    ids, lengths = torch.from_numpy(sources.ids), torch.from_numpy(sources.lengths)
    actions, says = net.propose(ids, lengths, 7)
    written = net.write(ids, lengths)
    if name == "pointer":  # the likeliest action as a whole is written, not the likeliest field after field
        actions_4, says_4 = net.propose(ids, lengths, WIDTH)
        assert torch.equal(written.symbols, actions_4[:, 0])
        torch.testing.assert_close(written.confidence, says_4[:, 0].exp())
    assert (says[:, 0].exp() >= written.confidence - 1e-5).all()
    assert (says.diff(dim=1) <= 0).all()
    for row, chances in zip(actions.tolist(), says.tolist(), strict=True):
        possible = [tuple(action) for action, chance in zip(row, chances, strict=True) if chance > float("-inf")]
        assert len(set(possible)) == len(possible)
    assert (says.exp().sum(1) <= 1 + 1e-4).all()


@pytest.mark.parametrize("task", TASKS)
def test_any_programmer_can_be_searched_with(task: str) -> None:
    method = METHODS["recurrence"](TASKS[task]())
    net = PROGRAMMERS["pointer"].for_method(method, Options.model_validate({"hidden": 16, "heads": 2}))
    sources = method.task.generate(9, np.random.default_rng(0)).sources
    outcomes = predict(net, method, sources.rows(), trace=True, looking=Looking(beam=3, verify=method.task.checks))
    assert len(outcomes) == 9
    for source, outcome in zip(sources.rows(), outcomes, strict=True):
        assert (outcome.trace[-1].state if outcome.trace else tuple(source)) == outcome.tokens
