"""Long texts in windows, and words in lower case: what the segments of a text add up to."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit.data.states import States
from stepedit.editing.actions import DONE, Operation, operation, position, token
from stepedit.editing.edits import trajectory
from stepedit.editing.interpreter import AppliedAction, Outcome, Prediction
from stepedit.editing.sequences import Sequences
from stepedit.editing.trace import apply_changes, changes
from stepedit.inference.decoding import Decoding
from stepedit.inference.joining import joined
from stepedit.inference.predict import predict
from stepedit.methods.recurrence import Recurrence
from stepedit.tasks.parallel_text import ParallelText
from stepedit.text import windows
from stepedit.text.keep import Keep
from stepedit.text.lexicon import Lexicon
from stepedit.text.tokenization import CAP
from stepedit.text.vocabulary import Vocabulary

Rule = Callable[[list[str]], tuple[int, ...] | None]  # the names of a text's tokens -> the next action, if there is one
WORDS = tuple(f" w{index}" for index in range(300))
MARKS, ALPHABET = (",", ".", CAP), tuple("abcdefghijklmnopqrstuvwxyz'")
LINES = ParallelText("word", "line", 64, max_window_edits=32, known_tokens=(*WORDS, *MARKS), insertable_tokens=MARKS)
LETTERS = ParallelText("char", "word", 12, known_tokens=ALPHABET, insertable_tokens=ALPHABET)


class RulePolicy:
    """A policy that does what a rule says, with confidence `probability`."""

    def __init__(self, task: ParallelText, rule: Rule, probability: float = 1.0) -> None:
        self.task, self.rule, self.log_prob_ = task, rule, float(np.log(probability))
        self.vocabulary, self.texts = task.vocabulary, list[list[str]]()

    def reading(self, vocabulary: Vocabulary) -> "RulePolicy":
        """Return itself: it needs no names."""
        return self

    def predict(self, texts: Sequences) -> Prediction:
        """Return the action of the rule for each text, or DONE."""
        rows = [[self.vocabulary.name(index) for index in row] for row in texts.rows()]
        self.texts += rows
        actions = [self.rule(row) or (DONE,) * len(self.task.template.fields) for row in rows]
        return Prediction(np.array(actions), np.full(len(rows), self.log_prob_))

    def top_k(self, texts: Sequences, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the action of the rule alone."""
        symbols, log_probs = self.predict(texts)
        padded = np.full((len(texts), k), -np.inf)
        padded[:, 0] = log_probs
        return np.repeat(symbols[:, None], k, axis=1), padded

    def log_prob(self, states: States) -> np.ndarray:
        """Return nothing of use."""
        return np.zeros(len(states))


def insert(task: ParallelText, at: int, name: str) -> tuple[int, ...]:
    return operation(Operation.INSERT), position(at), token(task.vocabulary.ids([name])[0])


def substitute(task: ParallelText, at: int, name: str) -> tuple[int, ...]:
    return operation(Operation.SUBSTITUTE), position(at), token(task.vocabulary.ids([name])[0])


def edit(
    task: ParallelText, names: Sequence[str], rule: Rule, trace: bool = False, keep: Keep | None = None
) -> Outcome:
    row = task.vocabulary.ids(names)
    return predict(RulePolicy(task, rule), Recurrence(task), [row], Decoding(), trace, keep=keep)[0]


def names_of(task: ParallelText, outcome: Outcome) -> list[str]:
    return [task.vocabulary.name(index) for index in outcome.tokens]


def comma_after(*words: str) -> Rule:
    """Insert a comma after each of these words that has none."""

    def rule(names: list[str]) -> tuple[int, ...] | None:
        for index, name in enumerate(names):
            if name in words and names[index + 1 : index + 2] != [","]:
                return insert(LINES, index + 1, ",")
        return None

    return rule


@pytest.mark.parametrize("at", range(40, 70))
def test_a_mark_at_a_seam_is_inserted_once(at: int) -> None:
    names = list(WORDS[:130])
    outcome = edit(LINES, names, comma_after(WORDS[at]), trace=True)
    assert names_of(LINES, outcome) == [*names[: at + 1], ",", *names[at + 1 :]]
    assert len(outcome.trace) == outcome.steps == 1
    assert outcome.trace[0].start == at + 1


def test_marks_everywhere_are_each_inserted_once() -> None:
    names = list(WORDS[:200])
    outcome = edit(LINES, names, comma_after(*WORDS[40:70]))
    expected = [part for name in names for part in ([name, ","] if name in WORDS[40:70] else [name])]
    assert names_of(LINES, outcome) == expected


def test_near_a_seam_the_window_counts_that_sees_more_around() -> None:
    """A rule that errs where it sees three tokens on one side, but for the ends of the text."""
    names = list(WORDS[:130])

    def errs_at_the_edge(read: list[str]) -> tuple[int, ...] | None:
        for index in (3, len(read) - 4):
            if read[index] in names[4:-4]:
                return substitute(LINES, index, ".")
        return None

    assert names_of(LINES, edit(LINES, names, errs_at_the_edge, trace=True)) == names


def test_a_swap_across_a_seam_is_made_once() -> None:
    def rule(names: list[str]) -> tuple[int, ...] | None:
        for index, pair in enumerate(pairwise(names)):
            if pair[0] in WORDS and pair[1] in WORDS and WORDS.index(pair[0]) == WORDS.index(pair[1]) + 1:
                return operation(Operation.SWAP), position(index), position(index)
        return None

    for at in range(44, 62):
        names = list(WORDS[:130])
        names[at : at + 2] = names[at : at + 2][::-1]
        assert names_of(LINES, edit(LINES, names, rule)) == list(WORDS[:130])


@pytest.mark.parametrize(("first", "last"), [(30, 56), (44, 70), (50, 60), (56, 57), (60, 85)])
def test_all_that_windows_share_can_be_deleted(first: int, last: int) -> None:
    deleted = set(WORDS[first:last])

    def rule(names: list[str]) -> tuple[int, ...] | None:
        found = next((index for index, name in enumerate(names) if name in deleted), None)
        return None if found is None else (operation(Operation.DELETE), position(found), position(found))

    outcome = edit(LINES, list(WORDS[:130]), rule, trace=True)
    assert names_of(LINES, outcome) == [name for name in WORDS[:130] if name not in deleted]
    assert len(outcome.trace) == last - first


@pytest.mark.parametrize(("first", "last"), [(30, 56), (44, 70), (47, 66), (50, 60), (48, 64), (56, 57), (40, 72)])
@pytest.mark.parametrize("inserted", [None, " new"])
def test_a_run_across_a_seam_goes_once_and_edits_behind_it_stay_in_place(
    first: int, last: int, inserted: str | None
) -> None:
    """Both windows see a part of the run, and change nothing else before what they change behind it."""
    task = replace(LINES, spans=True, known_tokens=(*WORDS, *MARKS, " new"), insertable_tokens=(*MARKS, " new"))
    run, ids = set(WORDS[first:last]), task.vocabulary.ids

    def rule(names: list[str]) -> tuple[int, ...] | None:
        places = [index for index, name in enumerate(names) if name in run]
        if places and inserted:
            symbol = token(ids([inserted])[0])
            return operation(Operation.REPLACE), position(places[0]), position(places[-1]), symbol
        if places:
            return operation(Operation.DELETE), position(places[0]), position(places[-1]), position(places[0])
        comma = next(
            (at for at, name in enumerate(names) if name in WORDS[80:85] and names[at + 1 :][:1] != [","]), None
        )
        if comma is None:
            return None
        return operation(Operation.INSERT), position(comma + 1), position(comma + 1), token(ids([","])[0])

    outcome = edit(task, list(WORDS[:130]), rule, trace=True)
    behind = [part for name in WORDS[last:130] for part in ([name, ","] if name in WORDS[80:85] else [name])]
    assert names_of(task, outcome) == [*WORDS[:first], *([inserted] if inserted else []), *behind]
    steps = [step.edit for step in outcome.trace]
    assert trajectory(tuple(ids(WORDS[:130])), steps)[-1] == outcome.tokens


@pytest.mark.parametrize("at", [10, 50, 56, 63, 64, 100])
def test_windows_that_were_rewritten_as_a_whole_are_joined_edit_by_edit(at: int) -> None:
    """A single-pass method rewrites its window; where two windows share a change, it is made once."""
    row = LINES.vocabulary.ids(WORDS[:130])
    comma, other = LINES.vocabulary.ids([",", WORDS[200]])
    segments = LINES.segments(row, LINES.vocabulary)
    assert len(segments) > 2

    def rewritten(tokens: list[int]) -> Outcome:
        changes = {row[at]: (other, comma), row[90]: ()}  # a word becomes two tokens, and one is deleted
        after = tuple(part for each in tokens for part in changes.get(each, (each,)))
        return Outcome(after, 1, "done", [AppliedAction("rewrite", 0, tuple(tokens), after)])

    outcome = joined(segments, [rewritten(part.tokens) for part in segments], trace=True)
    expected = [*row[:at], other, comma, *row[at + 1 :]]
    expected.remove(row[90])
    assert list(outcome.tokens) == expected
    assert list(trajectory(row, [step.edit for step in outcome.trace])[-1]) == expected
    assert len(outcome.trace) == outcome.steps == 3  # a replacement, an insertion and a deletion


def test_only_the_first_word_of_a_text_is_capitalized_by_a_model_that_capitalizes_what_it_reads_first() -> None:
    def rule(names: list[str]) -> tuple[int, ...] | None:
        return None if names[0] == CAP else insert(LINES, 0, CAP)

    names = list(WORDS[:250])
    assert names_of(LINES, edit(LINES, names, rule)) == [CAP, *names]


def test_only_the_end_of_a_text_gets_a_full_stop_from_a_model_that_ends_what_it_reads() -> None:
    def rule(names: list[str]) -> tuple[int, ...] | None:
        return None if names[-1] == "." else insert(LINES, len(names), ".")

    names = list(WORDS[:250])
    outcome = edit(LINES, names, rule, trace=True)
    assert names_of(LINES, outcome) == [*names, "."]
    assert [step.start for step in outcome.trace] == [250]


def test_a_short_text_is_read_once_and_without_a_trace() -> None:
    policy = RulePolicy(LINES, lambda names: None)
    rows = [LINES.vocabulary.ids(WORDS[:64]), LINES.vocabulary.ids(WORDS[:3])]
    outcomes = predict(policy, Recurrence(LINES), rows)
    assert sorted(map(len, policy.texts)) == [3, 64]
    assert all(outcome.trace == [] for outcome in outcomes)


@given(
    length=st.integers(0, 300),
    window=st.integers(2, 70),
    ends=st.sets(st.integers(0, 299), max_size=20),
)
def test_cores_are_the_text_and_windows_are_not_too_long(length: int, window: int, ends: set[int]) -> None:
    names = [" w." if index in ends else " w" for index in range(length)]
    cut = windows.cut_text(names, window)
    assert [index for each in cut for index in range(each.core.start, each.core.stop)] == list(range(length))
    for each in cut:
        assert 0 < each.tokens.stop - each.tokens.start <= window
        assert each.tokens.start <= each.core.start < each.core.stop <= each.tokens.stop
    if length > window >= 32:
        assert all(each.core.start - each.tokens.start == windows.CONTEXT for each in cut[1:])


@given(seed=st.integers(0, 10_000), length=st.integers(60, 200))
def test_the_steps_and_changes_of_windows_lead_to_the_result(seed: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    chosen = {WORDS[index]: int(rng.integers(3)) for index in rng.choice(length, 40)}

    def rule(names: list[str]) -> tuple[int, ...] | None:
        for index, name in enumerate(names):
            match chosen.get(name):
                case 0:
                    return operation(Operation.DELETE), position(index), position(index)
                case 1:
                    return substitute(LINES, index, ".")
                case 2 if names[index + 1 : index + 2] != [","]:
                    return insert(LINES, index + 1, ",")
        return None

    names = list(WORDS[:length])
    outcome = edit(LINES, names, rule, trace=True)
    state = LINES.vocabulary.ids(names)
    for step in outcome.trace:
        assert step.start is not None
        assert tuple(state[step.start : step.start + len(step.before)]) == step.before
        state[step.start : step.start + len(step.before)] = step.after
    assert tuple(state) == outcome.tokens
    texts = [LINES.vocabulary.text(row) for row in (LINES.vocabulary.ids(names), outcome.tokens)]
    spans = changes(LINES.vocabulary.ids(names), outcome.trace, LINES.vocabulary)
    assert apply_changes(texts[0], spans) == texts[1]


# words


def first_letter(letter: str) -> Rule:
    """Give a word this first letter, if it has another."""
    return lambda names: None if names[0] == letter else insert(LETTERS, 0, letter)


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("nown", "known"),
        ("Nown", "Known"),
        ("NOWN", "KNOWN"),
        ("N", "Kn"),
        ("iPhone", "iPhone"),
        ("nо", "knо"),
        ("nонет", "nонет"),
        ("McCoy", "McCoy"),
        ("“Nown’s” now, 'nown'!", "“Known’s” know, 'known'!"),
        ("nown'", "known'"),
        ("n0wn http://nown.org a_nown __nown__ nown()", "n0wn http://nown.org a_nown __nown__ nown()"),
        ("nownnownnownnown", "nownnownnownnown"),
    ],
)
def test_a_word_is_edited_in_lower_case_and_gets_its_case_back(source: str, result: str) -> None:
    rule: Rule = lambda names: insert(LETTERS, 0, "k") if names[0] == "n" else None  # noqa: E731
    outcome = edit(LETTERS, list(source), rule, trace=True)
    assert "".join(names_of(LETTERS, outcome)) == result
    state = list(source)
    for step in outcome.trace:
        assert step.start is not None
        before, after = ([LETTERS.vocabulary.name(index) for index in side] for side in (step.before, step.after))
        assert state[step.start : step.start + len(before)] == before
        state[step.start : step.start + len(before)] = after
    assert "".join(state) == result


def test_a_word_that_stays_is_not_edited_and_an_edited_one_becomes_a_known_one() -> None:
    keep = Keep(["Nun", "knock", "don't"])
    outcome = edit(LETTERS, list("NUN nock nod nun's n"), first_letter("k"), keep=keep)
    assert "".join(names_of(LETTERS, outcome)) == "NUN knock nod nun's n"


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("Nock nock", "Knock knock"),
        ("see Nock. Nock nock", "see Nock. Knock knock"),
        ("NOCK nock", "NOCK knock"),
        ("NOCK IT NOCK", "KNOCK IT KNOCK"),
        ("pre-nock nock-it nock", "pre-nock nock-it knock"),
    ],
)
def test_an_unknown_word_that_is_written_like_a_name_stays_where_there_is_a_list(source: str, result: str) -> None:
    rule: Rule = lambda names: insert(LETTERS, 0, "k") if names[0] == "n" else None  # noqa: E731
    outcome = edit(LETTERS, list(source), rule, keep=Keep(["knock", "see", "it", "pre"]))
    assert "".join(names_of(LETTERS, outcome)) == result


def test_a_lexicon_may_know_words_that_the_list_does_not_have() -> None:
    rule: Rule = lambda names: insert(LETTERS, 0, "k") if names[0] == "n" else None  # noqa: E731
    row, decoding = LETTERS.vocabulary.ids("nock"), Decoding(lexicon=Lexicon(["knock"]), min_confidence=0)
    found = predict(RulePolicy(LETTERS, rule), Recurrence(LETTERS), [row], decoding, keep=Keep(["cat"]))
    assert "".join(names_of(LETTERS, found[0])) == "knock"


def test_with_a_list_all_edits_of_a_word_together_must_reach_the_threshold() -> None:
    rule: Rule = lambda names: insert(LETTERS, 0, "k") if names[:2] in (["n", "o"], ["k", "n"]) else None  # noqa: E731
    rows, keep = [LETTERS.vocabulary.ids("nock")], Keep(["kknock"])
    for threshold, result in ((0.5, "kknock"), (0.6, "nock")):  # two edits and DONE, of 0.8 each
        policy = RulePolicy(LETTERS, rule, 0.8)
        found = predict(policy, Recurrence(LETTERS), rows, Decoding(min_confidence=threshold), keep=keep)
        assert "".join(names_of(LETTERS, found[0])) == result


def test_pairs_with_capitals_are_edited_as_they_are() -> None:
    task = ParallelText("char", "word", 12, known_tokens=tuple("abknNK"), insertable_tokens=tuple("abknNK"))
    rule: Rule = lambda names: substitute(task, 0, "K") if names[0] == "N" else None  # noqa: E731
    assert "".join(names_of(task, edit(task, list("Nab nab"), rule))) == "Kab nab"
