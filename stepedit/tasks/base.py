"""The contract of a task: where pairs come from, which edits lead from source to target, when a result is valid.

A task is a frozen dataclass; its fields are its arguments. What a task can leave out has a default here; the shortest
way to write one is `tasks.simple.SimpleTask`. `stepedit.testing.check_task` runs the contract tests on any task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from stepedit.config import explain
from stepedit.editing import alignment
from stepedit.editing.actions import Operation, Template
from stepedit.editing.edits import Scripts
from stepedit.editing.sequences import PAD, BoolArray, IntArray, Pairs, Sequences
from stepedit.errors import DataError, PairError, UserError
from stepedit.registry import did_you_mean
from stepedit.text.affix_rules import WordForms
from stepedit.text.error_model import ErrorModel
from stepedit.text.vocabulary import Vocabulary

Progress = Callable[[int, int], None]  # (done, total)


Restore = Callable[[Sequence[int]], list[int]]  # tokens as they are edited -> as they are written


class Segment(NamedTuple):
    """A part of a text that is edited on its own, or left alone."""

    tokens: list[int]  # as they are edited
    editable: bool = True
    core: slice | None = None  # of a window: the tokens whose edits count; the others are context
    is_word: bool = False
    is_name: bool = False  # a word that is written like a name, or joined to another by a hyphen
    restore: Restore | None = None  # if a text is written in another way than it is edited

    def written(self) -> list[int]:
        """Return the tokens of the text that the segment stands for; those of all segments are the text."""
        if self.restore is not None:
            return self.restore(self.tokens)
        return self.tokens if self.core is None else self.tokens[self.core]


class Task(ABC):
    """A task with given arguments."""

    name: ClassVar[str]
    title: ClassVar[str] = ""
    example: ClassVar[tuple[str, str] | None] = None  # a source and its target; None: a generated one
    metrics: ClassVar[tuple[str, ...]] = ("sequence", "token")
    objective: ClassVar[str] = "sequence"  # one of the metrics: chooses the checkpoint, leads scores and reports
    fitted_args: ClassVar[frozenset[str]] = frozenset()  # arguments that are learned from pairs, not set by people

    # capabilities
    resamples_sources: ClassVar[bool] = True  # a target has many sources: training draws new ones every epoch
    independent_edits: ClassVar[bool] = False  # an edit is right whatever the other edits are
    verifiable: ClassVar[bool] = False  # `check` can tell from the source whether a result is valid
    open_vocabulary: ClassVar[bool] = False  # any text can be encoded

    @classmethod
    def from_args(cls, args: Mapping[str, Any]) -> Self:
        """Return the task with these arguments; UserError names one that is unknown or out of range."""
        known = cls.arg_names()
        for name in args:
            if name not in known:
                raise UserError(f"task {cls.name}: {did_you_mean('argument', name, known)}")
        try:
            return TypeAdapter(cls).validate_python(dict(args))
        except ValidationError as error:
            raise UserError(f"task {cls.name}: {explain(error)}") from None

    @classmethod
    def arg_names(cls) -> list[str]:
        """Return the names of all arguments."""
        kind: Any = cls
        if not is_dataclass(kind):
            raise UserError(f"task {cls.name}: a task must be a dataclass; decorate it with @dataclass(frozen=True)")
        return [field.name for field in fields(kind)]

    @classmethod
    def user_arg_names(cls) -> list[str]:
        """Return the names of the arguments that people may set."""
        return [name for name in cls.arg_names() if name not in cls.fitted_args]

    @classmethod
    def fitted(cls, sources: Sequence[str], targets: Sequence[str]) -> Self:
        """Return the smallest setting of the task that contains these texts."""
        return cls.from_args({})

    @classmethod
    def for_data(cls, sources: Sequence[str], targets: Sequence[str], args: Mapping[str, Any]) -> Self:
        """Return the task for existing pairs: with these arguments or, without any, fitted to the pairs."""
        return cls.from_args(args) if args else cls.fitted(sources, targets)

    @classmethod
    def example_pair(cls) -> tuple[str, str]:
        """Return a source and its target to show to people."""
        if cls.example is not None:
            return cls.example
        task = cls.from_args({})
        pairs = task.generate(1, np.random.default_rng(0))
        source, target = (task.vocabulary.decode(side)[0] for side in (pairs.sources, pairs.targets))
        return source, target

    @cached_property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """Every token that a text of the task may contain."""

    @cached_property
    def template(self) -> Template:
        """The form of the task's actions; by default: insert, delete or substitute any single token."""
        return Template(
            fields=("operation", "position", "token"),
            operations=(Operation.INSERT, Operation.DELETE, Operation.SUBSTITUTE),
            tokens=frozenset(range(1, len(self.vocabulary))),
        )

    @property
    @abstractmethod
    def max_length(self) -> int:
        """The largest number of tokens of a text, intermediate states included."""

    @property
    def max_edits(self) -> int:
        """The largest number of edits that a source needs."""
        return self.max_length

    @property
    def paper_max_actions(self) -> int | None:
        """The paper's limit of actions for one text, if the task is one of the paper's."""
        return None

    @cached_property
    def text_tokens(self) -> tuple[int, ...]:
        """The ids that a text may hold, from source to target; by default all known ones."""
        return tuple(range(1, len(self.vocabulary)))

    @property
    def target_tokens(self) -> tuple[int, ...]:
        """The ids that a target may hold."""
        return self.text_tokens

    @property
    def num_positions(self) -> int:
        """The number of positions that an action may name, if edits are made from left to right."""
        return self.max_length + 1

    def features(self) -> npt.NDArray[np.float32] | None:
        """Return what is known about each token of the vocabulary (V, K), if anything, as input features."""
        return None

    @abstractmethod
    def generate_targets(self, size: int, rng: np.random.Generator, progress: Progress | None = None) -> Sequences:
        """Return `size` distinct targets; DataError says how many there are, if there are fewer."""

    @abstractmethod
    def resample(self, targets: Sequences, rng: np.random.Generator) -> Sequences:
        """Return a new source for each target (if not `resamples_sources`: the only one)."""

    def error_model(self, pairs: Pairs) -> ErrorModel | None:
        """Return the errors of pairs, to be made again in their targets; None if the task has none."""
        return None

    def draw_sources(self, size: int, rng: np.random.Generator) -> Sequences:
        """Return `size` sources without their targets; fewer if there are fewer targets."""
        while True:
            try:
                return self.resample(self.generate_targets(size, rng), rng)
            except DataError:
                if size <= 1:
                    raise
                size //= 2

    def edits(self, sources: Sequences, targets: Sequences) -> Scripts:
        """Return the expert's edits, left to right; PairError for the first pair that is not of this task.

        By default: a shortest script of single-token edits.
        """
        return require_expressible(alignment.scripts(sources, targets), self.template)

    def check(self, sources: Sequences, predictions: Sequences) -> BoolArray:
        """Return (B,) whether predictions are valid as far as the source can tell; all of them if not `verifiable`."""
        return np.ones(len(sources), np.bool_)

    def encode(self, sources: Sequence[str], targets: Sequence[str], whole: bool = False) -> Pairs:
        """Encode lines as pairs of ids; PairError for the first one with an unknown token.

        For training, a long pair may become several; `whole` keeps each pair whole where possible.
        """
        return Pairs(self.vocabulary.encode(sources), self.vocabulary.encode(targets))

    def generate(self, size: int, rng: np.random.Generator, progress: Progress | None = None) -> Pairs:
        """Return `size` pairs with distinct targets."""
        targets = self.generate_targets(size, rng, progress)
        return Pairs(self.resample(targets, rng), targets)

    # hooks of tasks with an open vocabulary

    def expressible(self, pairs: Pairs, scripts: Scripts) -> BoolArray:
        """Return (B,) whether actions can name all edits; a fixed vocabulary refuses other pairs in `edits`."""
        return np.ones(len(pairs), np.bool_)

    def expressible_without_forms(self, pairs: Pairs, scripts: Scripts) -> BoolArray | None:
        """Return (B,) the same for actions without affix rules; None if there are none."""
        return None

    def word_forms(self, vocabulary: Vocabulary) -> WordForms | None:
        """Return the affix rules that actions may name, for the ids of a vocabulary; None if there are none."""
        return None

    def unk_dropout(self, rng: np.random.Generator) -> IntArray | None:
        """Return ids (V,) for the tokens in an epoch, some of them ids of unknown tokens; None to keep all."""
        return None

    def segments(self, row: Sequence[int], vocabulary: Vocabulary) -> list[Segment]:
        """Return the parts in which a text is edited."""
        return [Segment(list(row))]


def require(fits: BoolArray, reason: str) -> None:
    """Raise PairError for the first pair that does not fit."""
    if not fits.all():
        raise PairError(int(np.argmin(fits)), reason)


def require_expressible(scripts: Scripts, template: Template) -> Scripts:
    """Return the scripts; PairError if an edit needs an operation or a token that no action of the template has."""
    known: BoolArray = np.isin(scripts.tokens, [PAD, *template.tokens]).all(2) | (scripts.widths == 2)
    require(np.asarray(known.all(1)), "an edit inserts a token that no action of this task can name")
    possible = np.isin(_operations(scripts), template.operations) | ~scripts.present
    require(np.asarray(possible.all(1)), "an edit needs an operation that this task does not have")
    return scripts


def _operations(scripts: Scripts) -> IntArray:
    """Return the operation (B, K) of each edit; a replacement may also replace a single token."""
    spans = scripts.stops - scripts.starts
    forms = [spans == 0, scripts.widths == 0, (spans == 2) & (scripts.widths == 2), spans == 1]
    names = (Operation.INSERT, Operation.DELETE, Operation.SWAP, Operation.SUBSTITUTE)
    return np.select(forms, [int(name) for name in names], int(Operation.REPLACE))
