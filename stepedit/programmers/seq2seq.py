"""The paper's programmer: an encoder reads the text, a decoder predicts symbols one after the other.

Recurrent networks with attention, or a Transformer. It has a row for every token that a text may hold, and for every
output that its method has for the task.

Shapes: B texts, T tokens, O output symbols, H hidden size, V output vocabulary, K beam size.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from stepedit.config import TrainingConfig
from stepedit.data.states import States
from stepedit.editing.interpreter import FloatArray, Prediction
from stepedit.editing.sequences import PAD, IntArray, Sequences
from stepedit.errors import UserError
from stepedit.inference.model_folder import Tensors
from stepedit.methods.base import START, Method, indices
from stepedit.programmers.base import Programmer
from stepedit.programmers.encoders import make_decoder, make_encoder
from stepedit.programmers.nn.attention import NEG_INF, EncoderOutput
from stepedit.programmers.nn.dropout import Dropout, DropoutRng
from stepedit.programmers.nn.embedding import Embedding, initialize, numeric_features, spelling_of
from stepedit.tasks.base import Task


def token_rows(task: Task) -> IntArray:
    """Return the row of each token id in the input embedding; that of padding for tokens that no text holds."""
    return indices(task.text_tokens, PAD + 1, task.vocabulary)


def never_predicted(num_outputs: int) -> FloatArray:
    """Return what is added to the logits so that padding and the start symbol are never predicted."""
    bias = np.zeros(num_outputs, np.float32)
    bias[[PAD, START]] = NEG_INF
    return bias


class SeqToSeq(Programmer):
    """Encoder and decoder."""

    never: Tensor  # (V,) far below zero for padding and the start symbol, which are never predicted
    token_rows: Tensor  # the row of each token id

    def __init__(self, method: Method, config: TrainingConfig) -> None:
        super().__init__()
        self.method, self.teacher_forcing = method, config.teacher_forcing
        hidden, features = config.hidden_size, numeric_features(method.task, config)
        vocabulary, outputs = method.task.vocabulary, len(method.outputs)
        tokens = [PAD, *method.task.text_tokens]
        token_features, output_features = (
            None if features is None else features[part] for part in (tokens, method.output_tokens())
        )
        self.token_embedding = Embedding(len(tokens), hidden, token_features, *spelling_of(vocabulary, config))
        self.symbol_embedding = Embedding(outputs, hidden)
        self.output_embedding = Embedding(outputs, hidden, output_features)
        self.output_bias = nn.Parameter(torch.zeros(outputs))
        self.register_buffer("never", torch.tensor(never_predicted(outputs)), persistent=False)
        self.register_buffer("token_rows", torch.from_numpy(token_rows(method.task)), persistent=False)
        self.dropout = Dropout(config.dropout, config.dropout_per_token)
        num_positions = max(method.task.max_length, method.max_output_length) + 1
        self.encoder = make_encoder(config, num_positions)
        decoder_layers = 1 if config.architecture == "transformer" else config.num_layers
        self.decoder = make_decoder(config, decoder_layers, num_positions)
        initialize(self, config)

    @classmethod
    def from_config(cls, method: Method, config: TrainingConfig) -> Self:
        """Return a network for any method whose outputs are in its vocabulary."""
        if config.oracle != "static" or config.plan_loss_weight:
            raise UserError("oracle and plan_loss_weight are options of the pointer programmer, not of seq2seq")
        if method.iterative and method.task.template.copies:
            raise UserError("seq2seq cannot copy tokens of a text; use the pointer programmer, tagging or end2end")
        return cls(method, config)

    @classmethod
    def graph(cls, method: Method, config: TrainingConfig, weights: Tensors, dtype: str) -> bytes:
        """Return the network with these weights, stored in `dtype`, as an ONNX graph."""
        from stepedit.programmers.graphs import seq2seq_graph

        return seq2seq_graph(method, config, weights, dtype)

    def encode(self, ids_BT: Tensor, lengths_B: Tensor) -> EncoderOutput:
        """Encode texts."""
        if ids_BT.shape[1] == 0:
            ids_BT = ids_BT.new_full((len(ids_BT), 1), PAD)
        mask_BT = torch.arange(ids_BT.shape[1], device=ids_BT.device) < lengths_B[:, None]
        if not self.token_embedding.bucket_sizes:
            ids_BT = self.token_rows[ids_BT]
        encoded: EncoderOutput = self.encoder(self.dropout(self.token_embedding(ids_BT)), mask_BT)
        return encoded

    def logits(self, hidden_BOH: Tensor) -> Tensor:
        """Return (B, O, V)."""
        return hidden_BOH @ self.output_embedding.weight().T + (self.output_bias + self.never)

    def forward(self, states: States, rng: DropoutRng | None = None) -> Tensor:
        """Return the mean cross-entropy over all symbols of the batch."""
        outputs_BO = torch.from_numpy(self.method.targets(states)[0])
        rows = rng.rows if rng else torch.arange(len(states))
        own_BO = outputs_BO[rows].to(self.device)
        ids_BT, lengths_B = self.tensors(states.texts)
        logits_BOV = self.output_logits(ids_BT[rows], lengths_B[rows], own_BO, self.teacher_forcing, rng)
        loss = cross_entropy(logits_BOV.flatten(0, 1), own_BO.flatten(), ignore_index=PAD, reduction="sum")
        return loss / (outputs_BO != PAD).sum()

    def output_logits(
        self,
        ids_BT: Tensor,
        lengths_B: Tensor,
        outputs_BO: Tensor,
        teacher_forcing: float = 1.0,
        rng: DropoutRng | None = None,
    ) -> Tensor:
        """Return logits (B, O, V) for known outputs; a step sees the true symbol before it with this probability."""
        encoded = self.encode(ids_BT, lengths_B)
        shifted_BO = pad(outputs_BO[:, :-1], (1, 0), value=START)
        if teacher_forcing >= 1:
            hidden_BOH, _ = self.decoder(self.dropout(self.symbol_embedding(shifted_BO)), encoded)
            return self.logits(hidden_BOH)
        state, parts, predicted_B = None, list[Tensor](), shifted_BO[:, 0]
        for index in range(outputs_BO.shape[1]):
            forced = rng is not None and rng.coin(teacher_forcing)
            symbol_B = shifted_BO[:, index] if forced else predicted_B
            hidden_B1H, state = self.decoder(self.dropout(self.symbol_embedding(symbol_B[:, None])), encoded, state)
            parts.append(self.logits(hidden_B1H))
            predicted_B = parts[-1][:, 0].argmax(1)
        return torch.cat(parts, 1)

    @torch.inference_mode()
    def predict(self, texts: Sequences) -> Prediction:
        """Decode greedily until all rows have predicted the end or the largest output length is reached."""
        encoded = self.encode(*self.tensors(texts))
        symbol_B = torch.full((len(texts),), START, device=self.device)
        log_prob_B = torch.zeros(len(texts), device=self.device)
        active_B = torch.ones(len(texts), dtype=torch.bool, device=self.device)
        symbols, state = list[Tensor](), None
        for _ in range(self.method.max_output_length):
            hidden_B1H, state = self.decoder(self.symbol_embedding(symbol_B[:, None]), encoded, state)
            next_B, symbol_B = self.logits(hidden_B1H)[:, 0].log_softmax(1).max(1)
            log_prob_B = torch.where(active_B, log_prob_B + next_B, log_prob_B)
            symbols.append(torch.where(active_B, symbol_B, PAD))
            if self.method.end is not None:
                active_B = active_B & (symbol_B != self.method.end)
                if not active_B.any():
                    break
        outputs = torch.stack(symbols, 1).cpu().numpy()
        return Prediction(self.method.decode_outputs(outputs), log_prob_B.cpu().numpy())

    @torch.inference_mode()
    def log_prob(self, states: States) -> FloatArray:
        """Return the summed log-probability of all symbols."""
        outputs_BO = torch.from_numpy(self.method.targets(states)[0]).to(self.device)
        logits_BOV = self.output_logits(*self.tensors(states.texts), outputs_BO)
        loss_BO = cross_entropy(logits_BOV.transpose(1, 2), outputs_BO, ignore_index=PAD, reduction="none")
        return -loss_BO.sum(1).cpu().numpy()

    @torch.inference_mode()
    def top_k(self, texts: Sequences, k: int) -> tuple[IntArray, FloatArray]:
        """Return the most probable outputs that a beam of size k finds."""
        size = len(texts)
        log_prob_BK = torch.full((size, k), float("-inf"), device=self.device)
        log_prob_BK[:, 0] = 0.0  # all beams start alike, so only one counts
        ids, lengths = (part.repeat_interleave(k, 0) for part in self.tensors(texts))
        outputs = torch.full((size * k, 0), PAD, device=self.device)
        rows_B1 = torch.arange(size, device=self.device)[:, None] * k
        for _ in range(self.method.max_output_length):
            logits = self.output_logits(ids, lengths, pad(outputs, (0, 1), value=PAD))[:, -1].log_softmax(1)
            scores = (log_prob_BK[:, :, None] + logits.view(size, k, -1)).flatten(1)
            log_prob_BK, best_BK = scores.topk(k, 1)
            parents = (rows_B1 + best_BK // logits.shape[1]).flatten()
            outputs = torch.cat([outputs[parents], (best_BK % logits.shape[1]).flatten()[:, None]], 1)
        actions = self.method.decode_outputs(outputs.cpu().numpy())
        return actions.reshape(size, k, actions.shape[1]), log_prob_BK.cpu().numpy()
