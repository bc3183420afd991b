"""A task of your own, outside the package: delete repeated tokens.

    source   a b b c a a a
    target   a b c a

Try it (the network learns it in a few seconds):

    stepedit tasks --plugin examples/dedupe.py
    stepedit train dedupe --plugin examples/dedupe.py --num-examples 1500 --hidden-size 32 --batch-size 32 \
        --warmup-steps 20 --learning-rate 0.01 --max-epochs 15 --out runs/dedupe
    stepedit edit runs/dedupe "a b b c a a a" --trace --plugin examples/dedupe.py
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np

import stepedit
from stepedit.editing.actions import Operation, Template
from stepedit.editing.sequences import BoolArray, Sequences


@dataclass(frozen=True)
class Dedupe(stepedit.SimpleTask):
    """Delete every token that repeats the one before it."""

    name = "dedupe"
    title = "delete repeated tokens"
    tokens = tuple("abcdef")
    max_length = 16
    independent_edits = True
    verifiable = True

    @cached_property
    def template(self) -> Template:
        """An action is a position to delete; the default would also allow insertions and substitutions."""
        return Template(fields=("position",), operations=(Operation.DELETE,), tokens=frozenset())

    def sample_target(self, rng: np.random.Generator) -> list[str]:
        tokens = [str(token) for token in rng.choice(self.tokens, int(rng.integers(2, 9)))]
        return [token for token, _ in groupby(tokens)]

    def sample_source(self, target: Sequence[str], rng: np.random.Generator) -> list[str]:
        return [token for token in target for _ in range(int(rng.integers(1, 3)))]

    def check(self, sources: Sequences, predictions: Sequences) -> BoolArray:
        pairs = zip(sources.rows(), predictions.rows(), strict=True)
        return np.array([[token for token, _ in groupby(source)] == result for source, result in pairs], np.bool_)


stepedit.register_task("dedupe", Dedupe)
