"""A trained run, ready to edit: `Editor.load("runs/x").edit(["6 10 9 5 2 3"])`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path

from stepedit import checkpoints
from stepedit.actions import DONE
from stepedit.config import Run
from stepedit.errors import DataError, PairError
from stepedit.evaluation import Looking, predict
from stepedit.interpreter import Outcome, describe, tensors
from stepedit.methods.method import Method
from stepedit.methods.recurrence import Recurrence
from stepedit.programmers.programmer import Programmer
from stepedit.search import NEVER
from stepedit.sequences import Sequences
from stepedit.training import make_method, seed_weights


@dataclass(frozen=True)
class Edited:
    """What came of one text: the result, whether the programmer said it was done, and each step if asked for."""

    source: str
    text: str
    finished: bool
    outcome: Outcome
    verified: bool | None = None  # what the task's check says of it, if it was asked


@dataclass(frozen=True)
class Alternative:
    """An action that a programmer considered, and how likely it found it; `done` has no place."""

    operation: str
    position: int | None
    before: tuple[int, ...]
    after: tuple[int, ...]
    probability: float


@dataclass(frozen=True)
class Editor:
    """A programmer with its method."""

    run: Run
    method: Method
    programmer: Programmer

    @classmethod
    def load(cls, folder: str | Path) -> Editor:
        """The best weights of a run; DataError in one line if the folder is damaged, foreign or of another version."""
        place = checkpoints.find(folder)
        run = checkpoints.read_run(place)
        method = make_method(run)
        checkpoints.check_vocabulary(place, method.task.vocabulary.tokens, method.outputs.tokens)
        programmer = seed_weights(run, method)
        path = place / checkpoints.BEST
        checkpoints.load_weights(programmer, checkpoints.read_tensors(path)[0], path)
        return cls(run, method, programmer.eval())

    def edit(
        self, texts: Sequence[str], trace: bool = False, beam: int = 1, verify: bool = False, least: float = 0.0
    ) -> list[Edited]:
        """Each text edited, in order; DataError names the first (from 1) that is empty or holds an unknown token."""
        words, sources = self.method.task.vocabulary, self.encode(texts)
        outcomes = predict(self.programmer, self.method, sources, trace, looking=Looking(beam, verify, least))
        edited = [
            Edited(text, words.text(outcome.tokens), outcome.finished, outcome)
            for text, outcome in zip(texts, outcomes, strict=True)
        ]
        if not verify:
            return edited
        return [replace(one, verified=right) for one, right in zip(edited, self.holds(edited), strict=True)]

    def holds(self, edited: Sequence[Edited]) -> list[bool]:
        """What the task's check, which knows the source alone, says of each result."""
        results = Sequences.from_rows([one.outcome.tokens for one in edited])
        return self.method.task.check(self.encode([one.source for one in edited]), results).tolist()

    def encode(self, texts: Sequence[str]) -> Sequences:
        """Texts as ids; DataError names the first (from 1) that cannot be edited."""
        try:
            sources = self.method.task.vocabulary.encode(texts)
        except PairError as error:
            raise DataError(f"line {error.index + 1}: {error.reason}") from None
        empty = [index for index, length in enumerate(sources.lengths) if length == 0]
        if empty:
            raise DataError(f"line {empty[0] + 1}: the text is empty")
        return sources

    def alternatives(self, edited: Sequence[Edited], width: int = 3) -> list[list[list[Alternative]]]:
        """For each text and each of its states, the last one too, the likeliest actions; none for other methods."""
        if not isinstance(self.method, Recurrence):
            return [[] for _ in edited]
        sources = self.encode([one.source for one in edited]).rows()
        states = [
            [tuple(source), *(step.state for step in one.outcome.trace)]
            for source, one in zip(sources, edited, strict=True)
        ]
        rows = Sequences.from_rows([state for each in states for state in each])
        actions, says = self.programmer.propose(*tensors(rows), width)
        said = iter(
            [self._alternative(state, action, says) for action, says in zip(*pair, strict=True) if says > NEVER]
            for state, *pair in zip(rows.rows(), actions.tolist(), says.tolist(), strict=True)
        )
        return [[next(said) for _ in each] for each in states]

    def _alternative(self, state: Sequence[int], action: Sequence[int], says: float) -> Alternative:
        if all(part == DONE for part in action):
            return Alternative("done", None, (), (), exp(says))
        step = describe(state, action, self.method.task.template)
        return Alternative(step.operation, step.start, step.before, step.after, exp(says))
