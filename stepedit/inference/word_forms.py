"""From what a pointer predicts to the next action: affix rules become word forms, and DONE has to be probable enough.

Shapes: B texts, K actions of each, F fields.
"""

from __future__ import annotations

import numpy as np

from stepedit.editing.actions import DONE, RULE, TOKEN, Template
from stepedit.editing.interpreter import FloatArray
from stepedit.editing.sequences import IntArray, Sequences
from stepedit.text.affix_rules import WordForms


def with_forms(
    actions_BKF: IntArray, log_prob_BK: FloatArray, texts: Sequences, template: Template, forms: WordForms | None
) -> tuple[IntArray, FloatArray]:
    """Return the actions with each rule replaced by the form that it makes; impossible ones get -inf."""
    if forms is None:
        return actions_BKF, log_prob_BK
    fields = template.fields
    token = fields.index("token")
    rows, columns = ((actions_BKF[:, :, token] & 3) == RULE).nonzero()
    if not len(rows):
        return actions_BKF, log_prob_BK
    actions_BKF, log_prob_BK = actions_BKF.copy(), log_prob_BK.copy()
    position = fields.index("first" if "first" in fields else "position")
    places = (actions_BKF[rows, columns, position] >> 2).clip(0, max(texts.ids.shape[1] - 1, 0))
    words = texts.widened(1).ids[rows, places].tolist()
    named = (actions_BKF[rows, columns, token] >> 2).tolist()
    made = [forms.form(word, rule) if word else None for word, rule in zip(words, named, strict=True)]
    actions_BKF[rows, columns, token] = [(form or 0) * 4 + TOKEN for form in made]
    log_prob_BK[rows, columns] = np.where([form is None for form in made], -np.inf, log_prob_BK[rows, columns])
    return actions_BKF, log_prob_BK


def by_probability(actions_BKF: IntArray, log_prob_BK: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return actions in the order of their log-probabilities."""
    if (log_prob_BK[:, 1:] <= log_prob_BK[:, :-1]).all():
        return actions_BKF, log_prob_BK
    order = np.argsort(-log_prob_BK, axis=1, kind="stable")
    return np.take_along_axis(actions_BKF, order[:, :, None], 1), np.take_along_axis(log_prob_BK, order, 1)


def next_actions(actions_BKF: IntArray, log_prob_BK: FloatArray, order_free: bool) -> tuple[IntArray, FloatArray]:
    """Return the action (B, F) that is made next: the most probable one.

    If any order is right, the edits that remain share the probability, so DONE comes first only with more than half.
    """
    if not order_free or actions_BKF.shape[1] == 1:
        return actions_BKF[:, 0], log_prob_BK[:, 0]
    done_B = (actions_BKF[:, 0] == DONE).all(1) & (log_prob_BK[:, 0] <= np.log(0.5))
    chosen_B = (done_B & (log_prob_BK[:, 1] > -np.inf)).astype(np.int64)
    rows = np.arange(len(actions_BKF))
    return actions_BKF[rows, chosen_B], log_prob_BK[rows, chosen_B]
