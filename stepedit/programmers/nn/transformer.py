"""Transformer encoder and decoder, pre-norm. The encoder's linear layers skip padding.

Shapes: B texts, T tokens, M tokens of all texts, O output symbols, H hidden size.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from stepedit.programmers.nn.attention import EncoderOutput, MultiHeadAttention, attend, split_heads
from stepedit.programmers.nn.dropout import Dropout


class Layout(NamedTuple):
    """The positions of M tokens in B texts of T positions."""

    mask: Tensor  # (B, T)
    positions: Tensor | None  # (M,) of B*T; None if all positions are used, and nothing has to be moved

    @classmethod
    def of(cls, mask_BT: Tensor) -> Layout:
        """Return the layout of a mask."""
        if bool(mask_BT.all()):
            return cls(mask_BT, None)
        return cls(mask_BT, mask_BT.flatten().nonzero()[:, 0])

    def rows(self) -> Tensor:
        """Return (M,) the text of each token."""
        positions = (
            torch.arange(self.mask.numel(), device=self.mask.device) if self.positions is None else self.positions
        )
        return positions // self.mask.shape[1]

    def pack(self, x_BTH: Tensor) -> Tensor:
        """Return the tokens alone (M, H)."""
        x_XH = x_BTH.flatten(0, 1)
        return x_XH if self.positions is None else x_XH.index_select(0, self.positions)

    def unpack(self, x_MH: Tensor) -> Tensor:
        """Return (B, T, H), zero at padding."""
        if self.positions is not None:
            x_MH = x_MH.new_zeros(self.mask.numel(), x_MH.shape[1]).index_copy_(0, self.positions, x_MH)
        return x_MH.view(*self.mask.shape, x_MH.shape[1])

    def attention_mask(self) -> Tensor | None:
        """Return (B, 1, 1, T), or None if there is no padding."""
        return None if self.positions is None else self.mask[:, None, None]


class FeedForward(nn.Module):
    """The position-wise part of a layer."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = (
            nn.LayerNorm(hidden_size),
            nn.Linear(hidden_size, 4 * hidden_size),
            nn.Linear(4 * hidden_size, hidden_size),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return what is added to each position."""
        return self.down(self.up(self.norm(x)).relu_())


class DecoderBlock(nn.Module):
    """A decoder layer: causal self-attention, cross-attention, feed-forward."""

    def __init__(self, hidden_size: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.self_norm, self.self_attention = nn.LayerNorm(hidden_size), MultiHeadAttention(hidden_size, num_heads)
        self.cross_norm, self.cross_attention = nn.LayerNorm(hidden_size), MultiHeadAttention(hidden_size, num_heads)
        self.feed_forward = FeedForward(hidden_size)
        self.dropout = Dropout(dropout)

    def forward(
        self, x_BOH: Tensor, encoded: EncoderOutput, cache: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the next hidden states, and the keys and values that later positions attend to."""
        normed = self.self_norm(x_BOH)
        keys_values = self.self_attention.keys_values(normed)
        if cache is not None:
            keys_values = (torch.cat([cache[0], keys_values[0]], 2), torch.cat([cache[1], keys_values[1]], 2))
        causal = cache is None and x_BOH.shape[1] > 1
        x_BOH = x_BOH + self.dropout(self.self_attention(normed, keys_values, None, causal))
        x_BOH = x_BOH + self.dropout(self._cross_attend(self.cross_norm(x_BOH), encoded))
        return x_BOH + self.dropout(self.feed_forward(x_BOH)), keys_values

    def _cross_attend(self, x_BOH: Tensor, encoded: EncoderOutput) -> Tensor:
        if x_BOH.shape[1] == 1:
            return self.cross_attention.single_query(x_BOH, encoded)
        keys_values = self.cross_attention.keys_values(encoded.states)
        return self.cross_attention(x_BOH, keys_values, encoded.mask[:, None, None])


class EncoderBlock(nn.Module):
    """An encoder layer over packed tokens: padding costs only the attention."""

    def __init__(self, hidden_size: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.norm, self.query_key_value = nn.LayerNorm(hidden_size), nn.Linear(hidden_size, 3 * hidden_size)
        self.out = nn.Linear(hidden_size, hidden_size)
        self.feed_forward = FeedForward(hidden_size)
        self.dropout = Dropout(dropout)

    def forward(self, x_MH: Tensor, layout: Layout) -> Tensor:
        """Return the next hidden states of packed tokens."""
        x_MH = x_MH + self.dropout.packed(self.out(self._attend(self.norm(x_MH), layout)), layout.rows)
        return x_MH + self.dropout.packed(self.feed_forward(x_MH), layout.rows)

    def _attend(self, x_MH: Tensor, layout: Layout) -> Tensor:
        unpacked = layout.unpack(self.query_key_value(x_MH))
        query, key, value = (split_heads(part, self.num_heads) for part in unpacked.chunk(3, 2))
        return layout.pack(attend(query, key, value, layout.attention_mask()).transpose(1, 2).flatten(2))


class TransformerEncoder(nn.Module):
    """Encodes all tokens of a text at once."""

    def __init__(self, hidden_size: int, num_layers: int, num_heads: int, dropout: float, num_positions: int) -> None:
        super().__init__()
        self.position_embedding = nn.Parameter(torch.empty(num_positions, hidden_size))
        self.blocks = nn.ModuleList(EncoderBlock(hidden_size, num_heads, dropout) for _ in range(num_layers))
        self.norm = nn.LayerNorm(hidden_size)

    def forward(self, embedded_BTH: Tensor, mask_BT: Tensor) -> EncoderOutput:
        """Encode texts; positions beyond the last known one share its embedding."""
        last = len(self.position_embedding) - 1
        at = torch.arange(embedded_BTH.shape[1], device=mask_BT.device).clamp(max=last)
        layout = Layout.of(mask_BT)
        hidden = layout.pack(embedded_BTH + self.position_embedding[at])
        for block in self.blocks:
            hidden = block(hidden, layout)
        states = layout.unpack(self.norm(hidden))
        return EncoderOutput(states, mask_BT, states[:, 0])


class TransformerDecoder(nn.Module):
    """Predicts symbols one after the other, attending to those before and to the text."""

    def __init__(self, hidden_size: int, num_layers: int, num_heads: int, dropout: float, num_positions: int) -> None:
        super().__init__()
        self.position_embedding = nn.Parameter(torch.empty(num_positions, hidden_size))
        self.blocks = nn.ModuleList(DecoderBlock(hidden_size, num_heads, dropout) for _ in range(num_layers))
        self.norm = nn.LayerNorm(hidden_size)

    def forward(self, embedded_BOH: Tensor, encoded: EncoderOutput, state: object = None) -> tuple[Tensor, object]:
        """Return hidden states for the next symbols, and the cache of keys and values."""
        caches = state if isinstance(state, list) else [None] * len(self.blocks)
        before = caches[0][0].shape[2] if caches[0] is not None else 0
        at = torch.arange(before, before + embedded_BOH.shape[1], device=embedded_BOH.device)
        hidden = embedded_BOH + self.position_embedding[at.clamp(max=len(self.position_embedding) - 1)]
        extended = []
        for block, cache in zip(self.blocks, caches, strict=True):
            hidden, keys_values = block(hidden, encoded, cache)
            extended.append(keys_values)
        return self.norm(hidden), extended
