"""Several edits from one look give the texts that one edit at a time gives, with fewer looks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit.editing.actions import DONE, Operation, Template, operation, position, token
from stepedit.editing.interpreter import FloatArray, Prediction
from stepedit.editing.sequences import IntArray, Sequences
from stepedit.errors import UserError
from stepedit.inference import greedy
from stepedit.inference.decoding import Decoding, resolve
from stepedit.inference.editor import Editor
from stepedit.inference.several_edits import PlannedEdits
from stepedit.registry import METHODS, TASKS
from tests.inference.policies import recurrence

TEMPLATE = Template(
    ("operation", "position", "token"), (Operation.INSERT, Operation.SUBSTITUTE), frozenset(range(1, 9))
)
FIELDS = len(TEMPLATE.fields)
texts_of = st.lists(st.lists(st.integers(1, 5), max_size=8), min_size=1, max_size=6)


class Planner:
    """Inserts a 6 before every 1 that has none, and makes a 7 of every 2; `sure` says how sure it is of later edits."""

    plans = True

    def __init__(self, sure: float = 1.0) -> None:
        self.sure, self.plan_sizes = sure, list[int]()

    def edits(self, text: list[int]) -> list[tuple[int, int, int]]:
        found = []
        for at, here in enumerate(text):
            if here == 1 and (at == 0 or text[at - 1] != 6):
                found.append((operation(Operation.INSERT), position(at), token(6)))
            if here == 2:
                found.append((operation(Operation.SUBSTITUTE), position(at), token(7)))
        return found

    def plan(self, texts: Sequences, size: int) -> tuple[IntArray, FloatArray]:
        self.plan_sizes.append(len(texts))
        actions = np.full((len(texts), size, FIELDS), DONE)
        log_probs = np.full((len(texts), size), -np.inf)
        for row, text in enumerate(texts.rows()):
            planned = [*self.edits(text), (DONE,) * FIELDS][:size]
            actions[row, : len(planned)] = planned
            log_probs[row, : len(planned)] = np.log([1.0] + [self.sure] * (len(planned) - 1))
        return actions, log_probs

    def predict(self, texts: Sequences) -> Prediction:
        actions, log_probs = self.plan(texts, 1)
        return Prediction(actions[:, 0], log_probs[:, 0])


@given(texts_of, st.integers(1, 9), st.sampled_from([1.0, 0.6, 0.4]))
def test_texts_steps_and_endings_are_those_of_one_edit_at_a_time(rows: list[list[int]], size: int, sure: float) -> None:
    sources, method, policy = Sequences.from_rows(rows), recurrence(TEMPLATE), Planner(sure)
    expected = greedy.run(sources, policy.predict, method, trace=True, max_steps=20)
    planned = PlannedEdits(policy, TEMPLATE, size)  # type: ignore[arg-type]
    found = greedy.run(sources, planned, method, trace=True, max_steps=20)
    for one, other in zip(found, expected, strict=True):
        assert (one.tokens, one.steps, one.stop_reason) == (other.tokens, other.steps, other.stop_reason)
        assert [step.edit for step in one.trace] == [step.edit for step in other.trace]


def looks(text: list[int], size: int, sure: float = 1.0, min_confidence: float = 0.0) -> int:
    planned = PlannedEdits(Planner(sure), TEMPLATE, size, min_confidence)  # type: ignore[arg-type]
    (outcome,) = greedy.run(Sequences.from_rows([text]), planned, recurrence(TEMPLATE), max_steps=20)
    assert outcome.finished
    return planned.looks


def test_a_text_is_read_once_for_all_edits_of_a_plan_and_once_for_done() -> None:
    text = [2, 3, 2, 1, 4, 2]
    assert looks(text, 1) == 5
    assert looks(text, 2) == 3
    assert looks(text, 8) == 2


def test_edits_that_the_programmer_is_not_sure_of_are_looked_at_again() -> None:
    assert looks([2, 3, 2, 3, 2], 8, sure=0.6) == 2
    assert looks([2, 3, 2, 3, 2], 8, sure=0.4) == 4
    assert looks([2, 3, 2, 3, 2], 8, sure=0.6, min_confidence=0.7) == 4


def test_edits_that_touch_each_other_are_looked_at_again() -> None:
    class Touching(Planner):
        def edits(self, text: list[int]) -> list[tuple[int, int, int]]:
            at = text.index(2) if 2 in text else -1
            both = [(operation(Operation.INSERT), position(at), token(6)), *super().edits(text)]
            return both if at == 0 else super().edits(text)

    planned = PlannedEdits(Touching(), TEMPLATE, 8)  # type: ignore[arg-type]
    (outcome,) = greedy.run(Sequences.from_rows([[2, 3]]), planned, recurrence(TEMPLATE), max_steps=20)
    assert (outcome.tokens, planned.looks) == ((6, 7, 3), 3)


@pytest.mark.parametrize(("task", "values"), [("aor", {}), ("aes", {"beam_size": 3}), ("aes", {"verify": True})])
def test_several_edits_need_greedy_decoding_and_independent_edits(task: str, values: dict[str, int]) -> None:
    method = METHODS["recurrence"](TASKS[task]())
    with pytest.raises(UserError, match="edits_per_step needs greedy decoding and independent edits"):
        resolve(Decoding(edits_per_step=2, **values), method)
    assert resolve(Decoding(edits_per_step=0, **values), method).edits_per_step == 0


def test_a_model_with_a_word_list_makes_one_edit_at_a_time() -> None:
    editor = Editor.load("spelling")
    with pytest.raises(UserError, match="one edit at a time"):
        editor.edit(["a catagory"], Decoding(edits_per_step=2))
    assert editor.edit(["a catagory"], Decoding(edits_per_step=0))[0].text == "a category"


@pytest.mark.parametrize(("sure", "threshold", "looks"), [(0.6, 0.0, 2), (0.6, 0.7, 4), (0.5, 0.0, 2), (0.4, 0.0, 4)])
def test_an_edit_of_a_plan_is_made_without_another_look_if_it_is_sure_enough(
    sure: float, threshold: float, looks: int
) -> None:
    sources = Sequences.from_rows([[1, 2, 2]])
    with_threshold = [threshold] if threshold else []  # without one, more likely than not
    planned = PlannedEdits(Planner(sure), TEMPLATE, 4, *with_threshold)  # type: ignore[arg-type]
    (outcome,) = greedy.run(sources, planned, recurrence(TEMPLATE))
    assert (outcome.tokens, outcome.steps, outcome.stop_reason) == ((6, 1, 7, 7), 3, "done")
    assert planned.looks == looks
