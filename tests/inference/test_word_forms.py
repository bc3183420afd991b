"""From a pointer's predictions to the next action: word forms, their order, and when DONE is probable enough."""

import numpy as np
import pytest

from stepedit.editing.actions import DONE, RULE, symbol
from stepedit.editing.interpreter import FloatArray
from stepedit.editing.sequences import IntArray, Sequences
from stepedit.inference.word_forms import Candidates, by_probability, next_actions, with_forms
from tests.editing.templates import DELETE, POSITION, SUBSTITUTE, TEMPLATES, TOKEN, TRANSFORM

TEXTS = Sequences.from_rows([[4, 5, 9], [8]])
LOGS = np.log([[0.4, 0.3, 0.2], [0.6, 0.3, 0.1]])


def candidates(actions: IntArray, log_probs: FloatArray) -> Candidates:
    return Candidates(actions, log_probs, log_probs / 2)


class AddsRule:
    """Rule r makes the word w into the word 10 w + r; there is no rule 3."""

    def form(self, word: int, rule: int) -> int | None:
        return None if rule == 3 else 10 * word + rule


def transform(at: int, rule: int) -> list[int]:
    return [TRANSFORM, POSITION(at), POSITION(at), symbol(RULE, rule)]


def substitute(at: int, word: int) -> list[int]:
    return [SUBSTITUTE, POSITION(at), POSITION(at), TOKEN(word)]


def test_a_rule_is_replaced_by_the_form_of_the_word_at_its_position() -> None:
    done = [DONE] * 4
    predicted = np.array(
        [[transform(1, 2), substitute(0, 3), transform(2, 3)], [done, transform(0, 1), transform(5, 2)]]
    )
    before = predicted.copy()
    found, log_probs, confidences = with_forms(
        candidates(predicted, LOGS),
        TEXTS,
        TEMPLATES["all"],
        AddsRule(),  # type: ignore[arg-type]
    )
    assert found[0, 0].tolist() == [TRANSFORM, POSITION(1), POSITION(1), TOKEN(52)]
    assert found[0, 1].tolist() == substitute(0, 3)
    assert found[1, :2].tolist() == [done, [TRANSFORM, POSITION(0), POSITION(0), TOKEN(81)]]
    # a rule that makes nothing of its word, and one beyond the end of its text
    assert np.isneginf(log_probs).tolist() == [[False, False, True], [False, False, True]]
    assert np.isneginf(confidences).tolist() == np.isneginf(log_probs).tolist()
    assert log_probs[:, :2].tolist() == LOGS[:, :2].tolist() == (2 * confidences[:, :2]).tolist()
    assert np.array_equal(predicted, before), "the input was changed in place"


def test_without_forms_or_rules_nothing_changes() -> None:
    deletion = [DELETE, POSITION(0), POSITION(0), POSITION(0)]
    predicted = np.array([[substitute(0, 3), deletion]] * 2)
    for forms in (None, AddsRule()):
        given = candidates(predicted, LOGS[:, :2])
        found = with_forms(given, TEXTS, TEMPLATES["all"], forms)  # type: ignore[arg-type]
        assert all(np.array_equal(part, before) for part, before in zip(found, given, strict=True))


def test_a_word_may_be_named_by_a_single_position() -> None:
    predicted = np.array([[[TRANSFORM, POSITION(2), symbol(RULE, 1)]]])
    texts, template = TEXTS.take([0]), TEMPLATES["operate"]
    found = with_forms(candidates(predicted, np.zeros((1, 1))), texts, template, AddsRule())  # type: ignore[arg-type]
    assert found.actions.tolist() == [[[TRANSFORM, POSITION(2), TOKEN(91)]]]


def test_actions_are_ordered_by_probability_and_equal_ones_keep_their_order() -> None:
    actions = np.arange(8).reshape(2, 4, 1)
    log_probs = np.array([[-1.0, -np.inf, -0.5, -1.0], [-1.0, -2.0, -3.0, -3.0]])
    given = Candidates(actions, log_probs, np.arange(8.0).reshape(2, 4))
    found = by_probability(given)
    assert found.actions[:, :, 0].tolist() == found.confidences.tolist() == [[2, 0, 3, 1], [4, 5, 6, 7]]
    assert found.log_probs.tolist() == [[-0.5, -1.0, -1.0, -np.inf], [-1.0, -2.0, -3.0, -3.0]]
    sorted_already = Candidates(*(part[1:] for part in given))
    assert by_probability(sorted_already) is sorted_already


@pytest.mark.parametrize(
    ("done", "second", "order_free", "chosen"),
    [
        (0.4, 0.3, False, 0),  # the most probable one
        (0.4, 0.3, True, 1),  # the edits that remain share 0.6
        (0.5, 0.3, True, 1),
        (0.51, 0.3, True, 0),
        (0.4, 0.0, True, 0),  # there is no other action
    ],
)
def test_done_needs_more_than_half_where_any_order_is_right(
    done: float, second: float, order_free: bool, chosen: int
) -> None:
    actions = np.array([[[DONE, DONE], [POSITION(0), TOKEN(1)]]])
    with np.errstate(divide="ignore"):
        log_probs = np.log([[done, second]])
    found, confidence = next_actions(candidates(actions, log_probs), order_free)
    assert found.tolist() == [actions[0, chosen].tolist()]
    assert confidence.tolist() == [log_probs[0, chosen] / 2]


def test_an_edit_that_comes_first_is_made_however_improbable_and_a_single_action_is_taken() -> None:
    half_done = np.array([[[POSITION(0), DONE], [POSITION(0), TOKEN(1)]]])
    assert next_actions(candidates(half_done, np.log([[0.3, 0.2]])), True)[0].tolist() == [half_done[0, 0].tolist()]
    done = np.array([[[DONE, DONE]]])
    assert next_actions(candidates(done, np.log([[0.3]])), True)[0].tolist() == [[DONE, DONE]]
