"""Recurrent encoder and decoder: RNN, GRU or LSTM, with Luong attention.

Shapes: B texts, T tokens, O output symbols, H hidden size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from stepedit.config import Architecture, Attention
from stepedit.programmers.nn.attention import EncoderOutput
from stepedit.programmers.nn.dropout import Dropout

CELLS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


class RecurrentEncoder(nn.Module):
    """Reads a text forward and, if bidirectional, backward."""

    def __init__(
        self,
        architecture: Architecture,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bidirectional: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        cell = CELLS[architecture]
        both = hidden_size * (2 if bidirectional else 1)
        sizes = [input_size, *[both] * (num_layers - 1)]
        self.forward_layers = nn.ModuleList(cell(size, hidden_size, batch_first=True) for size in sizes)
        self.backward_layers = nn.ModuleList(
            cell(size, hidden_size, batch_first=True) for size in sizes if bidirectional
        )
        self.merge = nn.Linear(both, hidden_size) if bidirectional else nn.Identity()
        self.dropout = Dropout(dropout)

    def forward(self, embedded_BTH: Tensor, mask_BT: Tensor) -> EncoderOutput:
        """Encode texts. Padding comes after the text in the forward direction; backward starts at the true end."""
        lengths = mask_BT.sum(1)
        columns = torch.arange(mask_BT.shape[1], device=mask_BT.device)
        reverse = torch.where(mask_BT, lengths[:, None] - 1 - columns, columns)[:, :, None]
        hidden = embedded_BTH
        for index, layer in enumerate(self.forward_layers):
            inputs = self.dropout(hidden) if index else hidden
            hidden = layer(inputs)[0]
            if self.backward_layers:
                reversed_inputs = inputs.gather(1, reverse.expand_as(inputs))
                backward = self.backward_layers[index](reversed_inputs)[0]
                hidden = torch.cat([hidden, backward.gather(1, reverse.expand_as(backward))], 2)
        states = self.merge(hidden)
        ends = (lengths - 1).clamp(min=0)[:, None, None].expand(-1, 1, states.shape[2])
        first = states[:, 0] if self.backward_layers else 0
        return EncoderOutput(states, mask_BT, states.gather(1, ends)[:, 0] + first)


class RecurrentDecoder(nn.Module):
    """Predicts symbols one after the other, attending to the text."""

    def __init__(
        self, architecture: Architecture, hidden_size: int, num_layers: int, attention: Attention, dropout: float
    ) -> None:
        super().__init__()
        size = hidden_size
        self.cell = CELLS[architecture](size, size, num_layers=num_layers, batch_first=True)
        self.attention = attention
        self.score = nn.Linear(size, size, bias=False) if attention in ("general", "concat") else nn.Identity()
        self.query = nn.Linear(size, size, bias=False) if attention == "concat" else nn.Identity()
        self.collapse = nn.Linear(size, 1, bias=False) if attention == "concat" else nn.Identity()
        self.combine = nn.Linear(2 * size, size) if attention != "none" else nn.Identity()
        self.dropout = Dropout(dropout)

    def forward(self, embedded_BOH: Tensor, encoded: EncoderOutput, state: object = None) -> tuple[Tensor, object]:
        """Return hidden states for the next symbols, and the recurrent state."""
        if state is None:
            begin = encoded.summary.expand(self.cell.num_layers, -1, -1).contiguous()
            state = (begin, torch.zeros_like(begin)) if isinstance(self.cell, nn.LSTM) else begin
        hidden_BOH, state = self.cell(embedded_BOH.expand(len(encoded.states), -1, -1), state)
        hidden_BOH = self.dropout(hidden_BOH)
        if self.attention == "none":
            return hidden_BOH, state
        context_BOH = self._attend(hidden_BOH, encoded)
        return torch.tanh(self.combine(torch.cat([context_BOH, hidden_BOH], 2))), state

    def _attend(self, hidden_BOH: Tensor, encoded: EncoderOutput) -> Tensor:
        keys_BTH = self.score(encoded.states)
        if self.attention == "concat":
            mixed_BOTH = torch.tanh(self.query(hidden_BOH)[:, :, None] + keys_BTH[:, None])
            scores_BOT = self.collapse(mixed_BOTH)[..., 0]
        else:
            scores_BOT = hidden_BOH @ keys_BTH.transpose(1, 2)
        weights_BOT = scores_BOT.masked_fill(~encoded.mask[:, None], float("-inf")).softmax(2)
        # an empty text has nothing to attend to
        return torch.nan_to_num(weights_BOT) @ encoded.states
