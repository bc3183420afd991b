"""An encoder of the BERT or RoBERTa family, with its weights named as in a Hugging Face folder.

Shapes: B texts, S subwords, H hidden size, N heads, D = H/N.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from stepedit.config import EncoderShape
from stepedit.programmers.nn.dropout import Dropout


class Bert(nn.Module):
    """Embeddings of subwords and a stack of Transformer layers, each normalized behind its residual."""

    def __init__(self, shape: EncoderShape, dropout: float) -> None:
        super().__init__()
        self.embeddings = _Embeddings(shape)
        self.dropout = Dropout(dropout)
        self.encoder = _Layers(shape, dropout)

    def forward(self, ids_BS: Tensor, lengths_B: Tensor) -> Tensor:
        """Return the hidden states (B, S, H)."""
        mask_BS = torch.arange(ids_BS.shape[1], device=ids_BS.device) < lengths_B[:, None]
        hidden_BSH = self.dropout(self.embeddings(ids_BS))
        for layer in self.encoder.layer:
            hidden_BSH = layer(hidden_BSH, mask_BS[:, None, None])
        return hidden_BSH

    def freeze(self, num_layers: int) -> None:
        """Do not train the embeddings and the lowest layers."""
        for module in (self.embeddings, *list(self.encoder.layer)[:num_layers]):
            module.requires_grad_(False)


class _Layers(nn.Module):
    """The stack of layers."""

    def __init__(self, shape: EncoderShape, dropout: float) -> None:
        super().__init__()
        self.layer = nn.ModuleList(_Layer(shape, dropout) for _ in range(shape.num_layers))


class _Embeddings(nn.Module):
    """Subword, position and type, added and normalized."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.first_position = shape.first_position
        self.word_embeddings = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.position_embeddings = nn.Embedding(shape.num_positions, shape.hidden_size)
        self.token_type_embeddings = nn.Embedding(shape.type_vocab_size, shape.hidden_size)
        self.LayerNorm = nn.LayerNorm(shape.hidden_size, shape.layer_norm_eps)

    def forward(self, ids_BS: Tensor) -> Tensor:
        position_S = torch.arange(ids_BS.shape[1], device=ids_BS.device) + self.first_position
        added: Tensor = self.word_embeddings(ids_BS) + self.position_embeddings(position_S)
        normalized: Tensor = self.LayerNorm(added + self.token_type_embeddings.weight[0])
        return normalized


class _Layer(nn.Module):
    """Self-attention and a feed-forward layer."""

    def __init__(self, shape: EncoderShape, dropout: float) -> None:
        super().__init__()
        size, inner = shape.hidden_size, shape.intermediate_size
        self.num_heads = shape.num_heads
        projections = {name: nn.Linear(size, size) for name in ("query", "key", "value")}
        self.attention = nn.ModuleDict({"self": nn.ModuleDict(projections), "output": _output(size, size, shape)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(size, inner)})
        self.output = _output(inner, size, shape)
        self.dropout = Dropout(dropout)

    def forward(self, x_BSH: Tensor, mask: Tensor) -> Tensor:
        projections = self.attention["self"]
        query, key, value = (self._heads(projections[name](x_BSH)) for name in ("query", "key", "value"))  # type: ignore[index]
        with torch.autocast(x_BSH.device.type, enabled=False):  # the gradients of attention are slow in bfloat16
            attended_BNSD = scaled_dot_product_attention(query.float(), key.float(), value.float(), mask)
        x_BSH = self._add(x_BSH, attended_BNSD.transpose(1, 2).flatten(2), self.attention["output"])
        return self._add(x_BSH, gelu(self.intermediate["dense"](x_BSH)), self.output)

    def _heads(self, x_BSH: Tensor) -> Tensor:
        """Return (B, N, S, D)."""
        return x_BSH.view(*x_BSH.shape[:2], self.num_heads, -1).transpose(1, 2)

    def _add(self, x_BSH: Tensor, change: Tensor, output: nn.Module) -> Tensor:
        normalized: Tensor = output["LayerNorm"](x_BSH + self.dropout(output["dense"](change)))  # type: ignore[index]
        return normalized


def _output(size_in: int, size_out: int, shape: EncoderShape) -> nn.ModuleDict:
    return nn.ModuleDict(
        {"dense": nn.Linear(size_in, size_out), "LayerNorm": nn.LayerNorm(size_out, shape.layer_norm_eps)}
    )
