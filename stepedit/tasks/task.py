"""The contract of a task: where pairs come from, which edits lead from source to target, when a result is right."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from stepedit.actions import Template
from stepedit.edits import Scripts
from stepedit.equation_sampling import Progress
from stepedit.errors import DataError, PairError, UserError
from stepedit.registry import did_you_mean
from stepedit.sequences import PAD, BoolArray, IntArray, Pairs, Sequences
from stepedit.vocabulary import Vocabulary


class Task(ABC):
    """A setting of a task. A task is a frozen dataclass: its fields are its options, their defaults the paper's."""

    name: ClassVar[str]
    title: ClassVar[str]
    example: ClassVar[tuple[str, str]]  # a source and its target
    redraws: ClassVar[bool] = True  # whether one target has many sources
    independent: ClassVar[bool] = False  # whether an edit is right whatever becomes of the others
    metrics: ClassVar[tuple[str, ...]]  # those that apply, the headline figure first
    stop_metric: ClassVar[str]  # what early stopping watches
    checks: ClassVar[bool] = True  # whether the source tells what is right
    learned: ClassVar[frozenset[str]] = frozenset()  # options that only pairs can tell, not people

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """The setting with these options; UserError names one that is unknown or out of range."""
        known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        for name in options:
            if name not in known:
                raise UserError(f"task {cls.name}: {did_you_mean('option', name, known)}")
        try:
            return TypeAdapter(cls).validate_python(dict(options))
        except ValidationError as error:
            first = error.errors()[0]
            place = first["loc"][-1] if first["loc"] else "options"
            raise UserError(f"task {cls.name}: {place}: {first['msg']}, not {first['input']!r}") from None

    @classmethod
    @abstractmethod
    def fitted(cls, sources: Sequence[str], targets: Sequence[str]) -> Self:
        """The smallest setting that these texts are of."""

    @classmethod
    def for_data(cls, sources: Sequence[str], targets: Sequence[str], options: Mapping[str, Any]) -> Self:
        """The setting for existing pairs: what is said of it, or the smallest that they are of."""
        return cls.from_options(options) if options else cls.fitted(sources, targets)

    @cached_property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """Every token a text of this setting may hold."""

    @cached_property
    @abstractmethod
    def template(self) -> Template:
        """The form of this task's actions."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """How many tokens a text has at the most, on its way too."""

    @property
    @abstractmethod
    def most_edits(self) -> int:
        """How many edits a source needs at the most."""

    def features(self) -> npt.NDArray[np.float32] | None:
        """(V, K) what is known about each token of the vocabulary, if anything; a programmer may be given it."""
        return None

    @abstractmethod
    def generate_targets(self, size: int, rng: np.random.Generator, progress: Progress | None = None) -> Sequences:
        """`size` distinct targets; DataError, with the number there is, if there are not so many."""

    @abstractmethod
    def resample(self, targets: Sequences, rng: np.random.Generator) -> Sequences:
        """A fresh source for each target (where `redraws` is false: the only one)."""

    def draw_sources(self, size: int, rng: np.random.Generator) -> Sequences:
        """`size` sources as they come, without their targets; fewer where there are not so many targets."""
        while True:
            try:
                return self.resample(self.generate_targets(size, rng), rng)
            except DataError:
                if size <= 1:
                    raise
                size //= 2

    @abstractmethod
    def edits(self, sources: Sequences, targets: Sequences) -> Scripts:
        """The expert's edits, left to right; PairError tells the first pair that is none of this task."""

    def sayable(self, pairs: Pairs, scripts: Scripts) -> BoolArray:
        """(B,) whether actions can say all edits; a task with a fixed set of tokens refuses pairs where they can't."""
        return np.ones(len(pairs), np.bool_)

    def blur(self, rng: np.random.Generator) -> IntArray | None:
        """(V,) ids for the tokens of an epoch, if they are not to be what they are."""
        return None

    def windows(self, row: Sequence[int], words: Vocabulary) -> list[list[int]]:
        """A text in the parts in which it is edited."""
        return [list(row)]

    def editable(self, part: Sequence[int], words: Vocabulary) -> bool:
        """Whether such a part is looked at at all."""
        return True

    def summary(self, pairs: Pairs, predictions: Sequences, chrf: bool = False) -> dict[str, dict[str, float]]:
        """What else there is to say of predictions, beside the same of sources left as they are."""
        return {}

    @abstractmethod
    def check(self, sources: Sequences, predictions: Sequences) -> BoolArray:
        """(B,) whether a prediction is right as far as the source alone can tell."""

    def encode(self, sources: Sequence[str], targets: Sequence[str], whole: bool = False) -> Pairs:
        """Lines of text as pairs of ids; PairError tells the first one with a token that is none of this task.

        To be learned from, a long pair may come in parts; where it can be, it stays whole if asked.
        """
        return Pairs(self.vocabulary.encode(sources), self.vocabulary.encode(targets))

    def generate(self, size: int, rng: np.random.Generator, progress: Progress | None = None) -> Pairs:
        """`size` pairs with distinct targets."""
        targets = self.generate_targets(size, rng, progress)
        return Pairs(self.resample(targets, rng), targets)


def require(fits: BoolArray, reason: str) -> None:
    """PairError for the first pair that does not fit."""
    if not fits.all():
        raise PairError(int(np.argmin(fits)), reason)


def require_sayable(scripts: Scripts, template: Template) -> Scripts:
    """The same scripts; PairError if one brings in a token that no action of the template can."""
    sayable = np.isin(scripts.tokens, [PAD, *template.tokens])
    require(np.all(sayable, axis=(1, 2)), "an edit brings in a token that no action of this task can name")
    return scripts
