"""Encoders and decoders by architecture, from scratch or pretrained: what a programmer is built on.

An encoder maps embedded tokens (B, T, H) and a mask (B, T) to an `EncoderOutput`, a pretrained one the text's subwords
as well; a decoder maps embedded symbols and an `EncoderOutput` to hidden states. The heads of a programmer do not know
which architecture it is.

Shapes: B texts, T tokens, S subwords, H hidden size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from stepedit.config import EncoderShape, TrainingConfig
from stepedit.programmers.nn.attention import EncoderOutput
from stepedit.programmers.nn.bert import Bert
from stepedit.programmers.nn.recurrent import RecurrentDecoder, RecurrentEncoder
from stepedit.programmers.nn.transformer import TransformerDecoder, TransformerEncoder


class PretrainedEncoder(nn.Module):
    """A pretrained encoder that reads subwords; each token gets the mean of the vectors that it covers, or the first.

    What our own tokens tell beside it (case signs, spaces, whether a token is known) is added.
    """

    def __init__(self, shape: EncoderShape, config: TrainingConfig) -> None:
        super().__init__()
        self.bert = Bert(shape, config.dropout)
        self.takes_mean, self.takes_half = config.pooling == "mean", config.precision == "bfloat16"

    def forward(
        self, subwords: tuple[Tensor, Tensor, Tensor, Tensor], own_BTH: Tensor, mask_BT: Tensor
    ) -> EncoderOutput:
        """Encode subwords: ids (B, S), lengths (B,), and the range (B, T) of subwords that each token covers."""
        ids_BS, lengths_B, starts_BT, stops_BT = subwords
        with torch.autocast(ids_BS.device.type, torch.bfloat16, enabled=self.training and self.takes_half):
            hidden_BSH = self.bert(ids_BS, lengths_B).float()
        column_S = torch.arange(ids_BS.shape[1], device=ids_BS.device)
        covered_BTS = column_S == starts_BT[:, :, None]
        if self.takes_mean:
            covered_BTS = (column_S >= starts_BT[:, :, None]) & (column_S < stops_BT[:, :, None])
        weights_BTS = covered_BTS / covered_BTS.sum(2, keepdim=True).clamp(min=1)
        return EncoderOutput(weights_BTS @ hidden_BSH + own_BTH, mask_BT, hidden_BSH[:, 0])


def make_encoder(config: TrainingConfig, num_positions: int) -> nn.Module:
    """Return an encoder for texts of up to `num_positions` tokens."""
    if config.encoder_shape is not None:
        return PretrainedEncoder(config.encoder_shape, config)
    if config.architecture == "transformer":
        return TransformerEncoder(
            config.hidden_size, config.num_layers, config.num_heads, config.dropout, num_positions
        )
    sizes = config.hidden_size, config.hidden_size, config.num_layers
    dropout = config.dropout, config.dropout_per_token
    return RecurrentEncoder(config.architecture, *sizes, config.bidirectional, *dropout)


def make_decoder(config: TrainingConfig, num_layers: int, num_positions: int) -> nn.Module:
    """Return a decoder for up to `num_positions` symbols."""
    if config.architecture == "transformer":
        return TransformerDecoder(config.hidden_size, num_layers, config.num_heads, config.dropout, num_positions)
    return RecurrentDecoder(config.architecture, config.hidden_size, num_layers, config.attention, config.dropout)
