"""No edit touches what a person wants kept: by character and by word, in windows, with any policy and decoding."""

import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepedit.data.states import States
from stepedit.editing.actions import DONE, Operation, operation, position, token
from stepedit.editing.interpreter import Outcome, Prediction
from stepedit.editing.sequences import Sequences
from stepedit.editing.trace import apply_changes, changes
from stepedit.errors import UserError
from stepedit.inference import protection
from stepedit.inference.decoding import Decoding, resolve
from stepedit.inference.editor import Editor
from stepedit.inference.predict import predict
from stepedit.inference.protected_policy import ProtectedPolicy
from stepedit.inference.protection import PROTECTED, marked, spans
from stepedit.methods.recurrence import Recurrence
from stepedit.methods.tagging import Tagging
from stepedit.registry import TASKS
from stepedit.tasks.parallel_text import ParallelText
from stepedit.text.lexicon import Lexicon
from stepedit.text.tokenization import CAP, CAPS, continues_word
from stepedit.text.vocabulary import Vocabulary

Action = tuple[int, ...]
Rule = Callable[[list[str]], list[Action]]  # the tokens of a text -> the most probable actions
WORDS = (" acme", " new", " york", " the", " cat", "cat", "-", ",", " ", ".", " 3", "s")
LINES = ParallelText(
    "word",
    window=8,
    max_window_edits=32,
    known_tokens=(CAP, CAPS, *WORDS),
    insertable_tokens=(CAP, CAPS, " the", "cat", ",", "s", " "),
)
LETTERS = ParallelText(
    "char", "line", 8, max_window_edits=32, known_tokens=(*"acmenwyorkAN ,-_",), insertable_tokens=tuple("acN ,-")
)


class RandomPolicy:
    """Random actions, the same ones for the same text; more of them fit than not."""

    num_parameters, plans = 0, True

    def __init__(self, task: ParallelText, seed: int) -> None:
        self.task, self.seed = task, seed

    def reading(self, vocabulary: Vocabulary) -> "RandomPolicy":
        """Return itself: it needs no names."""
        return self

    def _actions(self, row: list[int], k: int) -> tuple[list[Action], list[float]]:
        rng = np.random.default_rng([self.seed, *row])
        tokens, found = [*sorted(self.task.template.tokens), *row], dict[Action, None]()
        assert max([0, *row]) < PROTECTED, "a policy must not see marks"
        for _ in range(4 * k):
            which = self.task.template.operations[rng.integers(len(self.task.template.operations))]
            at = position(int(rng.integers(len(row) + 1)))
            has_token = which in (Operation.INSERT, Operation.SUBSTITUTE)
            found[operation(which), at, token(int(rng.choice(tokens))) if has_token else at] = None
        if rng.random() < 0.2:
            found = {(DONE,) * 3: None, **found}
        chosen = [*found, (DONE,) * 3][:k]
        return chosen, sorted(np.log(rng.dirichlet(np.ones(len(chosen)))).tolist(), reverse=True)

    def top_k(self, texts: Sequences, k: int) -> tuple[np.ndarray, np.ndarray]:
        actions, log_probs = np.full((len(texts), k, 3), DONE), np.full((len(texts), k), -np.inf)
        for index, row in enumerate(texts.rows()):
            found, values = self._actions(row, k)
            actions[index, : len(found)], log_probs[index, : len(found)] = found, values
        return actions, log_probs

    def predict(self, texts: Sequences) -> Prediction:
        actions, log_probs = self.top_k(texts, 1)
        return Prediction(actions[:, 0], log_probs[:, 0])

    def plan(self, texts: Sequences, size: int) -> tuple[np.ndarray, np.ndarray]:
        return self.top_k(texts, size)[0], np.log(np.full((len(texts), size), 0.9))

    def log_prob(self, states: States) -> np.ndarray:
        return -states.remaining.counts.astype(float)


def _joins(character: str) -> bool:
    return bool(character) and continues_word(character)


def assert_intact(source: str, result: str, decoding: Decoding) -> None:
    """Every protected span of the source is in the result, in order, and no part of a longer word."""
    place = 0
    for start, end in spans(source, decoding):
        found = re.compile(re.escape(source[start:end])).finditer(result, place)
        kept_apart = [source[start - 1 : start], source[end : end + 1]]
        for match in found:
            beside = result[max(0, match.start() - 1) : match.start()], result[match.end() : match.end() + 1]
            if all(not _joins(new) or _joins(old) for new, old in zip(beside, kept_apart, strict=True)):
                place = match.end()
                break
        else:
            raise AssertionError(f"{source[start:end]!r} of {source!r} is not in {result!r}")


keep_lists = st.lists(
    st.sampled_from(
        ["acme", "new york", "case:The", "/c.t/", "/ *y[^ ]*/", "Acme", "cat", "york", "-", "a", "/e n/", "3"]
    ),
    max_size=4,
)
decodings = st.builds(
    Decoding,
    keep=keep_lists,
    keep_code=st.booleans(),
    beam_size=st.sampled_from([1, 1, 3]),
    min_confidence=st.sampled_from([0.0, 0.0, 0.3]),
)


def names_of(task: ParallelText) -> st.SearchStrategy[list[str]]:
    names = (
        ["".join(each) for each in WORDS] + [" Acme", " NEW", " New", "The", " York"]
        if task is LINES
        else [*"acme new york,-", "acme", "new york"]
    )
    return st.lists(st.sampled_from(names), max_size=24)


@settings(max_examples=300)
@pytest.mark.parametrize("task", [LINES, LETTERS], ids=["word", "char"])
@given(st.data(), decodings, st.integers(0, 10**6))
def test_whatever_a_policy_does_protected_spans_come_back(
    task: ParallelText, data: st.DataObject, decoding: Decoding, seed: int
) -> None:
    texts = ["".join(names).strip() for names in data.draw(st.lists(names_of(task), min_size=1, max_size=3))]
    vocabulary = task.vocabulary.opened()
    rows = [vocabulary.ids(vocabulary.split(text)) for text in texts]
    if decoding.beam_size == 1:
        decoding = decoding.model_copy(update={"edits_per_step": data.draw(st.sampled_from([1, 0, 4]))})
    whole = all(len(row) <= task.window for row in rows)  # nothing is joined, so there is nothing to repair
    with patch.object(protection, "is_intact", return_value=True) if whole else nullcontext():
        outcomes = predict(RandomPolicy(task, seed), Recurrence(task), rows, decoding, True, vocabulary)
    for text, row, outcome in zip(texts, rows, outcomes, strict=True):
        result = vocabulary.text(outcome.tokens)
        assert_intact(text, result, decoding)
        assert apply_changes(text, changes(row, outcome.trace, vocabulary)) == result


class Wish(RandomPolicy):
    """Actions in the order of their probability, as a rule names them for the tokens of a text."""

    def __init__(self, task: ParallelText, rule: Rule) -> None:
        super().__init__(task, 0)
        self.rule, self.calls = rule, list[str]()

    def _actions(self, row: list[int], k: int) -> tuple[list[Action], list[float]]:
        found = [*self.rule([self.task.vocabulary.name(index) for index in row]), (DONE,) * 3][:k]
        return found, np.log(np.linspace(0.9, 0.1, len(found))).tolist()

    def top_k(self, texts: Sequences, k: int) -> tuple[np.ndarray, np.ndarray]:
        self.calls.append(f"top {k}")
        return super().top_k(texts, k)


def action(which: Operation, at: int, name: str | None = None) -> Action:
    index = LINES.vocabulary.ids([name])[0] if name else 0
    return operation(which), position(at), token(index) if name else position(at)


def edit(rule: Rule, text: str, **decoding: object) -> Outcome:
    row = LINES.vocabulary.ids(LINES.vocabulary.split(text))
    return predict(Wish(LINES, rule), Recurrence(LINES), [row], Decoding(**decoding), True)[0]


def result(rule: Rule, text: str, **decoding: object) -> str:
    return LINES.vocabulary.text(edit(rule, text, **decoding).tokens)


def once(*wishes: tuple[Operation, int, str | None]) -> Rule:
    """A rule that names these actions until the text has another length than at first."""
    lengths = list[int]()

    def rule(names: list[str]) -> list[Action]:
        lengths.append(len(names))
        return [action(*each) for each in wishes] if len(names) == lengths[0] else []

    return rule


INSERT, DELETE, SUBSTITUTE, SWAP = Operation.INSERT, Operation.DELETE, Operation.SUBSTITUTE, Operation.SWAP


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize(
    ("wish", "free"),
    [
        ((DELETE, 1, None), "new the"),
        ((SUBSTITUTE, 1, ","), "new, the"),
        ((SWAP, 0, None), "york new the"),
        ((SWAP, 1, None), "new the york"),
        ((INSERT, 1, ","), "new, york the"),
        ((INSERT, 0, CAP), "New york the"),
        ((INSERT, 2, "cat"), "new yorkcat the"),
    ],
    ids=["delete", "substitute", "swap inside", "swap at the edge", "insert inside", "capital", "a longer word"],
)
def test_no_kind_of_edit_touches_a_phrase(wish: tuple[Operation, int, str | None], free: str, beam_size: int) -> None:
    def rule(names: list[str]) -> list[Action]:
        return [action(*wish)] * (names == [" new", " york", " the"])

    with patch.object(protection, "is_intact", return_value=True):
        outcome = edit(rule, "new york the", keep=["New York"], beam_size=beam_size)
    assert LINES.vocabulary.text(outcome.tokens) == "new york the"
    assert (outcome.stop_reason, outcome.trace) == ("done", [])
    assert result(rule, "new york the") == free


@pytest.mark.parametrize(("at", "name", "text"), [(0, " the", "the new york"), (2, ",", "new york,")])
def test_a_mark_or_word_beside_a_phrase_is_fine(at: int, name: str, text: str) -> None:
    assert result(once((INSERT, at, name)), "new york", keep=["new york"]) == text


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_text_is_done_if_all_actions_touch_a_kept_word(beam_size: int) -> None:
    wishes = [action(SUBSTITUTE, 0, name) for name in (" the", "cat", ",", "s", " ")] + [action(DELETE, 0)]
    wishes += [action(INSERT, 0, name) for name in (CAP, CAPS, "cat")]
    outcome = edit(lambda names: wishes, "acme", keep=["acme"], beam_size=beam_size)
    assert (LINES.vocabulary.text(outcome.tokens), outcome.stop_reason) == ("acme", "done")


def test_the_next_edit_is_that_of_a_text_in_which_the_forbidden_one_was_made() -> None:
    def rule(names: list[str]) -> list[Action]:
        if names[0] != CAP:  # first a capital; before that, the second choice makes no sense
            return [action(INSERT, 0, CAP), action(DELETE, 1)]
        return [] if names[-1] == "," else [action(INSERT, len(names), ",")]

    assert result(rule, "acme cat") == "Acme cat,"
    assert result(rule, "acme cat", keep=["acme"]) == "acme cat,"


def test_an_edit_after_a_forbidden_one_below_the_threshold_is_not_made() -> None:
    def rule(names: list[str]) -> list[Action]:
        return [action(INSERT, 0, CAP)] if names[0] != CAP else [action(INSERT, len(names), ",")]

    policy = Wish(LINES, rule)
    values = iter([0.2, 0.2, 0.9])
    with patch.object(
        policy, "predict", lambda texts: Prediction(policy.top_k(texts, 1)[0][:, 0], np.log([next(values)]))
    ):
        row = LINES.vocabulary.ids([" acme"])
        outcome = predict(policy, Recurrence(LINES), [row], Decoding(keep=["acme"], min_confidence=0.5))[0]
    assert (outcome.tokens, outcome.stop_reason) == (tuple(row), "confidence")


def _is_cut(text: str) -> bool:
    """Whether `new york` is cut by the border of two windows."""
    segments = LINES.segments(LINES.vocabulary.ids(LINES.vocabulary.split(text)), LINES.vocabulary)
    return any(LINES.vocabulary.name(part.written()[-1]) == " new" for part in segments)


def test_a_phrase_across_the_seam_of_two_windows_stays() -> None:
    text = next(each for each in ("cat " * size + "new york" + " cat" * 9 for size in range(9)) if _is_cut(each))

    def rule(names: list[str]) -> list[Action]:
        both = [at for at in range(1, len(names)) if names[at - 1 : at + 1] == [" new", " york"]]
        lone = [at for at, name in enumerate(names) if name in (" new", " york")]
        return [*(action(INSERT, at, ",") for at in both), *(action(DELETE, at) for at in lone)]

    assert "new york" not in result(rule, text)
    assert result(rule, text, keep=["new york"]) == text


def test_texts_without_a_protected_word_take_the_same_path_as_ever() -> None:
    policy = Wish(LINES, lambda names: [])
    rows = [LINES.vocabulary.ids([name]) for name in (" cat", " the", " cat")]
    with patch.object(ProtectedPolicy, "__init__", side_effect=AssertionError):
        assert len(predict(policy, Recurrence(LINES), rows, Decoding(keep=["acme"]))) == 3


def test_a_text_whose_windows_cannot_be_joined_around_a_phrase_stays_as_it_was() -> None:
    with patch.object(protection, "is_intact", return_value=False):
        assert result(once((INSERT, 2, ",")), "acme cat", keep=["acme"]) == "acme cat"
    decoding = Decoding(keep=["acme", "cat"])
    assert protection.is_intact("acme cat", "the acme, cat", decoding)
    assert not protection.is_intact("acme cat", "cat acme", decoding)
    assert not protection.is_intact("acme", "Acme", decoding)
    assert not protection.is_intact("acme-s", "acmes", decoding)
    assert protection.is_intact("acme-s", "acmes acme-s", decoding)


def test_a_copied_word_may_be_protected() -> None:
    row = LINES.vocabulary.ids([" acme", " cat"])
    copies = Wish(LINES, lambda names: [action(INSERT, 2, " acme")] if len(names) == 2 else [])
    outcome = predict(copies, Recurrence(LINES), [row], Decoding(keep=["acme"]), True)[0]
    assert LINES.vocabulary.text(outcome.tokens) == "acme cat acme"
    assert [step.after for step in outcome.trace] == [(row[0],)]


def test_a_case_sign_belongs_to_the_word_after_it() -> None:
    row = LINES.vocabulary.ids(LINES.vocabulary.split("the Acme cat"))
    marks = marked(row, Decoding(keep=["acme"]), LINES.vocabulary)
    assert [index >= PROTECTED for index in marks] == [False, True, True, False]


def test_a_lexicon_replaces_no_kept_word() -> None:
    task = ParallelText("char", "line", 32, max_window_edits=8)
    row = task.vocabulary.ids(list("acne cet"))
    policy, lexicon = RandomPolicy(task, 0), Lexicon(["acme", "cat"])
    with patch.object(policy, "_actions", lambda row, k: ([(DONE,) * 3], [0.0])):
        for keep, text in (([], "acme cat"), (["acne"], "acne cat")):
            outcome = predict(policy, Recurrence(task), [row], Decoding(lexicon=lexicon, keep=keep))[0]
            assert task.vocabulary.text(outcome.tokens) == text


def test_keeping_is_for_text_and_for_edits_one_at_a_time() -> None:
    for decoding in (Decoding(keep=["a"]), Decoding(keep_code=True)):
        with pytest.raises(UserError, match="need actions, which tagging has none of"):
            resolve(decoding, Tagging(LINES))
        with pytest.raises(UserError, match="for text, and task aor has a fixed vocabulary"):
            resolve(decoding, Recurrence(TASKS["aor"].from_args({})))
    assert not Decoding(keep=[]).protects


SOURCE = "what is the name of the largest river in europe"


@pytest.mark.parametrize("beam_size", [1, 4])
def test_the_punctuation_model_leaves_small_names_small(beam_size: int) -> None:
    editor = Editor.load("punctuation")
    free, kept = (
        editor.edit([SOURCE, "it is good"], Decoding(keep=keep, beam_size=beam_size))
        for keep in ([], ["Europe", "what"])
    )
    assert "Europe?" in free[0].text
    assert kept[0].text.startswith("what is")
    assert kept[0].text.endswith("in europe?")
    assert kept[1] == free[1]


def test_kept_words_cost_no_other_edit() -> None:
    found = Editor.load("punctuation").edit([SOURCE], Decoding(keep=["europe"]), trace=True, num_candidates=3)[0]
    assert found.text == "What is the name of the largest river in europe?"
    assert apply_changes(SOURCE, found.changes) == found.text


@pytest.mark.parametrize("keep", [["gensim"], ["/gen.*m/"], ["use GENSIM"]])
def test_the_spelling_model_leaves_a_name_alone(keep: Sequence[str]) -> None:
    editor, text = Editor.load("spelling"), "we use gensim in this catagory"
    assert editor.edit([text])[0].text == "we use gens in this category"
    assert editor.edit([text], Decoding(keep=list(keep)))[0].text == "we use gensim in this category"


def test_marks_do_not_leave_the_steps_of_a_result() -> None:
    row = LINES.vocabulary.ids([" acme", " cat"])
    copies = Wish(LINES, lambda names: [action(INSERT, 2, " acme")] if len(names) == 2 else [])
    (step,) = predict(copies, Recurrence(LINES), [row], Decoding(keep=["acme"]), True)[0].trace
    assert step.action == action(INSERT, 2, " acme")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("acme the cat", "Acme, the, cat"),
        ("acme, cat", "Acme, cat"),
        ("acme; cat", "Acme; cat"),  # a mark that the vocabulary does not know
        ("acme ; cat", "Acme ; cat"),
        ("acme. cat", "Acme., cat"),  # these two may stand side by side, in this order
        ("acme- the", "Acme- the"),
    ],
)
def test_no_mark_is_put_beside_one_that_it_does_not_stand_beside_and_other_edits_go_on(
    text: str, expected: str
) -> None:
    task = replace(LINES, mark_pairs=(".,",))

    def rule(names: list[str]) -> list[Action]:
        comma, capital = (action(INSERT, at, name) for at, name in ((2, ","), (0, CAP)))
        return [comma] if names[2:3] != [","] else [capital] if names[0] != CAP else []

    class Naming(Wish):
        def reading(self, vocabulary: Vocabulary) -> "Naming":
            self.vocabulary = vocabulary
            return self

        def _actions(self, row: list[int], k: int) -> tuple[list[Action], list[float]]:
            found = [*rule([self.vocabulary.name(index) for index in row]), (DONE,) * 3][:k]
            return found, [-0.1, -2.0][: len(found)]

    vocabulary = task.vocabulary.opened()
    rows = [vocabulary.ids(vocabulary.split(text))]
    outcome = predict(Naming(task, rule), Recurrence(task), rows, vocabulary=vocabulary)[0]
    assert vocabulary.text(outcome.tokens) == expected
    assert outcome.stop_reason == "done"
    beam = predict(Naming(task, rule), Recurrence(task), rows, Decoding(beam_size=3), vocabulary=vocabulary)[0]
    assert vocabulary.text(beam.tokens).count(",") <= expected.count(",")
