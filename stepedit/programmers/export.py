"""The pointer programmer as ONNX graphs (extra `[onnx]`): made from its weights, run by onnxruntime.

    read.onnx     encodes texts: hidden states, plan state, log-probabilities of positions
    tokens.onnx   the token to insert given the position
    lasts.onnx    the last position of a span given the first

`action_decoding` combines them into actions, as it does for the weights.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stepedit.config import TrainingConfig
from stepedit.errors import DataError, UserError
from stepedit.methods.base import Method
from stepedit.programmers.pointer import Pointer

READ, TOKENS, LASTS = "read.onnx", "tokens.onnx", "lasts.onnx"
TRACED_EDITS = 5  # in the example inputs


def require_onnx() -> None:
    """Raise UserError if what makes or runs graphs is not installed."""
    for name in ("onnx", "onnxscript", "onnxruntime"):
        if find_spec(name) is None:
            raise UserError(f"ONNX needs {name}: pip install 'stepedit[onnx]'")


class _Graph(nn.Module):
    """A method of a network as a module."""

    def __init__(self, net: Pointer, method: Callable[..., Any]) -> None:
        super().__init__()
        self.net, self.method = net, method

    def forward(self, *inputs: Tensor) -> Any:
        return self.method(self.net, *inputs)


def _token_logits(
    net: Pointer, states: Tensor, row: Tensor, plan: Tensor, operation: Tensor, first: Tensor, *rest: Tensor
) -> Tensor:
    """Call `Pointer.token_logits` with tensors only: the last position and the copyable mask exist for some tasks."""
    last = rest[0] if net.has_spans else None
    return net.token_logits(states, row, (first, last), plan, operation, rest[-1] if net.template.copies else None)


@torch.inference_mode()
def write_graphs(net: Pointer, folder: Path) -> None:
    """Write the graphs of a network into a folder."""
    require_onnx()
    net = net.eval().cpu()
    lengths, row = torch.tensor([4, 3, 2]), torch.tensor([0, 0, 1, 1, 2])
    ids = torch.where(torch.arange(4) < lengths[:, None], 1, 0)
    states, plan, _ = net.read(ids, lengths)
    position = torch.zeros(TRACED_EDITS, dtype=torch.long)
    _write(folder / READ, _Graph(net, Pointer.read), (ids, lengths))
    if net.has_tokens:
        rest = [part for part in (position if net.has_spans else None, net.copyable(ids)) if part is not None]
        _write(folder / TOKENS, _Graph(net, _token_logits), (states, row, plan[row], position, position, *rest))
    if net.has_spans:
        _write(folder / LASTS, _Graph(net, Pointer.last_logits), (states, row, position, plan[row], lengths))


def _write(path: Path, graph: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """Write one graph in which every dimension but the hidden one may have any size."""
    any_size = torch.export.Dim.DYNAMIC
    shapes = tuple(dict.fromkeys(range(part.dim() - part.is_floating_point()), any_size) for part in inputs)
    for logger in ("torch.onnx", "onnxscript"):  # they report on libraries and shapes that nobody asked about
        logging.getLogger(logger).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            graph, tuple(part.clone() for part in inputs), dynamo=True, dynamic_shapes=(shapes,), verbose=False
        )
    assert program is not None
    program.save(str(path))


class OnnxPointer(Pointer):
    """A pointer whose graphs are run by onnxruntime."""

    def __init__(self, method: Method, config: TrainingConfig) -> None:
        super().__init__(method, config)
        self.sessions: dict[str, Any] = {}

    @classmethod
    def from_folder(cls, folder: Path, method: Method, config: TrainingConfig) -> OnnxPointer:
        """Load the graphs of a folder; DataError if they are damaged."""
        require_onnx()
        import onnxruntime

        net, options = cls.from_config(method, config), onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        for path in sorted(folder.glob("*.onnx")):
            try:
                net.sessions[path.name] = onnxruntime.InferenceSession(
                    str(path), options, providers=["CPUExecutionProvider"]
                )
            except Exception:  # onnxruntime has many kinds of errors, none of them public
                raise DataError(f"{path}: damaged (not a graph that onnxruntime can run)") from None
        return net.eval()

    def _run(self, name: str, *inputs: Tensor) -> list[Tensor]:
        session = self.sessions[name]
        given = {
            each.name: np.ascontiguousarray(part.numpy())
            for each, part in zip(session.get_inputs(), inputs, strict=True)
        }
        return [torch.from_numpy(part) for part in session.run(None, given)]

    def compile_for_inference(self) -> bool:
        """Do nothing: a graph is compiled already."""
        return False

    def check_exportable(self) -> None:
        """Raise UserError: graphs are made from weights."""
        raise UserError("this model is ONNX graphs already; export them from the run they were made from")

    def read(self, ids_BT: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Run the graph."""
        states, plan, log_probs = self._run(READ, ids_BT, lengths_B)
        return states, plan, log_probs

    def last_logits(
        self, states_BTH: Tensor, row_E: Tensor, first_E: Tensor, plan_EH: Tensor, lengths_B: Tensor
    ) -> Tensor:
        """Run the graph."""
        return self._run(LASTS, states_BTH, row_E, first_E, plan_EH, lengths_B)[0]

    def token_logits(
        self,
        states_BTH: Tensor,
        row_E: Tensor,
        positions: tuple[Tensor, Tensor | None],
        plan_EH: Tensor,
        operation_E: Tensor,
        copyable_BT: Tensor | None,
    ) -> Tensor:
        """Run the graph."""
        rest = [part for part in (*positions, copyable_BT) if part is not None]
        return self._run(TOKENS, states_BTH, row_E, plan_EH, operation_E, *rest)[0]
