"""What reads a single text, compiled by torch where a C++ compiler is present; elsewhere all stays as it is.

With one text most of the time goes into calling small operations one by one, which a compiled graph does not do. With
many texts, and in teaching, it goes into matrix products, which compiling does not make faster.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable

import torch
from torch import Tensor

Reading = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # ids (B, T), lengths (B,) -> of each text


def compiler() -> str | None:
    """The C++ compiler that torch would call, if it is there."""
    usual = "clang++" if sys.platform == "darwin" else "g++"
    return shutil.which(os.environ.get("CXX") or usual)


class Compiled:
    """A reading of texts as a graph for one text of any length."""

    def __init__(self, reading: Reading, backend: str = "inductor") -> None:
        self.reading: Reading = torch.compile(reading, dynamic=True, backend=backend)

    def warm_up(self) -> None:
        """Make the graph; what torch or the compiler cannot do is raised."""
        self._read(torch.ones(1, 5, dtype=torch.long), torch.full((1,), 5))

    def fits(self, ids_BT: Tensor) -> bool:
        """Whether this is one text, of more than one token: torch takes sizes of 0 and 1 for special."""
        return len(ids_BT) == 1 and ids_BT.shape[1] > 1

    def __call__(self, ids_BT: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """What the graph says; should it not do after all, nobody is made to wait for another one."""
        with torch.compiler.set_stance("eager_on_recompile"):
            return self._read(ids_BT, lengths_B)

    @torch.inference_mode()
    def _read(self, ids_BT: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """Copies, so that tensors of all kinds and strides look alike to a graph."""
        return self.reading(ids_BT.flatten().clone().view(ids_BT.shape), lengths_B.clone())
