"""Run a method on a split: predictions, and how right they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np
import torch
from torch import Tensor

from stepedit.actions import DONE
from stepedit.errors import UserError
from stepedit.interpreter import Outcome, Step
from stepedit.methods.method import Method, Said, Writer
from stepedit.methods.recurrence import Recurrence
from stepedit.metrics import METRICS, Scores
from stepedit.programmers.programmer import Programmer
from stepedit.search import Checker, search
from stepedit.sequences import IntArray, Pairs, Sequences
from stepedit.suggestions import Suggester, improved
from stepedit.vocabulary import Vocabulary

BATCH = 512
MOST_NUMBERS = 1 << 26  # that a batch may take for what could be said: every token, for every way that is followed
RESAMPLES = 1_000


@dataclass(frozen=True)
class Looking:
    """How far ahead is looked: the likeliest action only, or a beam; with the task's check, another one, or none.

    What the programmer is less sure of than `least`, it does not do: the text is done then.
    """

    beam: int = 1
    verify: bool = False
    least: float = 0.0
    check: Checker | None = None
    suggest: Suggester | None = None  # words to choose from, beside what is found

    def run(self, programmer: Programmer, method: Method, sources: Sequences, trace: bool) -> list[Outcome]:
        """Edit some sources; UserError if the method has no actions to look ahead with, or to be sure of."""
        if self == GREEDY:
            return method.run(sources, programmer.write, trace)
        if not isinstance(method, Recurrence):
            raise UserError(
                f"a beam, the check and a least confidence are for actions, which {method.name} has none of"
            )
        if self.least > 0:
            if self.beam > 1 or self.verify or self.check:
                raise UserError("a least confidence goes with the likeliest action only, not with a beam or the check")
            return method.run(sources, self._sure(programmer), trace)
        if self.verify and not method.task.checks:
            raise UserError(f"nothing but the pairs says what is right in {method.task.name}, so it can't be verified")
        if self.suggest is not None and method.task.checks:
            raise UserError(f"a list of words is for text, which {method.task.name} is not")
        check = self.check or (method.task.check if self.verify else None)
        found = search(sources, programmer, method.task.template, method.limit, self.beam, check, trace)
        if self.suggest is None:
            return found
        return improved(sources, found, self.suggest, programmer, method.task, trace)

    def _sure(self, programmer: Programmer) -> Writer:
        def write(ids_BT: Tensor, lengths_B: Tensor) -> Said:
            said = programmer.write(ids_BT, lengths_B)
            return said._replace(symbols=torch.where((said.confidence < self.least)[:, None], DONE, said.symbols))

        return write


GREEDY = Looking()


@dataclass(frozen=True)
class Evaluation:
    """What came of a split."""

    outcomes: list[Outcome]
    predictions: Sequences
    scores: dict[str, Scores]  # metric -> (B,)

    def means(self) -> dict[str, float]:
        """Each metric's mean."""
        return {name: float(scores.mean()) for name, scores in self.scores.items()}


def predict(
    programmer: Programmer,
    method: Method,
    sources: Sequence[Sequence[int]],
    trace: bool = False,
    progress: Callable[[int, int], None] | None = None,
    looking: Looking = GREEDY,
    words: Vocabulary | None = None,
) -> list[Outcome]:
    """Edit all sources, long ones in parts; outcomes come back in order.

    `words` knows the tokens, if the task's own vocabulary does not know all of them.
    """
    task, known = method.task, words or method.task.vocabulary
    parts = [task.windows(row, known) for row in sources]
    looked_at = [[task.editable(part, known) for part in each] for each in parts]
    cut = [part for each, which in zip(parts, looked_at, strict=True) for part in compress(each, which)]
    found = iter(_predict(programmer, method, Sequences.from_rows(cut), trace, progress, looking))
    outcomes = [
        [next(found) if yes else Outcome(tuple(part), 0, True) for part, yes in zip(each, which, strict=True)]
        for each, which in zip(parts, looked_at, strict=True)
    ]
    return list(map(_joined, parts, outcomes))


def _predict(
    programmer: Programmer,
    method: Method,
    sources: Sequences,
    trace: bool,
    progress: Callable[[int, int], None] | None,
    looking: Looking,
) -> list[Outcome]:
    """Batch by batch; texts of like length go together."""
    taught = programmer.training
    programmer.eval()
    order = np.argsort(sources.lengths, kind="stable")
    outcomes: list[Outcome | None] = [None] * len(sources)
    size = max(1, min(BATCH, MOST_NUMBERS // (looking.beam**2 * len(method.task.vocabulary))))
    for begin in range(0, len(order), size):
        rows = order[begin : begin + size]
        for row, outcome in zip(rows.tolist(), looking.run(programmer, method, sources.take(rows), trace), strict=True):
            outcomes[row] = outcome
        if progress:
            progress(min(begin + size, len(order)), len(order))
    programmer.train(taught)
    return [outcome for outcome in outcomes if outcome is not None]


def _joined(parts: Sequence[Sequence[int]], outcomes: Sequence[Outcome]) -> Outcome:
    """What came of the parts of a text, as one; each part is edited when those before it are done."""
    if len(outcomes) == 1:
        return outcomes[0]
    done, steps = list[int](), list[Step]()
    for index, outcome in enumerate(outcomes):
        if outcome.trace:
            behind = [token for part in parts[index + 1 :] for token in part]
            for step in outcome.trace:
                start = None if step.start is None else step.start + len(done)
                steps.append(replace(step, start=start, state=(*done, *step.state, *behind)))
        done += outcome.tokens
    return Outcome(tuple(done), sum(one.steps for one in outcomes), all(one.finished for one in outcomes), steps)


def evaluate(
    programmer: Programmer,
    method: Method,
    pairs: Pairs,
    progress: Callable[[int, int], None] | None = None,
    looking: Looking = GREEDY,
) -> Evaluation:
    """All metrics of the task on these pairs."""
    outcomes = predict(programmer, method, pairs.sources.rows(), progress=progress, looking=looking)
    predictions = Sequences.from_rows([outcome.tokens for outcome in outcomes])
    return Evaluation(outcomes, predictions, {name: METRICS[name](predictions, pairs) for name in method.task.metrics})


def interval(scores: Scores, rng: np.random.Generator, share: float = 0.95) -> tuple[float, float]:
    """A confidence interval of the mean, by bootstrap: rows drawn again and again."""
    means = np.array([scores[rng.integers(0, len(scores), len(scores))].mean() for _ in range(RESAMPLES)])
    low, high = np.quantile(means, [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)


def breakdown(scores: Scores, groups: IntArray) -> dict[int, tuple[int, float]]:
    """How many rows each group has, and their mean score."""
    return {
        int(group): (int((groups == group).sum()), float(scores[groups == group].mean())) for group in np.unique(groups)
    }
