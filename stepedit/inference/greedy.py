"""Greedy decoding: predict, apply, read again; until DONE, a cycle or the step limit.

Shapes: B texts still being edited.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp

import numpy as np

from stepedit.editing.actions import DONE
from stepedit.editing.interpreter import AppliedAction, FloatArray, Outcome, Prediction, StepResult, StopReason
from stepedit.editing.sequences import BoolArray, IntArray, Sequences
from stepedit.methods.base import Method

Predict = Callable[[Sequences], Prediction]


def run(
    sources: Sequences,
    predict: Predict,
    method: Method,
    trace: bool = False,
    min_confidence: float = 0.0,
    max_steps: int | None = None,
) -> list[Outcome]:
    """Edit each source with the most probable predictions; finished rows leave the batch.

    A text that returns to an earlier state, or that an action does not fit, is stopped there: the same text gets the
    same prediction, so it would go round for ever. An edit below `min_confidence` is not applied; the text ends there.
    """
    limit = method.max_steps if max_steps is None else max_steps
    if len(sources) == 1:
        return [_run_one(sources.rows()[0], predict, method, trace, min_confidence, limit)]
    loop = _Loop(sources, method, trace)
    for steps in range(limit):
        if not len(loop.rows):
            break
        symbols, log_probs = predict(loop.texts)
        confidence = np.exp(log_probs)
        if min_confidence > 0:
            symbols, confidence = loop.drop_unsure(symbols, confidence, steps, min_confidence)
        loop.advance(symbols, confidence, steps)
    loop.close(np.ones(len(loop.rows), np.bool_), loop.texts, limit, "limit")
    return [outcome for outcome in loop.outcomes if outcome is not None]


def _run_one(
    source: list[int], predict: Predict, method: Method, trace: bool, min_confidence: float, limit: int
) -> Outcome:
    """Edit a single source: the same as a batch of one, without arrays around the predictions."""
    text, seen, steps = tuple(source), {tuple(source)}, list[AppliedAction]()
    for count in range(limit):
        symbols, log_probs = predict(Sequences(np.array([text], np.int64), np.array([len(text)])))
        confidence = exp(log_probs[0])
        action = symbols[0].tolist()
        if confidence < min_confidence and action != [DONE] * len(action):
            return Outcome(text, count, "confidence", steps)
        after, done = method.step(text, action)
        if trace and not (done and method.iterative):
            steps.append(method.describe(text, action, after, confidence))
        if done or not method.iterative:
            return Outcome(after, count + (not method.iterative), "done" if done else "limit", steps)
        if after in seen:
            return Outcome(after, count + 1, "cycle", steps)
        seen.add(after)
        text = after
    return Outcome(text, limit, "limit", steps)


class _Loop:
    """The texts of a batch that are still being edited."""

    def __init__(self, sources: Sequences, method: Method, trace: bool) -> None:
        self.method, self.trace = method, trace
        self.texts, self.rows = sources, np.arange(len(sources))
        self.seen = sources.keys()[:, None]  # (B, steps) keys of earlier states
        self.outcomes: list[Outcome | None] = [None] * len(sources)
        self.traces: list[list[AppliedAction]] = [[] for _ in range(len(sources))]

    def drop_unsure(
        self, symbols: IntArray, confidence: FloatArray, steps: int, min_confidence: float
    ) -> tuple[IntArray, FloatArray]:
        """Drop the texts whose next edit is below the minimum confidence; return the predictions for the others."""
        unsure = (confidence < min_confidence) & (symbols != DONE).any(1)
        self.close(unsure, self.texts, steps, "confidence")
        self._keep(~unsure, self.texts)
        return symbols[~unsure], confidence[~unsure]

    def advance(self, symbols: IntArray, confidence: FloatArray, steps: int) -> None:
        """Apply one prediction to each text and drop the texts that have ended."""
        result = self.method.apply(self.texts, symbols)
        if self.trace:
            self._record(symbols, confidence, result)
        if not self.method.iterative:
            self.close(result.done, result.texts, steps + 1, "done")
            self.close(~result.done, result.texts, steps + 1, "limit")
            self._keep(np.zeros(len(self.rows), np.bool_), result.texts)
            return
        self.close(result.done, self.texts, steps, "done")
        self._keep(~result.done, result.texts)
        keys = self.texts.keys()[:, None]
        cycles = (self.seen == keys).any(1)
        self.close(cycles, self.texts, steps + 1, "cycle")
        self.seen = np.concatenate([self.seen, keys], 1)
        self._keep(~cycles, self.texts)

    def close(self, ended: BoolArray, texts: Sequences, steps: int, stop_reason: StopReason) -> None:
        """Store the outcomes of the rows that have ended."""
        for row, tokens in zip(self.rows[ended].tolist(), texts.take(ended).rows(), strict=True):
            self.outcomes[row] = Outcome(tuple(tokens), steps, stop_reason, self.traces[row])

    def _keep(self, kept: BoolArray, texts: Sequences) -> None:
        self.rows, self.texts, self.seen = self.rows[kept], texts.take(kept), self.seen[kept]

    def _record(self, symbols: IntArray, confidence: FloatArray, result: StepResult) -> None:
        """Append one step to the trace of each text that is not done."""
        states = zip(self.texts.rows(), symbols.tolist(), result.texts.rows(), confidence.tolist(), strict=True)
        for row, done, state in zip(self.rows.tolist(), result.done.tolist(), states, strict=True):
            if not done or not self.method.iterative:
                self.traces[row].append(self.method.describe(*state))
