"""The pointer programmer as ONNX graphs (extra `[onnx]`): made from its weights, run by onnxruntime.

    look.onnx     reads texts: hidden states, what is intended, how likely every place is
    tokens.onnx   the token to bring, given the place
    lasts.onnx    the last place of a span, given the first

How they are put together to an action is the pointer's own; nothing else of the weights is used.
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

from stepedit.config import Options
from stepedit.errors import DataError, UserError
from stepedit.methods.method import Method
from stepedit.methods.recurrence import Recurrence
from stepedit.programmers.pointer import Pointer

LOOK, TOKENS, LASTS = "look.onnx", "tokens.onnx", "lasts.onnx"
SLOTS = 5  # edits that the graphs are traced with


def need() -> None:
    """UserError if what makes or runs graphs is not installed."""
    for name in ("onnx", "onnxscript", "onnxruntime"):
        if find_spec(name) is None:
            raise UserError(f"ONNX needs {name}: pip install 'stepedit[onnx]'")


class _Graph(nn.Module):
    """A method of a net as a module."""

    def __init__(self, net: Pointer, method: Callable[..., Any]) -> None:
        super().__init__()
        self.net, self.method = net, method

    def forward(self, *inputs: Tensor) -> Any:
        return self.method(self.net, *inputs)


def _tokens(
    net: Pointer, states: Tensor, row: Tensor, turn: Tensor, doing: Tensor, first: Tensor, *rest: Tensor
) -> Tensor:
    """`Pointer.tokens` with nothing but tensors: the last place and what may be copied are there if there are such."""
    last = rest[0] if net.spans else None
    return net.tokens(states, row, (first, last), turn, doing, rest[-1] if net.template.copies else None)


@torch.inference_mode()
def write_graphs(net: Pointer, folder: Path) -> None:
    """The graphs of a pointer, into a folder."""
    need()
    net = net.eval().cpu()
    lengths, row = torch.tensor([4, 3, 2]), torch.tensor([0, 0, 1, 1, 2])
    ids = torch.where(torch.arange(4) < lengths[:, None], 1, 0)
    states, turn, _ = net.look(ids, lengths)
    place = torch.zeros(SLOTS, dtype=torch.long)
    _write(folder / LOOK, _Graph(net, Pointer.look), (ids, lengths))
    if net.brings:
        copyable = net.copyable(ids)
        rest = [part for part in (place if net.spans else None, copyable) if part is not None]
        _write(folder / TOKENS, _Graph(net, _tokens), (states, row, turn[row], place, place, *rest))
    if net.spans:
        _write(folder / LASTS, _Graph(net, Pointer.lasts), (states, row, place, turn[row], lengths))


def _write(path: Path, graph: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """One graph; every dimension but the hidden one may be of any size."""
    any_size = torch.export.Dim.DYNAMIC
    shapes = tuple(dict.fromkeys(range(part.dim() - part.is_floating_point()), any_size) for part in inputs)
    for talker in ("torch.onnx", "onnxscript"):  # they speak of libraries and shapes that nobody asked about
        logging.getLogger(talker).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            graph, tuple(part.clone() for part in inputs), dynamo=True, dynamic_shapes=(shapes,), verbose=False
        )
    assert program is not None
    program.save(str(path))


class OnnxPointer(Pointer):
    """A pointer whose graphs are run by onnxruntime."""

    def __init__(self, method: Recurrence, options: Options) -> None:
        super().__init__(method, options)
        self.sessions: dict[str, Any] = {}

    @classmethod
    def from_folder(cls, folder: Path, method: Method, options: Options) -> OnnxPointer:
        """The graphs of a folder; DataError if they are damaged."""
        need()
        import onnxruntime

        net, limits = cls.for_method(method, options), onnxruntime.SessionOptions()
        limits.intra_op_num_threads = torch.get_num_threads()
        for path in sorted(folder.glob("*.onnx")):
            try:
                net.sessions[path.name] = onnxruntime.InferenceSession(
                    str(path), limits, providers=["CPUExecutionProvider"]
                )
            except Exception:  # onnxruntime has many kinds of errors, none of them public
                raise DataError(f"{path}: damaged (not a graph that onnxruntime can run)") from None
        return net

    def _run(self, name: str, *inputs: Tensor) -> list[Tensor]:
        session = self.sessions[name]
        given = {
            said.name: np.ascontiguousarray(part.numpy())
            for said, part in zip(session.get_inputs(), inputs, strict=True)
        }
        return [torch.from_numpy(part) for part in session.run(None, given)]

    def speed_up(self) -> bool:
        """A graph is as fast as it gets."""
        return False

    def look(self, ids_BT: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As the graph says."""
        states, turn, says = self._run(LOOK, ids_BT, lengths_B)
        return states, turn, says

    def lasts(self, states_BTH: Tensor, row_E: Tensor, first_E: Tensor, turn_EH: Tensor, lengths_B: Tensor) -> Tensor:
        """As the graph says."""
        return self._run(LASTS, states_BTH, row_E, first_E, turn_EH, lengths_B)[0]

    def tokens(
        self,
        states_BTH: Tensor,
        row_E: Tensor,
        places: tuple[Tensor, Tensor | None],
        turn_EH: Tensor,
        doing_E: Tensor,
        copyable_BT: Tensor | None,
    ) -> Tensor:
        """As the graph says."""
        rest = [part for part in (*places, copyable_BT) if part is not None]
        return self._run(TOKENS, states_BTH, row_E, turn_EH, doing_E, *rest)[0]
