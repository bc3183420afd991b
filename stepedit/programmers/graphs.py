"""Programmers as ONNX graphs: all that editing needs, in one file that onnxruntime runs without PyTorch.

A pointer's graph returns the k most probable actions of each text, a plan of up to `decisions` actions and, if
`scoring` is true, the log-probability of given actions. A seq2seq's graph returns one step of the decoder or, if
`encoding` is true, the encoding of texts.

Shapes: B texts, T tokens, P operations, V vocabulary, K actions, F fields, E partial actions of a text.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stepedit.config import TrainingConfig
from stepedit.editing.actions import DONE, OPERATION, POSITION, RULE, SPANNING, TOKEN, Operation
from stepedit.editing.sequences import PAD
from stepedit.inference.model_folder import Tensors
from stepedit.inference.onnx_runtime import GRAPH_FORMAT, WIDTH
from stepedit.methods.base import Method
from stepedit.programmers.graph_builder import GraphBuilder, Value
from stepedit.programmers.graph_layers import (
    Embedded,
    Encoded,
    Subwords,
    decoder_step,
    embedding,
    encoder,
    initial_states,
    pretrained_encoder,
)
from stepedit.programmers.nn.attention import NEG_INF
from stepedit.programmers.nn.embedding import spelling_of
from stepedit.programmers.pointer import trains_plans
from stepedit.programmers.pointer_network import NO_TOKEN, min_span, min_tokens
from stepedit.programmers.seq2seq import never_predicted, token_rows


def _features(method: Method, config: TrainingConfig) -> npt.NDArray[Any] | None:
    return method.task.features() if config.numeric_features else None


def _facts(kind: str, g: GraphBuilder, **more: Any) -> dict[str, str]:
    facts = {"stepedit_format": GRAPH_FORMAT, "kind": kind, "dtype": g.dtype, **more}
    facts["parameters"] = sum(array.size for array in g.weights.values())
    return {name: str(value) for name, value in facts.items()}


def seq2seq_graph(method: Method, config: TrainingConfig, weights: Tensors, dtype: str) -> bytes:
    """Return the graph of a seq2seq programmer."""
    g = GraphBuilder(weights, dtype)
    vocabulary, features = method.task.vocabulary, _features(method, config)
    known = [PAD, *method.task.text_tokens]
    own = None if features is None else features[known]
    tokens = embedding(g, "token_embedding", len(known), own, *spelling_of(vocabulary, config))
    ids, lengths = g.input("ids", "int64", ["B", "T"]), g.input("lengths", "int64", ["B"])
    layers = 1 if config.architecture == "transformer" else config.num_layers

    def encode() -> list[Value]:
        columns = g.arange(ids.size(1))
        mask = columns < lengths.unsqueeze(1)
        rows = ids if vocabulary.bucket_sizes else g.constant(token_rows(method.task)).take(ids)
        encoded = encoder(g, config, tokens.of(rows), mask, columns)
        return [encoded.states, *initial_states(g, config, encoded, layers)]

    num_states = {"transformer": 2 * layers, "lstm": 2}.get(config.architecture, 1)
    axes = len(_state_shape(config, layers, "B"))
    empty = [np.zeros([0] * 3, np.float32), *[np.zeros([0] * axes, np.float32)] * num_states]
    encoded, *first = g.when(g.input("encoding", "bool", []), encode, empty)
    g.output("encoded", encoded, "float32", ["B", "T", "H"])
    for index, state in enumerate(first):
        g.output(f"first_{index}", state, "float32", [f"first_{index}_{axis}" for axis in range(axes)])
    _decoder(g, method, config, features, num_states, layers)
    return g.to_bytes(_facts("seq2seq", g, states=num_states))


def _state_shape(config: TrainingConfig, layers: int, batch: str) -> list[int | str]:
    """Return the shape of a decoder state: keys or values of a Transformer, hidden states of a recurrent network."""
    if config.architecture == "transformer":
        return [batch, config.num_heads, f"{batch}_steps", config.hidden_size // config.num_heads]
    return [batch, layers, config.hidden_size]


def _decoder(
    g: GraphBuilder, method: Method, config: TrainingConfig, features: Any, num_states: int, layers: int
) -> None:
    """Add one step of the decoder, from encoded texts and states given as inputs."""
    size, outputs = config.hidden_size, len(method.outputs)
    given = g.input("given_encoded", "float32", ["C", "S", size])
    lengths = g.input("given_lengths", "int64", ["C"])
    symbol = g.input("symbol", "int64", ["C"])
    states = [g.input(f"state_{i}", "float32", _state_shape(config, layers, "C")) for i in range(num_states)]
    mask = g.arange(given.size(1)) < lengths.unsqueeze(1)
    zero = g.scalar(0, "int64")
    encoded = Encoded(given, mask, given.take(zero, axis=1), None)
    symbols = embedding(g, "symbol_embedding", outputs)
    hidden, following = decoder_step(g, config, "decoder", symbols.of(symbol), encoded, states, layers)
    output_features = None if features is None else features[method.output_tokens()]
    table = embedding(g, "output_embedding", outputs, output_features).transposed
    logits = hidden @ table + (g.weight("output_bias") + g.constant(never_predicted(outputs)))
    g.output("log_probs", logits.log_softmax(), "float32", ["C", outputs])
    for index, state in enumerate(following):
        g.output(f"next_{index}", state, "float32", _state_shape(config, layers, f"next_{index}"))


class _Read(NamedTuple):
    """A text encoded by a pointer, and the log-probabilities of positions."""

    ids: Value  # (B, T) with an end token
    lengths: Value  # (B,)
    states: Value  # (B, T, H)
    mask: Value  # (B, T)
    summary: Value  # (B, H)
    memory: Value | None  # (B, H)
    plan: Value  # (B, H)
    columns: Value  # (T,)
    fits: Value  # (B, T, P) which operations fit
    positions: Value  # (B, T*P+1)


class PointerGraph:
    """The graph of a pointer programmer."""

    def __init__(self, method: Method, config: TrainingConfig, weights: Tensors, dtype: str) -> None:
        self.g = GraphBuilder(weights, dtype)
        self.config, self.template = config, method.task.template
        vocabulary, features = method.task.vocabulary, _features(method, config)
        size, spelling = len(vocabulary), spelling_of(vocabulary, config)
        self.tokens = embedding(self.g, "token_embedding", size, features, *spelling)
        self.operations = embedding(self.g, "operation_embedding", len(self.template.operations))
        self.has_spans, self.has_tokens = "last" in self.template.fields, "token" in self.template.fields
        self.has_deletions = not NO_TOKEN.isdisjoint(self.template.operations)  # or others without a token
        self.outputs: Embedded | None = None
        if self.has_tokens:
            self.outputs = embedding(self.g, "output_embedding", size, features, vocabulary.bucket_sizes[:1])
        self.order_free = config.edit_order == "any"
        self.planner_layers = max(1, config.num_layers // 2)
        self.allowed = np.zeros(len(vocabulary), np.bool_)
        self.allowed[sorted(self.template.tokens)] = True

    def to_bytes(self) -> bytes:
        """Return the graph with its two uses."""
        g = self.g
        ids, lengths = g.input("ids", "int64", ["B", "T"]), g.input("lengths", "int64", ["B"])
        k = g.input("k", "int64", [1])
        read = self._read(ids, lengths)
        actions, log_probs, confidences = self._top_k(read, k)
        g.output("actions", actions, "int64", ["B", "K", len(self.template.fields)])
        g.output("log_probs", log_probs, "float32", ["B", "K"])
        if self.order_free:
            g.output("confidences", confidences, "float32", ["B", "K"])
        if trains_plans(self.config):
            self._add_plans(read)
        names = ("has_edit", "first", "last", "operation", "choice")
        given = {name: g.input(name, "int64", ["S"], np.zeros(1)) for name in names}
        scoring = g.input("scoring", "bool", [], np.array(False))
        (score,) = g.when(scoring, lambda: [self._score(read, **given)], [np.zeros(0, np.float32)])
        g.output("score", score, "float32", ["S"])
        plans = int(trains_plans(self.config))
        return g.to_bytes(_facts("pointer", g, plans=plans, order_free=int(self.order_free)))

    def _add_plans(self, read: _Read) -> None:
        """Add plans, which are computed if `decisions` is not 0."""
        g, fields = self.g, len(self.template.fields)
        decisions = g.input("decisions", "int64", [], np.array(0))
        empty: list[npt.NDArray[Any]] = [np.zeros((0, 0, fields), np.int64), np.zeros((0, 0), np.float32)]
        actions, log_probs = g.when(decisions >= 1, lambda: [*self._plan(read, decisions)], empty)
        g.output("plan_actions", actions, "int64", ["N", "B", fields])
        g.output("plan_log_probs", log_probs, "float32", ["N", "B"])

    def _read(self, ids: Value, lengths: Value) -> _Read:
        g = self.g
        ended = g.op("Pad", ids, g.constant(np.array([0, 0, 0, 1])))  # padding is the end token, too
        columns = g.arange(ended.size(1))
        mask, own = columns <= lengths.unsqueeze(1), self.tokens.of(ended)
        if self.config.encoder_shape is None:
            encoded = encoder(g, self.config, own, mask, columns)
        else:
            encoded = pretrained_encoder(g, self.config, own, mask, self._subwords())
        start = g.weight("start").unsqueeze(0)
        plan, _ = decoder_step(g, self.config, "planner", start, encoded, None, self.planner_layers)
        fits = self._fits(mask, columns, lengths)
        return _Read(ended, lengths, *encoded, plan, columns, fits, self._positions(encoded.states, plan, fits))

    def _fits(self, mask: Value, columns: Value, lengths: Value) -> Value:
        """Return (B, T, P) which operations fit each position."""
        needed = np.array(min_tokens(self.template))
        if not needed.any():
            return mask.unsqueeze(2)
        return (lengths.unsqueeze(1) - columns).unsqueeze(2) >= self.g.constant(needed)

    def _subwords(self) -> Subwords:
        g = self.g
        subwords, lengths = g.input("subwords", "int64", ["B", "S"]), g.input("subword_lengths", "int64", ["B"])
        covered = (g.input(f"subword_{end}", "int64", ["B", "U"]) for end in ("starts", "stops"))
        return Subwords(subwords, lengths, *covered)

    def _positions(self, states: Value, plan: Value, fits: Value) -> Value:
        """Return (B, T*P+1) log-probabilities of every operation at every position, and of DONE."""
        g, size, count = self.g, self.config.hidden_size, len(self.template.operations)
        with g.once():
            heads = g.weight("position_head.weight").reshape(count, size, size).transpose(1, 0, 2).reshape(size, -1)
            bias = g.weight("position_head.bias").reshape(count, size).transpose(1, 0)
            heads, bias = heads * size**-0.5, bias * size**-0.5
        query = (plan @ heads).reshape(0, count, size)  # (B, P, H)
        logits = states @ query.transpose(0, 2, 1) + (plan @ bias).unsqueeze(1)  # (B, T, P)
        logits = g.where(fits, logits, NEG_INF).reshape(0, -1)
        done = g.linear_2d(plan, "done_head")
        return g.concat([logits, done], 1).log_softmax()

    def _confidence(self, log_prob: Value) -> Value:
        """Return the confidences of positions; if any order is right, those of edits against DONE alone."""
        if not self.order_free:
            return log_prob
        g = self.g
        count = log_prob.size(1)
        edits, done = log_prob.slice(1, 0, count - 1), log_prob.slice(1, count - 1, count)
        larger = g.op("Max", edits, done)
        total = larger + ((edits - larger).exp() + (done - larger).exp()).log()
        return g.concat([edits - total, done], 1)

    def _plan(self, read: _Read, decisions: Value) -> tuple[Value, Value]:
        """Return up to so many actions (N, B, F), each given those before, and their log-probabilities (N, B)."""
        g, config, layers = self.g, self.config, self.planner_layers
        encoded = Encoded(read.states, read.mask, read.summary, read.memory)
        first_states = initial_states(g, config, encoded, layers)
        start = g.weight("start").unsqueeze(0).expand(read.ids.size(0), config.hidden_size)

        def decide(carried: list[Value]) -> tuple[Value, list[Value], list[Value]]:
            ended, x, *states = carried
            plan, following = decoder_step(g, config, "planner", x, encoded, states, layers)
            positions = self._positions(read.states, plan, read.fits)
            actions, log_probs, _ = self._top_k(
                read._replace(plan=plan, positions=positions), g.constant(np.array([WIDTH]))
            )
            zero = g.scalar(0, "int64")
            action, log_prob = actions.take(zero, axis=1), log_probs.take(zero, axis=1)
            done = g.op("ReduceMin", action.equal(DONE).cast("int64"), g.constant(np.array([1])), keepdims=0)
            ended = g.op("Max", ended, done)
            all_ended = g.op("ReduceMin", ended, keepdims=0)
            return all_ended.equal(0), [ended, self._plan_input(read, action), *following], [action, log_prob]

        carried = [(read.lengths * 0, "int64"), *((value, "float32") for value in (start, *first_states))]
        actions, log_probs = g.loop(decisions, carried, decide)
        return actions, log_probs

    def _plan_input(self, read: _Read, action: Value) -> Value:
        """Return (B, H) what the planner reads about actions (B, F) that it has decided."""
        g, fields = self.g, self.template.fields
        values = {name: action.take(g.scalar(index, "int64"), axis=1) for index, name in enumerate(fields)}
        position = values["first"] if "first" in values else values["position"]
        first = g.where(position.equal(DONE), 0, position // 4, "int64")
        inputs = g.linear_2d(read.states.take_rows(first.unsqueeze(1)).squeeze(1), "edit_input")
        operation = first * 0
        if "operation" in values:
            index = np.zeros(max(Operation) + 1, np.int64)
            index[list(self.template.operations)] = np.arange(len(self.template.operations))
            operation = g.constant(index).take(values["operation"] // 4)
        inputs = inputs + self.operations.of(operation)
        if self.outputs is None:
            return inputs
        token = g.where((values["token"] % 4).equal(TOKEN), values["token"] // 4, PAD, "int64")
        return inputs + self.outputs.of(token)

    def _last_logits(self, read: _Read, first: Value, operation: Value | None = None) -> Value:
        """Return (B, E, T) logits of the last position given the first and the operation (B, E)."""
        g, size = self.g, self.config.hidden_size
        operation = first * 0 if operation is None else operation
        at_first = read.states.take_rows(first)
        plan = read.plan.unsqueeze(1).expand(1, first.size(1), 1)
        query = g.linear(g.concat([at_first, plan], 2), "last_query") * size**-0.5
        logits = query @ g.linear(read.states, "last_key").transpose(0, 2, 1)
        columns = read.columns
        operations, least = self.template.operations, min_span(self.template)
        apart = g.constant(np.array([least * (which == Operation.REPLACE) for which in operations])).take(operation)
        spanning = g.constant(np.array([which in SPANNING for which in operations])).take(operation).unsqueeze(2)
        inside = (columns >= (first + apart).unsqueeze(2)) & (columns < read.lengths.unsqueeze(1, 2))
        fits = (spanning & inside) | (~spanning & columns.equal(first.unsqueeze(2)))
        return g.where(fits, logits, NEG_INF)

    def _token_logits(
        self, read: _Read, first: Value, last: Value | None = None, operation: Value | None = None
    ) -> Value:
        """Return (B, E, X) logits: of V tokens, of the affix rules, and of T positions to copy from."""
        g, size = self.g, self.config.hidden_size
        assert self.outputs is not None
        bias = self._token_bias()
        hidden = read.states.take_rows(first) @ g.weight("token_from_first.weight", transposed=True)
        hidden = hidden + g.linear_2d(read.plan, "token_from_plan", bias).unsqueeze(1)
        if operation is not None and len(self.template.operations) > 1:
            hidden = hidden + self.operations.of(operation)
        if last is not None and self.has_spans:
            hidden = hidden + read.states.take_rows(last) @ g.weight("token_from_last.weight", transposed=True)
        hidden = hidden.gelu()
        with g.once():
            output_bias = g.where(g.constant(self.allowed), g.weight("output_bias"), NEG_INF)
        parts = [hidden @ self.outputs.transposed + output_bias]
        if self.template.num_rules:
            transforming = np.array([which == Operation.TRANSFORM for which in self.template.operations])
            transforms = g.constant(transforming).take(first * 0 if operation is None else operation).unsqueeze(2)
            rules = g.where(transforms, g.linear(hidden, "rule_head"), NEG_INF)
            parts = [g.where(transforms, NEG_INF, parts[0]), rules]
        if self.template.copies:
            copies = (hidden * size**-0.5) @ g.linear(read.states, "copy_key").transpose(0, 2, 1)
            copyable = self._copyable(read.ids, read.columns).unsqueeze(1)
            if self.template.num_rules:
                copyable = copyable & ~transforms
            parts.append(g.where(copyable, copies, NEG_INF))
        return g.concat(parts, 2) if len(parts) > 1 else parts[0]

    def _token_bias(self) -> Value:
        """Return (H,) the biases of all that makes the hidden state of a token, and a single operation's embedding."""
        g = self.g
        layers = ("token_from_plan", "token_from_first", *(["token_from_last"] if self.has_spans else []))
        with g.once():
            parts = [g.weight(f"{name}.bias") for name in layers if g.has_weight(f"{name}.bias")]
            if len(self.template.operations) == 1:
                parts.append(self.operations.of(g.scalar(0, "int64")))
            total = parts[0]
            for part in parts[1:]:
                total = total + part
        return total

    def _copyable(self, ids: Value, columns: Value) -> Value:
        """Return (B, T) the positions to copy from: the first of each token that is not insertable anyway."""
        g, size = self.g, len(self.allowed)
        known = g.where(ids < size, ids, PAD, "int64")
        insertable = g.constant(self.allowed).take(known) | ids.equal(PAD)
        earlier = columns.unsqueeze(0) < columns.unsqueeze(1)  # (T, T)
        same = g.op("Equal", ids.unsqueeze(2), ids.unsqueeze(1)) & earlier
        repeated = g.op("ReduceMax", same.cast("float32"), g.constant(np.array([2])), keepdims=0) >= 0.5
        return ~insertable & ~repeated

    def _inserts(self, operation: Value) -> Value:
        inserting = np.array([which not in NO_TOKEN for which in self.template.operations])
        return self.g.constant(inserting).take(operation)

    def _top_k(self, read: _Read, k: Value) -> tuple[Value, Value, Value]:
        """Return the k most probable actions (B, K, F), or as many as there are.

        And their log-probabilities and, as logarithms, their confidences (B, K).
        """
        g, count = self.g, len(self.template.operations)
        log_prob, choice = read.positions.top_k(k)  # (B, E)
        width = read.ids.size(1)
        done = choice.equal(width if count == 1 else width * count)
        parts = {"done": done, "first": g.where(done, 0, choice if count == 1 else choice // count, "int64")}
        if count > 1:
            parts["operation"] = g.where(done, 0, choice % count, "int64")
        if self.order_free:
            parts["gain"] = self._confidence(read.positions).take_along(choice) - log_prob
        if self.has_spans:
            more, parts["last"] = self._next_choice(self._last_logits(read, **_names(parts)), done, k)
            log_prob, parts = self._extend(log_prob, more, parts)
        if not self.has_tokens:
            best, order = log_prob.top_k(k)
            return self._found({name: part.take_along(order) for name, part in parts.items()}, best)
        fixed = parts["done"] | ~self._inserts(parts["operation"]) if self.has_deletions else parts["done"]
        more, picked = self._next_choice(self._token_logits(read, **_names(parts)), fixed, k)
        best, order = (log_prob.unsqueeze(2) + more).reshape(0, -1).top_k(k)
        parent = order // g.last_size(more)
        found = {name: part.take_along(parent) for name, part in parts.items()}
        found["symbol"] = self._symbol_of(picked.reshape(0, -1).take_along(order), read.ids)
        return self._found(found, best)

    def _found(self, parts: dict[str, Value], log_prob: Value) -> tuple[Value, Value, Value]:
        """Return actions, log-probabilities and confidences."""
        log_prob = self._possible(log_prob)
        return self._actions(parts), log_prob, log_prob + parts["gain"] if self.order_free else log_prob

    def _next_choice(self, logits: Value, fixed: Value, k: Value) -> tuple[Value, Value]:
        """Return k log-probabilities (B, E, K) and choices; a single, certain one where the field has no meaning."""
        g = self.g
        log_prob, choice = logits.log_softmax().top_k(k)
        values = g.constant(np.array([NEG_INF, 0.0], np.float32))
        certain = g.op("OneHot", g.constant(np.array([0])), g.last_size(log_prob), values)  # (1, K)
        return g.where(fixed.unsqueeze(2), certain, log_prob), choice

    def _extend(self, log_prob: Value, more: Value, parts: dict[str, Value]) -> tuple[Value, dict[str, Value]]:
        """Combine every partial action (B, E) with every choice of the last position (B, E, K)."""
        width = self.g.last_size(more)
        total = (log_prob.unsqueeze(2) + more).reshape(0, -1)
        wide = {
            name: (part if name == "last" else part.unsqueeze(2).expand(1, 1, width)).reshape(0, -1)
            for name, part in parts.items()
        }
        return total, wide

    def _symbol_of(self, choice: Value, ids: Value) -> Value:
        """Return the symbols of indices into the token logits: tokens or affix rules."""
        g, size, rules = self.g, len(self.allowed), self.template.num_rules
        symbol = choice * 4 + TOKEN
        if rules:
            symbol = g.where(choice < size, symbol, (choice - size) * 4 + RULE, "int64")
        if not self.template.copies:
            return symbol
        copied = g.op("Max", choice - (size + rules), g.scalar(0, "int64"))
        return g.where(choice < size + rules, symbol, ids.take_along(copied) * 4 + TOKEN, "int64")

    def _actions(self, parts: dict[str, Value]) -> Value:
        """Return the actions (B, K, F) that are made of these parts."""
        g = self.g
        position = parts["first"] * 4 + POSITION
        columns = {"position": position, "first": position}
        if self.has_spans:
            columns["last"] = parts["last"] * 4 + POSITION
        if "operation" in self.template.fields:
            ids = g.constant(np.array([int(which) * 4 + OPERATION for which in self.template.operations]))
            columns["operation"] = ids.take(parts["operation"] if "operation" in parts else parts["first"] * 0)
        if self.has_tokens:
            columns["token"] = parts["symbol"]
        if self.has_tokens and self.has_deletions:
            columns["token"] = g.where(self._inserts(parts["operation"]), parts["symbol"], position, "int64")
        fields = g.concat([columns[field].unsqueeze(2) for field in self.template.fields], 2)
        return g.where(parts["done"].unsqueeze(2), DONE, fields, "int64")

    def _possible(self, log_prob: Value) -> Value:
        """Return log-probabilities, -inf where there is no action."""
        g = self.g
        return g.where(log_prob <= NEG_INF / 2, g.scalar(float("-inf"), "float32"), log_prob)

    def _score(self, read: _Read, has_edit: Value, first: Value, last: Value, operation: Value, choice: Value) -> Value:
        """Return (B,) the log-probability of given actions; choice -1 is no token."""
        g, count = self.g, len(self.template.operations)
        done = read.ids.size(1) * count
        edits = has_edit.equal(1)
        position = g.where(edits, first * count + operation, done, "int64")
        total = self._confidence(read.positions).take_along(position.unsqueeze(1)).squeeze(1)
        first, last, operation, choice = (part.unsqueeze(1) for part in (first, last, operation, choice))
        extra = total * 0.0
        if self.has_spans:
            log_probs = self._last_logits(read, first, operation).log_softmax().squeeze(1)
            extra = extra + log_probs.take_along(last).squeeze(1)
        if self.has_tokens:
            log_probs = self._token_logits(read, first, last, operation).log_softmax().squeeze(1)
            named = g.op("Max", choice, g.scalar(0, "int64"))
            token = log_probs.take_along(named)
            extra = extra + g.where(choice < 0, 0.0, token).squeeze(1)
        return total + g.where(edits, extra, 0.0)


def _names(parts: dict[str, Value]) -> dict[str, Value]:
    """Return the parts of actions that name a position or an operation."""
    return {name: part for name, part in parts.items() if name not in ("done", "gain")}


def pointer_graph(method: Method, config: TrainingConfig, weights: Tensors, dtype: str) -> bytes:
    """Return the graph of a pointer programmer."""
    return PointerGraph(method, config, weights, dtype).to_bytes()
