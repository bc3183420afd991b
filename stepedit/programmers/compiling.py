"""What reads a single text, compiled by torch where a C++ compiler is present; elsewhere all stays as it is.

With one text most of the time goes into calling small operations one by one, which a compiled graph does not do. With
many texts, and in teaching, it goes into matrix products, which compiling does not make faster.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable

import torch
from torch import Tensor

Reading = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # ids (B, T), lengths (B,) -> of each text
STANCE = threading.RLock()  # what torch does where a graph does not fit is the same for all threads


def compiler() -> str | None:
    """The C++ compiler that torch would call, if it is there."""
    usual = "clang++" if sys.platform == "darwin" else "g++"
    return shutil.which(os.environ.get("CXX") or usual)


class Compiled:
    """A reading of texts as a graph for one text of any length."""

    def __init__(self, reading: Reading, backend: str = "inductor") -> None:
        self.reading: Reading = torch.compile(reading, dynamic=True, backend=backend)

    def warm_up(self) -> None:
        """Make the graph, and see that it does for another length; what torch or the compiler cannot do is raised."""
        with STANCE:
            self._read(torch.ones(1, 5, dtype=torch.long), torch.full((1,), 5))
            with torch.compiler.set_stance("fail_on_recompile"):
                self._read(torch.ones(1, 7, dtype=torch.long), torch.full((1,), 7))

    def fits(self, ids_BT: Tensor) -> bool:
        """Whether this is one text, of more than one token: torch takes sizes of 0 and 1 for special."""
        return len(ids_BT) == 1 and ids_BT.shape[1] > 1

    def __call__(self, ids_BT: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """What the graph says; should it not do after all, nobody is made to wait for another one."""
        with STANCE, torch.compiler.set_stance("eager_on_recompile"):
            return self._read(ids_BT, lengths_B)

    def __deepcopy__(self, memo: object) -> None:
        """The graph is of one net; a copy of that has to be compiled anew."""

    @torch.inference_mode()
    def _read(self, ids_BT: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """Copies, so that tensors of all kinds and strides look alike to a graph."""
        return self.reading(ids_BT.flatten().clone().view(ids_BT.shape), lengths_B.clone())
