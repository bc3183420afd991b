"""The contract of a method: what a programmer should predict for a state, and how a prediction becomes a text.

Shapes: B states, T tokens of the longest, O symbols of the longest output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np

from stepedit.config import EditOrder
from stepedit.data.states import States
from stepedit.editing.edits import Scripts
from stepedit.editing.interpreter import AppliedAction, FloatArray, Prediction, StepResult
from stepedit.editing.sequences import PAD, BoolArray, IntArray, Pairs, Sequences
from stepedit.tasks.base import Task
from stepedit.text.vocabulary import PAD_TOKEN, Vocabulary

START, END = 1, 2  # the symbol before an output, and the one that ends an output of variable length


class Policy(Protocol):
    """What decoding needs of a programmer: a network, a graph or anything else that predicts actions."""

    @property
    def num_parameters(self) -> int:
        """The number of trained weights."""

    def reading(self, vocabulary: Vocabulary) -> Policy:
        """Return the policy for texts whose ids this vocabulary names; most need no names."""

    def predict(self, texts: Sequences) -> Prediction:
        """Return the most probable action of each state, or the whole output of a single-pass method."""

    def top_k(self, texts: Sequences, k: int) -> tuple[IntArray, FloatArray]:
        """Return the k most probable actions (B, K, F) and their log-probabilities (B, K), -inf where there are fewer.

        For iterative methods only.
        """

    def log_prob(self, states: States) -> FloatArray:
        """Return the log-probability (B,) of what should be predicted for each state."""

    @property
    def plans(self) -> bool:
        """Whether it was trained to predict, from one look at a text, the edits after the next one."""

    def plan(self, texts: Sequences, size: int) -> tuple[IntArray, FloatArray]:
        """Return up to `size` actions (B, N, F) of each text, each given those before, and log-probabilities (B, N).

        Positions are those of the text as it is. After DONE the log-probability is -inf. Only if it `plans`.
        """


class Method(ABC):
    """A way of editing, for one task. It has no parameters.

    `outputs` holds what a programmer can say and no more: padding, the start symbol, then the method's own symbols.
    """

    name: ClassVar[str]
    title: ClassVar[str] = ""
    iterative: ClassVar[bool] = False  # whether the edited text is read again, until DONE
    default_programmer: ClassVar[str] = "seq2seq"
    end: ClassVar[int | None] = END  # None if all outputs have the same length
    scores_end_symbol: ClassVar[bool] = False  # the authors' token accuracy counts it, and their outputs are exact

    def __init__(self, task: Task, *, max_actions: int | None = None, edit_order: EditOrder = "left-to-right") -> None:
        self.task, self.max_actions, self.edit_order = task, max_actions, edit_order
        self.outputs = Vocabulary((PAD_TOKEN, "<start>", *self.output_symbols()))

    @abstractmethod
    def output_symbols(self) -> list[str]:
        """Return the names of the output symbols, from id 2 on."""

    @abstractmethod
    def output_tokens(self) -> list[int]:
        """Return for each output, from id 0 on, the id of the token that it inserts, or PAD."""

    @property
    @abstractmethod
    def max_output_length(self) -> int:
        """The largest number of symbols of an output."""

    @property
    def max_steps(self) -> int:
        """The largest number of predictions for one text."""
        return 1

    @abstractmethod
    def expressible(self, pairs: Pairs, scripts: Scripts) -> BoolArray:
        """Return (B,) whether some output leads from each source to its target."""

    @abstractmethod
    def targets(self, states: States) -> tuple[IntArray, IntArray]:
        """Return the outputs (B, O) that a programmer should predict for these states, and their lengths (B,)."""

    def decode_outputs(self, outputs: IntArray) -> IntArray:
        """Return what `apply` takes, for outputs (B, O)."""
        return outputs

    @abstractmethod
    def apply(self, texts: Sequences, symbols: IntArray) -> StepResult:
        """Return the texts that predicted symbols (B, O) make of these texts."""

    def cut_off(self, texts: Sequences, symbols: IntArray, length: int) -> Sequences | None:
        """Return what the authors' evaluation makes of an output that it cuts off; None if it cuts nothing off."""
        return None

    def step(self, text: Sequence[int], symbols: Sequence[int]) -> tuple[tuple[int, ...], bool]:
        """Return the text that predicted symbols make of one text, and whether it is done: `apply` for one text."""
        result = self.apply(Sequences.from_rows([list(text)]), np.array([symbols]))
        return tuple(result.texts.rows()[0]), bool(result.done[0])

    @abstractmethod
    def describe(
        self, before: Sequence[int], symbols: Sequence[int], after: Sequence[int], confidence: float
    ) -> AppliedAction:
        """Return a record of one prediction that was applied."""


class SinglePassMethod(Method):
    """A method that predicts everything at once."""

    def expressible(self, pairs: Pairs, scripts: Scripts) -> BoolArray:
        """Return (B,) whether every token of the target may be part of one."""
        return np.asarray(np.isin(pairs.targets.ids, [PAD, *self.task.target_tokens]).all(1))

    @abstractmethod
    def rewrite(self, texts: Sequences, symbols: IntArray) -> Sequences:
        """Return the texts that outputs (B, O) stand for."""

    def apply(self, texts: Sequences, symbols: IntArray) -> StepResult:
        """Rewrite each text; it is finished if the output has an end."""
        return StepResult(self.rewrite(texts, symbols), (symbols == END).any(1), np.zeros(len(texts), np.bool_))

    def describe(
        self, before: Sequence[int], symbols: Sequence[int], after: Sequence[int], confidence: float
    ) -> AppliedAction:
        """Return a record of the rewritten text."""
        return AppliedAction("rewrite", 0, tuple(before), tuple(after), tuple(symbols), confidence)


def indices(tokens: Sequence[int], first: int, vocabulary: Vocabulary) -> IntArray:
    """Return (V + 1,) the output of each token id, counted from `first`; PAD for other ids and, last, unknown ones."""
    table = np.full(len(vocabulary) + 1, PAD)
    table[list(tokens)] = np.arange(first, first + len(tokens))
    return table


def before_end(symbols: IntArray) -> BoolArray:
    """Return (B, O), true for the symbols before the first END."""
    return np.asarray((symbols == END).cumsum(1) == 0)
