"""Optimizers: AdamW, or Muon for the hidden weight matrices and AdamW for the rest.

Muon gives each matrix an update whose singular values are all about one, so that rare directions are learned as fast
as frequent ones. PyTorch's runs in half precision, which takes twenty times as long on a CPU without such instructions;
this one keeps full precision and updates all matrices of one shape together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from stepedit.config import TrainingConfig

ITERATIONS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the usual quintic: steep at zero, near one from there on
UPDATE_SCALE = 0.2  # root mean square of Adam's usual update, so that both take the same learning rates
TABLES = ("table", "position_embedding")  # look-up tables: their rows are independent


def make_optimizers(net: nn.Module, config: TrainingConfig) -> list[Optimizer]:
    """Return the optimizers of a network; the learning rate is set before each step. Biases and norms do not decay.

    A group's `lr_scale` is its share of that rate: that of a pretrained encoder is lower.
    """
    decay, scale = config.weight_decay, config.encoder_learning_rate / config.learning_rate
    matrices, others = list[Tensor](), dict[tuple[float, float], list[Tensor]]()
    for name, parameter in net.named_parameters():
        if not parameter.requires_grad:
            continue
        is_pretrained = config.encoder_shape is not None and name.startswith("encoder.")
        hidden = parameter.ndim > 1 and min(parameter.shape) >= config.hidden_size and not name.endswith(TABLES)
        if hidden and config.optimizer == "muon" and not is_pretrained:
            matrices.append(parameter)
        else:
            key = scale if is_pretrained else 1.0, decay * (parameter.ndim > 1)
            others.setdefault(key, []).append(parameter)
    groups = [
        {"params": others[key], "weight_decay": key[1], "lr_scale": key[0]}
        for key in sorted(others, key=lambda key: (-key[0], -key[1]))
    ]
    adam = AdamW(groups, lr=0.0, betas=(0.9, 0.98), fused=True)
    return [Muon(matrices, 0.0, decay), adam] if matrices else [adam]


class Muon(Optimizer):
    """Orthogonalized Nesterov momentum."""

    def __init__(self, matrices: Iterable[Tensor], lr: float, weight_decay: float, momentum: float = 0.95) -> None:
        super().__init__(list(matrices), {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every matrix that has a gradient."""
        for group in self.param_groups:
            by_shape: dict[tuple[int, ...], list[Tensor]] = {}
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_shape.setdefault(tuple(sorted(matrix.shape)), []).append(matrix)
            for matrices in by_shape.values():
                self._step(matrices, group)

    def _step(self, matrices: list[Tensor], group: dict[str, Any]) -> None:
        updates = orthogonalize(torch.stack([_wide(self._momentum(matrix, group["momentum"])) for matrix in matrices]))
        for matrix, update in zip(matrices, updates, strict=True):
            oriented = update if matrix.shape[0] <= matrix.shape[1] else update.T
            matrix.mul_(1 - group["lr"] * group["weight_decay"])
            matrix.add_(oriented, alpha=-group["lr"] * UPDATE_SCALE * max(matrix.shape) ** 0.5)

    def _momentum(self, matrix: Tensor, momentum: float) -> Tensor:
        """Return Nesterov momentum."""
        gradient = matrix.grad
        assert gradient is not None
        state = self.state[matrix]
        if not state:
            state["average"] = torch.zeros_like(matrix)
        average: Tensor = state["average"].lerp_(gradient, 1 - momentum)
        return gradient.lerp(average, momentum)


def _wide(matrix: Tensor) -> Tensor:
    """Return a matrix transposed, if needed, so that it is at least as wide as high."""
    return matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T


def orthogonalize(matrices_XHW: Tensor) -> Tensor:
    """Return matrices (each at least as wide as high) with the same singular vectors and singular values near one."""
    a, b, c = COEFFICIENTS
    x = matrices_XHW / matrices_XHW.flatten(1).norm(dim=1).clamp(min=1e-7)[:, None, None]
    for _ in range(ITERATIONS):
        gram = x @ x.transpose(1, 2)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x
