"""The editor's records: why a text ended, and traces whose size is linear in the text."""

import json
import time
from typing import Any, cast

import pytest

from stepedit.config import RunConfig
from stepedit.editing.edits import trajectory
from stepedit.editing.interpreter import Outcome, StopReason
from stepedit.inference.decoding import Decoding
from stepedit.inference.editor import Editor, EditResult
from stepedit.inference.joining import joined
from stepedit.methods.base import Policy
from stepedit.methods.recurrence import Recurrence
from stepedit.tasks.base import Segment
from stepedit.tasks.parallel_text import LETTERS, ParallelText
from tests.inference.policies import SubstitutePolicy


def substituting_editor(wrong: str = "x", right: str = "y", window: int = 64) -> Editor:
    """Return an editor of text, window by window, without a network."""
    task = ParallelText(window=window, max_window_edits=window, max_target_length=window, known_tokens=LETTERS)
    policy = SubstitutePolicy(*task.vocabulary.ids([wrong, right]))
    run = RunConfig(task="text", max_epochs=1, eval_every=1, threads=1)
    return Editor(run, Recurrence(task), cast(Policy, policy))


def edited(text: str, states: bool = False) -> tuple[EditResult, str, float]:
    """Return the traced result of a text, as JSON too, and the seconds that both took."""
    editor, began = substituting_editor(), time.perf_counter()
    (result,) = editor.edit([text], trace=True, states=states)
    as_json = json.dumps(result.as_dict())
    return result, as_json, time.perf_counter() - began


def test_the_json_of_a_long_line_is_linear_in_its_length() -> None:
    line = "an xerror in each of these words " * 900  # 29,700 characters, 900 edits
    edited(line)  # whatever is done once
    result, as_json, seconds = edited(line)
    _, twice, double_seconds = edited(2 * line)
    assert (len(result.steps), len(result.changes)) == (900, 900)
    assert result.text == line.replace("x", "y")
    assert len(as_json) < 20 * len(line)
    assert len(twice) < 2.1 * len(as_json)
    assert double_seconds < 3.5 * seconds + 0.5


def test_steps_have_whole_texts_on_request_only() -> None:
    plain, with_states = (edited("xa bx cx", states)[0] for states in (False, True))
    assert [(step.text, step.tokens) for step in plain.steps] == [(None, None)] * 3
    assert [step.text for step in with_states.steps] == ["ya bx cx", "ya by cx", "ya by cy"]
    assert [step.tokens for step in with_states.steps] == [list(step.text or "") for step in with_states.steps]
    assert not {"text", "tokens"} & plain.as_dict()["steps"][0].keys()
    assert with_states.as_dict()["steps"][-1]["text"] == "ya by cy"


def test_the_steps_replayed_from_the_source_give_the_result_across_windows() -> None:
    result = edited("xx " * 100)[0]
    states = trajectory(result.tokens, [step.edit for step in result.steps])
    assert len(states) == 201
    assert "".join(states[-1]) == result.text == "yy " * 100
    assert [step.position for step in result.steps] == [index for index in range(300) if index % 3 < 2]


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (["done", "done"], "done"),
        (["done", "confidence", "done"], "confidence"),
        (["confidence", "limit", "cycle"], "limit"),
        (["confidence", "cycle", "limit"], "cycle"),
    ],
)
def test_a_text_of_several_segments_has_the_worst_reason_of_them(reasons: list[StopReason], expected: str) -> None:
    outcomes = [Outcome((1,), 1, reason) for reason in reasons]
    assert joined([Segment([1])] * len(outcomes), outcomes, trace=False).stop_reason == expected


@pytest.mark.parametrize(("threshold", "reason"), [(0.5, "done"), (0.9, "confidence")])
def test_a_result_says_why_it_ended(threshold: float, reason: str) -> None:
    (result,) = substituting_editor().edit(["xa"], Decoding(min_confidence=threshold))
    values: dict[str, Any] = result.as_dict()
    assert (values["stop_reason"], values["finished"]) == (result.stop_reason, result.finished)
    assert (result.stop_reason, result.finished) == (reason, reason == "done")
