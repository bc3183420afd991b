"""Token embeddings with optional features, and weight initialization.

Shapes: V vocabulary, K features, H hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod

import torch
from torch import Tensor, nn

from stepedit.config import TrainingConfig
from stepedit.tasks.base import Task
from stepedit.text.vocabulary import Vocabulary

NORMAL_DEVIATION = 0.01


def numeric_features(task: Task, config: TrainingConfig) -> Tensor | None:
    """Return the task's token features (V, K), if the network is to have them."""
    features = task.features() if config.numeric_features else None
    return None if features is None else torch.from_numpy(features)


def spelling_of(vocabulary: Vocabulary, config: TrainingConfig) -> tuple[tuple[int, ...], list[int]]:
    """Return the buckets of tokens that a network reads; a pretrained encoder reads the characters itself."""
    if config.encoder_shape is not None:
        return vocabulary.bucket_sizes[:1], []
    return vocabulary.bucket_sizes, vocabulary.buckets()


class Embedding(nn.Module):
    """A learned vector per token, plus a linear map of the token's features, if it has any.

    An unknown token has the vectors of its buckets instead (`text.vocabulary`); a known one has those, too, if
    `buckets` gives them. Rows of the table: the known tokens, then the buckets of each size.
    """

    buckets: Tensor  # (V,)

    def __init__(
        self,
        size: int,
        width: int,
        features: Tensor | None = None,
        bucket_sizes: Sequence[int] = (),
        buckets: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.size, self.bucket_sizes = size, tuple(bucket_sizes)
        self.table = nn.Parameter(torch.empty(size + sum(bucket_sizes), width))
        self.register_buffer("buckets", torch.tensor(buckets, dtype=torch.long), persistent=False)
        self.feature_map = nn.Linear(features.shape[1], width, bias=False) if features is not None else None
        if features is not None:
            self.register_buffer("features", features, persistent=False)

    def weight(self) -> Tensor:
        """Return the vectors (V, H) of all known tokens."""
        known = self.table[: self.size]
        if len(self.buckets):
            known = known + self._spelled(self.buckets)
        return known if self.feature_map is None else known + self.feature_map(self.features)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the vectors of some ids; an unknown token has those of its buckets."""
        if not self.bucket_sizes:
            return nn.functional.embedding(ids, self.weight())
        if not len(self.buckets):
            folded = torch.where(ids < self.size, ids, self.size + (ids - self.size) % prod(self.bucket_sizes))
            return nn.functional.embedding(folded, torch.cat([self.weight(), self.table[self.size :]]))
        known = ids < self.size
        row = torch.where(known, ids, 0)
        own = nn.functional.embedding(row, self.table[: self.size])
        if self.feature_map is not None:
            own = own + self.feature_map(self.features)[row]
        bucket = torch.where(known, self.buckets[row], (ids - self.size) % prod(self.bucket_sizes))
        return own * known[..., None] + self._spelled(bucket)

    def _spelled(self, bucket: Tensor) -> Tensor:
        """Return the summed vectors of the digits of some buckets."""
        strides = accumulate((1, *self.bucket_sizes[:-1]), int.__mul__)
        offsets = accumulate((self.size, *self.bucket_sizes[:-1]))
        rows = [
            offset + bucket // stride % size
            for offset, stride, size in zip(offsets, strides, self.bucket_sizes, strict=True)
        ]
        return nn.functional.embedding(torch.stack(rows, -1), self.table).sum(-2)


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
