"""Beam search finds the most probable text, and with a verifier a valid one."""

import itertools

import numpy as np
import pytest
import torch

from stepedit.config import TrainingConfig
from stepedit.editing.actions import DONE, Operation, operation, position, token
from stepedit.editing.edits import trajectory
from stepedit.editing.interpreter import FloatArray, Prediction, step
from stepedit.editing.sequences import BoolArray, IntArray, Sequences
from stepedit.errors import UserError
from stepedit.inference import greedy
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
    """Return all texts that can be finished, with the log-probability of all paths of one round."""
    active, seen, finished = {source: 0.0}, {source}, dict[Text, float]()
    for _ in range(max_steps):
        following = dict[Text, float]()
        for text, score in active.items():
            for action, log_prob in policy.distribution(text):
                after, done, _ = step(text, action, policy.task.template)
                if done or after not in seen:
                    reached = finished if done else following
                    reached[after] = float(np.logaddexp(reached.get(after, float("-inf")), score + log_prob))
        active = following
        seen |= set(following)
    return finished


def best_path(policy: RandomPolicy, source: Text, target: Text, max_steps: int) -> float:
    """Return the log-probability of the most probable path to a text, without DONE."""
    active = {source: 0.0}
    for _ in range(max_steps):
        if target in active:
            return active[target]
        following = dict[Text, float]()
        for text, score in active.items():
            for action, log_prob in policy.distribution(text):
                after, done, _ = step(text, action, policy.task.template)
                if not done:
                    following[after] = max(following.get(after, float("-inf")), score + log_prob)
        active = following
    return active[target]


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
        assert outcome.score == pytest.approx(results[outcome.tokens])
        traced = np.log([step.confidence for step in outcome.trace]).sum()
        assert traced == pytest.approx(best_path(policy, tuple(source), outcome.tokens, 4), rel=1e-4)
        assert trajectory(source, [step.edit for step in outcome.trace])[-1] == outcome.tokens


class TwoOrders(RandomPolicy):
    """From `2 3` one text is reached in two orders of its edits, by paths of 0.3 each, another by a path of 0.4."""

    def distribution(self, text: Text) -> list[tuple[Action, float]]:
        name = self.task.vocabulary.text(text)
        plus, times = (token(self.task.vocabulary.ids([sign])[0]) for sign in "+*")
        choices = {
            "2 3": [((position(1), times), 0.4), ((position(0), plus), 0.3), ((position(1), plus), 0.3)],
            "+ 2 3": [((position(2), plus), 1.0)],
            "2 + 3": [((position(0), plus), 1.0)],
            "2 * 3": [((position(0), times), 1.0)],
        }
        return [(action, float(np.log(share))) for action, share in choices.get(name, [((DONE, DONE), 1.0)])]


@pytest.mark.parametrize(("beam_size", "text", "probability"), [(1, "* 2 * 3", 0.4), (3, "+ 2 + 3", 0.6)])
def test_paths_that_meet_in_a_text_are_summed(beam_size: int, text: str, probability: float) -> None:
    task = TASKS["aor"](numbers=4, length=3)
    policy = TwoOrders(task, num_actions=3)
    sources = task.vocabulary.encode(["2 3"])
    (outcome,) = search(sources, policy.top_k, task.template, max_steps=4, beam_size=beam_size, trace=True)
    assert task.vocabulary.text(outcome.tokens) == text
    assert np.exp(outcome.score) == pytest.approx(probability)
    assert len(outcome.trace) == 2
    assert outcome.trace[0].confidence == pytest.approx(0.4 if beam_size == 1 else 0.3), "the path of the trace"


class EarlyEnd(TwoOrders):
    """As before, but the text of one path ends one round earlier, more probable than either of the other paths."""

    def distribution(self, text: Text) -> list[tuple[Action, float]]:
        if self.task.vocabulary.text(text) == "2 * 3":
            return [((DONE, DONE), 0.0)]
        return super().distribution(text)


class LastOfTopK(RandomPolicy):
    """A random policy as greedy decoding sees it."""

    def predict(self, texts: Sequences) -> Prediction:
        actions, log_probs = self.top_k(texts, 1)
        return Prediction(actions[:, 0], log_probs[:, 0])


@pytest.mark.parametrize("min_confidence", [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
def test_a_beam_of_one_is_greedy_decoding_with_the_same_threshold(min_confidence: float) -> None:
    task = TASKS["aor"](numbers=9, length=3)
    policy = LastOfTopK(task, num_actions=4)
    sources = task.vocabulary.encode([f"{a} {b} {c}" for a in range(2, 10) for b in range(2, 10) for c in range(2, 6)])
    greedily = greedy.run(sources, policy.predict, METHODS["recurrence"](task), True, min_confidence, max_steps=3)
    found = search(sources, policy.top_k, task.template, 3, 1, None, True, min_confidence)
    assert len({outcome.steps for outcome in found}) > 1 or min_confidence in (0.8, 1.0)
    for one, other in zip(greedily, found, strict=True):
        assert (one.tokens, one.steps, one.finished) == (other.tokens, other.steps, other.finished)
        assert [step.confidence for step in one.trace] == [step.confidence for step in other.trace]


@pytest.mark.parametrize("beam_size", [1, 2, 5, 20])
def test_no_beam_applies_an_edit_below_the_threshold(beam_size: int) -> None:
    task = TASKS["aor"](numbers=9, length=3)
    policy = RandomPolicy(task, num_actions=4)
    sources = task.vocabulary.encode([f"{a} {b} 2" for a in range(2, 10) for b in range(2, 10)])
    outcomes = search(sources, policy.top_k, task.template, 4, beam_size, None, True, min_confidence=0.3)
    steps = [step for outcome in outcomes for step in outcome.trace]
    assert steps
    assert min(step.confidence for step in steps) >= 0.3


def test_a_search_that_finds_nothing_probable_enough_ends_for_its_confidence() -> None:
    task = TASKS["aor"](numbers=4, length=3)
    policy = EarlyEnd(task, num_actions=3)  # one text of 0.4 is finished, another of 0.6 not yet

    def nothing(sources: Sequences, predictions: Sequences) -> BoolArray:
        return np.zeros(len(sources), np.bool_)

    for probability, reason in ((0.0, "done"), (0.5, "done"), (0.7, "confidence")):
        (outcome,) = search(
            task.vocabulary.encode(["2 3"]), policy.top_k, task.template, 4, 3, nothing, min_probability=probability
        )
        assert outcome.stop_reason == reason, probability


def test_the_probability_of_edits_below_the_threshold_is_that_of_stopping() -> None:
    task = TASKS["aor"](numbers=4, length=3)
    policy = TwoOrders(task, num_actions=3)  # from `2 3`: edits of 0.4, 0.3 and 0.3
    (outcome,) = search(task.vocabulary.encode(["2 3"]), policy.top_k, task.template, 4, 3, min_confidence=0.35)
    assert task.vocabulary.text(outcome.tokens) == "2 3"
    assert np.exp(outcome.score) == pytest.approx(0.6)


def test_the_search_goes_on_while_paths_may_still_meet() -> None:
    task = TASKS["aor"](numbers=4, length=3)
    policy = EarlyEnd(task, num_actions=3)
    sources = task.vocabulary.encode(["2 3"])
    (outcome,) = search(sources, policy.top_k, task.template, max_steps=4, beam_size=3)
    assert task.vocabulary.text(outcome.tokens) == "+ 2 + 3"


def test_the_verifier_decides_and_accepted_sources_leave_the_batch() -> None:
    task = TASKS["aor"](numbers=4, length=3)
    policy = RandomPolicy(task, num_actions=4)
    sources = task.vocabulary.encode([" ".join(text) for text in itertools.product("2345", repeat=3)])
    lengths = {tuple(source): len(source) + 1 + index % 2 for index, source in enumerate(sources.rows())}

    def verifier(sources: Sequences, predictions: Sequences) -> BoolArray:
        return np.array([lengths[tuple(source)] for source in sources.rows()]) == predictions.lengths

    outcomes = search(sources, policy.top_k, task.template, max_steps=4, beam_size=50, verifier=verifier)
    assert [len(outcome.tokens) for outcome in outcomes] == list(lengths.values())
    all_states = RandomPolicy(task, num_actions=4)
    search(sources, all_states.top_k, task.template, 4, 50, lambda _, texts: np.zeros(len(texts), np.bool_))
    assert policy.batch_sizes[:2] == all_states.batch_sizes[:2]
    assert policy.batch_sizes[2] < all_states.batch_sizes[2]
    assert len(policy.batch_sizes) == 3 < len(all_states.batch_sizes)


def test_only_states_that_can_be_followed_are_predicted_for() -> None:
    task = TASKS["aor"](numbers=4, length=3)
    policy = RandomPolicy(task, num_actions=4)
    sources = task.vocabulary.encode(["2 3 4", "5 4 3"])
    search(sources, policy.top_k, task.template, max_steps=2, beam_size=50)
    assert policy.batch_sizes[0] == 2, "at first there is one state of each source"
    assert policy.batch_sizes[1] <= 2 * 3, "and then one for each action other than DONE"


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
@pytest.mark.parametrize(("name", "order"), [*((name, "left-to-right") for name in PROGRAMMERS), ("pointer", "any")])
def test_top_k_actions_are_distinct_and_sorted_and_start_with_the_prediction(name: str, task: str, order: str) -> None:
    method = METHODS["recurrence"](TASKS[task]())
    config = TrainingConfig.model_validate({"programmer": name, "hidden_size": 16, "num_heads": 2, "edit_order": order})
    if name == "seq2seq" and method.task.template.copies:
        with pytest.raises(UserError, match="cannot copy"):
            PROGRAMMERS[name].from_config(method, config)
        return
    torch.manual_seed(1)
    net = PROGRAMMERS[name].from_config(method, config).eval()
    sources = method.task.generate(12, np.random.default_rng(0)).sources
    actions, log_probs = net.top_k(sources, 7)
    prediction = net.predict(sources)
    if name == "pointer" and order != "any":  # it predicts the most probable action as a whole, not field by field
        best, best_log_probs = net.top_k(sources, WIDTH)
        assert np.array_equal(prediction.symbols, best[:, 0])
        np.testing.assert_allclose(np.exp(prediction.log_probs), np.exp(best_log_probs[:, 0]), rtol=1.3e-6, atol=1e-5)
    if order != "any":  # there a confidence is that against DONE alone
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
