"""The most probable actions of a pointer: position and operation, then the last position, then the token.

Each choice is extended by its most probable next choices, so the most probable action need not be at the most probable
position.

Shapes: B texts, E partial actions of all texts, X choices, F fields of an action, K actions of each text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import pad

from stepedit.editing.actions import DONE, OPERATION, POSITION, TOKEN
from stepedit.editing.sequences import PAD
from stepedit.programmers.nn.attention import NEG_INF

if TYPE_CHECKING:
    from stepedit.programmers.pointer import Pointer


def most_probable_actions(
    net: Pointer, read: tuple[Tensor, Tensor, Tensor], ids_BT: Tensor, lengths_B: Tensor, k: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the k most probable actions (B, K, F), their log-probabilities and, as logarithms, their confidences.

    `read` is what `Pointer.read` returned.
    """
    states_BTH, plan_BH, position_BX = read
    log_prob_BX, choice_BX = position_BX.topk(min(k, position_BX.shape[1]), 1)
    gain_E = (net.confidence(position_BX).gather(1, choice_BX) - log_prob_BX).flatten()
    rows_E = torch.arange(len(ids_BT), device=ids_BT.device).repeat_interleave(log_prob_BX.shape[1])
    log_prob_E, choice_E = log_prob_BX.flatten(), choice_BX.flatten()
    operations = len(net.template.operations)
    done_E = choice_E == states_BTH.shape[1] * operations
    first_E, operation_E = (torch.where(done_E, 0, part) for part in (choice_E // operations, choice_E % operations))
    last_E, symbol_E = first_E, torch.full_like(first_E, PAD)
    if net.has_spans:
        logits_ET = net.last_logits(states_BTH, rows_E, first_E, plan_BH[rows_E], operation_E, lengths_B)
        more_EX, last_EX = _best(_only_first(logits_ET, done_E), k)
        log_prob_E, rows_E, gain_E, first_E, operation_E, done_E, last_E = _extend(
            more_EX, log_prob_E, (rows_E, gain_E, first_E, operation_E, done_E), last_EX
        )
    if net.has_tokens:
        positions = first_E, last_E if net.has_spans else None
        logits_EV = net.token_logits(states_BTH, rows_E, positions, plan_BH[rows_E], operation_E, net.copyable(ids_BT))
        more_EX, choice_EX = _best(_only_first(logits_EV, done_E | ~net.inserts(operation_E)), k)
        log_prob_E, rows_E, gain_E, first_E, operation_E, done_E, last_E, choice_E = _extend(
            more_EX, log_prob_E, (rows_E, gain_E, first_E, operation_E, done_E, last_E), choice_EX
        )
        symbol_E = net.symbol_of_choice(choice_E, rows_E, ids_BT)
    actions_EF = torch.where(done_E[:, None], DONE, _actions(net, first_E, last_E, operation_E, symbol_E))
    actions_BCF, gain_BC, log_prob_BC = (
        part.view(len(ids_BT), -1, *part.shape[1:]) for part in (actions_EF, gain_E, log_prob_E)
    )
    return _top_k(actions_BCF, log_prob_BC, gain_BC, k)


def _actions(net: Pointer, first_E: Tensor, last_E: Tensor, operation_E: Tensor, symbol_E: Tensor) -> Tensor:
    """Return the actions (E, F) with these fields."""
    position_E = first_E * 4 + POSITION
    columns = {
        "operation": net.operation_ids[operation_E] * 4 + OPERATION,
        "position": position_E,
        "first": position_E,
        "last": last_E * 4 + POSITION,
        "token": torch.where(net.inserts(operation_E), symbol_E, position_E),
    }
    return torch.stack([columns[field] for field in net.template.fields], 1)


def action_fields(net: Pointer, actions_BF: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return position, operation and token (B,) of actions; DONE is an edit of position 0 that inserts nothing."""
    values = dict(zip(net.template.fields, actions_BF.unbind(1), strict=True))
    first_B = values["first"] if "first" in values else values["position"]
    token_B = values.get("token", first_B)
    operation_B = values["operation"] >> 2 if "operation" in values else net.operation_ids[:1].expand(len(first_B))
    done_B = first_B == DONE
    position_B = torch.where(done_B, 0, first_B >> 2)
    return position_B, net.operation_index[operation_B], torch.where((token_B & 3) == TOKEN, token_B >> 2, PAD)


def _best(logits_EX: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the highest log-probabilities of each row and their indices."""
    return tuple(logits_EX.log_softmax(1).topk(min(k, logits_EX.shape[1]), 1))  # type: ignore[return-value]


def _only_first(logits_EX: Tensor, fixed_E: Tensor) -> Tensor:
    """Leave a single, certain choice where the field has no meaning."""
    first_X = torch.zeros(logits_EX.shape[1], device=logits_EX.device)
    first_X[1:] = NEG_INF
    return torch.where(fixed_E[:, None], first_X, logits_EX)


def _extend(more_EX: Tensor, log_prob_E: Tensor, parts: tuple[Tensor, ...], choice_EX: Tensor) -> tuple[Tensor, ...]:
    """Combine every partial action with every next choice: log-probabilities, repeated parts, choices."""
    width = more_EX.shape[1]
    total = (log_prob_E[:, None] + more_EX).flatten()
    return (total, *(part.repeat_interleave(width, 0) for part in parts), choice_EX.flatten())


def _top_k(actions_BCF: Tensor, log_prob_BC: Tensor, gain_BC: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the k most probable candidates of each row; impossible ones have a log-probability of -inf."""
    missing = max(k - log_prob_BC.shape[1], 0)
    log_prob_BK, order_BK = pad(log_prob_BC, (0, missing), value=NEG_INF).topk(k, 1)
    order_BK = order_BK.clamp(max=log_prob_BC.shape[1] - 1)
    chosen_BKF = actions_BCF.gather(1, order_BK[:, :, None].expand(-1, -1, actions_BCF.shape[2]))
    log_prob_BK = log_prob_BK.masked_fill(log_prob_BK <= NEG_INF / 2, float("-inf"))
    return chosen_BKF, log_prob_BK, log_prob_BK + gain_BC.gather(1, order_BK)
