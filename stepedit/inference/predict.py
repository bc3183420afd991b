"""Edit many texts with a policy: long texts in segments, segments of similar length in one batch.

This is the one path from texts to outcomes: `Editor.edit` and `evaluate` both call `predict`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from stepedit.editing.interpreter import AppliedAction, Outcome, Prediction, StopReason
from stepedit.editing.sequences import Sequences
from stepedit.errors import UserError
from stepedit.inference import beam_search, greedy
from stepedit.inference.decoding import Decoding, resolve
from stepedit.inference.reranking import LexiconCandidates, rerank
from stepedit.inference.several_edits import AUTO, PlannedEdits
from stepedit.methods.base import Method, Policy
from stepedit.tasks.base import Progress
from stepedit.text.vocabulary import Vocabulary

BATCH_SIZE = 512
MAX_SCORES = 1 << 26  # of a batch: one per token of the vocabulary and followed state


def predict(
    policy: Policy,
    method: Method,
    rows: Sequence[Sequence[int]],
    decoding: Decoding | None = None,
    trace: bool = False,
    vocabulary: Vocabulary | None = None,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Edit token sequences and return their outcomes in order.

    `vocabulary` names the ids, if the task's own vocabulary does not know all of them.
    """
    vocabulary = vocabulary or method.task.vocabulary
    decoding = resolve(decoding or Decoding(), method)
    segments = [method.task.segments(row, vocabulary) for row in rows]
    editable = Sequences.from_rows([part.tokens for parts in segments for part in parts if part.editable])
    edited = iter(_predict_batches(policy, method, editable, decoding, trace, vocabulary, progress))
    outcomes = [
        [next(edited) if part.editable else Outcome(tuple(part.tokens), 0, "done") for part in parts]
        for parts in segments
    ]
    return list(map(_joined, outcomes))


def _predict_batches(
    policy: Policy,
    method: Method,
    sources: Sequences,
    decoding: Decoding,
    trace: bool,
    vocabulary: Vocabulary,
    progress: Progress | None,
) -> list[Outcome]:
    """Decode batch by batch, texts of similar length together."""
    order = np.argsort(sources.lengths, kind="stable")
    outcomes: list[Outcome | None] = [None] * len(sources)
    size = batch_size(method, decoding.beam_size)
    for begin in range(0, len(order), size):
        rows = order[begin : begin + size]
        batch = decode(policy, method, sources.take(rows), decoding, trace, vocabulary)
        for row, outcome in zip(rows.tolist(), batch, strict=True):
            outcomes[row] = outcome
        if progress:
            progress(min(begin + size, len(order)), len(order))
    return [outcome for outcome in outcomes if outcome is not None]


def batch_size(method: Method, beam_size: int) -> int:
    """Return how many texts are decoded together, so that scores for all tokens fit into memory."""
    return max(1, min(BATCH_SIZE, MAX_SCORES // (beam_size**2 * len(method.task.vocabulary))))


def decode(
    policy: Policy, method: Method, sources: Sequences, decoding: Decoding, trace: bool, vocabulary: Vocabulary
) -> list[Outcome]:
    """Decode one batch: greedily, or by beam search."""
    if not decoding.searches:
        threshold = decoding.min_confidence or 0.0
        return greedy.run(sources, _next_action(policy, method, decoding), method, trace, threshold)
    task, candidates, verifier = method.task, None, method.task.check if decoding.verify else None
    if decoding.lexicon is not None:
        candidates = LexiconCandidates(decoding.lexicon, vocabulary)
        verifier = candidates.verify
    found = beam_search.search(
        sources, policy.top_k, task.template, method.max_steps, decoding.beam_size, verifier, trace
    )
    return found if candidates is None else rerank(sources, found, candidates, policy.log_prob, task, trace)


def _next_action(policy: Policy, method: Method, decoding: Decoding) -> Callable[[Sequences], Prediction]:
    """Return what predicts the next action: the policy, or its plans where several edits are made from one look."""
    size = decoding.edits_per_step
    if size == 1 or (size == 0 and not (policy.plans and method.task.independent_edits)):
        return policy.predict
    if not policy.plans:
        raise UserError("edits_per_step needs a model that was trained to plan (--plan-loss-weight, left to right)")
    return PlannedEdits(policy, method.task.template, size or AUTO, decoding.min_confidence or 0.0)


def _joined(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcomes of a text's segments as one; each segment is edited when those before it are finished."""
    if len(outcomes) == 1:
        return outcomes[0]
    done, steps = list[int](), list[AppliedAction]()
    for outcome in outcomes:
        for step in outcome.trace:
            steps.append(step if step.start is None else replace(step, start=step.start + len(done)))
        done += outcome.tokens
    return Outcome(tuple(done), sum(one.steps for one in outcomes), _joined_reason(outcomes), steps)


def _joined_reason(outcomes: Sequence[Outcome]) -> StopReason:
    """Return why a text ended: the first segment that was truncated says it, or else the first that is not done."""
    reasons = [one.stop_reason for one in sorted(outcomes, key=lambda one: not one.truncated) if not one.finished]
    return reasons[0] if reasons else "done"
