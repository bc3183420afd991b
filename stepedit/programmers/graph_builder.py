"""A small builder of ONNX graphs that reads like numpy.

    graph = GraphBuilder(weights, dtype="float16")
    x = graph.input("x", "float32", ["batch", 4])
    graph.output("y", graph.linear(x, "linear").relu(), "float32", ["batch", 8])
    content = graph.to_bytes({"kind": "example"})

Weights are stored once, in `dtype`, and computed in float32. In int8, matrices have a scale for each output, and linear
layers compute with 8-bit integers. Only standard operators are used and no external data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper

from stepedit.errors import UserError

OPSET = 20
MAX_INT8, ZERO_POINT, TINY = 127, 128, 1e-9
TYPES = {
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "float32": TensorProto.FLOAT,
    "bool": TensorProto.BOOL,
    "uint8": TensorProto.UINT8,
}
Array = npt.NDArray[Any]


class Value:
    """A tensor of a graph; operators add nodes."""

    def __init__(self, graph: GraphBuilder, name: str) -> None:
        self.graph, self.name = graph, name

    def _binary(self, kind: str, other: Value | float | int, like: str) -> Value:
        return self.graph.op(kind, self, self.graph.scalar(other, like))

    def __add__(self, other: Value | float) -> Value:
        return self._binary("Add", other, _kind_of(other))

    def __sub__(self, other: Value | float) -> Value:
        return self._binary("Sub", other, _kind_of(other))

    def __mul__(self, other: Value | float) -> Value:
        return self._binary("Mul", other, _kind_of(other))

    def __floordiv__(self, other: Value | int) -> Value:
        return self._binary("Div", other, "int64")  # integers, none of them negative

    def __truediv__(self, other: Value | float) -> Value:
        return self._binary("Div", other, "float32")

    def __mod__(self, other: Value | int) -> Value:
        return self._binary("Mod", other, "int64")

    def __matmul__(self, other: Value) -> Value:
        return self.graph.op("MatMul", self, other)

    def __lt__(self, other: Value | float) -> Value:
        return self._binary("Less", other, _kind_of(other))

    def __le__(self, other: Value | float) -> Value:
        return self._binary("LessOrEqual", other, _kind_of(other))

    def __ge__(self, other: Value | float) -> Value:
        return self._binary("GreaterOrEqual", other, _kind_of(other))

    def __and__(self, other: Value) -> Value:
        return self.graph.op("And", self, other)

    def __or__(self, other: Value) -> Value:
        return self.graph.op("Or", self, other)

    def __invert__(self) -> Value:
        return self.graph.op("Not", self)

    def equal(self, other: Value | int) -> Value:
        """Return where two integer tensors are equal."""
        return self._binary("Equal", other, "int64")

    def reshape(self, *shape: int | Value) -> Value:
        """Return the tensor in another shape; 0 keeps a dimension, -1 is inferred, values are computed sizes."""
        return self.graph.op("Reshape", self, self.graph.shape_of_parts(shape))

    def transpose(self, *order: int) -> Value:
        """Return the tensor with its axes permuted."""
        return self.graph.op("Transpose", self, perm=list(order))

    def expand(self, *shape: int | Value) -> Value:
        """Broadcast to a shape."""
        return self.graph.op("Expand", self, self.graph.shape_of_parts(shape))

    def unsqueeze(self, *axes: int) -> Value:
        """Insert axes of size one."""
        return self.graph.op("Unsqueeze", self, self.graph.constant(np.array(axes)))

    def squeeze(self, *axes: int) -> Value:
        """Remove axes of size one."""
        return self.graph.op("Squeeze", self, self.graph.constant(np.array(axes)))

    def slice(self, axis: int, start: int | Value, stop: int | Value) -> Value:
        """Return part of an axis."""
        parts = [self.graph.size_vector(part) for part in (start, stop)]
        return self.graph.op("Slice", self, *parts, self.graph.constant(np.array([axis])))

    def take(self, index: Value, axis: int = 0) -> Value:
        """Return entries along an axis."""
        return self.graph.op("Gather", self, index, axis=axis)

    def take_rows(self, index: Value) -> Value:
        """Return (B, K, ...) entries of (B, T, ...) at indices (B, K) of each row."""
        return self.graph.op("GatherND", self, index.unsqueeze(2), batch_dims=1)

    def take_along(self, index: Value, axis: int = 1) -> Value:
        """Return numpy's take_along_axis."""
        return self.graph.op("GatherElements", self, index, axis=axis)

    def size(self, axis: int) -> Value:
        """Return the size of an axis as a vector of one integer."""
        return self.graph.op("Shape", self, start=axis, end=axis + 1)

    def cast(self, kind: str) -> Value:
        """Return the tensor in another type."""
        return self.graph.op("Cast", self, to=TYPES[kind])

    def softmax(self) -> Value:
        """Return the softmax over the last axis."""
        return self.graph.op("Softmax", self, axis=-1)

    def log_softmax(self) -> Value:
        """Return the log-softmax over the last axis."""
        return self.graph.op("LogSoftmax", self, axis=-1)

    def relu(self) -> Value:
        """Return max(x, 0)."""
        return self.graph.op("Relu", self)

    def tanh(self) -> Value:
        """Return tanh(x)."""
        return self.graph.op("Tanh", self)

    def log(self) -> Value:
        """Return log(x)."""
        return self.graph.op("Log", self)

    def exp(self) -> Value:
        """Return exp(x)."""
        return self.graph.op("Exp", self)

    def sigmoid(self) -> Value:
        """Return 1 / (1 + exp(-x))."""
        return self.graph.op("Sigmoid", self)

    def gelu(self) -> Value:
        """Return the exact GELU."""
        return self.graph.op("Gelu", self)

    def top_k(self, k: Value) -> tuple[Value, Value]:
        """Return the k largest entries of the last axis, sorted, and their indices; at most as many as there are."""
        limit = self.graph.op("Min", k, self.graph.last_size(self))
        values, indices = self.graph.ops("TopK", self, limit, count=2, axis=-1, largest=1, sorted=1)
        return values, indices


def _kind_of(value: Value | float | int) -> str:
    return "int64" if isinstance(value, int) and not isinstance(value, bool) else "float32"


class GraphBuilder:
    """Collects nodes, weights, inputs and outputs."""

    def __init__(self, weights: Mapping[str, Array], dtype: str = "float32") -> None:
        self.weights, self.dtype = weights, dtype
        self.prelude: list[Any] = []  # what depends on weights alone; onnxruntime computes it once, when it loads
        self.nodes: list[Any] = []
        self._count = 0
        self.initializers: dict[str, Any] = {}
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self._cached: dict[str, Value] = {}

    def input(self, name: str, kind: str, shape: Sequence[int | str], default: Array | None = None) -> Value:
        """Declare an input; names in the shape are sizes that may vary. One with a default may be left out."""
        self.inputs.append(helper.make_tensor_value_info(name, TYPES[kind], list(shape)))
        if default is not None:
            self.initializers[name] = numpy_helper.from_array(default.astype(kind), name)
        return Value(self, name)

    def output(self, name: str, value: Value, kind: str, shape: Sequence[int | str]) -> None:
        """Declare an output."""
        self.nodes.append(helper.make_node("Identity", [value.name], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, TYPES[kind], list(shape)))

    def op(self, kind: str, *inputs: Value | None, **attributes: Any) -> Value:
        """Add a node with one output."""
        return self.ops(kind, *inputs, count=1, **attributes)[0]

    def ops(self, kind: str, *inputs: Value | None, count: int, **attributes: Any) -> list[Value]:
        """Add a node with several outputs."""
        self._count += 1
        names = [f"v{self._count}_{index}" for index in range(count)]
        given = [value.name if value is not None else "" for value in inputs]
        self.nodes.append(helper.make_node(kind, given, names, **attributes))
        return [Value(self, name) for name in names]

    def weight(self, name: str, transposed: bool = False) -> Value:
        """Return a weight in float32, a matrix transposed if asked."""
        key = f"{name}.T" if transposed else name
        if key not in self._cached:
            with self.once():
                self._cached[key] = self._stored(name, key, transposed)
        return self._cached[key]

    def _stored(self, name: str, key: str, transposed: bool) -> Value:
        """Store a weight and return it in float32."""
        if self.is_quantized(name):
            integers, scale = self._quantized(name, transposed)
            return integers.cast("float32") * (scale if transposed else scale.unsqueeze(1))
        dtype = "float32" if self.dtype == "int8" else self.dtype  # the few that are no matrices
        array = np.asarray(self.weights[name], np.float32)
        array = np.ascontiguousarray(array.T) if transposed else array
        with np.errstate(over="ignore"):
            stored = array.astype(dtype)
        if not np.isfinite(stored).all():
            raise UserError(f"a weight of {name} is too large for {dtype}; use --dtype float32")
        self.initializers[key] = numpy_helper.from_array(stored, key)
        return Value(self, key) if dtype == "float32" else Value(self, key).cast("float32")

    def is_quantized(self, name: str) -> bool:
        """Whether a weight is stored as 8-bit integers."""
        return self.dtype == "int8" and self.weights[name].ndim == 2

    def _quantized(self, name: str, transposed: bool) -> tuple[Value, Value]:
        """Store a matrix as 8-bit integers with a scale for each of its rows (columns, if transposed)."""
        key = f"{name}.T" if transposed else name
        if key not in self.initializers:
            array = np.asarray(self.weights[name], np.float32)
            scale = np.maximum(np.abs(array).max(1), TINY) / MAX_INT8
            integers = np.rint(array / scale[:, None]).astype(np.int8)
            integers = np.ascontiguousarray(integers.T) if transposed else integers
            self.initializers[key] = numpy_helper.from_array(integers, key)
            self.initializers[f"{key}.scale"] = numpy_helper.from_array(scale.astype(np.float32), f"{key}.scale")
        return Value(self, key), Value(self, f"{key}.scale")

    def _integer_product(self, x: Value, name: str) -> Value:
        """Return the product with a transposed matrix, computed in 8-bit integers.

        Each row of `x` is quantized by its own largest entry, so that no text depends on those beside it.
        """
        integers, scale = self._quantized(name, transposed=True)
        largest = self.op("ReduceMax", self.op("Abs", x), self.constant(np.array([-1])), keepdims=1)
        row_scale = self.op("Max", largest, self.scalar(TINY, "float32")) * (1 / MAX_INT8)
        rounded = (self.op("Round", x / row_scale) + float(ZERO_POINT)).cast("uint8")
        zero_point = self.constant(np.array(ZERO_POINT, np.uint8))
        return self.op("MatMulInteger", rounded, integers, zero_point).cast("float32") * scale * row_scale

    @contextmanager
    def once(self) -> Iterator[None]:
        """Add the nodes made inside to what is computed when the graph is loaded."""
        nodes, self.nodes = self.nodes, self.prelude
        try:
            yield
        finally:
            self.nodes = nodes

    def when(self, condition: Value, make: Callable[[], Sequence[Value]], empty: Sequence[Array]) -> list[Value]:
        """Return the values that `make` builds, computed only if the condition is true; otherwise `empty` constants."""
        outer, self.nodes = self.nodes, []
        values = make()
        inner, self.nodes = self.nodes, outer
        branches = {
            "then_branch": _branch("then", inner, values),
            "else_branch": _branch("else", [], [self.constant(array) for array in empty]),
        }
        return self.ops("If", condition, count=len(values), **branches)

    def loop(
        self,
        limit: Value,
        carried: Sequence[tuple[Value, str]],
        body: Callable[[list[Value]], tuple[Value, Sequence[Value], Sequence[Value]]],
    ) -> list[Value]:
        """Repeat `body` up to `limit` times while it says so; return what it collects, a new axis first.

        `body` gets the carried values, each with its type, and returns whether to go on, the next carried values and
        what to collect. A limit of 0 costs nothing.
        """
        self._count += 1
        names = [f"loop{self._count}_{part}" for part in ("index", "go_on", *range(len(carried)))]
        kinds: list[tuple[str, list[int] | None]] = [
            ("int64", []),
            ("bool", []),
            *((kind, None) for _, kind in carried),
        ]
        infos = [
            helper.make_tensor_value_info(name, TYPES[kind], at) for name, (kind, at) in zip(names, kinds, strict=True)
        ]
        outer, self.nodes = self.nodes, []
        go_on, following, collected = body([Value(self, name) for name in names[2:]])
        inner, self.nodes = self.nodes, outer
        graph = _branch(f"body{self._count}", inner, [go_on, *following, *collected], infos)
        inputs = [limit, self.scalar(True, "bool"), *(value for value, _ in carried)]
        results = self.ops("Loop", *inputs, count=len(carried) + len(collected), body=graph)
        return results[len(carried) :]

    def has_weight(self, name: str) -> bool:
        """Whether there is a weight of this name."""
        return name in self.weights

    def constant(self, array: Array) -> Value:
        """Return a constant, stored as it is."""
        name = f"c{len(self.initializers)}"
        self.initializers[name] = numpy_helper.from_array(np.asarray(array, order="C"), name)
        return Value(self, name)

    def scalar(self, value: Value | float | int, kind: str) -> Value:
        """Return a number as a constant, or a value as it is."""
        if isinstance(value, Value):
            return value
        key = f"{kind}:{value!r}"
        if key not in self._cached:
            self._cached[key] = self.constant(np.array(value, kind))
        return self._cached[key]

    def size_vector(self, size: int | Value) -> Value:
        """Return a size as a vector of one integer."""
        return size if isinstance(size, Value) else self.constant(np.array([size]))

    def shape_of_parts(self, shape: Sequence[int | Value]) -> Value:
        """Return a shape whose parts are numbers or computed sizes."""
        if all(isinstance(part, int) for part in shape):
            return self.constant(np.array(shape))
        return self.op("Concat", *(self.size_vector(part) for part in shape), axis=0)

    def last_size(self, value: Value) -> Value:
        """Return the size of the last axis as a vector of one integer."""
        return self.op("Shape", value, start=-1)

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """Concatenate along an axis."""
        return self.op("Concat", *values, axis=axis)

    def where(self, condition: Value, yes: Value | float, no: Value | float, kind: str = "float32") -> Value:
        """Return numpy's where."""
        return self.op("Where", condition, self.scalar(yes, kind), self.scalar(no, kind))

    def arange(self, size: Value) -> Value:
        """Return 0 .. size-1 for a size vector."""
        zero, one = self.scalar(0, "int64"), self.scalar(1, "int64")
        return self.op("Range", zero, size.squeeze(0), one)

    def linear(self, x: Value, name: str) -> Value:
        """Apply a torch Linear layer."""
        matrix = f"{name}.weight"
        y = self._integer_product(x, matrix) if self.is_quantized(matrix) else x @ self.weight(matrix, transposed=True)
        return y + self.weight(f"{name}.bias") if self.has_weight(f"{name}.bias") else y

    def linear_2d(self, x: Value, name: str, bias: Value | None = None) -> Value:
        """Apply a torch Linear layer to a matrix, in one node; `bias` replaces the layer's own."""
        if bias is None and self.has_weight(f"{name}.bias"):
            bias = self.weight(f"{name}.bias")
        if self.is_quantized(f"{name}.weight"):
            y = self._integer_product(x, f"{name}.weight")
            return y if bias is None else y + bias
        parts = (x, self.weight(f"{name}.weight", transposed=True), *([bias] if bias else []))
        return self.op("Gemm", *parts)

    def layer_norm(self, x: Value, name: str, epsilon: float = 1e-5) -> Value:
        """Apply a torch LayerNorm."""
        scale, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=epsilon)

    def to_bytes(self, facts: Mapping[str, str]) -> bytes:
        """Return the model; facts become its metadata."""
        graph = helper.make_graph(
            [*self.prelude, *self.nodes], "stepedit", self.inputs, self.outputs, list(self.initializers.values())
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
        helper.set_model_props(model, dict(facts))
        return bytes(model.SerializeToString())


def _branch(name: str, nodes: Sequence[Any], values: Sequence[Value], inputs: Sequence[Any] = ()) -> Any:
    """Return a branch of a condition or the body of a loop; its outputs may be values of the graph around it."""
    outputs = [f"{name}_{index}_{value.name}" for index, value in enumerate(values)]
    copies = [helper.make_node("Identity", [value.name], [out]) for value, out in zip(values, outputs, strict=True)]
    infos = [helper.make_empty_tensor_value_info(out) for out in outputs]
    return helper.make_graph([*nodes, *copies], name, list(inputs), infos)
