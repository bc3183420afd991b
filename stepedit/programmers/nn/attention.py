"""Multi-head attention and the encoder's output.

Shapes: B texts, T tokens, O queries, H hidden size, N heads, D = H/N.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

SHORT = 12  # tokens; for longer texts the library's attention is faster
NEG_INF = -1e9  # finite, so that a row of nothing else still has a gradient


class EncoderOutput(NamedTuple):
    """The encoding of B texts."""

    states: Tensor  # (B, T, H)
    mask: Tensor  # (B, T) true where there is a token
    summary: Tensor  # (B, H)
    memory: Tensor | None = None  # (B, H) the cell state of an LSTM beside its summary


def split_heads(x_BTH: Tensor, num_heads: int) -> Tensor:
    """Return (B, N, T, D)."""
    return x_BTH.view(*x_BTH.shape[:2], num_heads, -1).transpose(1, 2)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    """Return the attention of queries (B, N, O, D) to T values; explicit for short texts without gradients."""
    if torch.is_grad_enabled() or causal or key.shape[2] > SHORT:
        return scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
    scores = query @ key.transpose(2, 3) * query.shape[3] ** -0.5
    return (scores.softmax(3) if mask is None else masked_softmax(scores, mask)) @ value


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Return attention weights; all zero where everything is masked."""
    return scores.masked_fill(~mask, NEG_INF).softmax(-1).masked_fill(~mask, 0.0)


class MultiHeadAttention(nn.Module):
    """Attention with several heads."""

    def __init__(self, hidden_size: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query, self.key_value = nn.Linear(hidden_size, hidden_size), nn.Linear(hidden_size, 2 * hidden_size)
        self.out = nn.Linear(hidden_size, hidden_size)

    def keys_values(self, x_BTH: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of some states."""
        keys, values = self.key_value(x_BTH).chunk(2, 2)
        return split_heads(keys, self.num_heads), split_heads(values, self.num_heads)

    def forward(
        self, x_BTH: Tensor, keys_values: tuple[Tensor, Tensor], mask: Tensor | None, causal: bool = False
    ) -> Tensor:
        """Attend from every state to keys and values."""
        query = split_heads(self.query(x_BTH), self.num_heads)
        return self.out(attend(query, *keys_values, mask, causal).transpose(1, 2).flatten(2))

    def single_query(self, x_B1H: Tensor, encoded: EncoderOutput) -> Tensor:
        """Attend from one state per text: the query is mapped to the space of the states, not every state to a key.

        The state may be the same for all texts, and is then given once.
        """
        (batch, _, hidden), heads = x_B1H.shape, self.num_heads
        weights = self.key_value.weight.view(2, heads, -1, hidden)
        key_map, value_map = weights[0], weights[1]
        query_NBD = self.query(x_B1H).view(batch, heads, -1).transpose(0, 1)
        scores_BNT = (query_NBD @ key_map).transpose(0, 1) @ encoded.states.transpose(1, 2)
        weights_BNT = masked_softmax(scores_BNT * key_map.shape[1] ** -0.5, encoded.mask[:, None])
        attended_NBD = (weights_BNT @ encoded.states).transpose(0, 1) @ value_map.transpose(1, 2)
        bias_BND = weights_BNT.sum(2, keepdim=True) * self.key_value.bias[hidden:].view(heads, -1)
        return self.out((attended_NBD.transpose(0, 1) + bias_BND).flatten(1))[:, None]
