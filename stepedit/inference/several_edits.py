"""Several edits from one look: the edits of a plan are made one after the other before the text is read again.

For tasks whose edits are independent, and programmers that were trained to plan. `PlannedEdits` takes the place of
`Policy.predict` in greedy decoding, which sees one action at a time as always: an edit of a plan is answered without
asking the programmer, as long as the text is what the plan expects. DONE is never taken from a plan. Plans are known by
their texts: in the rare case that two texts of a batch become the same one, they continue with the same plan.

Shapes: B texts, N actions of a plan, F fields of an action.
"""

from __future__ import annotations

import numpy as np

from stepedit.editing.actions import POSITION, Template
from stepedit.editing.interpreter import FloatArray, Prediction, edits_of, step_batch
from stepedit.editing.sequences import BoolArray, IntArray, Sequences
from stepedit.methods.base import Policy

MIN_CONFIDENCE = 0.5  # of an edit that is made without reading the text again
AUTO = 8  # edits from one look, if their number is left open


class PlannedEdits:
    """The next action of each text, from a plan made earlier or a new look."""

    def __init__(self, policy: Policy, template: Template, size: int, min_confidence: float = 0.0) -> None:
        self.policy, self.template, self.size = policy, template, size
        self.min_confidence = max(min_confidence, MIN_CONFIDENCE)
        self.planned: dict[int, tuple[list[int], float]] = {}  # key of a text -> its next action and log-probability
        self.looks = 0  # texts that were read

    def __call__(self, texts: Sequences) -> Prediction:
        """Return the next action of each text and its log-probability."""
        found = [self.planned.get(key) for key in texts.keys().tolist()]
        fresh = np.array([answer is None for answer in found], np.bool_)
        symbols, log_probs = np.zeros((len(texts), len(self.template.fields)), np.int64), np.zeros(len(texts))
        known = [answer for answer in found if answer is not None]
        if known:
            symbols[~fresh], log_probs[~fresh] = [action for action, _ in known], [value for _, value in known]
        if fresh.any():
            symbols[fresh], log_probs[fresh] = self._look(texts.take(fresh))
        return Prediction(symbols, log_probs)

    def _look(self, texts: Sequences) -> tuple[IntArray, FloatArray]:
        """Return the first action of new plans, and keep the others."""
        self.looks += len(texts)
        actions_BNF, log_probs_BN = self.policy.plan(texts, self.size)
        sure_BN = log_probs_BN >= np.log(self.min_confidence)
        before, going = edits_of(actions_BNF[:, 0], texts, self.template)
        after = step_batch(texts, actions_BNF[:, 0], self.template)
        for index in range(1, actions_BNF.shape[1]):
            edits, fits = edits_of(actions_BNF[:, index], texts, self.template)
            apart = edits.starts >= np.maximum(before.stops, before.starts + 1)
            going = going & fits & apart & sure_BN[:, index] & ~after.skipped
            if not going.any():
                break
            action = shift(actions_BNF[:, index], after.texts.lengths - texts.lengths)
            self._keep(after.texts, action, log_probs_BN[:, index], going)
            before, after = edits, step_batch(after.texts, action, self.template)
        return actions_BNF[:, 0], log_probs_BN[:, 0]

    def _keep(self, texts: Sequences, actions: IntArray, log_probs: FloatArray, rows: BoolArray) -> None:
        kept = zip(texts.keys()[rows].tolist(), actions[rows].tolist(), log_probs[rows].tolist(), strict=True)
        self.planned |= {key: (action, log_prob) for key, action, log_prob in kept}


def shift(actions: IntArray, growth: IntArray) -> IntArray:
    """Return actions with their positions moved by `growth` (B,)."""
    return np.where((actions & 3) == POSITION, actions + 4 * growth[:, None], actions)
