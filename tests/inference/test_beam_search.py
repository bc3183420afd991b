"""Beam search finds the most probable text, and with a verifier a valid one."""

import itertools

import numpy as np
import pytest
import torch

from stepedit.config import TrainingConfig
from stepedit.editing.actions import DONE, Operation, operation, position, token
from stepedit.editing.edits import trajectory
from stepedit.editing.interpreter import FloatArray, step
from stepedit.editing.sequences import BoolArray, IntArray, Sequences
from stepedit.errors import UserError
from stepedit.inference.beam_search import search
from stepedit.inference.decoding import Decoding
from stepedit.inference.predict import predict
from stepedit.programmers.pointer import WIDTH
from stepedit.registry import METHODS, PROGRAMMERS, TASKS
from stepedit.tasks.base import Task

Text = tuple[int, ...]
Action = tuple[int, ...]


class RandomPolicy:
    """A policy with known probabilities: a fixed random distribution over a few actions for each text."""

    def __init__(self, task: Task, num_actions: int) -> None:
        self.task, self.num_actions = task, num_actions
        self.batch_sizes = list[int]()

    def distribution(self, text: Text) -> list[tuple[Action, float]]:
        """Return actions and their log-probabilities, the most probable first."""
        rng = np.random.default_rng([len(text), *text])
        fields = len(self.task.template.fields)
        tokens = sorted(self.task.template.tokens)
        actions = {(DONE,) * fields}
        while len(actions) < self.num_actions:
            actions.add((position(int(rng.integers(0, len(text) + 1))), token(int(rng.choice(tokens)))))
        probabilities = rng.dirichlet(np.ones(self.num_actions))
        return _sorted(sorted(actions), probabilities)

    def top_k(self, texts: Sequences, k: int) -> tuple[IntArray, FloatArray]:
        self.batch_sizes.append(len(texts))
        missing = [((DONE, DONE), float("-inf"))] * k
        best = [(self.distribution(tuple(row)) + missing)[:k] for row in texts.rows()]
        actions = np.array([[action for action, _ in row] for row in best], np.int64)
        return actions, np.array([[log_prob for _, log_prob in row] for row in best])


class SwappingPolicy(RandomPolicy):
    """A policy that returns to earlier texts: it swaps neighbors, there and back again."""

    def distribution(self, text: Text) -> list[tuple[Action, float]]:
        rng = np.random.default_rng([len(text), *text])
        swap = operation(Operation.SWAP)
        actions = [(DONE, DONE), *((swap, position(index)) for index in range(len(text) - 1))]
        return _sorted(actions, rng.dirichlet(np.ones(len(actions))))


class EndlessPolicy(RandomPolicy):
    """A policy that never predicts DONE."""

    def distribution(self, text: Text) -> list[tuple[Action, float]]:
        return [pair for pair in super().distribution(text) if pair[0] != (DONE, DONE)]


def _sorted(actions: list[Action], probabilities: FloatArray) -> list[tuple[Action, float]]:
    return sorted(zip(actions, np.log(probabilities).tolist(), strict=True), key=lambda pair: -pair[1])


def all_results(policy: RandomPolicy, source: Text, max_steps: int) -> dict[Text, float]:
    """Return all texts that can be finished in so many steps, each with the log-probability of its best path."""
    active, finished = {source: 0.0}, dict[Text, float]()
    for _ in range(max_steps):
        following = dict[Text, float]()
        for text, score in active.items():
            for action, log_prob in policy.distribution(text):
                after, done, _ = step(text, action, policy.task.template)
                reached = finished if done else following
                reached[after] = max(reached.get(after, float("-inf")), score + log_prob)
        active = following
    return finished


def accept_nothing(sources: Sequences, predictions: Sequences) -> BoolArray:
    return np.zeros(len(predictions), np.bool_)


def test_a_wide_beam_finds_the_most_probable_result() -> None:
    task = TASKS["aor"](numbers=4, length=3)
    policy = RandomPolicy(task, num_actions=3)
    sources = task.vocabulary.encode(["2 3 4", "5 5 2", "4 2 2", "3 2 5"])
    outcomes = search(sources, policy.top_k, task.template, max_steps=4, beam_size=40, trace=True)
    for source, outcome in zip(sources.rows(), outcomes, strict=True):
        results = all_results(policy, tuple(source), 4)
        assert outcome.finished
        assert outcome.tokens == max(results, key=lambda text: results[text])
        assert len(outcome.trace) == outcome.steps
        done = dict(policy.distribution(outcome.tokens))[(DONE, DONE)]
        traced = np.prod([step.confidence for step in outcome.trace]) * np.exp(done)
        assert traced == pytest.approx(np.exp(results[outcome.tokens]), rel=1e-4)
        assert trajectory(source, [step.edit for step in outcome.trace])[-1] == outcome.tokens


def test_the_verifier_decides_and_accepted_sources_leave_the_batch() -> None:
    task = TASKS["aor"](numbers=4, length=3)
    policy = RandomPolicy(task, num_actions=4)
    sources = task.vocabulary.encode([" ".join(text) for text in itertools.product("2345", repeat=3)])
    lengths = {tuple(source): len(source) + 1 + index % 2 for index, source in enumerate(sources.rows())}

    def verifier(sources: Sequences, predictions: Sequences) -> BoolArray:
        return np.array([lengths[tuple(source)] for source in sources.rows()]) == predictions.lengths

    outcomes = search(sources, policy.top_k, task.template, max_steps=4, beam_size=50, verifier=verifier)
    assert [len(outcome.tokens) for outcome in outcomes] == list(lengths.values())
    assert policy.batch_sizes == sorted(policy.batch_sizes, reverse=True)
    assert policy.batch_sizes[-1] < policy.batch_sizes[0]


def test_a_text_that_returns_is_followed_once() -> None:
    task = TASKS["sort"](numbers=9, length=3)
    policy = SwappingPolicy(task, num_actions=3)
    sources = task.vocabulary.encode(["1 2 3", "3 3 1", "4 8 2", "5 6 7"])
    outcomes = search(sources, policy.top_k, task.template, max_steps=6, beam_size=30, trace=True)
    for source, outcome in zip(sources.rows(), outcomes, strict=True):
        results = all_results(policy, tuple(source), 6)
        assert outcome.tokens == max(results, key=lambda text: results[text])
    rejected = search(sources, policy.top_k, task.template, 50, 30, accept_nothing)
    assert len(policy.batch_sizes) < 20, "there are at most six orders of three integers"
    assert [outcome.tokens for outcome in rejected] == [outcome.tokens for outcome in outcomes]


def test_if_the_verifier_accepts_nothing_the_most_probable_result_is_taken() -> None:
    task = TASKS["aor"](numbers=4, length=3)
    policy = RandomPolicy(task, num_actions=3)
    sources = task.vocabulary.encode(["2 3 4"])
    rejected = search(sources, policy.top_k, task.template, 4, 40, verifier=accept_nothing)
    unverified = search(sources, policy.top_k, task.template, 4, 40)
    assert rejected[0].tokens == unverified[0].tokens


def test_if_nothing_is_finished_the_most_probable_state_is_taken() -> None:
    task = TASKS["aor"](numbers=4, length=3)
    sources = task.vocabulary.encode(["2 3 4"])
    policy = RandomPolicy(task, num_actions=3)
    (unedited,) = search(sources, policy.top_k, task.template, max_steps=0, beam_size=3)
    assert (unedited.tokens, unedited.stop_reason) == (tuple(sources.rows()[0]), "limit")
    endless = EndlessPolicy(task, num_actions=3)
    (outcome,) = search(sources, endless.top_k, task.template, max_steps=3, beam_size=2, trace=True)
    assert (len(outcome.tokens), outcome.stop_reason, outcome.steps, len(outcome.trace)) == (6, "limit", 3, 3)
    assert trajectory(sources.rows()[0], [step.edit for step in outcome.trace])[-1] == outcome.tokens


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", PROGRAMMERS)
def test_top_k_actions_are_distinct_and_sorted_and_start_with_the_prediction(name: str, task: str) -> None:
    method = METHODS["recurrence"](TASKS[task]())
    config = TrainingConfig.model_validate({"hidden_size": 16, "num_heads": 2})
    if name == "seq2seq" and method.task.template.copies:
        with pytest.raises(UserError, match="cannot copy"):
            PROGRAMMERS[name].from_config(method, config)
        return
    torch.manual_seed(1)
    net = PROGRAMMERS[name].from_config(method, config).eval()
    sources = method.task.generate(12, np.random.default_rng(0)).sources
    actions, log_probs = net.top_k(sources, 7)
    prediction = net.predict(sources)
    if name == "pointer":  # it predicts the most probable action as a whole, not field by field
        best, best_log_probs = net.top_k(sources, WIDTH)
        assert np.array_equal(prediction.symbols, best[:, 0])
        np.testing.assert_allclose(np.exp(prediction.log_probs), np.exp(best_log_probs[:, 0]), rtol=1.3e-6, atol=1e-5)
    assert (np.exp(log_probs[:, 0]) >= np.exp(prediction.log_probs) - 1e-5).all()
    assert (log_probs[:, 1:] <= log_probs[:, :-1]).all()
    for row, row_log_probs in zip(actions.tolist(), log_probs.tolist(), strict=True):
        possible = [tuple(action) for action, each in zip(row, row_log_probs, strict=True) if each > float("-inf")]
        assert len(set(possible)) == len(possible)
    assert (np.exp(log_probs).sum(1) <= 1 + 1e-4).all()


@pytest.mark.parametrize("task", TASKS)
def test_beam_search_works_for_every_task(task: str) -> None:
    method = METHODS["recurrence"](TASKS[task]())
    config = TrainingConfig.model_validate({"hidden_size": 16, "num_heads": 2})
    net = PROGRAMMERS["pointer"].from_config(method, config)
    sources = method.task.generate(9, np.random.default_rng(0)).sources
    decoding = Decoding(beam_size=3, verify=method.task.verifiable)
    outcomes = predict(net, method, sources.rows(), decoding, trace=True)
    assert len(outcomes) == 9
    for source, outcome in zip(sources.rows(), outcomes, strict=True):
        assert trajectory(source, [step.edit for step in outcome.trace])[-1] == outcome.tokens
