"""From what a pointer predicts to the next action: affix rules become word forms, and DONE has to be probable enough.

Shapes: B texts, K actions of each, F fields.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepedit.editing.actions import DONE, RULE, TOKEN, Template
from stepedit.editing.interpreter import FloatArray
from stepedit.editing.sequences import BoolArray, IntArray, Sequences
from stepedit.text.affix_rules import WordForms


class Candidates(NamedTuple):
    """The most probable actions of some texts, best first."""

    actions: IntArray  # (B, K, F)
    log_probs: FloatArray  # (B, K)
    confidences: FloatArray  # (B, K) the same or, where any order is right, log-probabilities if all else were DONE

    def where(self, possible_BK: BoolArray) -> Candidates:
        """Return the candidates with -inf for those that are not possible."""
        log_probs, confidences = (np.where(possible_BK, part, -np.inf) for part in self[1:])
        return Candidates(self.actions, log_probs, confidences)

    def take_along(self, order_BX: IntArray) -> Candidates:
        """Return these candidates of each text."""
        log_probs, confidences = (np.take_along_axis(part, order_BX, 1) for part in self[1:])
        return Candidates(np.take_along_axis(self.actions, order_BX[:, :, None], 1), log_probs, confidences)


def with_forms(candidates: Candidates, texts: Sequences, template: Template, forms: WordForms | None) -> Candidates:
    """Return the actions with each rule replaced by the form that it makes; impossible ones get -inf."""
    if forms is None:
        return candidates
    actions_BKF = candidates.actions
    fields = template.fields
    token = fields.index("token")
    rows, columns = ((actions_BKF[:, :, token] & 3) == RULE).nonzero()
    if not len(rows):
        return candidates
    actions_BKF, possible_BK = actions_BKF.copy(), np.ones(actions_BKF.shape[:2], np.bool_)
    position = fields.index("first" if "first" in fields else "position")
    places = (actions_BKF[rows, columns, position] >> 2).clip(0, max(texts.ids.shape[1] - 1, 0))
    words = texts.widened(1).ids[rows, places].tolist()
    named = (actions_BKF[rows, columns, token] >> 2).tolist()
    made = [forms.form(word, rule) if word else None for word, rule in zip(words, named, strict=True)]
    actions_BKF[rows, columns, token] = [(form or 0) * 4 + TOKEN for form in made]
    possible_BK[rows, columns] = [form is not None for form in made]
    return candidates._replace(actions=actions_BKF).where(possible_BK)


def by_probability(candidates: Candidates) -> Candidates:
    """Return actions in the order of their log-probabilities."""
    log_prob_BK = candidates.log_probs
    if (log_prob_BK[:, 1:] <= log_prob_BK[:, :-1]).all():
        return candidates
    return candidates.take_along(np.argsort(-log_prob_BK, axis=1, kind="stable"))


def next_actions(candidates: Candidates, order_free: bool) -> tuple[IntArray, FloatArray]:
    """Return the action (B, F) that is made next, the most probable one, and its confidence (B,).

    If any order is right, the edits that remain share the probability, so DONE comes first only with more than half.
    """
    actions_BKF, log_prob_BK, confidence_BK = candidates
    if not order_free or actions_BKF.shape[1] == 1:
        return actions_BKF[:, 0], confidence_BK[:, 0]
    done_B = (actions_BKF[:, 0] == DONE).all(1) & (log_prob_BK[:, 0] <= np.log(0.5))
    chosen_B = (done_B & (log_prob_BK[:, 1] > -np.inf)).astype(np.int64)
    rows = np.arange(len(actions_BKF))
    return actions_BKF[rows, chosen_B], confidence_BK[rows, chosen_B]
