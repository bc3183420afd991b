"""What a list has to offer: words that are near those of a text which it does not know, judged by the programmer.

Word by word, from left to right, each that is near is put in the place of the unknown one; what the programmer finds
likeliest stays, or the unknown word itself, if it is so much likelier that the list must be missing it. The text that
comes of it, and the source as it is, then compete in the same way with what the search has found.

How likely a text is: the expert's edits that lead to it, and to be done then. The programmer is surer of that than it
should be, so that edits cost something besides, and, where the list says how common words are, that counts, too.

Shapes: B sources, C candidates of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from torch import Tensor

from stepedit.batches import States, states_after
from stepedit.edits import Scripts
from stepedit.interpreter import Outcome, Step, describe
from stepedit.metrics import Scores
from stepedit.sequences import Pairs, Sequences
from stepedit.tasks.task import Task

MARGIN = 8.0  # by how much (a logarithm, as the next two) an unknown word has to be likelier than one of the list
EFFORT = 1.0  # by how much the way to a text has to be likelier for each of its edits
COMMON = 0.8  # of the logarithm of how common a word is
BATCH = 512


class Judge(Protocol):
    """A programmer that can say how likely it finds an action."""

    def says(self, states: States) -> Tensor:
        """(B,) the log-probability of the action whose turn it is."""


class Suggester(Protocol):
    """A list of words, for texts in the ids of a vocabulary."""

    def unknown(self, row: Sequence[int]) -> int:
        """How many words of a text are not in the list."""

    def settled(self, row: Sequence[int]) -> bool:
        """Whether a text is nothing but one word of the list."""

    def common(self, row: Sequence[int]) -> float:
        """How common the words are that are in it: logarithms, added up."""

    def instead(self, row: Sequence[int], left: int) -> list[list[int]]:
        """A text with other words in the place of the unknown one that has so many unknown ones behind it."""


@dataclass(frozen=True)
class Chooser:
    """Chooses among texts for the same sources."""

    sources: Sequences
    suggest: Suggester
    judge: Judge
    task: Task

    def best(self, rows: Sequence[Sequence[Sequence[int]]]) -> tuple[list[list[int]], list[float]]:
        """Of the texts for each source the best, and how good it is."""
        of = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
        pairs = Pairs(self.sources.take(of), Sequences.from_rows([list(row) for each in rows for row in each]))
        scripts = self.task.edits(pairs.sources, pairs.targets)
        likely = np.full(len(pairs), -np.inf)
        can = np.flatnonzero(self.task.sayable(pairs, scripts))
        likely[can] = _likelihood(self.judge, pairs.take(can), scripts.take(can))
        good = likely + [
            _worth(self.suggest, row, count)
            for row, count in zip(pairs.targets.rows(), scripts.counts.tolist(), strict=True)
        ]
        order = np.lexsort((-good, of))
        first = order[np.diff(of[order], prepend=-1) > 0]
        return pairs.targets.take(first).rows(), good[first].tolist()

    def chosen(self) -> tuple[list[list[int]], list[float]]:
        """The sources with known words in the place of unknown ones."""
        texts = self.sources.rows()
        most = max((self.suggest.unknown(row) for row in texts), default=0)
        for left in reversed(range(most)):
            texts = self.best([[row, *self.suggest.instead(row, left)] for row in texts])[0]
        return self.best([[source, row] for source, row in zip(self.sources.rows(), texts, strict=True)])


def improved(
    sources: Sequences, found: Sequence[Outcome], suggest: Suggester, judge: Judge, task: Task, trace: bool
) -> list[Outcome]:
    """What was found for each source, or what was suggested, if that is better; a single word of the list stays."""
    if not len(sources):
        return []
    chooser = Chooser(sources, suggest, judge, task)
    texts, good = chooser.chosen()
    _, judged = chooser.best([[outcome.tokens] for outcome in found])
    made, rows = list(found), sources.rows()
    for index, outcome in enumerate(found):
        if suggest.settled(rows[index]):
            made[index] = Outcome(tuple(rows[index]), 0, True)
            continue
        searched = outcome.score + _worth(suggest, outcome.tokens, outcome.steps)
        if good[index] > max(judged[index], searched):
            made[index] = _walked(judge, sources.take([index]), texts[index], task, trace)
    return made


def _worth(suggest: Suggester, row: Sequence[int], edits: int) -> float:
    """What else counts for a text that takes so many edits, or against it."""
    return COMMON * suggest.common(row) - EFFORT * edits - MARGIN * suggest.unknown(row)


def _likelihood(judge: Judge, pairs: Pairs, scripts: Scripts) -> Scores:
    """(C,) log-probabilities of whole ways."""
    total = np.zeros(len(pairs))
    order = np.argsort(pairs.sources.lengths, kind="stable")
    for begin in range(0, len(order), BATCH):
        rows = order[begin : begin + BATCH]
        for taken in range(int(scripts.counts[rows].max()) + 1):
            going = rows[scripts.counts[rows] >= taken]
            states = states_after(pairs.take(going), scripts.take(going), np.full(len(going), taken))
            total[going] += judge.says(states).numpy()
    return total


def _walked(judge: Judge, source: Sequences, text: Sequence[int], task: Task, trace: bool) -> Outcome:
    """A way that was suggested, as if the programmer had gone it."""
    pair = Pairs(source, Sequences.from_rows([list(text)]))
    script = task.edits(pair.sources, pair.targets)
    count, steps = int(script.counts[0]), list[Step]()
    for taken in range(count if trace else 0):
        states = states_after(pair, script, np.array([taken]))
        action, sure = states.actions(task.template)[0].tolist(), float(judge.says(states)[0].exp())
        steps.append(describe(states.ids[0, : states.lengths[0]].tolist(), action, task.template, sure))
    return Outcome(tuple(text), count, True, steps)
