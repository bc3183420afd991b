"""The pointer programmer: encodes a state once and points at the position to edit.

There is no vocabulary of positions and no decoder loop. `pointer_network` has the layers; here it is trained and asked.

It is trained to plan: all remaining edits, each given those before it, from one encoding of the state. At inference
the first edit of the plan is applied and the text is encoded again; `plan` returns the others, too.

Shapes: B states, T tokens with an end token behind the text, P operations, H hidden size, V vocabulary, K edits of a
plan, J = K + 1 decisions (the last one is DONE), E edits of all plans.
"""

from __future__ import annotations

from copy import copy
from math import log
from typing import ClassVar, Self

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from stepedit.config import TrainingConfig
from stepedit.data.states import States
from stepedit.editing.actions import DONE, Operation
from stepedit.editing.alignment import optimal_edits
from stepedit.editing.interpreter import FloatArray, Prediction
from stepedit.editing.sequences import PAD, IntArray, Sequences
from stepedit.errors import UserError
from stepedit.inference.model_folder import Tensors
from stepedit.inference.onnx_runtime import WIDTH
from stepedit.inference.word_forms import Candidates, by_probability, next_actions, with_forms
from stepedit.methods.base import Method, Policy
from stepedit.programmers.action_decoding import action_fields, most_probable_actions
from stepedit.programmers.nn.attention import NEG_INF, EncoderOutput
from stepedit.programmers.nn.dropout import DropoutRng
from stepedit.programmers.plan_targets import PlanTargets, plan_targets
from stepedit.programmers.pointer_network import IGNORE_INDEX, PointerNetwork
from stepedit.text.subwords import SubwordReader
from stepedit.text.vocabulary import Vocabulary

SINGLE_TOKEN = {Operation.INSERT, Operation.DELETE, Operation.SUBSTITUTE}


def trains_plans(config: TrainingConfig) -> bool:
    """Whether the edits after the next one are part of the loss: they are listed from left to right."""
    return config.plan_loss_weight > 0 and config.edit_order == "left-to-right" and config.oracle == "static"


class Pointer(PointerNetwork):
    """Points at the position to edit."""

    can_plan: ClassVar[bool] = True

    def __init__(self, method: Method, config: TrainingConfig) -> None:
        super().__init__(method, config)
        self.plan_loss_weight, self.oracle = config.plan_loss_weight, config.oracle
        self.trains_plans, self.order_free = trains_plans(config), config.edit_order == "any"
        self.forms = method.task.word_forms(method.task.vocabulary)
        self.task = method.task

    @classmethod
    def from_config(cls, method: Method, config: TrainingConfig) -> Self:
        """Return a network for an iterative method: it predicts actions and nothing else."""
        if not method.iterative:
            raise UserError(f"the pointer programmer predicts actions, which {method.name} has none of; use seq2seq")
        if config.oracle == "dynamic" and not set(method.task.template.operations) <= SINGLE_TOKEN:
            raise UserError(f"oracle dynamic needs edits of single tokens, and task {method.task.name} has others")
        return cls(method, config)

    @classmethod
    def graph(cls, method: Method, config: TrainingConfig, weights: Tensors, dtype: str) -> bytes:
        """Return the network with these weights, stored in `dtype`, as an ONNX graph."""
        from stepedit.programmers.graphs import pointer_graph

        return pointer_graph(method, config, weights, dtype)

    def forward(self, states: States, rng: DropoutRng | None = None) -> Tensor:
        """Return the loss of the plan: the next edit, and those after it with less weight."""
        rows = rng.rows if rng else torch.arange(len(states))
        ids_BT, lengths_B = (part[rows.to(self.device)] for part in self.tensors(states.texts))
        encoded = self.encode(ids_BT, lengths_B)
        if self.oracle == "dynamic":
            return -self._optimal_log_prob(states.take(rows.numpy()), encoded, ids_BT, lengths_B).sum() / len(states)
        if self.order_free:
            return self._order_free_loss(states, rows, encoded, ids_BT, lengths_B)
        whole = plan_targets(states, self.template, self.operation_index.cpu().numpy(), self.plan_loss_weight)
        total, plan = whole.weights.sum(), whole.take(rows, self.device)
        plan_BJH = self.plan_states(encoded, plan)
        logits_BJX = self.position_logits(encoded, plan_BJH, lengths_B)
        target_BJ = pad(self._position_choice(plan), (0, 1))[:, : logits_BJX.shape[1]]
        target_BJ = torch.where(plan.has_edit, target_BJ, logits_BJX.shape[2] - 1)
        loss_BJ = cross_entropy(logits_BJX.flatten(0, 1), target_BJ.flatten(), reduction="none").view(target_BJ.shape)
        loss_BJ = loss_BJ + self._field_loss(plan, encoded.states, plan_BJH, ids_BT, lengths_B)
        return (loss_BJ * plan.weights).sum() / total

    def _order_free_loss(
        self, states: States, rows: Tensor, encoded: EncoderOutput, ids_BT: Tensor, lengths_B: Tensor
    ) -> Tensor:
        """Return the loss if any remaining edit may come next.

        That is the log of their positions' summed probability, and the mean loss of their other fields. Of edits with
        the same position and operation (two insertions) the first counts.
        """
        index = self.operation_index.cpu().numpy()
        plan = plan_targets(states, self.template, index, 0.0, alternatives=True).take(rows, self.device)
        plan_B1H = self.plan_states(encoded)
        log_prob_BX = self.position_logits(encoded, plan_B1H, lengths_B)[:, 0].log_softmax(1)
        choice_BK, count = self._position_choice(plan), plan.first.shape[1]
        repeated_BK = (choice_BK[:, :, None] == choice_BK[:, None]).tril(-1).any(2)
        has_edit_BK = plan.has_edit[:, :count] & ~repeated_BK
        next_BK = log_prob_BX.gather(1, torch.where(has_edit_BK, choice_BK, 0)).masked_fill(~has_edit_BK, NEG_INF)
        done_B = ~has_edit_BK.any(1)
        position_B = torch.where(done_B, log_prob_BX[:, -1], next_BK.logsumexp(1))
        wide_BKH = plan_B1H.expand(-1, count, -1)
        fields_BK = self._field_loss(plan._replace(has_edit=has_edit_BK), encoded.states, wide_BKH, ids_BT, lengths_B)
        fields_B = fields_BK.sum(1) / has_edit_BK.sum(1).clamp(min=1)
        return (fields_B - position_B).sum() / len(states)

    def _position_choice(self, plan: PlanTargets) -> Tensor:
        """Return (B, K) the index of each edit's position and operation in `position_logits`."""
        return plan.first * len(self.template.operations) + plan.operation

    def _field_loss(
        self, plan: PlanTargets, states_BTH: Tensor, plan_BJH: Tensor, ids_BT: Tensor, lengths_B: Tensor
    ) -> Tensor:
        """Return (B, J) the loss of the fields after the position."""
        row_E, decision_E = plan.has_edit.nonzero(as_tuple=True)
        first_E, last_E, operation_E, token_E, rule_E = (part[row_E, decision_E] for part in plan[:5])
        plan_EH = plan_BJH[row_E, decision_E]
        loss_E = torch.zeros(len(row_E), device=self.device)
        if self.has_spans:
            logits_ET = self.last_logits(states_BTH, row_E, first_E, plan_EH, operation_E, lengths_B)
            loss_E = loss_E + cross_entropy(logits_ET, last_E, reduction="none")
        if self.has_tokens:
            positions = first_E, last_E if self.has_spans else None
            logits_EV = self.token_logits(states_BTH, row_E, positions, plan_EH, operation_E, self.copyable(ids_BT))
            choice_E = self.choice_of_token(token_E, rule_E, row_E, ids_BT)
            choice_E = torch.where(token_E == PAD, IGNORE_INDEX, choice_E)  # a deletion inserts none
            loss_E = loss_E + cross_entropy(logits_EV, choice_E, ignore_index=IGNORE_INDEX, reduction="none")
        return torch.zeros(plan_BJH.shape[:2], device=self.device).index_put((row_E, decision_E), loss_E)

    def _optimal_log_prob(self, states: States, encoded: EncoderOutput, ids_BT: Tensor, lengths_B: Tensor) -> Tensor:
        """Return (B,) the log-probability of all optimal edits together or, at the target, of DONE."""
        plan_BJH = self.plan_states(encoded)
        log_prob_BX = self.position_logits(encoded, plan_BJH, lengths_B)[:, 0].log_softmax(1)
        optimal = optimal_edits(states.texts, states.targets)
        row_M, start_M, stop_M, token_M = (
            torch.from_numpy(part).to(self.device)
            for part in (optimal.rows, optimal.starts, optimal.stops, optimal.tokens)
        )
        changed_M = torch.where(token_M == PAD, int(Operation.DELETE), int(Operation.SUBSTITUTE))
        operation_M = self.operation_index[torch.where(start_M == stop_M, int(Operation.INSERT), changed_M)]
        log_prob_M = log_prob_BX[row_M, start_M * len(self.template.operations) + operation_M]
        logits_MV = self.token_logits(
            encoded.states, row_M, (start_M, None), plan_BJH[:, 0][row_M], operation_M, self.copyable(ids_BT)
        )
        choice_M = self.choice_of_token(token_M, torch.full_like(token_M, -1), row_M, ids_BT)
        token_log_prob_M = logits_MV.log_softmax(1).gather(1, choice_M[:, None])[:, 0]
        log_prob_M = log_prob_M + torch.where(token_M == PAD, 0.0, token_log_prob_M)
        total_B = torch.zeros_like(log_prob_BX[:, 0]).index_add(0, row_M, log_prob_M.exp())
        done_B = torch.from_numpy(states.done()).to(self.device)
        return torch.where(done_B, log_prob_BX[:, -1], total_B.clamp(min=1e-30).log())

    def read(self, ids_BT: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return hidden states (B, T, H), plan state (B, H), and log-probabilities of positions and DONE (B, X)."""
        encoded = self.encode(ids_BT, lengths_B)
        plan_B1H = self.plan_states(encoded)
        log_prob_BX = self.position_logits(encoded, plan_B1H, lengths_B)[:, 0].log_softmax(1)
        return encoded.states, plan_B1H[:, 0], log_prob_BX

    def confidence(self, log_prob_BX: Tensor) -> Tensor:
        """Return how confident the choice of a position is, given the log-probabilities of all and of DONE.

        If any order of edits is right, the edits that remain share the probability, so that alone says little: it is
        how probable an edit is if the only other choice is DONE, which is the last column.
        """
        if not self.order_free:
            return log_prob_BX
        edits_BX, done_B1 = log_prob_BX[:, :-1], log_prob_BX[:, -1:]
        return torch.cat([edits_BX - torch.logaddexp(edits_BX, done_B1), done_B1], 1)

    def reading(self, vocabulary: Vocabulary) -> Policy:
        """Return the network for texts whose ids this vocabulary names."""
        if vocabulary is self.vocabulary or not (self.is_pretrained or self.forms):
            return self
        bound = copy(self)
        bound.vocabulary, bound.forms = vocabulary, self.task.word_forms(vocabulary)
        if self.reader is not None:
            bound.reader = SubwordReader(self.reader.tokenizer, vocabulary)
        return bound

    @torch.inference_mode()
    def predict(self, texts: Sequences) -> Prediction:
        """Return the most probable action of each text.

        Where DONE is more probable than everything else together, the other fields need not be computed.
        """
        ids_BT, lengths_B = self.tensors(texts)
        read = self.read(ids_BT, lengths_B)
        done_B = read[2][:, -1]
        open_E = (done_B <= log(0.5)).nonzero()[:, 0]
        actions_BF = torch.full((len(ids_BT), len(self.template.fields)), DONE).numpy()
        log_prob_B = done_B.cpu().numpy().copy()
        if len(open_E):
            rows = open_E.cpu().numpy()
            read = tuple(part[open_E] for part in read)  # type: ignore[assignment]
            found = self._most_probable(read, ids_BT[open_E], lengths_B[open_E], WIDTH)
            actions_BF[rows], log_prob_B[rows] = next_actions(found, self.order_free)
        return Prediction(actions_BF, log_prob_B)

    def _most_probable(
        self, read: tuple[Tensor, Tensor, Tensor], ids_BT: Tensor, lengths_B: Tensor, k: int
    ) -> Candidates:
        """Return the most probable actions with their word forms."""
        found = (part.cpu().numpy() for part in most_probable_actions(self, read, ids_BT, lengths_B, k))
        texts = Sequences(ids_BT.cpu().numpy(), lengths_B.cpu().numpy())
        formed = with_forms(Candidates(*found), texts, self.template, self.forms)
        return by_probability(formed)

    @torch.inference_mode()
    def top_k(self, texts: Sequences, k: int) -> tuple[IntArray, FloatArray]:
        """Return the most probable actions, searched among the most probable positions and tokens."""
        ids_BT, lengths_B = self.tensors(texts)
        actions, log_prob, _ = self._most_probable(self.read(ids_BT, lengths_B), ids_BT, lengths_B, max(k, WIDTH))
        return actions[:, :k], log_prob[:, :k]

    @property
    def plans(self) -> bool:
        """Whether its loss had the edits after the next one."""
        return self.trains_plans

    @torch.inference_mode()
    def plan(self, texts: Sequences, size: int) -> tuple[IntArray, FloatArray]:
        """Return up to `size` actions of each text, each given those before it, from one encoding of the text."""
        ids_BT, lengths_B = self.tensors(texts)
        encoded = self.encode(ids_BT, lengths_B)
        inputs_BH, state, active_B = self.start.expand(len(ids_BT), -1), None, lengths_B >= 0
        found = list[tuple[Tensor, Tensor]]()
        for _ in range(size):
            plan_B1H, state = self.planner(inputs_BH[:, None], encoded, state)
            position_BX = self.position_logits(encoded, plan_B1H, lengths_B)[:, 0].log_softmax(1)
            read = encoded.states, plan_B1H[:, 0], position_BX
            actions_BKF, log_prob_BK, _ = most_probable_actions(self, read, ids_BT, lengths_B, WIDTH)
            found.append((actions_BKF[:, 0], torch.where(active_B, log_prob_BK[:, 0], float("-inf"))))
            active_B = active_B & (actions_BKF[:, 0] != DONE).any(1)
            if not active_B.any():
                break
            inputs_BH = self.plan_input(encoded, *action_fields(self, actions_BKF[:, 0]))
        actions, log_probs = (torch.stack(part, 1).cpu().numpy() for part in zip(*found, strict=True))
        planned = with_forms(Candidates(actions, log_probs, log_probs), texts, self.template, self.forms)
        return planned.actions, planned.log_probs

    @torch.inference_mode()
    def log_prob(self, states: States) -> FloatArray:
        """Return the summed log-probability of all fields."""
        ids_BT, lengths_B = self.tensors(states.texts)
        states_BTH, plan_BH, position_BX = self.read(ids_BT, lengths_B)
        targets = plan_targets(states, self.template, self.operation_index.cpu().numpy(), 0.0)
        plan = targets.take(torch.arange(len(states)), self.device)
        target_B1 = torch.where(plan.has_edit, self._position_choice(plan), position_BX.shape[1] - 1)
        loss_B1 = self._field_loss(plan, states_BTH, plan_BH[:, None], ids_BT, lengths_B)
        return (self.confidence(position_BX).gather(1, target_B1) - loss_B1)[:, 0].cpu().numpy()
