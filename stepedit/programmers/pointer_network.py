"""The network of the pointer programmer: encoder, planner, and heads for position, span and token.

The fields of an action are predicted one given another: position and operation together, then the last position of a
span, then the token. What does not fit the text is masked.

Shapes: B states, T tokens with an end token behind the text, P operations, H hidden size, V vocabulary, K edits of a
plan, J = K + 1 decisions (the last one is DONE), E edits of all plans.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, pad

from stepedit.config import TrainingConfig
from stepedit.editing.actions import Operation
from stepedit.editing.sequences import PAD
from stepedit.methods.base import Method
from stepedit.programmers.base import Programmer
from stepedit.programmers.encoders import make_decoder, make_encoder
from stepedit.programmers.nn.attention import NEG_INF, EncoderOutput
from stepedit.programmers.nn.dropout import Dropout
from stepedit.programmers.nn.embedding import Embedding, initialize, numeric_features
from stepedit.programmers.plan_targets import PlanTargets

MIN_TOKENS = {Operation.INSERT: 0, Operation.SWAP: 2}  # from the position on; 1 for other operations
NO_TOKEN = {Operation.DELETE, Operation.SWAP}
IGNORE_INDEX = -100  # of cross_entropy


class PointerNetwork(Programmer):
    """Encoder, planner and heads."""

    allowed: Tensor  # (V,) tokens that an action may insert
    min_tokens: Tensor  # (P,) tokens needed from the position on
    operation_ids: Tensor  # (P,)
    operation_index: Tensor  # the inverse
    inserting: Tensor  # (P,) whether an operation inserts a token

    def __init__(self, method: Method, config: TrainingConfig) -> None:
        super().__init__()
        self.template, vocabulary = method.task.template, method.task.vocabulary
        hidden, features = config.hidden_size, numeric_features(method.task, config)
        embedding = len(vocabulary), hidden, features, vocabulary.num_buckets
        operations = len(self.template.operations)
        self.token_embedding = Embedding(*embedding)
        self.dropout = Dropout(config.dropout)
        self.encoder = make_encoder(config, method.task.max_length + 2)
        self.planner = make_decoder(config, max(1, config.num_layers // 2), method.task.max_edits + 1)
        self.start = nn.Parameter(torch.zeros(hidden))
        self.edit_input = nn.Linear(hidden, hidden, bias=False)
        self.position_head = nn.Linear(hidden, operations * hidden)
        self.done_head = nn.Linear(hidden, 1)
        self.operation_embedding = Embedding(operations, hidden)
        self.has_spans, self.has_tokens = "last" in self.template.fields, "token" in self.template.fields
        if self.has_spans:
            self.last_query, self.last_key = nn.Linear(2 * hidden, hidden), nn.Linear(hidden, hidden)
            self.token_from_last = nn.Linear(hidden, hidden, bias=False)
        if self.has_tokens:
            self.token_from_first, self.token_from_plan = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
            self.output_embedding = Embedding(*embedding)
            self.output_bias = nn.Parameter(torch.zeros(len(vocabulary)))
            if self.template.copies:
                self.copy_key = nn.Linear(hidden, hidden)
        self._register_constants(len(vocabulary))
        initialize(self, config)

    def _register_constants(self, vocabulary_size: int) -> None:
        operations = self.template.operations
        allowed = torch.zeros(vocabulary_size, dtype=torch.bool)
        allowed[sorted(self.template.tokens)] = True
        index = torch.zeros(len(Operation), dtype=torch.long)
        index[list(operations)] = torch.arange(len(operations))
        constants = {
            "allowed": allowed,
            "min_tokens": torch.tensor([MIN_TOKENS.get(which, 1) for which in operations]),
            "operation_index": index,
            "operation_ids": torch.tensor(operations),
            "inserting": torch.tensor([which not in NO_TOKEN for which in operations]),
        }
        for name, value in constants.items():
            self.register_buffer(name, value, persistent=False)

    def encode(self, ids_BT: Tensor, lengths_B: Tensor) -> EncoderOutput:
        """Encode texts with an end token behind each."""
        ended_BT = pad(ids_BT, (0, 1), value=PAD)  # padding is the end token, too
        mask_BT = torch.arange(ended_BT.shape[1], device=self.device) <= lengths_B[:, None]
        encoded: EncoderOutput = self.encoder(self.dropout(self.token_embedding(ended_BT)), mask_BT)
        return encoded

    def plan_states(self, encoded: EncoderOutput, plan: PlanTargets | None = None) -> Tensor:
        """Return (B, J, H) the state of each decision given the edits before it; without a plan, of the first."""
        inputs_BJH = self.start.expand(1, 1, -1)  # the same for all texts
        if plan is not None and plan.weights.shape[1] > 1:
            edits_BKH = self.plan_input(encoded, plan.first, plan.operation, plan.token)
            inputs_BJH = torch.cat([inputs_BJH.expand(len(edits_BKH), -1, -1), edits_BKH], 1)
        states_BJH: Tensor = self.planner(inputs_BJH, encoded)[0]
        return states_BJH

    def plan_input(self, encoded: EncoderOutput, first: Tensor, operation: Tensor, token: Tensor) -> Tensor:
        """Return (B, ..., H) what the planner reads about edits (B, ...) that it has decided."""
        rows = torch.arange(len(first), device=self.device).view(-1, *[1] * (first.ndim - 1))
        inputs = self.edit_input(encoded.states[rows, first]) + self.operation_embedding(operation)
        return inputs + self.output_embedding(token) if self.has_tokens else inputs

    def position_logits(self, encoded: EncoderOutput, plan_BJH: Tensor, lengths_B: Tensor) -> Tensor:
        """Return (B, J, T*P+1) logits of every operation at every position, and of DONE, for each decision."""
        states_BTH = encoded.states
        remaining_BT = lengths_B[:, None] - torch.arange(states_BTH.shape[1], device=self.device)
        fits_BX = (remaining_BT[:, :, None] >= self.min_tokens).flatten(1)
        logits_BJX = self._position_products(plan_BJH, states_BTH) * states_BTH.shape[2] ** -0.5
        return torch.cat([logits_BJX.masked_fill(~fits_BX[:, None], NEG_INF), self.done_head(plan_BJH)], 2)

    def _position_products(self, plan_BJH: Tensor, states_BTH: Tensor) -> Tensor:
        """Return (B, J, T*P) the products of decisions with every position, one projection per operation.

        There are rarely more decisions than positions, so decisions are projected, once per operation.
        """
        (batch, decisions, hidden), operations = plan_BJH.shape, len(self.template.operations)
        view_HX = self.position_head.weight.view(operations, hidden, hidden).transpose(0, 1).flatten(1)
        query_BQH = (plan_BJH @ view_HX).view(batch, decisions * operations, hidden)
        bias_BQ1 = (plan_BJH @ self.position_head.bias.view(operations, hidden).T).view(batch, -1, 1)
        products_BQT = query_BQH @ states_BTH.transpose(1, 2) + bias_BQ1
        return products_BQT.view(batch, decisions, operations, -1).transpose(2, 3).flatten(2)

    def last_logits(
        self, states_BTH: Tensor, row_E: Tensor, first_E: Tensor, plan_EH: Tensor, lengths_B: Tensor
    ) -> Tensor:
        """Return (E, T) logits of the last position of a span given its first."""
        query_EH = self.last_query(torch.cat([states_BTH[row_E, first_E], plan_EH], 1)) * plan_EH.shape[1] ** -0.5
        logits_ET = _row_products(query_EH, row_E, self.last_key(states_BTH))
        position_T = torch.arange(logits_ET.shape[1], device=self.device)
        fits_ET = (position_T >= first_E[:, None]) & (position_T < lengths_B[row_E, None])
        return logits_ET.masked_fill(~fits_ET, NEG_INF)

    def token_logits(
        self,
        states_BTH: Tensor,
        row_E: Tensor,
        positions: tuple[Tensor, Tensor | None],
        plan_EH: Tensor,
        operation_E: Tensor,
        copyable_BT: Tensor | None,
    ) -> Tensor:
        """Return (E, V) logits of the inserted token given its first and, for a span, its last position.

        If tokens of the text may be copied: (E, V+T), of every token and of every position to copy from.
        """
        first_E, last_E = positions
        hidden_EH = self.token_from_first(states_BTH[row_E, first_E]) + self.token_from_plan(plan_EH)
        hidden_EH = hidden_EH + self.operation_embedding(operation_E)
        if last_E is not None:
            hidden_EH = hidden_EH + self.token_from_last(states_BTH[row_E, last_E])
        hidden_EH = gelu(hidden_EH)
        logits_EV = (hidden_EH @ self.output_embedding.weight().T + self.output_bias).masked_fill(
            ~self.allowed, NEG_INF
        )
        if copyable_BT is None:
            return logits_EV
        copies_ET = _row_products(hidden_EH * plan_EH.shape[1] ** -0.5, row_E, self.copy_key(states_BTH))
        return torch.cat([logits_EV, copies_ET.masked_fill(~copyable_BT[row_E], NEG_INF)], 1)

    def inserts(self, operation_E: Tensor) -> Tensor:
        """Return (E,) whether an operation inserts a token."""
        return self.inserting[operation_E]

    def copyable(self, ids_BT: Tensor) -> Tensor | None:
        """Return (B, T) the positions to copy from, if any: the first of each token that is not insertable anyway."""
        if not self.template.copies:
            return None
        insertable_BT = self._insertable(ids_BT) | (ids_BT == PAD)
        repeated_BT = (ids_BT[:, :, None] == ids_BT[:, None]).tril(-1).any(2)
        return pad(~insertable_BT & ~repeated_BT, (0, 1))

    def _insertable(self, tokens: Tensor) -> Tensor:
        return self.allowed[torch.where(tokens < len(self.allowed), tokens, PAD)]

    def choice_of_token(self, token_E: Tensor, row_E: Tensor, ids_BT: Tensor) -> Tensor:
        """Return (E,) the index in `token_logits` of a token: its own, or that of the first position to copy it from.

        IGNORE_INDEX if there is none: an edit applied out of order may have removed what this one would copy.
        """
        if not self.template.copies:
            return token_E
        here_ET = pad(ids_BT, (0, 1), value=PAD)[row_E] == token_E[:, None]
        copied_E = torch.where(here_ET.any(1), len(self.allowed) + here_ET.int().argmax(1), IGNORE_INDEX)
        return torch.where(self._insertable(token_E) | (token_E == PAD), token_E, copied_E)

    def token_of_choice(self, choice_E: Tensor, row_E: Tensor, ids_BT: Tensor) -> Tensor:
        """Return (E,) the token of an index in `token_logits`."""
        copied_E = choice_E - len(self.allowed)
        if not self.template.copies:
            return choice_E
        return torch.where(copied_E < 0, choice_E, pad(ids_BT, (0, 1), value=PAD)[row_E, copied_E.clamp(min=0)])


def _row_products(query_EH: Tensor, row_E: Tensor, keys_BTH: Tensor) -> Tensor:
    """Return (E, T) the products of queries with the keys of their rows; the rows are sorted.

    The queries of a row are put side by side, so that keys need not be copied.
    """
    counts_B = torch.bincount(row_E, minlength=len(keys_BTH))
    slot_E = torch.arange(len(row_E), device=row_E.device) - (counts_B.cumsum(0) - counts_B)[row_E]
    most = int(counts_B.max()) if len(row_E) else 0
    grid_BXH = query_EH.new_zeros(len(keys_BTH), most, query_EH.shape[1]).index_put((row_E, slot_E), query_EH)
    return (grid_BXH @ keys_BTH.transpose(1, 2))[row_E, slot_E]
