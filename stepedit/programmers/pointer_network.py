"""The network of the pointer programmer: encoder, planner, and heads for position, span and token.

The fields of an action are predicted one given another: position and operation together, then the last position of a
span, then the token. What does not fit the text is masked.

Shapes: B states, T tokens with an end token behind the text, P operations, H hidden size, V vocabulary, K edits of a
plan, J = K + 1 decisions (the last one is DONE), E edits of all plans.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, pad

from stepedit.config import TrainingConfig
from stepedit.editing.actions import RULE, SPANNING, TOKEN, Operation, Template
from stepedit.editing.sequences import PAD
from stepedit.methods.base import Method
from stepedit.programmers.base import Programmer, load_weights
from stepedit.programmers.encoders import PretrainedEncoder, make_decoder, make_encoder
from stepedit.programmers.nn.attention import NEG_INF, EncoderOutput
from stepedit.programmers.nn.bert import Bert
from stepedit.programmers.nn.dropout import Dropout
from stepedit.programmers.nn.embedding import Embedding, initialize, numeric_features, spelling_of
from stepedit.programmers.plan_targets import PlanTargets
from stepedit.programmers.pretrained import read_weights
from stepedit.text.subwords import SubwordReader, SubwordTokenizer
from stepedit.text.vocabulary import Vocabulary

NO_TOKEN = {Operation.DELETE, Operation.SWAP}
IGNORE_INDEX = -100  # of cross_entropy


def min_tokens(template: Template) -> list[int]:
    """Return how many tokens each operation needs from its position on."""
    needed = {Operation.INSERT: 0, Operation.SWAP: 2, Operation.REPLACE: min_span(template) + 1}
    return [needed.get(which, 1) for which in template.operations]


def min_span(template: Template) -> int:
    """Return the least distance of a replacement's ends: 1 where a single token has an operation of its own."""
    return int(Operation.SUBSTITUTE in template.operations)


class PointerNetwork(Programmer):
    """Encoder, planner and heads."""

    allowed: Tensor  # (V,) tokens that an action may insert
    min_tokens: Tensor  # (P,) tokens needed from the position on
    operation_ids: Tensor  # (P,)
    operation_index: Tensor  # the inverse
    inserting: Tensor  # (P,) whether an operation inserts a token
    spanning: Tensor  # (P,) whether an operation has two ends
    min_spans: Tensor  # (P,) the least distance of the two
    transforming: Tensor  # (P,) whether an operation names an affix rule

    def __init__(self, method: Method, config: TrainingConfig) -> None:
        super().__init__()
        self.template, vocabulary = method.task.template, method.task.vocabulary
        hidden, features = config.hidden_size, numeric_features(method.task, config)
        embedding, spelling = (len(vocabulary), hidden, features), spelling_of(vocabulary, config)
        operations = len(self.template.operations)
        self.token_embedding = Embedding(*embedding, *spelling)
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
            self.output_embedding = Embedding(*embedding, vocabulary.bucket_sizes[:1])  # the shape
            self.output_bias = nn.Parameter(torch.zeros(len(vocabulary)))
            if self.template.copies:
                self.copy_key = nn.Linear(hidden, hidden)
            if self.template.num_rules:
                self.rule_head = nn.Linear(hidden, self.template.num_rules)
        self._register_constants(len(vocabulary))
        initialize(self, config)
        self.is_pretrained = config.encoder_shape is not None
        self.vocabulary: Vocabulary = vocabulary  # that names the ids of the texts
        self.reader: SubwordReader | None = None
        if config.encoder_shape is not None:
            self.max_subwords, self.num_subwords = config.encoder_shape.max_length, config.encoder_shape.vocab_size
            self.bert.freeze(config.frozen_layers)
            nn.init.zeros_(self.token_embedding.table)  # what is added to the encoder's states

    def _register_constants(self, vocabulary_size: int) -> None:
        operations = self.template.operations
        allowed = torch.zeros(vocabulary_size, dtype=torch.bool)
        allowed[sorted(self.template.tokens)] = True
        index = torch.zeros(len(Operation), dtype=torch.long)
        index[list(operations)] = torch.arange(len(operations))
        constants = {
            "allowed": allowed,
            "min_tokens": torch.tensor(min_tokens(self.template)),
            "spanning": torch.tensor([which in SPANNING for which in operations]),
            "min_spans": torch.tensor([min_span(self.template) * (which == Operation.REPLACE) for which in operations]),
            "transforming": torch.tensor([which == Operation.TRANSFORM for which in operations]),
            "operation_index": index,
            "operation_ids": torch.tensor(operations),
            "inserting": torch.tensor([which not in NO_TOKEN for which in operations]),
        }
        for name, value in constants.items():
            self.register_buffer(name, value, persistent=False)

    @property
    def bert(self) -> Bert:
        """The pretrained encoder."""
        if not isinstance(self.encoder, PretrainedEncoder):
            raise TypeError("this network has no pretrained encoder")
        return self.encoder.bert

    def read_tokenizer(self, path: Path) -> None:
        """Use the subword tokenizer of a file."""
        self.reader = SubwordReader(SubwordTokenizer(path, self.max_subwords, self.num_subwords), self.vocabulary)

    def load_encoder(self, folder: Path) -> None:
        """Start from the weights of a pretrained encoder; tokens to insert from its embeddings of their subwords."""
        bert = self.bert
        expected = {name: tuple(tensor.shape) for name, tensor in bert.state_dict().items()}
        load_weights(bert, read_weights(folder, expected), folder)
        if self.reader is None or not self.has_tokens:
            return
        subwords = self.reader.tokenizer.ids(list(self.vocabulary.tokens))
        table_XH = bert.embeddings.word_embeddings.weight.detach()
        rows = [table_XH[ids].mean(0) if ids else table_XH.new_zeros(table_XH.shape[1]) for ids in subwords]
        vectors_VH = torch.stack(rows)
        known = self.output_embedding.table.data[: len(vectors_VH)]
        known.copy_(vectors_VH * (known.std() / vectors_VH.std()))

    def encode(self, ids_BT: Tensor, lengths_B: Tensor) -> EncoderOutput:
        """Encode texts with an end token behind each."""
        ended_BT = pad(ids_BT, (0, 1), value=PAD)  # padding is the end token, too
        mask_BT = torch.arange(ended_BT.shape[1], device=self.device) <= lengths_B[:, None]
        own_BTH = self.dropout(self.token_embedding(ended_BT))
        encoded: EncoderOutput
        if not self.is_pretrained:
            encoded = self.encoder(own_BTH, mask_BT)
            return encoded
        if self.reader is None:
            raise RuntimeError("read_tokenizer comes first")
        subwords = self.reader(ids_BT.cpu().numpy(), lengths_B.cpu().numpy())
        encoded = self.encoder(tuple(torch.from_numpy(part).to(self.device) for part in subwords), own_BTH, mask_BT)
        return encoded

    def plan_states(self, encoded: EncoderOutput, plan: PlanTargets | None = None) -> Tensor:
        """Return (B, J, H) the state of each decision given the edits before it; without a plan, of the first."""
        inputs_BJH = self.start.expand(1, 1, -1)  # the same for all texts
        if plan is not None and plan.weights.shape[1] > 1:
            token_BK = torch.where(plan.rule >= 0, PAD, plan.token)  # a form is named by its rule
            edits_BKH = self.plan_input(encoded, plan.first, plan.operation, token_BK)
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
        self,
        states_BTH: Tensor,
        row_E: Tensor,
        first_E: Tensor,
        plan_EH: Tensor,
        operation_E: Tensor,
        lengths_B: Tensor,
    ) -> Tensor:
        """Return (E, T) logits of the last position of a span given its first; a single position has no choice."""
        query_EH = self.last_query(torch.cat([states_BTH[row_E, first_E], plan_EH], 1)) * plan_EH.shape[1] ** -0.5
        logits_ET = _row_products(query_EH, row_E, self.last_key(states_BTH))
        position_T = torch.arange(logits_ET.shape[1], device=self.device)
        least_E = first_E + self.min_spans[operation_E]
        fits_ET = (position_T >= least_E[:, None]) & (position_T < lengths_B[row_E, None])
        fits_ET = torch.where(self.spanning[operation_E, None], fits_ET, position_T == first_E[:, None])
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
        """Return (E, X) logits of what is inserted, given its first and, for a span, its last position.

        That is one of V tokens, then one of the affix rules, then a token of one of T positions, copied.
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
        parts = [logits_EV]
        if self.template.num_rules:
            transforms_E1 = self.transforming[operation_E, None]
            rules_ER = self.rule_head(hidden_EH).masked_fill(~transforms_E1, NEG_INF)
            parts = [logits_EV.masked_fill(transforms_E1, NEG_INF), rules_ER]
        if copyable_BT is not None:
            copies_ET = _row_products(hidden_EH * plan_EH.shape[1] ** -0.5, row_E, self.copy_key(states_BTH))
            parts.append(copies_ET.masked_fill(~copyable_BT[row_E] | self.transforming[operation_E, None], NEG_INF))
        return torch.cat(parts, 1) if len(parts) > 1 else logits_EV

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

    def choice_of_token(self, token_E: Tensor, rule_E: Tensor, row_E: Tensor, ids_BT: Tensor) -> Tensor:
        """Return (E,) the index in `token_logits` of a token: its rule's, its own, or that of the first copy of it.

        IGNORE_INDEX if there is none: an edit applied out of order may have removed what this one would copy.
        """
        choice_E, size = token_E, len(self.allowed)
        if self.template.copies:
            here_ET = pad(ids_BT, (0, 1), value=PAD)[row_E] == token_E[:, None]
            copied_E = size + self.template.num_rules + here_ET.int().argmax(1)
            copied_E = torch.where(here_ET.any(1), copied_E, IGNORE_INDEX)
            choice_E = torch.where(self._insertable(token_E) | (token_E == PAD), token_E, copied_E)
        return torch.where(rule_E >= 0, size + rule_E, choice_E) if self.template.num_rules else choice_E

    def symbol_of_choice(self, choice_E: Tensor, row_E: Tensor, ids_BT: Tensor) -> Tensor:
        """Return (E,) the symbol of an index in `token_logits`: a token or an affix rule."""
        size, rules = len(self.allowed), self.template.num_rules
        symbol_E = choice_E * 4 + TOKEN
        if rules:
            symbol_E = torch.where(choice_E >= size, (choice_E - size) * 4 + RULE, symbol_E)
        if self.template.copies:
            copied_E = choice_E - size - rules
            token_E = pad(ids_BT, (0, 1), value=PAD)[row_E, copied_E.clamp(min=0)]
            symbol_E = torch.where(copied_E < 0, symbol_E, token_E * 4 + TOKEN)
        return symbol_E


def _row_products(query_EH: Tensor, row_E: Tensor, keys_BTH: Tensor) -> Tensor:
    """Return (E, T) the products of queries with the keys of their rows; the rows are sorted.

    The queries of a row are put side by side, so that keys need not be copied.
    """
    counts_B = torch.bincount(row_E, minlength=len(keys_BTH))
    slot_E = torch.arange(len(row_E), device=row_E.device) - (counts_B.cumsum(0) - counts_B)[row_E]
    most = int(counts_B.max()) if len(row_E) else 0
    grid_BXH = query_EH.new_zeros(len(keys_BTH), most, query_EH.shape[1]).index_put((row_E, slot_E), query_EH)
    return (grid_BXH @ keys_BTH.transpose(1, 2))[row_E, slot_E]
