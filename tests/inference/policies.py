"""Policies without a network, and a method for any template: what decoding is tested with.

greedy.run(sources, ScriptedPolicy([(INSERT, POSITION(0), TOKEN(1)), (DONE,) * 3]), recurrence(template))
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from stepedit.editing.actions import DONE, POSITION, Operation, Template, operation, token
from stepedit.editing.interpreter import Prediction
from stepedit.editing.sequences import Sequences
from stepedit.methods.recurrence import Recurrence
from stepedit.tasks.simple import SimpleTask
from stepedit.text.vocabulary import Vocabulary


class ScriptedPolicy:
    """Predict given actions in turn, the same one for every text; the last one is repeated."""

    def __init__(self, script: Sequence[tuple[int, ...]], probability: float = 1.0) -> None:
        self.script, self.probability = list(script), probability
        self.batch_sizes = list[int]()  # of each call

    def __call__(self, texts: Sequences) -> Prediction:
        """Return the next action (B, F) for all texts; the form that `greedy.run` takes."""
        action = self.script[min(len(self.batch_sizes), len(self.script) - 1)]
        self.batch_sizes.append(len(texts))
        symbols = np.tile(np.array(action, np.int64), (len(texts), 1))
        return Prediction(symbols, np.full(len(texts), np.log(self.probability)))


class TemplateTask(SimpleTask):
    """A task that consists of a template, over the token ids 1 .. 9."""

    name: ClassVar[str] = "template"
    tokens: ClassVar[tuple[str, ...]] = tuple("abcdefghi")
    max_length: ClassVar[int] = 12

    def __init__(self, template: Template) -> None:
        self._template = template

    @cached_property
    def template(self) -> Template:
        """The given template."""
        return self._template

    def sample_target(self, rng: np.random.Generator) -> Sequence[str]:
        """Return random tokens."""
        return rng.choice(self.tokens, self.max_length).tolist()

    def sample_source(self, target: Sequence[str], rng: np.random.Generator) -> Sequence[str]:
        """Return the target."""
        return target


def recurrence(template: Template) -> Recurrence:
    """Return the recurrence method for a template, over the token ids 1 .. 9."""
    return Recurrence(TemplateTask(template))


class SubstitutePolicy:
    """Substitute one token for another, from left to right, with the task's template (operation, position, token)."""

    num_parameters = 0

    def __init__(self, wrong: int, right: int) -> None:
        self.wrong, self.right = wrong, right

    def reading(self, vocabulary: Vocabulary) -> SubstitutePolicy:
        """Return itself: it needs no names."""
        return self

    def predict(self, texts: Sequences) -> Prediction:
        """Return the substitution of the first wrong token of each text, or DONE."""
        found = (texts.ids == self.wrong) & texts.mask()
        substitute = np.full((len(texts), 1), operation(Operation.SUBSTITUTE))
        first, right = found.argmax(1)[:, None] * 4 + POSITION, np.full((len(texts), 1), token(self.right))
        symbols = np.where(found.any(1)[:, None], np.concatenate([substitute, first, right], 1), DONE)
        return Prediction(symbols, np.full(len(texts), np.log(0.75)))
