"""The layers of `nn/` as ONNX: embeddings, encoders, and one step of a decoder.

Each function mirrors the module of the same name; weights are named as there. Parity is tested for every combination.

Shapes: B texts, T tokens, H hidden size, N heads, D = H/N, L layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stepedit.config import TrainingConfig
from stepedit.programmers.graph_builder import GraphBuilder, Value
from stepedit.programmers.nn.attention import NEG_INF

# torch's order of gates -> ONNX's
GATES = {"lstm": ("LSTM", [0, 3, 1, 2]), "gru": ("GRU", [1, 0, 2]), "rnn": ("RNN", [0])}


class Encoded(NamedTuple):
    """The encoding of B texts."""

    states: Value  # (B, T, H)
    mask: Value  # (B, T) bool
    summary: Value  # (B, H)
    memory: Value | None  # (B, H) the cell state of an LSTM beside its summary


class Embedded(NamedTuple):
    """An embedding table."""

    known: Value  # (V, H) vectors of the known tokens
    transposed: Value  # (H, V)
    table: Value  # (V + buckets, H)
    size: int
    bucket_sizes: tuple[int, ...]

    def of(self, ids: Value) -> Value:
        """Return the vectors of some ids; an unknown token has those of its buckets."""
        if not self.bucket_sizes:
            return self.table.take(ids)
        where, is_known = ids.graph.where, ids < self.size
        if len(self.bucket_sizes) == 1:
            folded = (ids - self.size) % self.bucket_sizes[0] + self.size
            return self.table.take(where(is_known, ids, folded, "int64"))
        bucket = where(is_known, 0, ids - self.size, "int64")
        known = self.known.take(where(is_known, ids, 0, "int64"))
        return where(
            is_known.unsqueeze(2), known, _spelled(self.table, bucket, self.size, self.bucket_sizes), "float32"
        )


def _spelled(table: Value, bucket: Value, size: int, bucket_sizes: Sequence[int]) -> Value:
    """Return the summed vectors of the digits of some buckets."""
    first, stride, found = size, 1, list[Value]()
    for number in bucket_sizes:
        found.append(table.take(bucket // stride % number + first))
        first, stride = first + number, stride * number
    return reduce(Value.__add__, found)


def embedding(
    g: GraphBuilder,
    name: str,
    size: int,
    features: npt.NDArray[Any] | None = None,
    bucket_sizes: tuple[int, ...] = (),
    buckets: Sequence[int] = (),
) -> Embedded:
    """Return an embedding table with its features added."""
    with g.once():
        table = g.weight(f"{name}.table")
        known = table if not bucket_sizes else table.slice(0, 0, size)
        if buckets:
            known = known + _spelled(table, g.constant(np.array(buckets)), size, bucket_sizes)
        if features is not None:
            known = known + g.constant(features) @ g.weight(f"{name}.feature_map.weight", transposed=True)
        whole = known if not bucket_sizes else g.concat([known, table.slice(0, size, size + sum(bucket_sizes))], 0)
        return Embedded(known, known.transpose(1, 0), whole, size, bucket_sizes)


def encoder(g: GraphBuilder, config: TrainingConfig, x: Value, mask: Value, columns: Value) -> Encoded:
    """Return the encoding of embedded tokens; columns are 0 .. T-1."""
    if config.architecture == "transformer":
        return _transformer_encoder(g, config, x, mask, columns)
    return _recurrent_encoder(g, config, x, mask)


class Subwords(NamedTuple):
    """The subwords of B texts, and the range of them that each token covers."""

    ids: Value  # (B, S)
    lengths: Value  # (B,)
    starts: Value  # (B, T)
    stops: Value  # (B, T)


def pretrained_encoder(g: GraphBuilder, config: TrainingConfig, own: Value, mask: Value, subwords: Subwords) -> Encoded:
    """Return the encoding of subwords, pooled onto tokens, with the tokens' own embedding added."""
    hidden, columns = _bert(g, config, subwords), g.arange(subwords.ids.size(1))
    starts, stops = subwords.starts.unsqueeze(2), subwords.stops.unsqueeze(2)
    covered = columns.equal(starts)
    if config.pooling == "mean":
        covered = (columns >= starts) & (columns < stops)
    weights = covered.cast("float32")
    weights = weights / g.op("ReduceSum", weights, g.constant(np.array([2])), keepdims=1)
    return Encoded(weights @ hidden + own, mask, hidden.take(g.scalar(0, "int64"), axis=1), None)


def _bert(g: GraphBuilder, config: TrainingConfig, subwords: Subwords) -> Value:
    """Return the hidden states (B, S, H) of `nn.bert`."""
    shape, name = config.encoder_shape, "encoder.bert.embeddings"
    assert shape is not None
    size, heads, width = shape.hidden_size, shape.num_heads, shape.hidden_size // shape.num_heads
    columns, batch = g.arange(subwords.ids.size(1)), subwords.ids.size(0)
    bias = _attention_bias(g, columns < subwords.lengths.unsqueeze(1))
    split = g.shape_of_parts((batch, -1, heads, width))
    with g.once():
        kind = g.weight(f"{name}.token_type_embeddings.weight").slice(0, 0, 1)
    x = g.weight(f"{name}.word_embeddings.weight").take(subwords.ids) + kind
    x = x + g.weight(f"{name}.position_embeddings.weight").take(columns + shape.first_position)
    x = g.layer_norm(x, f"{name}.LayerNorm", shape.layer_norm_eps).reshape(-1, size)
    for layer in range(shape.num_layers):
        name = f"encoder.bert.encoder.layer.{layer}"
        projected = (g.linear_2d(x, f"{name}.attention.self.{part}") for part in ("query", "key", "value"))
        query, key, value = (g.op("Reshape", part, split).transpose(0, 2, 1, 3) for part in projected)
        scores = query @ key.transpose(0, 1, 3, 2) * float(width**-0.5) + bias
        attended = (scores.softmax() @ value).transpose(0, 2, 1, 3).reshape(-1, size)
        x = x + g.linear_2d(attended, f"{name}.attention.output.dense")
        x = g.layer_norm(x, f"{name}.attention.output.LayerNorm", shape.layer_norm_eps)
        inner = g.linear_2d(x, f"{name}.intermediate.dense").gelu()
        x = g.layer_norm(
            x + g.linear_2d(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm", shape.layer_norm_eps
        )
    return x.reshape(batch, -1, size)


def _attention_bias(g: GraphBuilder, mask: Value) -> Value:
    """Return (B, 1, 1, T) zero at tokens and NEG_INF at padding."""
    return g.where(mask, 0.0, NEG_INF).unsqueeze(1, 2)


def _feed_forward(g: GraphBuilder, x: Value, name: str) -> Value:
    return g.linear_2d(g.linear_2d(g.layer_norm(x, f"{name}.norm"), f"{name}.up").relu(), f"{name}.down")


def _transformer_encoder(g: GraphBuilder, config: TrainingConfig, x: Value, mask: Value, columns: Value) -> Encoded:
    size, heads, width = config.hidden_size, config.num_heads, config.hidden_size // config.num_heads
    bias, batch = _attention_bias(g, mask), x.size(0)
    split = g.shape_of_parts((batch, -1, 3 * heads, width))
    x = (x + _positions(g, "encoder", columns)).reshape(-1, size)  # all tokens as one matrix
    for layer in range(config.num_layers):
        name = f"encoder.blocks.{layer}"
        y = g.linear_2d(g.layer_norm(x, f"{name}.norm"), f"{name}.query_key_value")
        y = g.op("Reshape", y, split).transpose(0, 2, 1, 3)  # (B, 3N, T, D)
        query, key, value = g.ops("Split", y, count=3, axis=1, num_outputs=3)
        scores = query @ key.transpose(0, 1, 3, 2) * _scale(config) + bias
        attended = (scores.softmax() @ value).transpose(0, 2, 1, 3).reshape(-1, size)
        x = x + g.linear_2d(attended, f"{name}.out")
        x = x + _feed_forward(g, x, f"{name}.feed_forward")
    states = g.layer_norm(x, "encoder.norm").reshape(batch, -1, size)
    return Encoded(states, mask, states.take(g.scalar(0, "int64"), axis=1), None)


def _positions(g: GraphBuilder, name: str, at: Value) -> Value:
    """Return position embeddings; positions beyond the last known one share its embedding."""
    table = g.weight(f"{name}.position_embedding")
    last = g.weights[f"{name}.position_embedding"].shape[0] - 1
    return table.take(g.op("Min", at, g.scalar(last, "int64")))


def _scale(config: TrainingConfig) -> float:
    return float((config.hidden_size // config.num_heads) ** -0.5)


def _recurrent_encoder(g: GraphBuilder, config: TrainingConfig, x: Value, mask: Value) -> Encoded:
    kind, order = GATES[config.architecture]
    both = config.bidirectional
    size = config.hidden_size // 2 if both else config.hidden_size  # of one direction
    lengths = g.op("ReduceSum", mask.cast("int64"), g.constant(np.array([1])), keepdims=0)
    steps = g.op("Max", lengths, g.scalar(1, "int64")).cast("int32")  # an empty text is read as one padding token
    index = np.concatenate([np.arange(size) + size * gate for gate in order])
    hidden = x.transpose(1, 0, 2)  # (T, B, H)
    final = list[Value]()  # (directions, B, size) each
    extra = {"linear_before_reset": 1} if kind == "GRU" else {}
    for layer in range(config.num_layers):
        weights = _onnx_gates(g, f"encoder.layers.{layer}", both, index)
        direction, count = "bidirectional" if both else "forward", 3 if kind == "LSTM" else 2
        output, *final = g.ops(
            kind, hidden, *weights, steps, count=count, hidden_size=size, direction=direction, **extra
        )
        hidden = output.transpose(0, 2, 1, 3).reshape(0, 0, -1)  # (T, B, H)
    summary, *memory = (part.transpose(1, 0, 2).reshape(0, -1) for part in final)
    return Encoded(hidden.transpose(1, 0, 2), mask, summary, memory[0] if memory else None)


def _onnx_gates(g: GraphBuilder, name: str, both: bool, index: npt.NDArray[Any]) -> tuple[Value, Value, Value]:
    """Return input weights, recurrent weights and biases of all directions with ONNX's order of gates."""
    kinds, suffixes = ("weight_ih", "weight_hh", "bias_ih", "bias_hh"), ("_l0", "_l0_reverse") if both else ("_l0",)
    with g.once():
        gates = g.constant(index)
        parts = [[g.weight(f"{name}.{kind}{suffix}").take(gates) for kind in kinds] for suffix in suffixes]
        inputs, recurrent = (g.concat([part[at].unsqueeze(0) for part in parts], 0) for at in (0, 1))
        bias = g.concat([g.concat([part[2], part[3]], 0).unsqueeze(0) for part in parts], 0)
    return inputs, recurrent, bias


def initial_states(g: GraphBuilder, config: TrainingConfig, encoded: Encoded, num_layers: int) -> list[Value]:
    """Return the decoder's states before its first step, batch first."""
    batch = encoded.states.size(0)
    if config.architecture == "transformer":
        heads, width = config.num_heads, config.hidden_size // config.num_heads
        empty = g.constant(np.zeros((1, heads, 0, width), np.float32)).expand(batch, heads, 0, width)
        return [empty] * (2 * num_layers)
    hidden = encoded.summary.unsqueeze(1).expand(batch, num_layers, config.hidden_size)
    if encoded.memory is None:
        return [hidden]
    return [hidden, encoded.memory.unsqueeze(1).expand(batch, num_layers, config.hidden_size)]


def decoder_step(
    g: GraphBuilder,
    config: TrainingConfig,
    name: str,
    x: Value,
    encoded: Encoded,
    states: list[Value] | None,
    num_layers: int,
) -> tuple[Value, list[Value]]:
    """Return the hidden state (B, H) after one symbol (B or 1, H), and the next states.

    Without states it is the first step, on texts that are not empty.
    """
    if config.architecture == "transformer":
        return _transformer_step(g, config, name, x, encoded, states, num_layers)
    states = states or initial_states(g, config, encoded, num_layers)
    return _recurrent_step(g, config, name, x, encoded, states, num_layers)


def _transformer_step(
    g: GraphBuilder,
    config: TrainingConfig,
    name: str,
    x: Value,
    encoded: Encoded,
    caches: list[Value] | None,
    num_layers: int,
) -> tuple[Value, list[Value]]:
    at = caches[0].size(2) if caches else g.constant(np.array([0]))
    x, extended = x + _positions(g, name, at), list[Value]()
    for layer in range(num_layers):
        block = f"{name}.blocks.{layer}"
        normed = g.layer_norm(x, f"{block}.self_norm")
        if caches:
            both = g.linear_2d(normed, f"{block}.self_attention.key_value")
            query = _heads(g.linear_2d(normed, f"{block}.self_attention.query"), config)
            key, value = (_heads(part, config) for part in g.ops("Split", both, count=2, axis=1, num_outputs=2))
            key, value = (g.concat([caches[2 * layer + part], new], 2) for part, new in enumerate((key, value)))
            extended += [key, value]
            weights = (query @ key.transpose(0, 1, 3, 2) * _scale(config)).softmax()
            attended = (weights @ value).transpose(0, 2, 1, 3).reshape(0, -1)
            x = x + g.linear_2d(attended, f"{block}.self_attention.out")
        else:
            x = x + _to_itself(g, config, normed, f"{block}.self_attention")
        normed = g.layer_norm(x, f"{block}.cross_norm")
        x = x + _single_query(g, config, normed, encoded, f"{block}.cross_attention", may_be_empty=caches is not None)
        x = x + _feed_forward(g, x, f"{block}.feed_forward")
    return g.layer_norm(x, f"{name}.norm"), extended


def _to_itself(g: GraphBuilder, config: TrainingConfig, x: Value, name: str) -> Value:
    """Attend from a first symbol, which sees itself alone: its value, mapped to the output, is one linear layer."""
    size = config.hidden_size
    with g.once():
        value = g.weight(f"{name}.key_value.weight", transposed=True).slice(1, size, 2 * size)
        bias = g.weight(f"{name}.key_value.bias").slice(0, size, 2 * size).unsqueeze(0)
        weight = value @ g.weight(f"{name}.out.weight", transposed=True)
        bias = g.linear_2d(bias, f"{name}.out").squeeze(0)
    return g.op("Gemm", x, weight, bias)


def _heads(x: Value, config: TrainingConfig) -> Value:
    """Return (B, N, 1, D)."""
    return x.reshape(0, config.num_heads, 1, -1)


def _single_query(
    g: GraphBuilder, config: TrainingConfig, x: Value, encoded: Encoded, name: str, may_be_empty: bool
) -> Value:
    """Attend from one state per text, the query mapped to the space of the states."""
    size, heads = config.hidden_size, config.num_heads
    with g.once():
        maps = g.weight(f"{name}.key_value.weight").reshape(2, heads, -1, size)
        key_map, value_map = (maps.take(g.scalar(part, "int64")) for part in (0, 1))  # (N, D, H)
        key_map, value_map = key_map * _scale(config), value_map.transpose(0, 2, 1)
        value_bias = g.weight(f"{name}.key_value.bias").slice(0, size, 2 * size)
        out_bias = g.linear_2d(value_bias.unsqueeze(0), f"{name}.out").squeeze(0)  # the weights of a text add up to one
    states = encoded.states.unsqueeze(1)  # (B, 1, T, H)
    query = _heads(g.linear_2d(x, f"{name}.query"), config) @ key_map  # (B, N, 1, H)
    weights = (query @ states.transpose(0, 1, 3, 2) + _attention_bias(g, encoded.mask)).softmax()
    if may_be_empty:  # an empty text has nothing to attend to: the output is the layer's own bias
        weights = weights * encoded.mask.unsqueeze(1, 2).cast("float32")
    attended = ((weights @ states) @ value_map).reshape(0, size)  # (B, N, 1, D) -> (B, H)
    if not may_be_empty:
        return g.linear_2d(attended, f"{name}.out", out_bias)
    some = g.op("ReduceMax", encoded.mask.cast("float32"), g.constant(np.array([1])), keepdims=1)
    own = g.weight(f"{name}.out.bias")
    return g.linear_2d(attended, f"{name}.out", own * 0.0) + own + some * (out_bias - own)


def _recurrent_step(
    g: GraphBuilder,
    config: TrainingConfig,
    name: str,
    x: Value,
    encoded: Encoded,
    states: list[Value],
    num_layers: int,
) -> tuple[Value, list[Value]]:
    inputs = x  # (B or 1, H)
    if config.attention == "additive":
        inputs = _attend_before_the_cell(g, name, x, encoded, states, num_layers)
    following: list[list[Value]] = [[] for _ in states]
    for layer in range(num_layers):
        before = [state.take(g.scalar(layer, "int64"), axis=1) for state in states]
        after = _cell(g, config, f"{name}.cell", layer, inputs, before)
        for part, value in zip(following, after, strict=True):
            part.append(value.unsqueeze(1))
        inputs = after[0]
    hidden = inputs
    if config.attention not in ("none", "additive"):
        context = _luong(g, config, name, hidden.unsqueeze(1), encoded).squeeze(1)
        hidden = g.linear_2d(g.concat([context, hidden], 1), f"{name}.combine").tanh()
    return hidden, [g.concat(part, 1) for part in following]


def _attend_before_the_cell(
    g: GraphBuilder, name: str, x: Value, encoded: Encoded, states: list[Value], num_layers: int
) -> Value:
    """Return what the cell reads: the symbol, and what the last layer's state attends to."""
    last = g.scalar(num_layers - 1, "int64")
    query = g.linear_2d(g.concat([state.take(last, axis=1) for state in states], 1), f"{name}.query")
    mixed = (query.unsqueeze(1) + g.linear(encoded.states, f"{name}.score")).tanh()
    context = _context(g, g.linear(mixed, f"{name}.collapse").transpose(0, 2, 1), encoded).squeeze(1)
    wide = x + context * 0.0  # a first symbol may be given once for all texts
    return g.linear_2d(g.concat([context, wide], 1), f"{name}.combine").relu()


def _context(g: GraphBuilder, scores: Value, encoded: Encoded) -> Value:
    """Return (B, 1, H) the states weighted by scores (B, 1, T); nothing of an empty text."""
    mask = encoded.mask.unsqueeze(1)
    weights = (scores + g.where(mask, 0.0, NEG_INF)).softmax() * mask.cast("float32")
    return weights @ encoded.states


def _cell(g: GraphBuilder, config: TrainingConfig, name: str, layer: int, x: Value, states: list[Value]) -> list[Value]:
    """Return the next states of one cell."""

    def projected(value: Value, part: str) -> Value:
        weight = g.weight(f"{name}.weight_{part}_l{layer}", transposed=True)
        return value @ weight + g.weight(f"{name}.bias_{part}_l{layer}")

    def gate(value: Value, index: int) -> Value:
        return value.slice(1, index * config.hidden_size, (index + 1) * config.hidden_size)

    hidden = states[0]
    inputs, recurrent = projected(x, "ih"), projected(hidden, "hh")
    if config.architecture == "rnn":
        return [(inputs + recurrent).tanh()]
    if config.architecture == "gru":
        reset, update = ((gate(inputs, at) + gate(recurrent, at)).sigmoid() for at in (0, 1))
        new = (gate(inputs, 2) + reset * gate(recurrent, 2)).tanh()
        return [new + update * (hidden - new)]
    gates = inputs + recurrent
    enter, forget, leave = (gate(gates, at).sigmoid() for at in (0, 1, 3))
    memory = forget * states[1] + enter * gate(gates, 2).tanh()
    return [leave * memory.tanh(), memory]


def _luong(g: GraphBuilder, config: TrainingConfig, name: str, hidden: Value, encoded: Encoded) -> Value:
    """Return the context (B, 1, H) of Luong attention."""
    keys = encoded.states
    if config.attention in ("general", "concat"):
        keys = g.linear(keys, f"{name}.score")
    if config.attention == "concat":
        mixed = (g.linear(hidden, f"{name}.query") + keys).tanh()  # (B, T, H)
        scores = g.linear(mixed, f"{name}.collapse").transpose(0, 2, 1)
    else:
        scores = hidden @ keys.transpose(0, 2, 1)
    return _context(g, scores, encoded)
