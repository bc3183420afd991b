"""How weights are changed: Adam, or Muon for the matrices between hidden states and Adam for the rest.

Muon gives each matrix an update whose singular values are all about one, so that rare directions are learned as fast as
common ones. PyTorch has it in half precision, which a CPU without instructions for that takes twenty times as long for;
this one keeps full precision and does all matrices of one shape at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from stepedit.config import Options

ITERATIONS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the usual quintic: steep at zero, near one from there on
LIKE_ADAM = 0.2  # root mean square of Adam's usual update, so that both take the same rates
OUTSIDE = ("table", "places")  # look-up tables: their rows have nothing to do with each other


def make_optimisers(net: nn.Module, options: Options) -> list[Optimizer]:
    """All that change a net's weights, at a rate told before each step. Biases and norms do not decay."""
    decay = options.weight_decay or 0.0
    matrices, tables, vectors = list[Tensor](), list[Tensor](), list[Tensor]()
    for name, parameter in net.named_parameters():
        inside = min(parameter.shape) >= options.hidden and not name.endswith(OUTSIDE) and options.optimiser == "muon"
        (vectors if parameter.ndim < 2 else matrices if inside else tables).append(parameter)
    groups = [{"params": tables, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
    adam = AdamW([group for group in groups if group["params"]], lr=0.0, betas=(0.9, 0.98))
    return [Muon(matrices, 0.0, decay), adam] if matrices else [adam]


class Muon(Optimizer):
    """Momentum, orthogonalised."""

    def __init__(self, matrices: Iterable[Tensor], lr: float, weight_decay: float, momentum: float = 0.95) -> None:
        super().__init__(list(matrices), {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Change every matrix that has a gradient."""
        for group in self.param_groups:
            alike: dict[tuple[int, ...], list[Tensor]] = {}
            for matrix in group["params"]:
                if matrix.grad is not None:
                    alike.setdefault(tuple(sorted(matrix.shape)), []).append(matrix)
            for matrices in alike.values():
                self._step(matrices, group)

    def _step(self, matrices: list[Tensor], group: dict[str, Any]) -> None:
        updates = orthogonal(torch.stack([_lying(self._update(matrix, group["momentum"])) for matrix in matrices]))
        for matrix, update in zip(matrices, updates, strict=True):
            turned = update if matrix.shape[0] <= matrix.shape[1] else update.T
            matrix.mul_(1 - group["lr"] * group["weight_decay"])
            matrix.add_(turned, alpha=-group["lr"] * LIKE_ADAM * max(matrix.shape) ** 0.5)

    def _update(self, matrix: Tensor, momentum: float) -> Tensor:
        """Nesterov's look ahead."""
        gradient = matrix.grad
        assert gradient is not None
        state = self.state[matrix]
        if not state:
            state["average"] = torch.zeros_like(matrix)
        average: Tensor = state["average"].lerp_(gradient, 1 - momentum)
        return gradient.lerp(average, momentum)


def _lying(matrix: Tensor) -> Tensor:
    """Turned so that it is at least as wide as high."""
    return matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T


def orthogonal(matrices_XHW: Tensor) -> Tensor:
    """The same singular vectors with singular values of about one; for matrices at least as wide as high."""
    a, b, c = COEFFICIENTS
    x = matrices_XHW / matrices_XHW.flatten(1).norm(dim=1).clamp(min=1e-7)[:, None, None]
    for _ in range(ITERATIONS):
        gram = x @ x.transpose(1, 2)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x
