"""Beam search over edited texts: follow several states per source and choose at the end.

In every round, each of K states is extended by its K most probable actions. Paths of the same number of edits that meet
in a text are merged: its probability is their sum, and the trace is that of the most probable path. So a text that can
be reached in several orders of edits is not underrated. States seen in an earlier round are not followed again, so a
longer way to a text, by edits that undo each other, does not count. With a verifier, the first
finished text that it accepts is taken; it sees the source, never the target.
Finished sources leave the batch.

With a confidence threshold, an edit below it is never applied. Its probability is added to that of stopping there, so a
beam of one is greedy decoding with the same threshold.

Shapes: B sources, R of them still searched, K states of each, L of all states that are followed (the others have a
score of -inf and no text), C candidates of each source, F fields of an action, T tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from stepedit.editing.actions import DONE, Template
from stepedit.editing.interpreter import AppliedAction, FloatArray, Outcome, StopReason, describe, step, step_batch
from stepedit.editing.sequences import BoolArray, IntArray, Sequences

NEG_INF = -np.inf


class TopK(Protocol):
    """Return the k most probable actions (B, K, F) of some states with their log-probabilities (B, K)."""

    def __call__(self, texts: Sequences, k: int) -> tuple[IntArray, FloatArray]:
        """Most probable first; -inf where there are fewer than k."""


class Verifier(Protocol):
    """Return (B,) whether predictions are valid, as far as their sources can tell."""

    def __call__(self, sources: Sequences, predictions: Sequences) -> BoolArray:
        """See `Task.check`."""


@dataclass
class Finished:
    """The best finished text of each source so far."""

    texts: list[tuple[int, ...]]
    scores: FloatArray  # (B,) log-probability; -inf if nothing is finished
    ends: IntArray  # (B, 2) the round it was finished in, and which of the K states it was
    accepted: BoolArray  # (B,)
    unsure: BoolArray  # (B,) it ended for edits that are not confident enough, but together more probable than DONE


class Round(NamedTuple):
    """The actions of one round."""

    rows: IntArray  # (R,)
    parents: IntArray  # (R, K) the state that each new state comes from
    actions: IntArray  # (R, K, F)
    confidence: FloatArray  # (R, K)


class BeamSearch:
    """The search for a batch of sources."""

    def __init__(
        self,
        sources: Sequences,
        template: Template,
        beam_size: int,
        verifier: Verifier | None,
        min_confidence: float = 0.0,
        min_probability: float = 0.0,
    ) -> None:
        self.sources, self.template, self.beam_size, self.verifier = sources, template, beam_size, verifier
        self.min_confidence, self.min_score = min_confidence, log(min_probability) if min_probability else NEG_INF
        size = len(sources)
        self.rows = np.arange(size)  # (R,) still searched
        self.texts = sources  # L, source by source
        self.scores = np.full((size, beam_size), NEG_INF)  # (R, K)
        self.scores[:, 0] = 0.0  # at first there is one state
        self.seen = sources.keys()[:, None]  # (R, S) keys of states seen before
        self.finished = Finished(
            [tuple(row) for row in sources.rows()],
            np.full(size, NEG_INF),
            np.zeros((size, 2), np.int64),
            np.zeros(size, np.bool_),
            np.zeros(size, np.bool_),
        )
        self.history = list[Round]()

    def extend(self, top_k: TopK) -> None:
        """Extend every state by one action."""
        actions_LKF, log_probs_LK = top_k(self.texts, self.beam_size)
        rows, k, followed_RK = len(self.rows), self.beam_size, self.scores > NEG_INF
        log_probs_RKK = np.full((rows, k, k), NEG_INF)
        log_probs_RKK[followed_RK] = log_probs_LK
        actions_RKKF = np.full((rows, k, k, actions_LKF.shape[2]), DONE)
        actions_RKKF[followed_RK] = actions_LKF
        confidence_RKK = np.exp(log_probs_RKK)
        done_RKK = (actions_RKKF == DONE).all(3)
        stops_RKK = done_RKK | (confidence_RKK < self.min_confidence)
        stop_RK = np.logaddexp.reduce(np.where(stops_RKK, log_probs_RKK, NEG_INF), axis=2)
        unsure_RK = 2 * np.where(done_RKK, confidence_RKK, 0).sum(2) < np.exp(stop_RK)
        self._finish(self.scores + stop_RK, unsure_RK)
        scores_RKK = self.scores[:, :, None] + np.where(stops_RKK, NEG_INF, log_probs_RKK)
        flat = (part.reshape(rows, k * k, *part.shape[3:]) for part in (actions_RKKF, scores_RKK, confidence_RKK))
        self._advance(*flat)
        self._drop()

    def _finish(self, scores_RK: FloatArray, unsure_RK: BoolArray) -> None:
        """Keep the best finished text of each source; an accepted one is better than all others."""
        row, slot = (scores_RK > NEG_INF).nonzero()
        if not len(row):
            return
        texts = self.texts.take(self._index()[row, slot])
        valid = np.zeros(len(row), np.bool_)
        if self.verifier is not None:
            valid = self.verifier(self.sources.take(self.rows[row]), texts)
        scores = scores_RK[row, slot]
        order = np.lexsort((-scores, ~valid, row))
        first = order[np.diff(row[order], prepend=-1) != 0]  # the best of each row
        sources = self.rows[row[first]]
        better = valid[first] | (scores[first] > self.finished.scores[sources])
        first, sources = first[better], sources[better]
        self.finished.scores[sources], self.finished.accepted[sources] = scores[first], valid[first]
        self.finished.unsure[sources] = unsure_RK[row, slot][first]
        self.finished.ends[sources] = np.stack([np.full_like(sources, len(self.history)), slot[first]], 1)
        for source, text in zip(sources.tolist(), texts.take(first).rows(), strict=True):
            self.finished.texts[source] = tuple(text)

    def _advance(self, actions_RCF: IntArray, scores_RC: FloatArray, confidence_RC: FloatArray) -> None:
        """Apply all actions and keep the most probable new states."""
        (rows, count), k = scores_RC.shape, self.beam_size
        row, column = (scores_RC > NEG_INF).nonzero()
        result = step_batch(self.texts.take(self._index()[row, column // k]), actions_RCF[row, column], self.template)
        keys_RC, skipped_RC = np.zeros((rows, count), np.uint64), np.ones((rows, count), np.bool_)
        keys_RC[row, column], skipped_RC[row, column] = result.texts.keys(), result.skipped
        old_RC = (keys_RC[:, :, None] == self.seen[:, None]).any(2)
        scores_RC = np.where(skipped_RC | old_RC, NEG_INF, scores_RC)
        order_RC = np.argsort(-scores_RC, axis=1, kind="stable")
        scores_RC, keys_RC = np.take_along_axis(scores_RC, order_RC, 1), np.take_along_axis(keys_RC, order_RC, 1)
        scores_RC = _merge(keys_RC, scores_RC)
        best_RK = np.argsort(-scores_RC, axis=1, kind="stable")[:, :k]
        chosen_RK = np.take_along_axis(order_RC, best_RK, 1)
        self.scores, keys_RK = np.take_along_axis(scores_RC, best_RK, 1), np.take_along_axis(keys_RC, best_RK, 1)
        followed_RK = self.scores > NEG_INF
        self.seen = np.concatenate([self.seen, np.where(followed_RK, keys_RK, self.seen[:, :1])], 1)
        at_RC = np.zeros((rows, count), np.int64)
        at_RC[row, column] = np.arange(len(row))
        self.texts = result.texts.take(np.take_along_axis(at_RC, chosen_RK, 1)[followed_RK])
        actions_RKF = np.take_along_axis(actions_RCF, chosen_RK[:, :, None], 1)
        confidence_RK = np.take_along_axis(confidence_RC, chosen_RK, 1)
        self.history.append(Round(self.rows, chosen_RK // k, actions_RKF, confidence_RK))

    def _index(self) -> IntArray:
        """Return (R, K) where the text of each state is; only of those that are followed."""
        followed_RK = self.scores > NEG_INF
        index: IntArray = (np.cumsum(followed_RK) - 1).reshape(followed_RK.shape)
        return index

    def _drop(self) -> None:
        """Remove sources that are accepted, have no state left or, without a verifier, cannot improve."""
        bound = np.logaddexp.reduce(self.scores, axis=1)  # of all states together, because paths may still meet
        improbable = ~self.finished.accepted[self.rows] & (bound > NEG_INF) & (bound < self.min_score)
        self.finished.unsure[self.rows[improbable]] |= self.finished.scores[self.rows[improbable]] < np.log(0.5)
        active = ~self.finished.accepted[self.rows] & (bound > NEG_INF) & ~improbable
        if self.verifier is None:
            active &= bound > self.finished.scores[self.rows]
        self.texts = self.texts.take(np.repeat(active, (self.scores > NEG_INF).sum(1)))
        self.rows, self.scores, self.seen = self.rows[active], self.scores[active], self.seen[active]

    def outcomes(self, trace: bool) -> list[Outcome]:
        """Return the outcome of each source; where nothing is finished, the most probable state."""
        best, results = self.scores.argmax(1) if len(self.rows) else [], list[Outcome]()
        for index, row in enumerate(self.rows.tolist()):
            if self.finished.scores[row] == NEG_INF:
                slot = int(best[index])
                self.finished.texts[row] = tuple(self.texts.take([self._index()[index, slot]]).rows()[0])
                self.finished.ends[row] = len(self.history), slot
        ends = zip(self.finished.scores.tolist(), self.finished.ends.tolist(), strict=True)
        for row, (score, (rounds, slot)) in enumerate(ends):
            steps = self._backtrace(row, rounds, slot) if trace else []
            reason: StopReason = "done" if score > NEG_INF else "limit"
            if self.finished.unsure[row]:
                reason = "confidence"
            results.append(Outcome(self.finished.texts[row], rounds, reason, steps, score))
        return results

    def _backtrace(self, row: int, rounds: int, slot: int) -> list[AppliedAction]:
        """Return the steps that led to a state."""
        actions = []
        for past in reversed(self.history[:rounds]):
            at = int(np.searchsorted(past.rows, row))
            actions.append((past.actions[at, slot].tolist(), float(past.confidence[at, slot])))
            slot = int(past.parents[at, slot])
        state, steps = tuple(self.sources.take([row]).rows()[0]), list[AppliedAction]()
        for action, confidence in reversed(actions):
            steps.append(describe(state, action, self.template, confidence))
            state = step(state, action, self.template)[0]
        return steps


def _merge(keys_RC: npt.NDArray[np.uint64], scores_RC: FloatArray) -> FloatArray:
    """Return scores, best first, in which the first state of each key has the sum of all with that key, others -inf."""
    first_RC = (keys_RC[:, :, None] == keys_RC[:, None]).argmax(2)
    best_RC = np.take_along_axis(scores_RC, first_RC, 1)
    shares_RC = np.exp(scores_RC - np.where(best_RC > NEG_INF, best_RC, 0.0))
    rows, count = scores_RC.shape
    at = np.arange(rows)[:, None] * count + first_RC
    sums_RC = np.bincount(at.ravel(), shares_RC.ravel(), rows * count).reshape(rows, count)
    alive = (first_RC == np.arange(count)) & (scores_RC > NEG_INF)
    return scores_RC + np.log(sums_RC, out=np.full(scores_RC.shape, NEG_INF), where=alive)


def search(
    sources: Sequences,
    top_k: TopK,
    template: Template,
    max_steps: int,
    beam_size: int,
    verifier: Verifier | None = None,
    trace: bool = False,
    min_confidence: float = 0.0,
    min_probability: float = 0.0,
) -> list[Outcome]:
    """Edit each source by beam search with at most `max_steps` actions, none of them below `min_confidence`.

    A search ends where no text of at least `min_probability` can be found any more.
    """
    state = BeamSearch(sources, template, beam_size, verifier, min_confidence, min_probability)
    for _ in range(max_steps):
        if not len(state.rows):
            break
        state.extend(top_k)
    return state.outcomes(trace)
