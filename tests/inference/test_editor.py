"""The editor's records: why a text ended, and traces whose size is linear in the text."""

import json
import time
from typing import Any, cast

import pytest

from stepedit.config import RunConfig, TrainingConfig
from stepedit.editing.edits import trajectory
from stepedit.editing.interpreter import Outcome, StopReason
from stepedit.errors import DataError, UserError
from stepedit.inference.decoding import Decoding
from stepedit.inference.editor import Editor, EditResult
from stepedit.inference.joining import joined
from stepedit.methods.base import Policy
from stepedit.methods.recurrence import Recurrence
from stepedit.tasks.base import Segment
from stepedit.tasks.parallel_text import LETTERS, ParallelText
from stepedit.text.keep import Keep
from stepedit.text.lexicon import Lexicon
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


def test_texts_that_cannot_be_edited_are_named_by_their_line() -> None:
    editor = Editor.load("aor")
    assert editor.refusals(["6 10 9 5 2", "6 x", "", "6 \ud800"]) == {
        1: "unknown token 'x'",
        2: "the text is empty",
        3: "a lone surrogate, which is not a character",
    }
    for texts, first_line, message in (
        (["x"], 1, "^unknown token 'x'"),
        (["2 3 5", "x"], 1, "^line 2: unknown token 'x'"),
        (["x"], 7, "^line 7: unknown token 'x'"),
        (["2 3 5", ""], 10, "^line 11: the text is empty"),
        (["\udfff"], 2, "^line 2: a lone surrogate"),
    ):
        with pytest.raises(DataError, match=message):
            editor.edit(texts, first_line=first_line)
    assert substituting_editor().edit([""])[0].text == ""  # of text, an empty line is one, too


def test_words_that_stay_are_no_segments() -> None:
    editor = Editor.load("spelling")
    assert len(editor.segments(["the cat"])) == 0
    assert editor.segments(["teh cat", "we recieve it"]).lengths.tolist() == [3, 7]
    assert substituting_editor(window=8).segments(["abc", "ab" * 20]).lengths.max() <= 8


def test_a_list_of_words_needs_a_beam_and_one_edit_at_a_time() -> None:
    spelling, aor = Editor.load("spelling"), Editor.load("aor")
    assert [spelling.beam_size(Decoding(beam_size=size)) for size in (1, 8, 9)] == [8, 8, 9]
    assert [aor.beam_size(Decoding(beam_size=size)) for size in (1, 9)] == [1, 9]
    with pytest.raises(UserError, match="which it searches with a beam, one edit at a time"):
        spelling.resolve(Decoding(edits_per_step=2))
    assert spelling.resolve().min_confidence == spelling.min_confidence > 0
    assert spelling.resolve(Decoding(min_confidence=0.0)).min_confidence == 0


def test_a_word_that_stays_for_lack_of_confidence_says_so() -> None:
    editor = Editor.load("spelling")
    results = editor.edit(["questionaire", "tensorize", "catagory"])  # DONE has 44 %, 97 % and less
    assert [result.text for result in results] == ["questionaire", "tensorize", "category"]
    assert [result.stop_reason for result in results] == ["confidence", "done", "done"]
    (forced,) = editor.edit(["questionaire"], Decoding(min_confidence=0.0))
    assert (forced.text != "questionaire", forced.stop_reason) == (True, "done")


def test_beams_and_lists_of_words_are_refused_for_models_of_any_order() -> None:
    editor = substituting_editor()
    any_order = editor.run.model_copy(update={"training": TrainingConfig(edit_order="any")})
    plain, listed = (Editor(any_order, editor.method, editor.policy, keep=keep) for keep in (None, Keep(["xa", "ya"])))
    assert plain.edit(["xa"])[0].text == "ya"
    with pytest.raises(UserError, match="beam search and lexicons need a model with an order"):
        plain.edit(["xa"], Decoding(beam_size=4))
    with pytest.raises(UserError, match=r"a list of words .keep.txt. needs a model with an order"):
        listed.edit(["xa"])


def test_the_lexicon_says_what_is_valid_and_a_verifier_otherwise() -> None:
    words = Decoding(lexicon=Lexicon(["the"]), min_confidence=0)
    assert [each.valid for each in Editor.load("spelling").edit(["teh", "xqzvw"], words)] == [True, False]
    assert [each.valid for each in substituting_editor().edit(["xa", "b"])] == [None, None]
    assert [each.valid for each in Editor.load("aor").edit(["6 10 9 5 2", "6 10 9 5 3"])] == [True, False]


def test_candidates_are_of_texts_that_were_edited_as_they_are_and_one_of_them_was_chosen() -> None:
    (result,) = Editor.load("aor").edit(["6 10 9 5 2"], trace=True, num_candidates=2)
    assert [len(step.candidates) for step in result.steps] == [2] * 4
    for step in result.steps:
        (chosen,) = [each for each in step.candidates if each.chosen]
        assert (chosen.operation, chosen.position, chosen.after) == (step.operation, step.position, step.after)
        assert chosen.probability == pytest.approx(step.confidence, abs=1e-4)
    assert (result.final_candidates[0].operation, result.final_candidates[0].chosen) == ("done", True)
    (word,) = Editor.load("spelling").edit(["Teh cat"], trace=True, num_candidates=2)
    assert word.steps
    assert all(step.candidates == [] for step in word.steps)
    assert word.final_candidates == []


def test_a_step_that_a_beam_took_is_shown_also_if_it_is_not_among_the_most_probable() -> None:
    editor, source = Editor.load("aor"), "2 6 2 7 6"
    assert not editor.edit([source])[0].valid
    (result,) = editor.edit([source], Decoding(beam_size=10, verify=True), trace=True, num_candidates=1)
    assert (result.valid, len(result.steps)) == (True, 4)
    for step in result.steps:
        (shown,) = step.candidates
        assert shown.chosen
        assert (shown.position, shown.after) == (step.position, step.after)
