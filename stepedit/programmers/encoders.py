"""Encoders and decoders by architecture: what a programmer is built on.

An encoder maps embedded tokens (B, T, H) and a mask (B, T) to an `EncoderOutput`; a decoder maps embedded symbols and
an `EncoderOutput` to hidden states. The heads of a programmer do not know which architecture it is.
"""

from __future__ import annotations

from torch import nn

from stepedit.config import TrainingConfig
from stepedit.programmers.nn.recurrent import RecurrentDecoder, RecurrentEncoder
from stepedit.programmers.nn.transformer import TransformerDecoder, TransformerEncoder


def make_encoder(config: TrainingConfig, num_positions: int) -> nn.Module:
    """Return an encoder for texts of up to `num_positions` tokens."""
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
