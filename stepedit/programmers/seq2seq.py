"""The paper's programmer: an encoder reads the text, a decoder says symbols one after the other.

Recurrent cells with Luong's attention, or a Transformer, behind one interface.

Shapes: B texts, T tokens, O symbols said, H hidden size, V symbols there are.
"""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from stepedit.batches import States
from stepedit.config import Attention, Cell, Options
from stepedit.errors import UserError
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
    initialise,
    value_features,
)
from stepedit.programmers.programmer import Programmer
from stepedit.sequences import PAD


class SeqToSeq(Programmer):
    """Encoder and decoder."""

    never: Tensor  # (V,) far below zero for what must not be said

    def __init__(
        self,
        method: Method,
        cell: Cell = "lstm",
        hidden: int = 512,
        layers: int = 1,
        bidirectional: bool = True,
        attention: Attention = "general",
        heads: int = 4,
        dropout: float = 0.5,
        forcing: float = 0.5,
        features: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.method, self.forcing = method, forcing
        inputs, outputs = len(method.task.vocabulary), len(method.outputs)
        output_features = None if features is None else features[method.token_of()]
        self.read = Embedding(inputs, hidden, features, method.task.vocabulary.buckets)
        self.said = Embedding(outputs, hidden)
        self.output = Embedding(outputs, hidden, output_features)
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.register_buffer("never", torch.zeros(outputs).index_fill(0, torch.tensor(PAD), -1e9), persistent=False)
        self.drop = Dropout(dropout)
        places = max(method.task.longest, method.longest) + 1
        self.encoder: nn.Module
        self.decoder: nn.Module
        if cell == "transformer":
            self.encoder = TransformerEncoder(hidden, layers, heads, dropout, places)
            self.decoder = TransformerDecoder(hidden, 1, heads, dropout, places)
        else:
            self.encoder = RecurrentEncoder(cell, hidden, hidden, layers, bidirectional, dropout)
            self.decoder = RecurrentDecoder(cell, hidden, layers, attention, dropout)
        initialise(self, hidden, cell)

    @classmethod
    def for_method(cls, method: Method, options: Options) -> Self:
        """Sizes from the options, vocabularies from the method."""
        if options.oracle != "script" or options.others:
            raise UserError("--oracle and --others are for the pointer programmer, not for seq2seq")
        if method.end is None and method.task.template.copies:
            raise UserError("seq2seq cannot copy tokens of a text; take the pointer programmer, tagging or end2end")
        return cls(
            method,
            cell=options.cell,
            hidden=options.hidden,
            layers=options.depth,
            bidirectional=options.bidirectional,
            attention=options.attention,
            heads=options.heads,
            dropout=options.dropout,
            forcing=options.forcing,
            features=value_features(method.task, options),
        )

    def encode(self, ids_BT: Tensor, lengths_B: Tensor) -> Memory:
        """Read some texts."""
        ids_BT, lengths_B = ids_BT.to(self.device), lengths_B.to(self.device)
        if ids_BT.shape[1] == 0:
            ids_BT = ids_BT.new_full((len(ids_BT), 1), PAD)
        mask_BT = torch.arange(ids_BT.shape[1], device=ids_BT.device) < lengths_B[:, None]
        memory: Memory = self.encoder(self.drop(self.read(ids_BT)), mask_BT)
        return memory

    def logits(self, hidden_BOH: Tensor) -> Tensor:
        """(B, O, V)"""
        return hidden_BOH @ self.output.weight().T + (self.bias + self.never)  # padding is never said

    def forward(self, states: States, draw: Draw | None = None) -> Tensor:
        """The mean over all symbols of the whole batch."""
        outputs_BO, _ = self.method.render(states)
        rows = draw.rows if draw else torch.arange(len(states))
        own_BO = outputs_BO[rows].to(self.device)
        logits_BOV = self.teach(states.ids[rows], states.lengths[rows], own_BO, self.forcing, draw)
        wrong = cross_entropy(logits_BOV.flatten(0, 1), own_BO.flatten(), ignore_index=PAD, reduction="sum")
        return wrong / (outputs_BO != PAD).sum()

    def teach(
        self, ids_BT: Tensor, lengths_B: Tensor, outputs_BO: Tensor, forcing: float = 1.0, draw: Draw | None = None
    ) -> Tensor:
        """Logits (B, O, V) for outputs that are known; a symbol sees the true one before it at a rate of `forcing`."""
        memory = self.encode(ids_BT, lengths_B)
        shifted_BO = nn.functional.pad(outputs_BO[:, :-1], (1, 0), value=PAD)  # padding stands for the start
        if forcing >= 1:
            hidden_BOH, _ = self.decoder(self.drop(self.said(shifted_BO)), memory)
            return self.logits(hidden_BOH)
        state, parts, own_B = None, list[Tensor](), shifted_BO[:, 0]
        for index in range(outputs_BO.shape[1]):
            forced = draw.rand().to(self.device) < forcing if draw else torch.zeros_like(own_B, dtype=torch.bool)
            symbol_B = torch.where(forced, shifted_BO[:, index], own_B)
            hidden_B1H, state = self.decoder(self.drop(self.said(symbol_B[:, None])), memory, state)
            parts.append(self.logits(hidden_B1H))
            own_B = parts[-1][:, 0].argmax(1)
        return torch.cat(parts, 1)

    @torch.inference_mode()
    def write(self, ids_BT: Tensor, lengths_B: Tensor) -> Said:
        """The likeliest symbol again and again, until all rows have said the end or are as long as they may be."""
        memory = self.encode(ids_BT, lengths_B)
        symbol_B = torch.full((len(ids_BT),), PAD, device=self.device)
        confidence_B = torch.ones(len(ids_BT), device=self.device)
        going_B = torch.ones(len(ids_BT), dtype=torch.bool, device=self.device)
        said, state = list[Tensor](), None
        for _ in range(self.method.longest):
            hidden_B1H, state = self.decoder(self.said(symbol_B[:, None]), memory, state)
            probability_B, symbol_B = self.logits(hidden_B1H)[:, 0].softmax(1).max(1)
            confidence_B = torch.where(going_B, confidence_B * probability_B, confidence_B)
            said.append(torch.where(going_B, symbol_B, PAD))
            if self.method.end is not None:
                going_B = going_B & (symbol_B != self.method.end)
                if not going_B.any():
                    break
        return Said(self.method.meaning(torch.stack(said, 1).cpu()), confidence_B.cpu())

    @torch.inference_mode()
    def says(self, states: States) -> Tensor:
        """Of all symbols together."""
        outputs_BO = self.method.render(states)[0].to(self.device)
        logits_BOV = self.teach(states.ids, states.lengths, outputs_BO)
        wrong_BO = cross_entropy(logits_BOV.transpose(1, 2), outputs_BO, ignore_index=PAD, reduction="none")
        return -wrong_BO.sum(1).cpu()

    @torch.inference_mode()
    def propose(self, ids_BT: Tensor, lengths_B: Tensor, width: int) -> tuple[Tensor, Tensor]:
        """The likeliest outputs that a beam of this width finds, symbol by symbol."""
        size = len(ids_BT)
        says_BK = torch.full((size, width), float("-inf"), device=self.device)
        says_BK[:, 0] = 0.0  # all begin alike, so only one counts
        ids, lengths = (part.repeat_interleave(width, 0) for part in (ids_BT, lengths_B))
        said = torch.full((size * width, 0), PAD, device=self.device)
        rows_B1 = torch.arange(size, device=self.device)[:, None] * width
        for _ in range(self.method.longest):
            logits = self.teach(ids, lengths, pad(said, (0, 1), value=PAD))[:, -1].log_softmax(1)
            scores = (says_BK[:, :, None] + logits.view(size, width, -1)).flatten(1)
            says_BK, best_BK = scores.topk(width, 1)
            parents = (rows_B1 + best_BK // logits.shape[1]).flatten()
            said = torch.cat([said[parents], (best_BK % logits.shape[1]).flatten()[:, None]], 1)
        return self.method.meaning(said.cpu()).view(size, width, -1), says_BK.cpu()
