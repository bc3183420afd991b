"""Edit many texts with a policy: long texts in segments, segments of similar length in one batch.

This is the one path from texts to outcomes: `Editor.edit` and `evaluate` both call `predict`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import exp

import numpy as np

from stepedit.editing.interpreter import Outcome, Prediction
from stepedit.editing.sequences import BoolArray, Sequences
from stepedit.inference import beam_search, greedy, protection
from stepedit.inference.decoding import Decoding, resolve
from stepedit.inference.joining import joined
from stepedit.inference.protected_policy import ProtectedPolicy
from stepedit.inference.reranking import LexiconCandidates, rerank
from stepedit.inference.several_edits import AUTO, PlannedEdits
from stepedit.methods.base import Method, Policy
from stepedit.tasks.base import Progress, Segment
from stepedit.text.keep import Keep
from stepedit.text.vocabulary import Vocabulary

BATCH_SIZE = 512
KEEP_BEAM = 8  # beam size of the search for a known word
MAX_SCORES = 1 << 26  # of a batch: one per token of the vocabulary and followed state


def predict(
    policy: Policy,
    method: Method,
    rows: Sequence[Sequence[int]],
    decoding: Decoding | None = None,
    trace: bool = False,
    vocabulary: Vocabulary | None = None,
    progress: Progress | None = None,
    keep: Keep | None = None,
) -> list[Outcome]:
    """Edit token sequences and return their outcomes in order.

    `vocabulary` names the ids, if the task's own vocabulary does not know all of them. Words of `keep` are not edited;
    another word becomes the first of them that a beam finds, if all edits together reach the confidence threshold.
    """
    vocabulary = vocabulary or method.task.vocabulary
    policy = policy.reading(vocabulary)
    decoding = resolve(decoding or Decoding(), method)
    segments = [method.task.segments(row, vocabulary) for row in rows]
    if keep is not None:
        segments = [[kept(part, keep, vocabulary) for part in parts] for parts in segments]
    if decoding.protects:
        marks = (protection.marked(row, decoding, vocabulary) for row in rows)
        segments = [protection.protect(*text) for text in zip(segments, marks, strict=True)]
    editable = [part for parts in segments for part in parts if part.editable]
    edited = iter(_predict_segments(policy, method, editable, decoding, trace, vocabulary, progress, keep))
    outcomes = [
        [next(edited) if part.editable else Outcome(tuple(part.tokens), 0, "done") for part in parts]
        for parts in segments
    ]
    if keep is not None and decoding.lexicon is None:  # which says itself what is known
        outcomes = [
            [_to_known(*each, keep, vocabulary, decoding.min_confidence or 0.0) for each in zip(*text, strict=True)]
            for text in zip(segments, outcomes, strict=True)
        ]
    results = [joined(*text, trace) for text in zip(segments, outcomes, strict=True)]
    return [_intact(*each, decoding, vocabulary) for each in zip(rows, results, strict=True)]


def _intact(row: Sequence[int], outcome: Outcome, decoding: Decoding, vocabulary: Vocabulary) -> Outcome:
    """Return an outcome without marks; the text as it was, if joining windows has changed what stays, which is rare."""
    if not decoding.protects:
        return outcome
    outcome = protection.plain_outcome(outcome)
    if protection.is_intact(vocabulary.text(row), vocabulary.text(outcome.tokens), decoding):
        return outcome
    return Outcome(tuple(row), 0, "done")


def kept(part: Segment, keep: Keep, vocabulary: Vocabulary) -> Segment:
    """Return a segment that is not edited if it is a word that stays; what is not in the list may be a name."""
    if not (part.is_word and part.editable):
        return part
    word = vocabulary.text(part.tokens)
    return part._replace(editable=not (part.is_name or word in keep or keep.is_foreign(word)))


def _to_known(part: Segment, outcome: Outcome, keep: Keep, vocabulary: Vocabulary, min_confidence: float) -> Outcome:
    """Return an outcome if it is made of known words and, as a whole, probable enough; else the word as it was."""
    if not part.is_word or list(outcome.tokens) == part.tokens:
        return outcome
    if not outcome.truncated and exp(outcome.score) < min_confidence:
        return Outcome(tuple(part.tokens), 0, "confidence")
    if keep.has_all(vocabulary.text(outcome.tokens)):
        return outcome
    return Outcome(tuple(part.tokens), 0, "confidence" if outcome.stop_reason == "confidence" else "done")


def _predict_segments(
    policy: Policy,
    method: Method,
    segments: Sequence[Segment],
    decoding: Decoding,
    trace: bool,
    vocabulary: Vocabulary,
    progress: Progress | None,
    keep: Keep | None,
) -> list[Outcome]:
    """Edit segments and return their outcomes in order; the steps of windows are needed to join them."""
    outcomes: list[Outcome | None] = [None] * len(segments)
    groups: dict[tuple[bool, bool, bool], list[int]] = {}
    for row, part in enumerate(segments):
        protected = decoding.protects and protection.is_protected(part)
        groups.setdefault((part.core is not None, part.is_word, protected), []).append(row)
    done = 0
    for (is_window, is_word, protected), rows in groups.items():
        sources = Sequences.from_rows([segments[row].tokens for row in rows])
        show = None if progress is None else partial(_shifted, progress, done, len(segments))
        known = keep if is_word else None
        refuses = protected or (method.iterative and bool(method.task.template.marks))
        here = ProtectedPolicy(policy, method.task.template, vocabulary) if refuses else policy
        found = _predict_batches(here, method, sources, decoding, trace or is_window, vocabulary, show, known)
        for row, outcome in zip(rows, found, strict=True):
            outcomes[row] = outcome
        done += len(rows)
    return [outcome for outcome in outcomes if outcome is not None]


def _shifted(progress: Progress, before: int, total: int, done: int, _: int) -> None:
    progress(before + done, total)


def _predict_batches(
    policy: Policy,
    method: Method,
    sources: Sequences,
    decoding: Decoding,
    trace: bool,
    vocabulary: Vocabulary,
    progress: Progress | None,
    keep: Keep | None,
) -> list[Outcome]:
    """Decode batch by batch, texts of similar length together."""
    order = np.argsort(sources.lengths, kind="stable")
    outcomes: list[Outcome | None] = [None] * len(sources)
    searched = keep is not None or (decoding.searches and isinstance(policy, ProtectedPolicy))
    size = batch_size(method, max(KEEP_BEAM, decoding.beam_size) if searched else decoding.beam_size)
    for begin in range(0, len(order), size):
        rows = order[begin : begin + size]
        batch = decode(policy, method, sources.take(rows), decoding, trace, vocabulary, keep)
        for row, outcome in zip(rows.tolist(), batch, strict=True):
            outcomes[row] = outcome
        if progress:
            progress(min(begin + size, len(order)), len(order))
    return [outcome for outcome in outcomes if outcome is not None]


def batch_size(method: Method, beam_size: int) -> int:
    """Return how many texts are decoded together, so that scores for all tokens fit into memory."""
    return max(1, min(BATCH_SIZE, MAX_SCORES // (beam_size**2 * len(method.task.vocabulary))))


def decode(
    policy: Policy,
    method: Method,
    sources: Sequences,
    decoding: Decoding,
    trace: bool,
    vocabulary: Vocabulary,
    keep: Keep | None = None,
) -> list[Outcome]:
    """Decode one batch: greedily, or by beam search; unknown words to known ones, if there is a list of them."""
    task, candidates, verifier = method.task, None, method.task.check if decoding.verify else None
    beam_size, min_confidence = decoding.beam_size, decoding.min_confidence or 0.0
    if decoding.lexicon is not None:
        candidates = LexiconCandidates(decoding.lexicon, vocabulary)
        verifier = partial(_all_known, candidates)
    elif keep is not None and method.iterative:
        beam_size, verifier = max(KEEP_BEAM, beam_size), partial(_are_known, keep, vocabulary)
    elif not decoding.searches:
        return greedy.run(sources, _next_action(policy, method, decoding), method, trace, min_confidence)
    found = beam_search.search(
        sources,
        policy.top_k,
        task.template,
        method.max_steps,
        beam_size,
        verifier,
        trace,
        min_confidence,
        0.0 if keep is None else min_confidence,
    )
    if candidates is None:
        return found
    if not isinstance(policy, ProtectedPolicy):
        return rerank(sources, found, candidates, policy.log_prob, task, trace)
    found, plain = [*map(protection.plain_outcome, found)], protection.plain(sources)
    return rerank(plain, found, candidates, policy.log_prob, task, trace, policy.allowed(sources))


def _next_action(policy: Policy, method: Method, decoding: Decoding) -> Callable[[Sequences], Prediction]:
    """Return what predicts the next action: the policy, or its plans where several edits are made from one look."""
    size = decoding.edits_per_step
    if size == 1 or (size == 0 and not (policy.plans and method.task.independent_edits)):
        return policy.predict
    planned = PlannedEdits(policy, method.task.template, size or AUTO, decoding.min_confidence or 0.0)
    return policy.checked(planned) if isinstance(policy, ProtectedPolicy) else planned


def _all_known(candidates: LexiconCandidates, sources: Sequences, predictions: Sequences) -> BoolArray:
    """Return (B,) whether all words of predictions, whose tokens may have marks, are in the lexicon."""
    return candidates.verify(sources, protection.plain(predictions))


def _are_known(keep: Keep, vocabulary: Vocabulary, sources: Sequences, predictions: Sequences) -> BoolArray:
    """Return (B,) whether predictions are known words."""
    return np.array([keep.has_all(vocabulary.text(row)) for row in predictions.rows()], np.bool_)
