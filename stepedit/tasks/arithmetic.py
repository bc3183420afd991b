"""What the arithmetic tasks share: texts of integers and operators, and true equations as targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field

from stepedit import equations
from stepedit.equation_sampling import LARGEST_NUMBERS, Progress, sample
from stepedit.errors import DataError
from stepedit.sequences import Sequences
from stepedit.tasks.task import Task
from stepedit.vocabulary import Vocabulary

Numbers = Annotated[int, Field(ge=1, le=LARGEST_NUMBERS)]
Length = Annotated[int, Field(ge=2, le=1000)]


@dataclass(frozen=True)
class ArithmeticTask(Task):
    """A task whose targets are equations with `length` of the `numbers` smallest integers."""

    numbers: Numbers = 10
    length: Length = 5

    smallest: ClassVar[int] = equations.SMALLEST

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Symbols and integers."""
        return equations.vocabulary(self.smallest + self.numbers - 1)

    def generate_targets(self, size: int, rng: np.random.Generator, progress: Progress | None = None) -> Sequences:
        """True equations with distinct left sides."""
        return sample(size, self.numbers, self.length, rng, progress)

    @classmethod
    def fitted(cls, sources: Sequence[str], targets: Sequence[str]) -> Self:
        """As many integers as the largest one needs, as long as the longest target."""
        tokens = {token for line in (*sources, *targets) for token in line.split()}
        integers = [int(token) for token in tokens if token.isdecimal() and token.isascii() and len(token) < 10]
        if not integers:
            raise DataError(f"no integer in these texts: they are none of task {cls.name}")
        longest = max(sum(token.isdecimal() for token in line.split()) for line in targets)
        return cls.from_options({"numbers": max(max(integers) - cls.smallest + 1, 1), "length": max(longest, 2)})
