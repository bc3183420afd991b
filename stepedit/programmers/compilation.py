"""The prediction of a single text compiled by PyTorch, where a C++ compiler is present.

For one text most of the time goes into calling small operations, which a compiled graph avoids. For many texts, and in
training, it goes into matrix products, which compiling does not speed up.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable

import torch
from torch import Tensor

Prediction = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # ids (B, T), lengths (B,) -> actions, log_probs
STANCE = threading.RLock()  # torch's compiler stance is global to all threads


def find_compiler() -> str | None:
    """Return the C++ compiler that torch would call, if there is one."""
    usual = "clang++" if sys.platform == "darwin" else "g++"
    return shutil.which(os.environ.get("CXX") or usual)


class Compiled:
    """A prediction as a graph for one text of any length."""

    def __init__(self, predict: Prediction, backend: str = "inductor") -> None:
        self.predict: Prediction = torch.compile(predict, dynamic=True, backend=backend)

    def warm_up(self) -> None:
        """Compile the graph and check that it serves another length; errors of torch or the compiler are raised."""
        with STANCE:
            self._run(torch.ones(1, 5, dtype=torch.long), torch.full((1,), 5))
            with torch.compiler.set_stance("fail_on_recompile"):
                self._run(torch.ones(1, 7, dtype=torch.long), torch.full((1,), 7))

    def fits(self, ids_BT: Tensor) -> bool:
        """Whether this is one text of more than one token: torch specializes sizes 0 and 1."""
        return len(ids_BT) == 1 and ids_BT.shape[1] > 1

    def __call__(self, ids_BT: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """Run the graph; should it not fit after all, run eagerly rather than compile again."""
        with STANCE, torch.compiler.set_stance("eager_on_recompile"):
            return self._run(ids_BT, lengths_B)

    def __deepcopy__(self, memo: object) -> None:
        """Return None: a graph belongs to one network, and a copy of that is compiled anew."""

    @torch.inference_mode()
    def _run(self, ids_BT: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """Run on copies, so that tensors of any kind and stride look alike to the graph."""
        return self.predict(ids_BT.flatten().clone().view(ids_BT.shape), lengths_B.clone())
