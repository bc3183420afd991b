"""Token embeddings with optional features, and weight initialization.

Shapes: V vocabulary, K features, H hidden size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from stepedit.config import TrainingConfig
from stepedit.tasks.base import Task


def numeric_features(task: Task, config: TrainingConfig) -> Tensor | None:
    """Return the task's token features (V, K), if the network is to have them."""
    features = task.features() if config.numeric_features else None
    return None if features is None else torch.from_numpy(features)


NORMAL_DEVIATION = 0.01


class Embedding(nn.Module):
    """A learned vector per token, plus a linear map of the token's features, if it has any."""

    def __init__(self, size: int, width: int, features: Tensor | None = None, num_buckets: int = 0) -> None:
        super().__init__()
        self.size, self.num_buckets = size, num_buckets
        self.table = nn.Parameter(torch.empty(size + num_buckets, width))
        self.feature_map = nn.Linear(features.shape[1], width, bias=False) if features is not None else None
        if features is not None:
            self.register_buffer("features", features, persistent=False)

    def weight(self) -> Tensor:
        """Return the vectors (V, H) of all known tokens."""
        known = self.table[: self.size]
        return known if self.feature_map is None else known + self.feature_map(self.features)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the vectors of some ids; an unknown token has that of its bucket."""
        if not self.num_buckets:
            return nn.functional.embedding(ids, self.weight())
        folded = torch.where(ids < self.size, ids, self.size + (ids - self.size) % self.num_buckets)
        return nn.functional.embedding(folded, torch.cat([self.weight(), self.table[self.size :]]))


def initialize(net: nn.Module, config: TrainingConfig) -> None:
    """Initialize weights uniformly in +-sqrt(1/H), as the paper prints; norms and biases of a Transformer stay.

    `normal` is what the paper's authors ran: a deviation of 0.01, zero for biases and for the vector of an attention.
    """
    bound, transformer = config.hidden_size**-0.5, config.architecture == "transformer"
    for name, parameter in net.named_parameters():
        if config.initialization == "normal":
            if not transformer or parameter.ndim > 1:
                zero = parameter.ndim == 1 or name.endswith("collapse.weight")
                nn.init.normal_(parameter, 0.0, 0.0 if zero else NORMAL_DEVIATION)
            continue
        if not transformer or parameter.ndim > 1:
            nn.init.uniform_(parameter, -bound, bound)
        if transformer and ("down" in name or "out." in name) and parameter.ndim > 1:
            parameter.data /= 2  # what is added to the residual stream starts small
