"""The paper's programmer: an encoder reads the text, a decoder says symbols one after the other.

Recurrent cells with Luong's attention, or a Transformer, behind one interface.

Shapes: B texts, T tokens, O symbols said, H hidden size, V symbols there are.
"""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from stepedit.config import Attention, Cell, Options
from stepedit.methods.method import Method, Said
from stepedit.programmers.layers import (
    Draw,
    Dropout,
    Embedding,
    Memory,
    RecurrentDecoder,
    RecurrentEncoder,
    TransformerDecoder,
    TransformerEncoder,
)
from stepedit.programmers.programmer import Programmer
from stepedit.sequences import PAD


class SeqToSeq(Programmer):
    """Encoder and decoder."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        cell: Cell = "lstm",
        hidden: int = 512,
        layers: int = 1,
        bidirectional: bool = True,
        attention: Attention = "general",
        heads: int = 4,
        dropout: float = 0.5,
        places: int = 64,
        input_features: Tensor | None = None,
        output_features: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.read = Embedding(inputs, hidden, input_features)
        self.said = Embedding(outputs, hidden)
        self.output = Embedding(outputs, hidden, output_features)
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.drop = Dropout(dropout)
        self.encoder: nn.Module
        self.decoder: nn.Module
        if cell == "transformer":
            self.encoder = TransformerEncoder(hidden, layers, heads, dropout, places)
            self.decoder = TransformerDecoder(hidden, 1, heads, dropout, places)
        else:
            self.encoder = RecurrentEncoder(cell, hidden, hidden, layers, bidirectional, dropout)
            self.decoder = RecurrentDecoder(cell, hidden, layers, attention, dropout)
        self._initialise(hidden, cell)

    @classmethod
    def for_method(cls, method: Method, options: Options) -> Self:
        """Sizes from the options, vocabularies from the method."""
        known = method.task.features() if options.value_features else None
        features = None if known is None else torch.from_numpy(known)
        return cls(
            inputs=len(method.task.vocabulary),
            outputs=len(method.outputs),
            cell=options.cell,
            hidden=options.hidden,
            layers=options.layers,
            bidirectional=options.bidirectional,
            attention=options.attention,
            heads=options.heads,
            dropout=options.dropout,
            places=max(method.task.longest, method.longest) + 1,
            input_features=features,
            output_features=None if features is None else features[method.token_of()],
        )

    def _initialise(self, hidden: int, cell: Cell) -> None:
        """Uniform in +-sqrt(1/H) as in the paper; a Transformer's matrices as usual for it."""
        bound = hidden**-0.5
        for name, parameter in self.named_parameters():
            if cell != "transformer" or parameter.ndim > 1:
                nn.init.uniform_(parameter, -bound, bound)
            if cell == "transformer" and ("narrow" in name or "out." in name) and parameter.ndim > 1:
                parameter.data /= 2  # what is added to the stream starts small

    def encode(self, ids_BT: Tensor, lengths_B: Tensor) -> Memory:
        """Read some texts."""
        if ids_BT.shape[1] == 0:
            ids_BT = ids_BT.new_full((len(ids_BT), 1), PAD)
        mask_BT = torch.arange(ids_BT.shape[1], device=ids_BT.device) < lengths_B[:, None]
        memory: Memory = self.encoder(self.drop(self.read(ids_BT)), mask_BT)
        return memory

    def logits(self, hidden_BOH: Tensor) -> Tensor:
        """(B, O, V)"""
        return hidden_BOH @ self.output.weight().T + self.bias

    def forward(
        self,
        ids_BT: Tensor,
        lengths_B: Tensor,
        outputs_BO: Tensor,
        forcing: float = 1.0,
        draw: Draw | None = None,
    ) -> Tensor:
        """Logits (B, O, V) for outputs that are known; a symbol sees the true one before it at a rate of `forcing`."""
        memory = self.encode(ids_BT, lengths_B)
        shifted_BO = nn.functional.pad(outputs_BO[:, :-1], (1, 0), value=PAD)  # padding stands for the start
        if forcing >= 1:
            hidden_BOH, _ = self.decoder(self.drop(self.said(shifted_BO)), memory)
            return self.logits(hidden_BOH)
        state, parts, own_B = None, list[Tensor](), shifted_BO[:, 0]
        for index in range(outputs_BO.shape[1]):
            forced = draw.rand().to(ids_BT.device) < forcing if draw else torch.zeros_like(own_B, dtype=torch.bool)
            symbol_B = torch.where(forced, shifted_BO[:, index], own_B)
            hidden_B1H, state = self.decoder(self.drop(self.said(symbol_B[:, None])), memory, state)
            parts.append(self.logits(hidden_B1H))
            own_B = parts[-1][:, 0].argmax(1)
        return torch.cat(parts, 1)

    @torch.inference_mode()
    def write(self, ids_BT: Tensor, lengths_B: Tensor, longest: int, end: int | None) -> Said:
        """The likeliest symbol again and again, until all rows have said the end or are as long as they may be."""
        memory = self.encode(ids_BT, lengths_B)
        symbol_B = torch.full_like(lengths_B, PAD)
        confidence_B = torch.ones(len(ids_BT), device=ids_BT.device)
        going_B = torch.ones(len(ids_BT), dtype=torch.bool, device=ids_BT.device)
        said, state = list[Tensor](), None
        for _ in range(longest):
            hidden_B1H, state = self.decoder(self.said(symbol_B[:, None]), memory, state)
            probability_B, symbol_B = self.logits(hidden_B1H)[:, 0].softmax(1).max(1)
            confidence_B = torch.where(going_B, confidence_B * probability_B, confidence_B)
            said.append(torch.where(going_B, symbol_B, PAD))
            if end is not None:
                going_B = going_B & (symbol_B != end)
                if not going_B.any():
                    break
        return Said(torch.stack(said, 1), confidence_B)
