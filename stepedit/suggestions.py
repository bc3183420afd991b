"""What a list has to offer: texts that are near a source, and the source itself, compete with what was found for it.

Each is judged by the same programmer: how likely it finds the expert's edits that lead there, and to be done then. An
accepted text goes before all others; of these the likeliest wins.

Shapes: B sources, C candidates of all of them, K edits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from torch import Tensor

from stepedit.batches import States, states_after
from stepedit.edits import Scripts
from stepedit.interpreter import Outcome, Step, describe
from stepedit.metrics import Scores
from stepedit.search import Checker
from stepedit.sequences import Pairs, Sequences
from stepedit.tasks.task import Task

LEAST = -12.0  # log-probability: what the programmer finds less likely is not offered at all
BATCH = 512


class Judge(Protocol):
    """A programmer that can say how likely it finds an action."""

    def says(self, states: States) -> Tensor:
        """(B,) the log-probability of the action whose turn it is."""


class Suggester(Protocol):
    """What might be meant by each of some sources."""

    def __call__(self, sources: Sequences) -> list[list[list[int]]]:
        """Texts for each, as rows of ids."""


def improved(
    sources: Sequences,
    outcomes: Sequence[Outcome],
    suggest: Suggester,
    check: Checker,
    judge: Judge,
    task: Task,
    trace: bool,
) -> list[Outcome]:
    """The outcomes, some of them replaced by something better that was suggested."""
    found = zip(outcomes, sources.rows(), suggest(sources), strict=True)
    rows = [[list(outcome.tokens), source, *offers] for outcome, source, offers in found]
    of = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
    own = np.diff(of, prepend=-1) > 0  # what was found already
    pairs = Pairs(sources.take(of), Sequences.from_rows([row for each in rows for row in each]))
    scripts = task.edits(pairs.sources, pairs.targets)
    likely = np.where(task.sayable(pairs, scripts), _likelihood(judge, pairs, scripts), -np.inf)
    accepted = check(pairs.sources, pairs.targets)
    usable = own | (accepted & (likely > LEAST))
    order = np.lexsort((-likely, ~accepted, ~usable, of))
    best = order[np.diff(of[order], prepend=-1) > 0]
    made = list(outcomes)
    for at in best[~own[best]].tolist():
        made[of[at]] = _walked(judge, pairs.take([at]), scripts.take(np.array([at])), task, trace)
    return made


def _likelihood(judge: Judge, pairs: Pairs, scripts: Scripts) -> Scores:
    """(C,) log-probabilities of whole ways."""
    total = np.zeros(len(pairs))
    order = np.argsort(pairs.sources.lengths, kind="stable")
    for begin in range(0, len(order), BATCH):
        rows = order[begin : begin + BATCH]
        for taken in range(int(scripts.counts[rows].max(initial=0)) + 1):
            going = rows[scripts.counts[rows] >= taken]
            states = states_after(pairs.take(going), scripts.take(going), np.full(len(going), taken))
            total[going] += judge.says(states).numpy()
    return total


def _walked(judge: Judge, pair: Pairs, script: Scripts, task: Task, trace: bool) -> Outcome:
    """One way that was suggested, as if the programmer had gone it."""
    count, steps = int(script.counts[0]), list[Step]()
    for taken in range(count if trace else 0):
        states = states_after(pair, script, np.array([taken]))
        action, sure = states.actions(task.template)[0].tolist(), float(judge.says(states)[0].exp())
        steps.append(describe(states.ids[0, : states.lengths[0]].tolist(), action, task.template, sure))
    return Outcome(tuple(pair.targets.rows()[0]), count, True, steps)
