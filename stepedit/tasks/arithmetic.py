"""Base classes of the arithmetic tasks: texts of integers and operators; true equations as targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from stepedit.arithmetic import equations
from stepedit.arithmetic.sampling import LARGEST_NUMBERS, sample
from stepedit.editing.sequences import Sequences
from stepedit.errors import DataError
from stepedit.tasks.base import Progress, Task
from stepedit.text.vocabulary import Vocabulary

Numbers = Annotated[int, Field(ge=1, le=LARGEST_NUMBERS)]
Length = Annotated[int, Field(ge=2, le=1000)]


@dataclass(frozen=True)
class ArithmeticTask(Task):
    """A task whose targets have `length` of the `numbers` smallest integers."""

    numbers: Numbers = 10
    length: Length = 5

    smallest: ClassVar[int] = equations.SMALLEST
    verifiable: ClassVar[bool] = True

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Operators, brackets, `==` and the integers."""
        return equations.vocabulary(self.smallest + self.numbers - 1)

    @property
    def target_tokens(self) -> tuple[int, ...]:
        """Operators, `==` and the integers."""
        integers = range(equations.ZERO + self.smallest, equations.ZERO + self.smallest + self.numbers)
        return (*equations.OPERATORS, equations.EQUALS, *integers)

    @cached_property
    def text_tokens(self) -> tuple[int, ...]:
        """The same as in targets."""
        return self.target_tokens

    @property
    def paper_max_actions(self) -> int | None:
        """As many as there are integers."""
        return self.length

    def features(self) -> npt.NDArray[np.float32]:
        """Return smooth and periodic features of each integer's value; zeros for other symbols."""
        largest = self.smallest + self.numbers - 1
        values = np.arange(largest + 1)
        periods = [period for period in (2, 5, 10, 20, 50, 100, 200) if period < 2 * largest] + [
            2 * largest,
            4 * largest,
        ]
        waves = [wave(2 * np.pi * values / period) for period in periods for wave in (np.sin, np.cos)]
        known = np.stack([values / largest, np.log1p(values) / np.log1p(largest), 1 / np.maximum(values, 1), *waves], 1)
        features = np.zeros((len(self.vocabulary), known.shape[1]), np.float32)
        features[equations.ZERO :] = known
        return features

    @classmethod
    def fitted(cls, sources: Sequence[str], targets: Sequence[str]) -> Self:
        """Return the task with N for the largest integer and L for the longest target."""
        tokens = {token for line in (*sources, *targets) for token in line.split()}
        integers = [int(token) for token in tokens if token.isdecimal() and token.isascii() and len(token) < 10]
        if not integers:
            raise DataError(f"these texts contain no integer, so they are not of task {cls.name!r}")
        longest = max(sum(token.isdecimal() for token in line.split()) for line in targets)
        return cls.from_args({"numbers": max(max(integers) - cls.smallest + 1, 1), "length": max(longest, 2)})


@dataclass(frozen=True)
class EquationTask(ArithmeticTask):
    """A task whose targets are true equations: all of them, or those that the paper's authors generate."""

    generation: Literal["exact", "authors"] = "exact"

    def generate_targets(self, size: int, rng: np.random.Generator, progress: Progress | None = None) -> Sequences:
        """Return true equations with distinct left sides."""
        return sample(size, self.numbers, self.length, rng, progress, authors=self.generation == "authors")
