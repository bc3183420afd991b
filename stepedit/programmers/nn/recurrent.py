"""Recurrent encoder and decoder: RNN, GRU or LSTM.

The decoder has Luong attention (dot, general, concat: the cell's output attends) or, as the paper's authors ran it,
Bahdanau's (additive: the cell's state attends, and the cell reads what it found).

Shapes: B texts, T tokens, O output symbols, H hidden size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from stepedit.config import Architecture, Attention
from stepedit.programmers.nn.attention import NEG_INF, EncoderOutput
from stepedit.programmers.nn.dropout import Dropout

CELLS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


class RecurrentEncoder(nn.Module):
    """Reads a text forward and, if bidirectional, backward; both directions together are H wide."""

    def __init__(
        self,
        architecture: Architecture,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bidirectional: bool,
        dropout: float,
        dropout_per_token: bool = False,
    ) -> None:
        super().__init__()
        cell, width = CELLS[architecture], hidden_size // 2 if bidirectional else hidden_size
        sizes = [input_size, *[hidden_size] * (num_layers - 1)]
        self.layers = nn.ModuleList(cell(size, width, batch_first=True, bidirectional=bidirectional) for size in sizes)
        self.dropout = Dropout(dropout, dropout_per_token)

    def forward(self, embedded_BTH: Tensor, mask_BT: Tensor) -> EncoderOutput:
        """Encode texts; an empty one is read as one padding token."""
        lengths = mask_BT.sum(1).clamp(min=1).cpu()
        hidden, final = embedded_BTH, tuple[Tensor, ...]()
        for layer in self.layers:
            packed = pack_padded_sequence(hidden, lengths, batch_first=True, enforce_sorted=False)
            output, last = layer(packed)
            final = last if isinstance(last, tuple) else (last,)
            hidden = self.dropout(pad_packed_sequence(output, batch_first=True, total_length=mask_BT.shape[1])[0])
        summary, *memory = map(_side_by_side, final)
        return EncoderOutput(hidden, mask_BT, summary, memory[0] if memory else None)


def _side_by_side(final_DBH: Tensor) -> Tensor:
    """Return the last states of all directions (B, H)."""
    return final_DBH.transpose(0, 1).flatten(1)


class RecurrentDecoder(nn.Module):
    """Predicts symbols one after the other, attending to the text."""

    def __init__(
        self, architecture: Architecture, hidden_size: int, num_layers: int, attention: Attention, dropout: float
    ) -> None:
        super().__init__()
        size, self.attention = hidden_size, attention
        self.cell = CELLS[architecture](size, size, num_layers=num_layers, batch_first=True)
        scored, additive = attention in ("general", "concat", "additive"), attention == "additive"
        state_size = 2 * size if additive and architecture == "lstm" else size
        self.score = nn.Linear(size, size, bias=False) if scored else nn.Identity()
        collapses = attention in ("concat", "additive")
        self.query = nn.Linear(state_size, size, bias=additive) if collapses else nn.Identity()
        self.collapse = nn.Linear(size, 1, bias=False) if collapses else nn.Identity()
        self.combine = nn.Linear(2 * size, size) if attention != "none" else nn.Identity()
        self.dropout = Dropout(dropout)

    def forward(self, embedded_BOH: Tensor, encoded: EncoderOutput, state: object = None) -> tuple[Tensor, object]:
        """Return hidden states for the next symbols, and the recurrent state."""
        embedded_BOH = embedded_BOH.expand(len(encoded.states), -1, -1)
        state = self._first_state(encoded) if state is None else state
        if self.attention == "additive":
            return self._attend_before_the_cell(embedded_BOH, encoded, state)
        hidden_BOH, state = self.cell(embedded_BOH, state)
        hidden_BOH = self.dropout(hidden_BOH)
        if self.attention == "none":
            return hidden_BOH, state
        context_BOH = self._attend(hidden_BOH, encoded)
        return torch.tanh(self.combine(torch.cat([context_BOH, hidden_BOH], 2))), state

    def _first_state(self, encoded: EncoderOutput) -> object:
        """Return the last states of the encoder, the same for every layer."""
        layers = self.cell.num_layers
        begin = encoded.summary.expand(layers, -1, -1).contiguous()
        if encoded.memory is None:
            return begin
        return begin, encoded.memory.expand(layers, -1, -1).contiguous()

    def _attend_before_the_cell(
        self, embedded_BOH: Tensor, encoded: EncoderOutput, state: object
    ) -> tuple[Tensor, object]:
        keys_BTH, outputs = self.score(encoded.states), list[Tensor]()
        for embedded_BH in embedded_BOH.unbind(1):
            parts = [part[-1] for part in (state if isinstance(state, tuple) else (state,))]
            query_BH = self.query(torch.cat(parts, 1))
            scores_BT = self.collapse(torch.tanh(query_BH[:, None] + keys_BTH))[..., 0]
            context_BH = (_weights(scores_BT, encoded.mask)[:, None] @ encoded.states)[:, 0]
            inputs_BH = torch.relu(self.combine(torch.cat([context_BH, embedded_BH], 1)))
            hidden_B1H, state = self.cell(inputs_BH[:, None], state)
            outputs.append(self.dropout(hidden_B1H))
        return torch.cat(outputs, 1), state

    def _attend(self, hidden_BOH: Tensor, encoded: EncoderOutput) -> Tensor:
        keys_BTH = self.score(encoded.states)
        if self.attention == "concat":
            mixed_BOTH = torch.tanh(self.query(hidden_BOH)[:, :, None] + keys_BTH[:, None])
            scores_BOT = self.collapse(mixed_BOTH)[..., 0]
        else:
            scores_BOT = hidden_BOH @ keys_BTH.transpose(1, 2)
        return _weights(scores_BOT, encoded.mask[:, None]) @ encoded.states


def _weights(scores: Tensor, mask: Tensor) -> Tensor:
    """Return attention weights; an empty text has nothing to attend to."""
    return scores.masked_fill(~mask, NEG_INF).softmax(-1) * mask
