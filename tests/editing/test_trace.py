"""Changes: spans of the original that, applied to it, give the result."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit.actions import Operation
from stepedit.changes import applied, changes
from stepedit.interpreter import run
from stepedit.sequences import Sequences
from stepedit.tasks.parallel_text import ParallelText
from stepedit.tokens import Level
from tests.test_interpreter import DONE, POSITION, TOKEN, actions, saying

TEXTS = ["teh cat satt. The NASA man, iPhone!", "a b c d e f", "x", "Hello hello HELLO"]


def edited(text: str, level: Level, seed: int) -> tuple[str, str, list[object]]:
    """A text after some random edits, and the changes."""
    task = ParallelText.for_data(TEXTS, [t.lower() for t in TEXTS], {"level": level})
    words, rng = task.vocabulary.opened(), np.random.default_rng(seed)
    row = words.ids(words.split(text))
    said = [(DONE,) * 3]
    for _ in range(int(rng.integers(0, 6))):
        place, token = (
            POSITION(int(rng.integers(0, len(row) + 1))),
            TOKEN(int(rng.choice(sorted(task.template.tokens)))),
        )
        which = Operation(int(rng.choice(task.template.operations)))
        brings = which in (Operation.INSERT, Operation.SUBSTITUTE)
        said.insert(0, (actions.operation(which), place, token if brings else place))
    outcome = run(Sequences.from_rows([row]), saying(*said), task.template, limit=9, trace=True)[0]
    return words.text(row), words.text(outcome.tokens), changes(row, outcome.trace, words.name, words.pieces)  # type: ignore[return-value]


@pytest.mark.parametrize("level", ["word", "char"])
@given(text=st.sampled_from(TEXTS), seed=st.integers(0, 10_000))
def test_all_changes_applied_to_the_original_give_the_result(level: Level, text: str, seed: int) -> None:
    source, result, found = edited(text, level, seed)
    assert source == text
    assert applied(text, found) == result  # type: ignore[arg-type]
    for change in found:
        assert text[change.start : change.stop] == change.before != change.after  # type: ignore[attr-defined]
        assert result[change.result_start : change.result_stop] == change.after  # type: ignore[attr-defined]


def test_a_capital_is_a_change_of_its_word() -> None:
    task = ParallelText.for_data(["the cat"], ["The cat"], {"level": "word"})
    words = task.vocabulary
    row = words.ids(words.split("a b"))
    said = [(actions.operation(Operation.INSERT), POSITION(1), TOKEN(words.ids(["<Cap>"])[0])), (DONE,) * 3]
    outcome = run(Sequences.from_rows([row]), saying(*said), task.template, limit=9, trace=True)[0]
    (change,) = changes(row, outcome.trace, words.name, words.pieces)
    assert (change.start, change.stop, change.before, change.after) == (1, 3, " b", " B")
