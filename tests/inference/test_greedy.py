"""Greedy decoding: edited texts are read again until DONE, a cycle or the step limit."""

import numpy as np
import pytest

from stepedit.editing.actions import DONE
from stepedit.editing.interpreter import Prediction
from stepedit.editing.sequences import Sequences
from stepedit.inference import greedy
from stepedit.inference.editor import Editor
from stepedit.inference.greedy import run
from stepedit.methods.base import END
from stepedit.methods.end2end import End2end
from stepedit.registry import TASKS
from tests.editing.templates import DELETE, INSERT, POSITION, REPLACE, SUBSTITUTE, SWAP, TEMPLATES, TOKEN
from tests.inference.policies import ScriptedPolicy, recurrence


def test_finished_and_truncated_texts_are_distinguished() -> None:
    insert, method = (POSITION(0), TOKEN(1)), recurrence(TEMPLATES["insert"])
    sources = Sequences.from_rows([[4], [5, 4]])
    finished = run(sources, ScriptedPolicy([insert, (DONE, DONE)]), method, max_steps=9)
    assert [(outcome.tokens, outcome.steps, outcome.stop_reason) for outcome in finished] == [
        ((1, 4), 1, "done"),
        ((1, 5, 4), 1, "done"),
    ]
    truncated = run(sources, ScriptedPolicy([insert]), method, max_steps=3)
    assert [(outcome.tokens, outcome.steps, outcome.stop_reason) for outcome in truncated] == [
        ((1, 1, 1, 4), 3, "limit"),
        ((1, 1, 1, 5, 4), 3, "limit"),
    ]


def test_the_step_limit_is_the_methods_by_default() -> None:
    method = recurrence(TEMPLATES["insert"])
    (outcome,) = run(Sequences.from_rows([[4]]), ScriptedPolicy([(POSITION(0), TOKEN(1))]), method)
    assert (outcome.steps, outcome.stop_reason) == (method.max_steps, "limit")


def test_a_cycle_is_stopped_where_it_closes() -> None:
    def exchange(texts: Sequences) -> Prediction:
        """Substitute 2 for 1 and 1 for any other token; a text that starts with 5 is done."""
        symbols = [
            (DONE,) * 3 if row[0] == 5 else (SUBSTITUTE, POSITION(0), TOKEN(2 if row[0] == 1 else 1))
            for row in texts.rows()
        ]
        return Prediction(np.array(symbols), np.zeros(len(texts)))

    sources, method = Sequences.from_rows([[1, 9], [4], [5]]), recurrence(TEMPLATES["operate"])
    outcomes = run(sources, exchange, method, trace=True, max_steps=8)
    assert [(outcome.tokens, outcome.steps) for outcome in outcomes] == [((1, 9), 2), ((1,), 3), ((5,), 0)]
    assert [outcome.stop_reason for outcome in outcomes] == ["cycle", "cycle", "done"]
    assert [len(outcome.trace) for outcome in outcomes] == [2, 3, 0]


def test_a_text_that_an_action_does_not_fit_is_stopped() -> None:
    sources, method = Sequences.from_rows([[1, 9], [4], [5]]), recurrence(TEMPLATES["operate"])
    beyond = ScriptedPolicy([(DELETE, POSITION(7), POSITION(7))])
    outcomes = run(sources, beyond, method, trace=True, max_steps=8)
    assert [(outcome.tokens, outcome.steps, outcome.stop_reason) for outcome in outcomes] == [
        ((1, 9), 1, "cycle"),
        ((4,), 1, "cycle"),
        ((5,), 1, "cycle"),
    ]
    assert [[step.operation for step in outcome.trace] for outcome in outcomes] == [["skip"]] * 3


def test_finished_rows_leave_the_batch_and_outcomes_keep_their_order() -> None:
    batch_sizes: list[int] = []

    def shorten(texts: Sequences) -> Prediction:
        batch_sizes.append(len(texts))
        delete = np.array([DELETE, POSITION(0), POSITION(0)])
        return Prediction(np.where((texts.lengths == 1)[:, None], DONE, delete), np.zeros(len(texts)))

    sources = Sequences.from_rows([[4, 5, 4], [5], [4, 5]])
    outcomes = run(sources, shorten, recurrence(TEMPLATES["operate"]), max_steps=9)
    assert [outcome.tokens for outcome in outcomes] == [(4,), (5,), (5,)]
    assert [outcome.steps for outcome in outcomes] == [2, 0, 1]
    assert batch_sizes == [3, 2, 1]


def test_a_trace_records_each_step() -> None:
    script = [(INSERT, POSITION(1), TOKEN(1)), (SUBSTITUTE, POSITION(0), TOKEN(2)), (DONE,) * 3]
    method = recurrence(TEMPLATES["operate"])
    (outcome,) = run(Sequences.from_rows([[4, 5]]), ScriptedPolicy(script, 0.5), method, trace=True)
    assert [(step.operation, step.start, step.before, step.after) for step in outcome.trace] == [
        ("insert", 1, (), (1,)),
        ("substitute", 0, (4,), (2,)),
    ]
    assert [step.action for step in outcome.trace] == script[:-1]
    assert [step.confidence for step in outcome.trace] == pytest.approx([0.5, 0.5])
    assert outcome.steps == 2
    assert outcome.finished


def test_a_trace_names_the_operation_of_the_action() -> None:
    script = [
        (SWAP, POSITION(0), POSITION(0), POSITION(0)),
        (REPLACE, POSITION(0), POSITION(1), TOKEN(2)),
        (SUBSTITUTE, POSITION(0), POSITION(0), TOKEN(3)),
        (DONE,) * 4,
    ]
    (outcome,) = run(Sequences.from_rows([[4, 5]]), ScriptedPolicy(script), recurrence(TEMPLATES["all"]), trace=True)
    assert [(step.operation, step.after) for step in outcome.trace] == [
        ("swap", (5, 4)),
        ("replace", (2,)),
        ("substitute", (3,)),
    ]


def test_an_edit_below_the_minimum_confidence_is_not_applied() -> None:
    sources, method = Sequences.from_rows([[4]]), recurrence(TEMPLATES["insert"])
    policy = ScriptedPolicy([(POSITION(0), TOKEN(1))], probability=0.5)
    (kept,) = run(sources, policy, method, trace=True, min_confidence=0.6)
    assert (kept.tokens, kept.steps, kept.stop_reason, kept.trace) == ((4,), 0, "confidence", [])
    (edited,) = run(sources, policy, method, min_confidence=0.4, max_steps=1)
    assert edited.tokens == (1, 4)


@pytest.mark.parametrize("size", [1, 2])
def test_an_edit_that_is_as_confident_as_asked_for_is_applied_and_done_needs_no_confidence(size: int) -> None:
    sources, method = Sequences.from_rows([[4]] * size), recurrence(TEMPLATES["insert"])
    policy = ScriptedPolicy([(POSITION(0), TOKEN(1))], probability=0.5)
    edited = run(sources, policy, method, min_confidence=0.5, max_steps=1)
    assert [outcome.tokens for outcome in edited] == [(1, 4)] * size
    done = run(sources, ScriptedPolicy([(DONE, DONE)], probability=0.1), method, min_confidence=0.5)
    assert [(outcome.tokens, outcome.stop_reason) for outcome in done] == [((4,), "done")] * size


def test_the_reason_of_each_text_of_a_batch_is_its_own() -> None:
    insert, done, beyond = (POSITION(0), TOKEN(1)), (DONE, DONE), (POSITION(99), TOKEN(1))

    def predict(texts: Sequences) -> Prediction:
        """Predict by the last token: an unsure edit, DONE (as unsure), an edit that does not fit, an edit."""
        choices = {2: (insert, 0.1), 3: (done, 0.1), 4: (beyond, 0.9), 5: (insert, 0.9)}
        chosen = [choices[row[-1]] for row in texts.rows()]
        return Prediction(np.array([action for action, _ in chosen]), np.log([share for _, share in chosen]))

    rows, method = [[2], [3], [4], [5]], recurrence(TEMPLATES["insert"])
    arguments = predict, method, True, 0.5, 3
    together = run(Sequences.from_rows(rows), *arguments)
    assert [outcome.stop_reason for outcome in together] == ["confidence", "done", "cycle", "limit"]
    assert [outcome.steps for outcome in together] == [0, 0, 1, 3]
    assert [outcome.finished for outcome in together] == [False, True, False, False]
    assert [outcome.truncated for outcome in together] == [False, False, True, True]
    assert [run(Sequences.from_rows([row]), *arguments)[0] for row in rows] == together
    assert {one.stop_reason for one in run(Sequences.from_rows([[2], [2]]), *arguments)} == {"confidence"}


def test_no_sources_give_no_outcomes() -> None:
    assert run(Sequences.from_rows([]), ScriptedPolicy([(DONE, DONE)]), recurrence(TEMPLATES["insert"])) == []


@pytest.mark.parametrize("trace", [True, False])
@pytest.mark.parametrize(("threshold", "limit"), [(0.0, None), (0.0, 2), (0.9, None)])
@pytest.mark.parametrize("name", ["aec", "spelling"])
def test_a_text_alone_is_edited_as_in_a_batch(name: str, threshold: float, limit: int | None, trace: bool) -> None:
    """A single text goes through a loop of its own; texts, steps, endings and traces are the same."""
    editor = Editor.load(name, num_threads=1)
    task = editor.method.task
    sources = task.generate(60, np.random.default_rng(5)).sources
    arguments = editor.policy.predict, editor.method, trace, threshold, limit
    together = greedy.run(sources, *arguments)
    reasons = {outcome.stop_reason for outcome in together}
    assert ("limit" in reasons) == (limit is not None)
    assert ("confidence" in reasons) == (threshold > 0)
    for row, expected in enumerate(together):
        (alone,) = greedy.run(sources.take([row]), *arguments)
        assert (alone.tokens, alone.steps) == (expected.tokens, expected.steps)
        assert alone.stop_reason == expected.stop_reason
        assert [(step.operation, step.edit) for step in alone.trace] == [
            (step.operation, step.edit) for step in expected.trace
        ]
        for mine, other in zip(alone.trace, expected.trace, strict=True):
            assert mine.confidence == pytest.approx(other.confidence, abs=1e-4)


def test_an_output_without_an_end_is_one_step_and_stopped_by_the_limit() -> None:
    """End2end of numbers; its outputs are padding, start, end, then the tokens."""
    task = TASKS["sort"].from_args({"numbers": 5, "length": 3})
    outputs = np.array([[3, 4, END, 0], [3, 4, 3, 4]])

    def write(texts: Sequences) -> Prediction:
        return Prediction(outputs[: len(texts)], np.zeros(len(texts)))

    found = run(Sequences.from_rows([[1, 2], [1, 2]]), write, End2end(task))
    assert [(outcome.steps, outcome.stop_reason, len(outcome.tokens)) for outcome in found] == [
        (1, "done", 2),
        (1, "limit", 4),
    ]
