"""Which training pairs a method can express."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepedit.editing.edits import Scripts
from stepedit.editing.sequences import Pairs
from stepedit.methods.base import Method

EXAMPLES = 3


@dataclass(frozen=True)
class Coverage:
    """How many training pairs can be expressed with the method's outputs, and examples of the others."""

    pairs: int
    expressible: int
    others: list[tuple[str, str]]
    without_forms: int | None = None  # how many could be without affix rules; None if there are none


def expressible(method: Method, pairs: Pairs) -> tuple[Pairs, Scripts, Coverage]:
    """Return the pairs that the method's outputs can express, their scripts, and how many those are."""
    scripts = method.task.edits(pairs.sources, pairs.targets)
    possible = method.expressible(pairs, scripts)
    others = pairs.take(np.flatnonzero(~possible)[:EXAMPLES])
    vocabulary = method.task.vocabulary
    examples = list(zip(vocabulary.decode(others.sources), vocabulary.decode(others.targets), strict=True))
    plain = method.task.expressible_without_forms(pairs, scripts) if method.iterative else None
    without_forms = None if plain is None else int(plain.sum())
    coverage = Coverage(len(pairs), int(possible.sum()), examples, without_forms)
    if not possible.all():
        pairs, scripts = pairs.take(possible), scripts.take(np.flatnonzero(possible))
    return pairs, scripts, coverage
