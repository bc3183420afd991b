"""Changes: spans of the source that, applied to it, give the result."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit.editing import actions
from stepedit.editing.actions import Operation, Template
from stepedit.editing.edits import apply, trajectory
from stepedit.editing.interpreter import AppliedAction, describe
from stepedit.editing.trace import Change, apply_changes, changes
from stepedit.tasks.parallel_text import ParallelText
from stepedit.text.tokenization import Level
from tests.editing.templates import INSERT, POSITION, TOKEN

TEXTS = ["teh cat satt. The NASA man, iPhone!", "a b c d e f", "x", "Hello hello HELLO"]


def apply_all(row: list[int], script: list[tuple[int, ...]], template: Template) -> list[AppliedAction]:
    """Apply actions one after the other, whether they fit or not."""
    trace, state = list[AppliedAction](), tuple(row)
    for action in script:
        trace.append(describe(state, action, template))
        state = apply(state, trace[-1].edit)
    return trace


def edit_randomly(text: str, level: Level, seed: int) -> tuple[str, str, list[Change]]:
    """Return a text as it is decoded, the text after some random actions, and the changes."""
    task = ParallelText.for_data(TEXTS, [t.lower() for t in TEXTS], {"level": level})
    vocabulary, rng = task.vocabulary.opened(), np.random.default_rng(seed)
    row = vocabulary.ids(vocabulary.split(text))
    script = list[tuple[int, ...]]()
    for _ in range(int(rng.integers(0, 6))):
        position = POSITION(int(rng.integers(0, len(row) + 1)))
        token = TOKEN(int(rng.choice(sorted(task.template.tokens))))
        which = Operation(int(rng.choice(task.template.operations)))
        has_token = which in (Operation.INSERT, Operation.SUBSTITUTE)
        script.append((actions.operation(which), position, token if has_token else position))
    trace = apply_all(row, script, task.template)
    result = trajectory(row, [applied.edit for applied in trace])[-1]
    return vocabulary.text(row), vocabulary.text(result), changes(row, trace, vocabulary)


@pytest.mark.parametrize("level", ["word", "char"])
@given(text=st.sampled_from(TEXTS), seed=st.integers(0, 10_000))
def test_all_changes_applied_to_the_source_give_the_result(level: Level, text: str, seed: int) -> None:
    source, result, found = edit_randomly(text, level, seed)
    assert source == text
    assert apply_changes(text, found) == result
    for change in found:
        assert text[change.start : change.stop] == change.before != change.after
        assert result[change.result_start : change.result_stop] == change.after


def test_capitalization_is_a_change_of_its_word() -> None:
    task = ParallelText.for_data(["the cat"], ["The cat"], {"level": "word"})
    vocabulary = task.vocabulary
    row = vocabulary.ids(vocabulary.split("a b"))
    trace = apply_all(row, [(INSERT, POSITION(1), POSITION(1), TOKEN(vocabulary.ids(["<Cap>"])[0]))], task.template)
    (change,) = changes(row, trace, vocabulary)
    assert (change.start, change.stop, change.before, change.after) == (1, 3, " b", " B")


@pytest.mark.parametrize(
    ("steps", "confidence"),
    [
        ([("delete", 1, None, 0.6)], 0.6),
        ([("substitute", 0, "x", 0.9), ("substitute", 1, "y", 0.4)], 0.4),
        ([("substitute", 0, "x", 0.4), ("substitute", 1, "y", 0.9)], 0.4),
        ([("insert", 1, "x", 0.3), ("substitute", 1, "y", 0.9)], 0.3),
        ([("insert", 1, "x", 0.9), ("substitute", 1, "y", 0.3)], 0.3),
    ],
    ids=["removed token", "neighbors", "neighbors, the other way", "edited again", "edited again, the other way"],
)
def test_a_change_is_as_confident_as_its_least_confident_step(
    steps: list[tuple[str, int, str | None, float]], confidence: float
) -> None:
    task = ParallelText(known_tokens=tuple("abcxy"), insertable_tokens=tuple("xy"))
    row = task.vocabulary.ids(list("abc"))
    trace, state = list[AppliedAction](), tuple(row)
    for name, position, token, probability in steps:
        last = POSITION(position) if token is None else TOKEN(task.vocabulary.ids([token])[0])
        action = (actions.operation(Operation[name.upper()]), POSITION(position), last)
        trace.append(describe(state, action, task.template, probability))
        state = apply(state, trace[-1].edit)
    (change,) = changes(row, trace, task.vocabulary)
    assert change.confidence == confidence
