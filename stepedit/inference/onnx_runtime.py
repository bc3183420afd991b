"""Policies that run ONNX graphs with onnxruntime: editing without PyTorch.

`programmers.graphs` says what is in a graph. A graph is loaded from memory, so it cannot refer to other files; custom
operators are not available. What it may allocate is bounded: constants computed while it is loaded by the size of its
file (if onnxruntime has that option), everything that it computes later by MAX_MEMORY.

Shapes: B texts, T tokens, O output symbols, V output vocabulary, K beams.
"""

from __future__ import annotations

import os
from copy import copy
from functools import lru_cache, partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from stepedit.data.states import States
from stepedit.editing.actions import DONE, Operation
from stepedit.editing.edits import EditBatch
from stepedit.editing.interpreter import FloatArray, Prediction, operations_of, rules_of
from stepedit.editing.sequences import PAD, IntArray, Sequences
from stepedit.errors import DataError, UserError, shown
from stepedit.inference.parts import Parts
from stepedit.inference.word_forms import Candidates, by_probability, next_actions, with_forms
from stepedit.methods.base import START, Method, Policy
from stepedit.text.subwords import SubwordReader, SubwordTokenizer
from stepedit.text.vocabulary import Vocabulary

GRAPH_FORMAT = 1
MAX_DIGITS, MAX_STATES = 15, 1_000
WIDTH = 4  # positions, and tokens at each, among which the most probable action is searched
MAX_MEMORY = 4 << 30  # bytes of all graphs' intermediate results
MAX_INPUT = 1 << 20  # elements of an input that is not used
MAX_FOLDING = 4  # bytes of a constant computed at loading, per byte of the file: float16 weights become float32
Arrays = dict[str, Any]


class Graph:
    """A loaded graph. A call runs on the thread that makes it; `parts` makes several calls of a large batch."""

    def __init__(self, path: Path, num_threads: int | None = None) -> None:
        self.path, self.parts = path, Parts(num_threads or available_threads())
        self.session = self._session()
        self.facts: dict[str, str] = dict(self.session.get_modelmeta().custom_metadata_map)
        if self.facts.get("stepedit_format") != str(GRAPH_FORMAT):
            raise self.outdated()
        self._unused = {each.name: _empty(each, path) for each in self.session.get_inputs()}

    def _session(self) -> Any:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.use_env_allocators", "1")
        _limit_memory()
        content = self.path.read_bytes()  # from memory, so that a graph cannot refer to other files
        folding = max(MAX_FOLDING * len(content), MAX_INPUT)
        options.add_session_config_entry("optimization.constant_folding_max_output_size_in_bytes", str(folding))
        try:
            return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception:  # onnxruntime has many kinds of errors, none of them public
            raise DataError(f"{self.path}: damaged (not a graph that onnxruntime can run)") from None

    def run(self, outputs: list[str], **inputs: Any) -> list[Any]:
        """Return some outputs; inputs that they do not depend on may be left out."""
        try:
            results: list[Any] = self.session.run(outputs, self._unused | inputs)
        except Exception as error:  # as above; also if it asks for too much memory
            raise DataError(f"{self.path}: the graph cannot be run ({shown(str(error))})") from None
        return results

    def number(self, name: str) -> int:
        """Return a number among the facts; DataError if there is none."""
        value = self.facts.get(name, "")
        if not (value.isascii() and value.isdecimal() and len(value) <= MAX_DIGITS):
            raise DataError(f"{self.path}: damaged (no number {name!r} among its facts)")
        return int(value)

    def outdated(self) -> DataError:
        """Return the error of a graph that was written by another version."""
        return DataError(f"{self.path}: not a graph of this version of stepedit; export it again")

    def has_output(self, name: str) -> bool:
        """Whether it computes an output of this name."""
        return any(each.name == name for each in self.session.get_outputs())

    def require(self, fits: bool) -> None:
        """Raise DataError if an output does not fit what was asked for."""
        if not fits:
            raise DataError(f"{self.path}: damaged (an output of another shape than the task's)")


@lru_cache(maxsize=16)
def _vector(number: int) -> IntArray:
    return np.array([number])


@lru_cache(maxsize=1)
def _limit_memory() -> None:
    """Let all graphs allocate from one arena that has a limit."""
    import onnxruntime as ort

    memory = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    ort.create_and_register_allocator(memory, ort.OrtArenaCfg(MAX_MEMORY, -1, -1, -1))


def _empty(node: Any, path: Path) -> Any:
    """Return an array for an input that is not used; DataError if it is too large."""
    kinds = {"tensor(float)": np.float32, "tensor(bool)": np.bool_}
    shape = [size if isinstance(size, int) else 1 for size in node.shape]
    if prod(shape) > MAX_INPUT:
        raise DataError(f"{path}: damaged (the input {shown(node.name)} is too large)")
    return np.zeros(shape, kinds.get(node.type, np.int64))


def available_threads() -> int:
    """Return the number of threads: OMP_NUM_THREADS if it is set, otherwise the cores of this process."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if limit.isdecimal() and int(limit) > 0:
        return int(limit)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load_policy(
    path: Path, method: Method, num_threads: int | None = None, tokenizer: SubwordTokenizer | None = None
) -> Policy:
    """Return the policy of a graph file; DataError if it is damaged or of another version.

    A graph with a pretrained encoder needs its tokenizer.
    """
    graph = Graph(path, num_threads)
    kind = graph.facts.get("kind")
    if kind == "seq2seq":
        return Seq2SeqPolicy(graph, method)
    if kind != "pointer":
        raise DataError(f"{path}: damaged (a graph of kind {kind!r})")
    return PointerPolicy(graph, method, tokenizer)


class PointerPolicy:
    """The graph of a pointer programmer: one call per action."""

    def __init__(self, graph: Graph, method: Method, tokenizer: SubwordTokenizer | None = None) -> None:
        self.graph, self.task, self.template = graph, method.task, method.task.template
        self.vocabulary: Vocabulary = method.task.vocabulary
        self.forms = method.task.word_forms(self.vocabulary)
        self.reader = None if tokenizer is None else SubwordReader(tokenizer, self.vocabulary)
        self.order_free = graph.facts.get("order_free") == "1"
        if self.order_free and not graph.has_output("confidences"):
            raise graph.outdated()
        self.num_parameters = graph.number("parameters")
        self.plans = graph.facts.get("plans") == "1"
        self._allowed = np.zeros(len(method.task.vocabulary), np.bool_)
        self._allowed[sorted(self.template.tokens)] = True
        self._operation_index = np.zeros(len(Operation), np.int64)
        self._operation_index[list(self.template.operations)] = np.arange(len(self.template.operations))

    def reading(self, vocabulary: Vocabulary) -> Policy:
        """Return the policy for texts whose ids this vocabulary names."""
        if vocabulary is self.vocabulary or (self.reader is None and self.forms is None):
            return self
        bound = copy(self)
        bound.vocabulary, bound.forms = vocabulary, self.task.word_forms(vocabulary)
        bound.reader = None if self.reader is None else SubwordReader(self.reader.tokenizer, vocabulary)
        return bound

    def _inputs(self, texts: Sequences) -> Arrays:
        """Return the inputs of every use: ids and, for a pretrained encoder, subwords."""
        inputs: Arrays = {"ids": texts.ids, "lengths": texts.lengths}
        if self.reader is None:
            return inputs
        subwords = self.reader(texts.ids, texts.lengths)
        names = ("subwords", "subword_lengths", "subword_starts", "subword_stops")
        return inputs | dict(zip(names, subwords, strict=True))

    def predict(self, texts: Sequences) -> Prediction:
        """Return the most probable action of each text."""
        return Prediction(*next_actions(self._candidates(texts, WIDTH), self.order_free))

    def top_k(self, texts: Sequences, k: int) -> tuple[IntArray, FloatArray]:
        """Return the k most probable actions of each text and their log-probabilities, which are no confidences."""
        actions, log_probs, _ = self._candidates(texts, max(k, WIDTH))
        return actions[:, :k], log_probs[:, :k]

    def plan(self, texts: Sequences, size: int) -> tuple[IntArray, FloatArray]:
        """Return up to `size` actions of each text, each given those before it, from one call."""
        found = self.graph.parts.map(partial(self._plan, size=size), texts)
        longest = max(len(log_probs) for _, log_probs in found)
        actions = np.concatenate([_lengthened(each, longest, DONE) for each, _ in found], 1)
        log_probs = np.concatenate([_lengthened(each, longest, -np.inf) for _, each in found], 1)
        done = (actions == DONE).all(2)
        log_probs = np.where(np.cumsum(done, 0) - done > 0, -np.inf, log_probs)
        planned = with_forms(
            Candidates(actions.transpose(1, 0, 2), log_probs.T, log_probs.T), texts, self.template, self.forms
        )
        return planned.actions, planned.log_probs

    def _plan(self, texts: Sequences, size: int) -> tuple[IntArray, FloatArray]:
        """Return actions (N, B, F) and log-probabilities (N, B); N is less than `size` if all plans end before."""
        inputs = self._inputs(texts) | {"k": np.array([1]), "decisions": np.array(size)}
        actions, log_probs = self.graph.run(["plan_actions", "plan_log_probs"], **inputs)
        decisions, fields = len(actions), len(self.template.fields)
        self.graph.require(actions.shape == (decisions, len(texts), fields) and 1 <= decisions <= size)
        self.graph.require(log_probs.shape == (decisions, len(texts)))
        return actions, log_probs

    def _candidates(self, texts: Sequences, k: int) -> Candidates:
        found = self.graph.parts.map(partial(self._top_k, k=k), texts)
        whole = found[0] if len(found) == 1 else Candidates(*map(np.concatenate, zip(*found, strict=True)))
        if self.forms is None:
            return whole
        formed = with_forms(whole, texts, self.template, self.forms)
        return by_probability(formed)

    def _top_k(self, texts: Sequences, k: int) -> Candidates:
        """Return k actions of each text of a part; a graph may have fewer, the others are impossible."""
        names = ["actions", "log_probs", *(["confidences"] if self.order_free else [])]
        actions, *values = self.graph.run(names, **self._inputs(texts), k=_vector(k))
        size, found, fields = actions.shape if actions.ndim == 3 else (0, 0, 0)
        self.graph.require(size == len(texts) and found <= k and fields == len(self.template.fields))
        self.graph.require(all(each.shape == (size, found) for each in values))
        if found < k:
            actions = np.pad(actions, ((0, 0), (0, k - found), (0, 0)), constant_values=DONE)
            values = [np.pad(each, ((0, 0), (0, k - found)), constant_values=-np.inf) for each in values]
        return Candidates(actions, values[0], values[-1])

    def log_prob(self, states: States) -> FloatArray:
        """Return the log-probability of the next action of each state."""
        return np.concatenate(self.graph.parts.map(self._log_prob, states))

    def _log_prob(self, states: States) -> FloatArray:
        at = (np.arange(len(states)), states.next_edit)
        edits = EditBatch(*(part[at] for part in states.current_edits()))
        token = np.where(edits.widths == 1, edits.tokens[:, 0], PAD)
        score = self.graph.run(
            ["score"],
            scoring=np.array(True),
            k=np.array([1]),
            **self._inputs(states.texts),
            has_edit=(~states.done()).astype(np.int64),
            first=edits.starts,
            last=np.where(edits.widths == 2, edits.starts, np.maximum(edits.stops - 1, edits.starts)),
            operation=self._operation_index[operations_of(edits, self.template, states.texts)],
            choice=self._choices(token, rules_of(edits, self.template, states.texts), states.texts.ids),
        )[0]
        return np.asarray(score)

    def _choices(self, token_B: IntArray, rule_B: IntArray, ids_BT: IntArray) -> IntArray:
        """Return the index of each token in the graph's token logits: of its rule, its own, or of a copy; or -1."""
        size = len(self._allowed)
        known = np.where(token_B < size, token_B, PAD)
        own = np.where(self._allowed[known], token_B, -1) if self.template.copies else token_B
        choice = np.where(token_B == PAD, -1, own)
        if self.template.copies and ids_BT.shape[1]:
            here_BT = ids_BT == token_B[:, None]
            copied = (choice < 0) & (token_B != PAD) & here_BT.any(1)
            choice = np.where(copied, size + self.template.num_rules + here_BT.argmax(1), choice)
        return np.where(rule_B >= 0, size + rule_B, choice)


class Seq2SeqPolicy:
    """The graph of a seq2seq programmer: one call to encode, one per symbol."""

    def __init__(self, graph: Graph, method: Method) -> None:
        self.graph, self.method = graph, method
        self.num_parameters, self.num_states = graph.number("parameters"), graph.number("states")
        graph.require(self.num_states <= MAX_STATES)
        self.plans = False

    def plan(self, texts: Sequences, size: int) -> tuple[IntArray, FloatArray]:
        """Never called: it predicts one action at a time."""
        raise UserError("this programmer has no plans: it predicts one action at a time")

    def reading(self, vocabulary: Vocabulary) -> Policy:
        """Return itself: it needs no names."""
        return self

    def _encode(self, texts: Sequences) -> tuple[Arrays, list[Any]]:
        """Return the inputs of all steps, and the states before the first."""
        names = ["encoded", *(f"first_{index}" for index in range(self.num_states))]
        inputs = {"ids": texts.widened(1).ids, "lengths": texts.lengths}
        encoded, *states = self.graph.run(names, encoding=np.array(True), **inputs)
        return {"given_encoded": encoded, "given_lengths": texts.lengths}, states

    def _step(self, given: Arrays, symbol: IntArray, states: list[Any]) -> tuple[FloatArray, list[Any]]:
        """Return the log-probabilities (B, V) of the next symbol, and the next states."""
        names = ["log_probs", *(f"next_{index}" for index in range(self.num_states))]
        before = {f"state_{index}": state for index, state in enumerate(states)}
        log_probs, *following = self.graph.run(names, symbol=symbol, **given, **before)
        self.graph.require(log_probs.shape == (len(symbol), len(self.method.outputs)))
        return log_probs, following

    def predict(self, texts: Sequences) -> Prediction:
        """Decode greedily until all rows have predicted the end or the largest output length is reached."""
        found = self.graph.parts.map(self._predict, texts)
        longest = max(len(symbols) for symbols, _ in found)
        symbols = np.concatenate([_lengthened(each, longest, PAD) for each, _ in found], 1).T
        return Prediction(self.method.decode_outputs(symbols), np.concatenate([total for _, total in found]))

    def _predict(self, texts: Sequences) -> tuple[IntArray, FloatArray]:
        """Return the symbols (O, B) of a part, and their log-probabilities (B,)."""
        given, states = self._encode(texts)
        symbol = np.full(len(texts), START)
        total, active = np.zeros(len(texts), np.float32), np.ones(len(texts), np.bool_)
        symbols = list[IntArray]()
        for _ in range(self.method.max_output_length):
            log_probs, states = self._step(given, symbol, states)
            symbol = log_probs.argmax(1)
            total = np.where(active, total + log_probs[np.arange(len(texts)), symbol], total)
            symbols.append(np.where(active, symbol, PAD))
            if self.method.end is not None:
                active = active & (symbol != self.method.end)
                if not active.any():
                    break
        return np.stack(symbols), total

    def log_prob(self, states: States) -> FloatArray:
        """Return the summed log-probability of the symbols that should be predicted."""
        return np.concatenate(self.graph.parts.map(self._log_prob, states))

    def _log_prob(self, states: States) -> FloatArray:
        outputs, lengths = self.method.targets(states)
        given, memory = self._encode(states.texts)
        symbol, total = np.full(len(states), START), np.zeros(len(states), np.float32)
        for index in range(outputs.shape[1]):
            log_probs, memory = self._step(given, symbol, memory)
            symbol = outputs[:, index]
            total += np.where(index < lengths, log_probs[np.arange(len(states)), symbol], 0)
        return total

    def top_k(self, texts: Sequences, k: int) -> tuple[IntArray, FloatArray]:
        """Return the most probable outputs that a beam of size k finds."""
        found = self.graph.parts.map(partial(self._top_k, k=k), texts)
        outputs, scores = map(np.concatenate, zip(*found, strict=True))
        actions = self.method.decode_outputs(outputs)
        return actions.reshape(len(texts), k, actions.shape[1]), scores

    def _top_k(self, texts: Sequences, k: int) -> tuple[IntArray, FloatArray]:
        """Return the outputs (B * K, O) of a part, and their log-probabilities (B, K)."""
        size, rows = len(texts), np.repeat(np.arange(len(texts)), k)
        given, states = self._encode(texts)
        given, states = {name: part[rows] for name, part in given.items()}, [state[rows] for state in states]
        scores: FloatArray = np.full((size, k), -np.inf, np.float32)
        scores[:, 0] = 0.0  # all beams start alike, so only one counts
        outputs, symbol = np.zeros((size * k, 0), np.int64), np.full(size * k, START)
        for _ in range(self.method.max_output_length):
            log_probs, states = self._step(given, symbol, states)
            total: FloatArray = (scores[:, :, None] + log_probs.reshape(size, k, -1)).reshape(size, -1)
            best = np.argsort(-total, axis=1, kind="stable")[:, :k]
            scores = np.take_along_axis(total, best, 1)
            parents = (np.arange(size)[:, None] * k + best // log_probs.shape[1]).ravel()
            symbol = (best % log_probs.shape[1]).ravel()
            outputs, states = np.concatenate([outputs[parents], symbol[:, None]], 1), [s[parents] for s in states]
        return outputs, scores


def _lengthened(array: Any, length: int, value: float) -> Any:
    """Return an array with so many rows, the new ones filled with a value."""
    missing = length - len(array)
    return np.concatenate([array, np.full((missing, *array.shape[1:]), value, array.dtype)]) if missing else array
