"""The training targets of a pointer: the next edit of each state and, as a plan, those after it.

Shapes: B states, K edits of a plan, J = K + 1 decisions (the last one is DONE).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from stepedit.data.states import States
from stepedit.editing.actions import Template
from stepedit.editing.interpreter import operations_of, rules_of
from stepedit.editing.sequences import PAD, IntArray


class PlanTargets(NamedTuple):
    """The plans of B states; positions are those in the current text."""

    first: Tensor  # (B, K) position
    last: Tensor  # (B, K) last position of a span
    operation: Tensor  # (B, K) index into the template's operations
    token: Tensor  # (B, K) PAD if the edit inserts none
    rule: Tensor  # (B, K) the affix rule that makes the token; -1 if there is none
    has_edit: Tensor  # (B, J) whether the decision is an edit; otherwise it is DONE
    weights: Tensor  # (B, J) loss weight of each decision

    def take(self, rows: Tensor, device: torch.device) -> PlanTargets:
        """Return the plans of some states on a device."""
        return PlanTargets(*(part[rows].to(device) for part in self))


def plan_targets(
    states: States, template: Template, operation_index: IntArray, plan_loss_weight: float, alternatives: bool = False
) -> PlanTargets:
    """Return the next edit and, where edits run from left to right and the plan counts, all edits after it.

    With `alternatives`, all remaining edits, each of which may come next.
    """
    edits, remaining_B = states.current_edits(), states.remaining.counts
    planned = plan_loss_weight > 0 and states.remaining.left_to_right and not states.next_edit.any()
    planned = planned or alternatives
    edits_BK = np.broadcast_to(np.arange(edits.starts.shape[1]), edits.starts.shape)
    if not planned:
        edits_BK = states.next_edit[:, None]
    decision_J = np.arange(edits_BK.shape[1] + 1 if planned else 1)
    weights_J = np.where(decision_J == 0, 1.0, plan_loss_weight).astype(np.float32)
    weights_BJ = weights_J * (decision_J <= remaining_B[:, None])
    operation_BK = operation_index[operations_of(edits, template, states.texts)]
    token_BK = np.where(edits.widths == 1, edits.tokens[:, :, 0], PAD)
    rule_BK = rules_of(edits, template, states.texts)
    last_BK = np.where(edits.widths == 2, edits.starts, np.maximum(edits.stops - 1, edits.starts))  # a swap has one end
    parts = [np.take_along_axis(part, edits_BK, 1) for part in (edits.starts, last_BK, operation_BK, token_BK, rule_BK)]
    return PlanTargets(*map(torch.from_numpy, (*parts, decision_J < remaining_B[:, None], weights_BJ)))
