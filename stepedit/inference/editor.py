"""A trained model, ready to edit: `Editor.load("runs/x").edit(["6 10 9 5 2"])`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import islice, repeat
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import computed_field

from stepedit.config import RunConfig
from stepedit.editing.actions import DONE
from stepedit.editing.edits import replay
from stepedit.editing.interpreter import AppliedAction, FloatArray, Outcome, StopReason, describe
from stepedit.editing.sequences import IntArray, Sequences
from stepedit.editing.trace import Candidate, Change, Step, changes, named_step
from stepedit.errors import DataError, UserError
from stepedit.inference import hub, model_folder
from stepedit.inference.decoding import Decoding, resolve
from stepedit.inference.onnx_runtime import load_policy
from stepedit.inference.predict import KEEP_BEAM, batch_size, kept, predict
from stepedit.inference.protected_policy import ProtectedPolicy
from stepedit.methods.base import Method, Policy
from stepedit.registry import PROGRAMMERS
from stepedit.tasks.base import Segment
from stepedit.text.keep import Keep
from stepedit.text.vocabulary import Vocabulary

SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class EditResult:
    """The result of editing one text: the one result record, in Python, `--json` and the API."""

    source: str
    text: str
    stop_reason: StopReason  # done, or what came before: confidence, limit or cycle; see `Outcome`
    valid: bool | None  # what the verifier (the task's, or the lexicon) says; None if there is none
    tokens: list[str] = field(default_factory=list)  # of the source; this and the rest only with a trace
    steps: list[Step] = field(default_factory=list)
    final_candidates: list[Candidate] = field(default_factory=list)  # most probable actions at the end
    changes: list[Change] = field(default_factory=list)  # spans of characters; for text

    @computed_field  # type: ignore[prop-decorator]
    @property
    def finished(self) -> bool:
        """Whether the programmer predicted DONE."""
        return self.stop_reason == "done"

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON values; steps have whole texts only if they were asked for."""
        return {
            "source": self.source,
            "text": self.text,
            "stop_reason": self.stop_reason,
            "finished": self.finished,
            "valid": self.valid,
            "tokens": self.tokens,
            "steps": [_step_values(step) for step in self.steps],
            "final_candidates": [vars(each) for each in self.final_candidates],
            "changes": [vars(each) for each in self.changes],
        }


def _step_values(step: Step) -> dict[str, Any]:
    values = {**vars(step), "candidates": [vars(each) for each in step.candidates]}
    return {name: value for name, value in values.items() if value is not None or name == "position"}


@dataclass(frozen=True)
class Editor:
    """A policy with its method and configuration."""

    run: RunConfig
    method: Method
    policy: Policy
    min_confidence: float = 0.0  # the tuned threshold, used if a decoding names none
    folder: Path | None = None  # that it was loaded from
    keep: Keep | None = None  # words that stay, where texts are edited word by word

    @classmethod
    def load(cls, folder: str | Path, num_threads: int | None = None) -> Editor:
        """Load a model: its graph or, without one, its weights with PyTorch; DataError if the folder is damaged.

        `num_threads` is for the graph; by default all cores.
        """
        path = model_folder.find(folder)
        run = model_folder.read_config(path)
        method = model_folder.make_method(run)
        model_folder.check_vocabulary(path, method)
        if (path / model_folder.GRAPH).exists():
            policy = load_policy(path / model_folder.GRAPH, method, num_threads, model_folder.read_tokenizer(path, run))
        else:
            policy = _load_weights(path, method, run)
        return cls(run, method, policy, model_folder.read_tuned(path), path, model_folder.read_keep(path))

    @classmethod
    def from_pretrained(cls, name: str, revision: str | None = None) -> Editor:
        """Load a model from a folder or, by `user/model`, from the Hugging Face Hub (extra `[hub]`)."""
        return cls.load(hub.pull(name, revision))

    def push_to_hub(self, name: str, private: bool = True) -> str:
        """Upload the model as `user/model`, as a graph with weights in float16, and return its address."""
        if self.folder is None:
            raise UserError("only a model that was loaded from a folder can be uploaded")
        return hub.push(self.folder, name, private)

    def edit(
        self,
        texts: Sequence[str],
        decoding: Decoding | None = None,
        trace: bool = False,
        num_candidates: int = 0,
        first_line: int = 1,
        states: bool = False,
    ) -> list[EditResult]:
        """Edit texts and return their results in order; DataError says which text, from `first_line` on, cannot be.

        With `trace`, results have steps and changes; with `num_candidates`, steps have the most probable actions; with
        `states`, the whole text after each step, which takes space quadratic in the length of a text.
        """
        if isinstance(texts, str):
            raise UserError("expected a list of texts, not a single text")
        vocabulary = self.method.task.vocabulary.opened()
        rows = self._encode(texts, vocabulary, first_line)
        decoding = self.resolve(decoding)
        outcomes = predict(self.policy, self.method, rows, decoding, trace, vocabulary, keep=self.keep)
        results = [vocabulary.text(outcome.tokens) for outcome in outcomes]
        valid = self._verify(rows, outcomes, results, decoding)
        if not trace:
            parts = zip(texts, results, outcomes, valid, strict=True)
            return [EditResult(source, text, outcome.stop_reason, ok) for source, text, outcome, ok in parts]
        candidates = self._candidates(rows, outcomes, vocabulary, num_candidates)
        return [
            EditResult(
                source=texts[index],
                text=results[index],
                stop_reason=outcome.stop_reason,
                valid=valid[index],
                tokens=[vocabulary.name(token) for token in rows[index]],
                **_traced(rows[index], outcome, candidates[index], vocabulary, states),
            )
            for index, outcome in enumerate(outcomes)
        ]

    def _verify(
        self, rows: Sequence[Sequence[int]], outcomes: Sequence[Outcome], results: Sequence[str], decoding: Decoding
    ) -> list[bool | None]:
        """Return what the verifier says of each result."""
        if decoding.lexicon is not None:
            return [decoding.lexicon.knows(text) for text in results]
        if not self.method.task.verifiable:
            return [None] * len(rows)
        predictions = Sequences.from_rows([outcome.tokens for outcome in outcomes])
        return self.method.task.check(Sequences.from_rows(rows), predictions).tolist()

    def segments(self, texts: Sequence[str]) -> Sequences:
        """Return the segments in which texts are edited; DataError says which text (from 1) cannot be."""
        vocabulary = self.method.task.vocabulary.opened()
        rows = self._encode(texts, vocabulary)
        parts = [part for row in rows for part in self.method.task.segments(row, vocabulary)]
        if self.keep is not None:
            parts = [part for part in (kept(part, self.keep, vocabulary) for part in parts) if part.editable]
        return Sequences.from_rows([part.tokens for part in parts])

    def resolve(self, decoding: Decoding | None = None) -> Decoding:
        """Return a decoding with its threshold filled in; UserError if the model does not support it."""
        decoding = decoding or Decoding()
        if (decoding.searches or self.keep is not None) and self.method.iterative and not self.can_search:
            what = "beam search and lexicons need" if self.keep is None else "a list of words (keep.txt) needs"
            raise UserError(f"{what} a model with an order of edits, and this one makes them in any")
        resolved = resolve(decoding, self.method, self.min_confidence)
        if resolved.edits_per_step > 1 and self.keep is not None:
            raise UserError("this model has a list of words, which it searches with a beam, one edit at a time")
        if resolved.edits_per_step > 1 and not self.policy.plans:
            raise UserError("edits_per_step needs a model that was trained to plan (--plan-loss-weight, left to right)")
        return resolved

    @property
    def can_search(self) -> bool:
        """Whether the probabilities of its edits, one after the other, are those of results: beam search needs that."""
        return self.method.iterative and self.run.training.edit_order != "any"

    def beam_size(self, decoding: Decoding) -> int:
        """Return the number of states that are followed for each text; words that a list may know need several."""
        return decoding.beam_size if self.keep is None else max(KEEP_BEAM, decoding.beam_size)

    def refusals(self, texts: Sequence[str]) -> dict[int, str]:
        """Return why texts cannot be edited, by their index; those that can are not in it."""
        vocabulary, reasons = self.method.task.vocabulary.opened(), dict[int, str]()
        for index, text in enumerate(texts):
            try:
                self._encode([text], vocabulary)
            except DataError as error:
                reasons[index] = str(error)
        return reasons

    def _encode(self, texts: Sequence[str], vocabulary: Vocabulary, first_line: int = 1) -> list[list[int]]:
        rows = []
        for number, text in enumerate(texts, start=first_line):
            where = f"line {number}: " if len(texts) > 1 or first_line > 1 else ""
            if SURROGATES.search(text):
                raise DataError(f"{where}a lone surrogate, which is not a character")
            try:
                rows.append(vocabulary.ids(vocabulary.split(text)))
            except DataError as error:
                raise DataError(f"{where}{error}") from None
            if not rows[-1] and not vocabulary.is_open:
                raise DataError(f"{where}the text is empty")
        return rows

    def _candidates(
        self, rows: Sequence[Sequence[int]], outcomes: Sequence[Outcome], vocabulary: Vocabulary, k: int
    ) -> list[list[list[Candidate]]]:
        """Return the k most probable actions of every state of each text, the last state included.

        There are none for single-pass methods, nor for a text that was edited in several segments or in lower case.
        """
        if k == 0 or not self.method.iterative:
            return [[] for _ in rows]
        segments = self.method.task.segments
        states = [
            [*_states(row, outcome)] if _edited_as_it_is(segments(row, vocabulary)) else []
            for row, outcome in zip(rows, outcomes, strict=True)
        ]
        flat = Sequences.from_rows([state for each in states for state in each])
        if not len(flat):
            return [[] for _ in rows]
        actions, log_probs = self._top_k(flat, k, vocabulary)
        found = iter(
            [
                self._candidate(state, action, log_prob, vocabulary)
                for action, log_prob in zip(*top, strict=True)
                if log_prob > -np.inf
            ]
            for state, *top in zip(flat.rows(), actions.tolist(), log_probs.tolist(), strict=True)
        )
        return [[next(found) for _ in each] for each in states]

    def _top_k(self, texts: Sequences, k: int, vocabulary: Vocabulary) -> tuple[IntArray, FloatArray]:
        """Return the k most probable actions of each text, computed in batches of similar length."""
        order = np.argsort(texts.lengths, kind="stable")
        actions = np.zeros((len(texts), k, len(self.method.task.template.fields)), np.int64)
        log_probs = np.zeros((len(texts), k))
        size, policy, template = batch_size(self.method, k), self.policy.reading(vocabulary), self.method.task.template
        if template.marks and self.method.iterative:
            policy = ProtectedPolicy(policy, template, vocabulary)
        for begin in range(0, len(order), size):
            rows = order[begin : begin + size]
            actions[rows], log_probs[rows] = policy.top_k(texts.take(rows), k)
        return actions, log_probs

    def _candidate(
        self, state: Sequence[int], action: Sequence[int], log_prob: float, vocabulary: Vocabulary
    ) -> Candidate:
        if all(part == DONE for part in action):
            return Candidate("done", None, "", "", exp(log_prob))
        return _as_candidate(describe(state, action, self.method.task.template, exp(log_prob)), vocabulary)


def _edited_as_it_is(segments: Sequence[Segment]) -> bool:
    """Whether a text was edited as a whole, as it is written."""
    return len(segments) == 1 and segments[0].editable and segments[0].restore is None


def _load_weights(folder: Path, method: Method, run: RunConfig) -> Policy:
    """Return the network of a folder that has weights and no graph."""
    model_folder.require_model(folder)
    if find_spec("torch") is None:
        raise UserError(f"{folder} has weights and no graph, which needs PyTorch: pip install 'stepedit[train]'")
    return PROGRAMMERS[run.training.programmer].load(folder, method, run.training)


def _as_candidate(applied: AppliedAction, vocabulary: Vocabulary) -> Candidate:
    before, after = (vocabulary.text(part) for part in (applied.before, applied.after))
    return Candidate(applied.operation, applied.start, before, after, applied.confidence)


def _states(row: Sequence[int], outcome: Outcome) -> Iterator[tuple[int, ...]]:
    """Yield the text before the first step and after each."""
    return replay(row, (applied.edit for applied in outcome.trace))


def _traced(
    row: Sequence[int],
    outcome: Outcome,
    candidates: Sequence[Sequence[Candidate]],
    vocabulary: Vocabulary,
    states: bool,
) -> dict[str, Any]:
    """Return steps, final candidates and changes of a result."""
    after: Iterable[tuple[int, ...] | None] = islice(_states(row, outcome), 1, None) if states else repeat(None)
    steps = [
        named_step(
            applied,
            vocabulary,
            _marked(candidates[number], _as_candidate(applied, vocabulary)) if candidates else [],
            state,
        )
        for number, (applied, state) in enumerate(zip(outcome.trace, after, strict=False))
    ]
    done = Candidate("done", None, "", "", 0.0)
    final = _marked(candidates[-1], done if outcome.finished else None) if candidates else []
    spans = changes(row, outcome.trace, vocabulary) if vocabulary.is_open else []
    return {"steps": steps, "final_candidates": final, "changes": spans}


def _marked(candidates: Sequence[Candidate], taken: Candidate | None) -> list[Candidate]:
    """Return candidates with the one that was taken marked; a beam may take one that is not among them."""
    same = [taken is not None and _same_action(each, taken) for each in candidates]
    shown = [replace(each, chosen=chosen) for each, chosen in zip(candidates, same, strict=True)]
    if taken is not None and taken.operation != "done" and not any(same):
        shown = [*shown[:-1], replace(taken, chosen=True)]
    return shown


def _same_action(one: Candidate, other: Candidate) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in ("operation", "position", "before", "after"))
