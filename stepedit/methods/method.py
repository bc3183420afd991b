"""The contract of a method: what a programmer is taught to say about a state, and what becomes of what it says.

Shapes: B states, T tokens of the longest, O symbols of the longest output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from stepedit.batches import States
from stepedit.edits import Scripts
from stepedit.interpreter import Outcome, Step, tensors
from stepedit.sequences import PAD, BoolArray, Pairs, Sequences
from stepedit.tasks.task import Task
from stepedit.vocabulary import PAD_TOKEN, Vocabulary

END = 1  # the symbol that ends an output of varying length


class Said(NamedTuple):
    """What a programmer wrote about B states."""

    symbols: Tensor  # (B, O) as its method understands them: see `Method.meaning`
    confidence: Tensor  # (B,) the probability it gave to the whole


Writer = Callable[[Tensor, Tensor], Said]  # ids (B, T), lengths (B,) -> what it says


class Method(ABC):
    """A way of editing, for one task."""

    name: ClassVar[str]
    title: ClassVar[str]
    programmer: ClassVar[str] = "seq2seq"  # which does best
    end: ClassVar[int | None] = END  # None where every output has the same length

    def __init__(self, task: Task) -> None:
        self.task = task
        self.outputs = Vocabulary((PAD_TOKEN, *self.symbols()))

    @abstractmethod
    def symbols(self) -> list[str]:
        """The names of what can be said, from id 1 on."""

    @abstractmethod
    def token_of(self) -> list[int]:
        """For each output, the id of the token it brings, or PAD."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """How many symbols an output has at the most."""

    def sayable(self, pairs: Pairs, scripts: Scripts) -> BoolArray:
        """(B,) whether what leads to these targets can be said."""
        return self.task.sayable(pairs, scripts)

    @abstractmethod
    def render(self, states: States) -> tuple[Tensor, Tensor]:
        """Outputs (B, O) that a programmer should give for these states, and their lengths (B,)."""

    def meaning(self, symbols: Tensor) -> Tensor:
        """What `run` understands, for outputs (B, O)."""
        return symbols

    @abstractmethod
    def run(self, sources: Sequences, writer: Writer, trace: bool = False) -> list[Outcome]:
        """Edit each source with what a programmer says."""


class OneShot(Method):
    """A method that says everything at once and has it realised."""

    def sayable(self, pairs: Pairs, scripts: Scripts) -> BoolArray:
        """(B,) whether all tokens of the target are known."""
        return np.asarray((pairs.targets.ids < len(self.task.vocabulary)).all(1))

    @abstractmethod
    def realise(self, ids: Tensor, lengths: Tensor, symbols: Tensor) -> tuple[Tensor, Tensor]:
        """The texts (B, T') that outputs (B, O) make of states, and their lengths."""

    def run(self, sources: Sequences, writer: Writer, trace: bool = False) -> list[Outcome]:
        """One output for each source. It counts as finished if it came to its end."""
        ids, lengths = tensors(sources)
        said = writer(ids, lengths)
        texts, sizes = self.realise(ids, lengths, said.symbols)
        finished = (said.symbols == END).any(1).tolist()
        outcomes = []
        for row, (before, text) in enumerate(zip(sources.rows(), texts.tolist(), strict=True)):
            after = tuple(text[: sizes[row]])
            action = tuple(said.symbols[row].tolist())
            step = Step(action, "rewrite", 0, tuple(before), after, after, False, float(said.confidence[row]))
            outcomes.append(Outcome(after, 1, finished[row], [step] if trace else []))
        return outcomes


def before_end(symbols: Tensor) -> Tensor:
    """(B, O) true for the symbols before the first END."""
    return (symbols == END).cumsum(1) == 0


def close_gaps(slots: Tensor) -> tuple[Tensor, Tensor]:
    """What is not PAD in each row of (B, S) slots, moved to the front; and how much that is."""
    kept = slots != PAD
    lengths = kept.sum(1)
    order = kept.to(torch.int8).argsort(dim=1, descending=True, stable=True)
    return slots.gather(1, order)[:, : int(lengths.max()) if len(lengths) else 0], lengths
