"""Reranking with a lexicon: near known words compete with unknown ones, scored by the programmer.

Word by word, from left to right, each near word replaces the unknown one; the most probable text is kept, or the
unknown word itself, if it is so much more probable that the lexicon must be missing it. The resulting text, and the
source as it is, then compete in the same way with what the search has found.

The score of a text is the log-probability of the expert's edits that lead to it, followed by DONE. The programmer is
overconfident, so each edit costs a little more, and frequent words of the lexicon are preferred.

Shapes: B sources, C candidates of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from stepedit.data.states import States, states_after
from stepedit.editing.edits import Edit, Scripts
from stepedit.editing.interpreter import AppliedAction, FloatArray, Outcome, describe
from stepedit.editing.sequences import BoolArray, Pairs, Sequences
from stepedit.tasks.base import Task
from stepedit.text import tokenization
from stepedit.text.lexicon import Lexicon
from stepedit.text.vocabulary import Vocabulary

UNKNOWN_COST = 8.0  # log-probability by which an unknown word must be more probable than a known one
EDIT_COST = 1.0  # log-probability by which a text must be more probable for each of its edits
FREQUENCY_WEIGHT = 0.8  # of a word's log-frequency
BATCH_SIZE = 512

LogProb = Callable[[States], FloatArray]
Allowed = Callable[[int, Sequence[Edit[int]]], bool]  # the index of a source and a script -> whether it may be applied


@dataclass(frozen=True)
class LexiconCandidates:
    """What a lexicon offers for texts encoded with a vocabulary."""

    lexicon: Lexicon
    vocabulary: Vocabulary

    def verify(self, sources: Sequences, predictions: Sequences) -> BoolArray:
        """Return (B,) whether all words of each prediction are known."""
        return np.array([self.lexicon.knows(self.vocabulary.text(row)) for row in predictions.rows()], np.bool_)

    def count_unknown(self, row: Sequence[int]) -> int:
        """Return the number of unknown words of a text."""
        return len(self.lexicon.unknown_spans(self.vocabulary.text(row)))

    def is_known_word(self, row: Sequence[int]) -> bool:
        """Whether a text is a single known word."""
        text = self.vocabulary.text(row)
        return len(tokenization.words(text)) == 1 and self.lexicon.knows(text)

    def log_frequency(self, row: Sequence[int]) -> float:
        """Return the summed log-frequency of the known words of a text."""
        words = tokenization.words(self.vocabulary.text(row))
        return sum(self.lexicon.log_frequency.get(word, 0.0) for word in words)

    def replacements(self, row: Sequence[int], remaining: int) -> list[list[int]]:
        """Return the text with near words in place of the unknown one that has `remaining` unknown ones after it."""
        text = self.vocabulary.text(row)
        spans = self.lexicon.unknown_spans(text)
        if len(spans) <= remaining or self._ids(text) != list(row):  # a window may start inside a text
            return []
        start, stop = spans[-1 - remaining]
        unknown = text[start:stop]
        words = (tokenization.written_like(unknown, word) for word in self.lexicon.near(*tokenization.words(unknown)))
        return [self._ids(text[:start] + word + text[stop:]) for word in words]

    def _ids(self, text: str) -> list[int]:
        return self.vocabulary.ids(self.vocabulary.split(text))


@dataclass(frozen=True)
class Reranker:
    """Chooses among texts for the same sources."""

    sources: Sequences
    candidates: LexiconCandidates
    log_prob: LogProb
    task: Task
    allowed: Allowed | None = None  # by what has to stay; None: everything is

    def best(self, rows: Sequence[Sequence[Sequence[int]]]) -> tuple[list[list[int]], list[float]]:
        """Return the best of the texts for each source, and its score."""
        source = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
        pairs = Pairs(self.sources.take(source), Sequences.from_rows([list(row) for each in rows for row in each]))
        scripts = self.task.edits(pairs.sources, pairs.targets)
        scores = np.full(len(pairs), -np.inf)
        possible = np.flatnonzero(self.task.expressible(pairs, scripts))
        scores[possible] = _trajectory_log_probs(self.log_prob, pairs.take(possible), scripts.take(possible))
        scores += [
            self.bonus(row, count) for row, count in zip(pairs.targets.rows(), scripts.counts.tolist(), strict=True)
        ]
        order = np.lexsort((-scores, source))
        first = order[np.diff(source[order], prepend=-1) > 0]
        return pairs.targets.take(first).rows(), scores[first].tolist()

    def replace_unknown(self) -> tuple[list[list[int]], list[float]]:
        """Return the sources with known words in place of unknown ones where that is better, and their scores."""
        texts = self.sources.rows()
        most = max((self.candidates.count_unknown(row) for row in texts), default=0)
        for remaining in reversed(range(most)):
            texts = self.best([[row, *self._replacements(index, row, remaining)] for index, row in enumerate(texts)])[0]
        return self.best([[source, row] for source, row in zip(self.sources.rows(), texts, strict=True)])

    def _replacements(self, index: int, row: Sequence[int], remaining: int) -> list[list[int]]:
        """Return the candidates of the lexicon that leave alone what has to stay."""
        found = self.candidates.replacements(row, remaining)
        if self.allowed is None or not found:
            return found
        scripts = self.task.edits(self.sources.take([index] * len(found)), Sequences.from_rows(found))
        return [text for at, text in enumerate(found) if self.allowed(index, scripts.row(at))]

    def bonus(self, row: Sequence[int], edits: int) -> float:
        """Return what is added to the log-probability of a text that takes so many edits."""
        frequency = FREQUENCY_WEIGHT * self.candidates.log_frequency(row)
        return frequency - EDIT_COST * edits - UNKNOWN_COST * self.candidates.count_unknown(row)


def rerank(
    sources: Sequences,
    found: Sequence[Outcome],
    candidates: LexiconCandidates,
    log_prob: LogProb,
    task: Task,
    trace: bool,
    allowed: Allowed | None = None,
) -> list[Outcome]:
    """Return what the search found for each source or, if that is better, a text with known words that is `allowed`.

    A source that is a single known word is kept.
    """
    if not len(sources):
        return []
    reranker = Reranker(sources, candidates, log_prob, task, allowed)
    texts, scores = reranker.replace_unknown()
    _, found_scores = reranker.best([[outcome.tokens] for outcome in found])
    outcomes, rows = list(found), sources.rows()
    for index, outcome in enumerate(found):
        if candidates.is_known_word(rows[index]):
            outcomes[index] = Outcome(tuple(rows[index]), 0, "done")
            continue
        searched = outcome.score + reranker.bonus(outcome.tokens, outcome.steps)
        if scores[index] > max(found_scores[index], searched):
            outcomes[index] = _as_outcome(log_prob, sources.take([index]), texts[index], task, trace)
    return outcomes


def _trajectory_log_probs(log_prob: LogProb, pairs: Pairs, scripts: Scripts) -> FloatArray:
    """Return (C,) the log-probability of each script, DONE included."""
    total = np.zeros(len(pairs))
    order = np.argsort(pairs.sources.lengths, kind="stable")
    for begin in range(0, len(order), BATCH_SIZE):
        rows = order[begin : begin + BATCH_SIZE]
        for count in range(int(scripts.counts[rows].max()) + 1):
            active = rows[scripts.counts[rows] >= count]
            total[active] += log_prob(
                states_after(pairs.take(active), scripts.take(active), np.full(len(active), count))
            )
    return total


def _as_outcome(log_prob: LogProb, source: Sequences, text: Sequence[int], task: Task, trace: bool) -> Outcome:
    """Return a text as if the programmer had predicted the edits that lead to it."""
    pair = Pairs(source, Sequences.from_rows([list(text)]))
    script = task.edits(pair.sources, pair.targets)
    count, steps = int(script.counts[0]), list[AppliedAction]()
    for applied in range(count if trace else 0):
        states = states_after(pair, script, np.array([applied]))
        action, confidence = states.actions(task.template)[0].tolist(), float(np.exp(log_prob(states)[0]))
        steps.append(describe(states.texts.rows()[0], action, task.template, confidence))
    return Outcome(tuple(text), count, "done", steps)
