"""The shortest way to write a task: one target and one source at a time, in tokens.

    @dataclass(frozen=True)
    class Dedupe(SimpleTask):
        name = "dedupe"
        tokens = tuple("abcdef")
        max_length = 12

        def sample_target(self, rng): ...   # a list of tokens
        def sample_source(self, target, rng): ...   # a noisy version of it

The expert's edits are a shortest script; `template` restricts the actions, if that is wanted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from stepedit.editing.sequences import Sequences
from stepedit.errors import DataError
from stepedit.tasks.base import Progress, Task
from stepedit.text.vocabulary import PAD_TOKEN, Vocabulary

MAX_MISSES = 1_000  # repeated targets in a row before giving up


class SimpleTask(Task):
    """A task over a fixed list of tokens, written one example at a time."""

    tokens: ClassVar[tuple[str, ...]]
    max_length: ClassVar[int]

    @abstractmethod
    def sample_target(self, rng: np.random.Generator) -> Sequence[str]:
        """Return a random target."""

    @abstractmethod
    def sample_source(self, target: Sequence[str], rng: np.random.Generator) -> Sequence[str]:
        """Return a random source of a target."""

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The tokens."""
        return Vocabulary((PAD_TOKEN, *self.tokens))

    def generate_targets(self, size: int, rng: np.random.Generator, progress: Progress | None = None) -> Sequences:
        """Sample targets until `size` are distinct."""
        found: dict[tuple[str, ...], None] = {}
        misses = 0
        while len(found) < size:
            target = tuple(self.sample_target(rng))
            misses = misses + 1 if target in found else 0
            if misses > MAX_MISSES:
                raise DataError(f"task {self.name}: only {len(found):,} distinct targets found, not {size:,}")
            found[target] = None
            if progress:
                progress(len(found), size)
        return Sequences.from_rows([self.vocabulary.ids(target) for target in found])

    def resample(self, targets: Sequences, rng: np.random.Generator) -> Sequences:
        """Sample a source for each target."""
        names = ([self.vocabulary.name(token) for token in row] for row in targets.rows())
        return Sequences.from_rows([self.vocabulary.ids(list(self.sample_source(row, rng))) for row in names])
