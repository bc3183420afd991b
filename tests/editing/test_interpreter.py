"""The interpreter applies actions that fit and skips the others; batched exactly as one at a time."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit.editing import actions
from stepedit.editing.actions import DONE, NOTHING, Operation, Template
from stepedit.editing.edits import Edit, EditBatch, apply, trajectory
from stepedit.editing.interpreter import AppliedAction, actions_for, describe, rules_of, splice, step, step_batch
from stepedit.editing.sequences import PAD, Sequences
from tests.editing.templates import DELETE, INSERT, POSITION, SUBSTITUTE, SWAP, TEMPLATES, TOKEN, TOKENS


@pytest.mark.parametrize(
    ("template", "action", "expected"),
    [
        ("insert", (POSITION(0), TOKEN(1)), (1, 4, 5, 4)),
        ("insert", (POSITION(3), TOKEN(2)), (4, 5, 4, 2)),
        ("replace", (POSITION(0), POSITION(2), TOKEN(3)), (3,)),
        ("replace", (POSITION(1), POSITION(1), TOKEN(3)), (4, 3, 4)),
        ("operate", (INSERT, POSITION(3), TOKEN(1)), (4, 5, 4, 1)),
        ("operate", (DELETE, POSITION(2), POSITION(2)), (4, 5)),
        ("operate", (SUBSTITUTE, POSITION(2), TOKEN(1)), (4, 5, 1)),
        ("swap", (SWAP, POSITION(1)), (4, 4, 5)),
    ],
)
def test_a_fitting_action_is_applied(template: str, action: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert step((4, 5, 4), action, TEMPLATES[template]) == (expected, False, False)


@pytest.mark.parametrize(
    ("template", "action"),
    [
        ("insert", (POSITION(4), TOKEN(1))),  # beyond the end
        ("insert", (POSITION(-1), TOKEN(1))),
        ("insert", (POSITION(0), TOKEN(4))),  # a token that no action may insert
        ("insert", (POSITION(0), TOKEN(PAD))),
        ("insert", (POSITION(0), POSITION(1))),  # wrong kinds
        ("insert", (TOKEN(1), POSITION(0))),
        ("insert", (POSITION(0), DONE)),  # half a DONE
        ("insert", (DONE, TOKEN(1))),
        ("insert", (POSITION(0),)),  # wrong length
        ("replace", (POSITION(2), POSITION(1), TOKEN(3))),  # ends before it starts
        ("replace", (POSITION(0), POSITION(3), TOKEN(3))),
        ("operate", (DELETE, POSITION(1), POSITION(2))),  # delete must repeat its position
        ("operate", (DELETE, POSITION(1), TOKEN(1))),
        ("operate", (DELETE, POSITION(3), POSITION(3))),
        ("operate", (SUBSTITUTE, POSITION(3), TOKEN(1))),
        ("operate", (SWAP, POSITION(0), TOKEN(1))),  # not an operation of this template
        ("operate", (NOTHING, POSITION(0), TOKEN(1))),
        ("swap", (SWAP, POSITION(2))),  # no right neighbor
        ("swap", (DONE, POSITION(0))),
    ],
)
def test_an_action_that_does_not_fit_is_skipped(template: str, action: tuple[int, ...]) -> None:
    assert step((4, 5, 4), action, TEMPLATES[template]) == ((4, 5, 4), False, True)


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_done_in_every_field_ends(template: Template) -> None:
    assert step((4, 5), template.done(), template) == ((4, 5), True, False)


def random_actions(template: Template, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return mostly invalid actions: small symbols in any field, huge and negative integers, and some that fit."""
    shape = (count, len(template.fields))
    anything = rng.integers(-12, 48, shape)
    huge = rng.integers(np.iinfo(np.int64).min, np.iinfo(np.int64).max, shape)
    positions = rng.integers(-1, 6, shape) * 4 + actions.POSITION
    positions[::2] = positions[::2, :1]  # one position in every field, as most operations need it
    operations = np.where(rng.random(count) < 0.8, rng.choice(template.operations, count), rng.integers(0, 8, count))
    well_typed = np.stack(
        [
            operations * 4 + actions.OPERATION
            if field == "operation"
            else rng.integers(0, 6, count) * 4 + actions.TOKEN
            if field == "token"
            else positions[:, index]
            for index, field in enumerate(template.fields)
        ],
        axis=1,
    )
    repeated = well_typed.copy()  # a position in the token field, as in a deletion
    repeated[:, -1] = repeated[:, -2]
    choice = rng.choice(5, (count, 1), p=[0.2, 0.05, 0.5, 0.2, 0.05])
    return np.select([choice == k for k in range(4)], [anything, huge, well_typed, repeated], DONE)


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_step_batch_equals_step_on_thousands_of_random_actions(template: Template, rng: np.random.Generator) -> None:
    fitted = 0
    for width in (0, 1, 2, 5, 8):
        lengths = rng.integers(0, width + 1, 2_000)
        states = Sequences.pack(rng.integers(1, 6, int(lengths.sum())), lengths)
        chosen = random_actions(template, len(states), rng)
        before = states.ids.copy()
        result = step_batch(states, chosen, template)
        assert np.array_equal(states.ids, before), "the input was changed in place"
        after = result.texts
        assert (after.ids[~after.mask()] == PAD).all()
        plain = [step(state, action, template) for state, action in zip(states.rows(), chosen.tolist(), strict=True)]
        assert [tuple(row) for row in after.rows()] == [state for state, _, _ in plain]
        assert result.done.tolist() == [done for _, done, _ in plain]
        assert result.skipped.tolist() == [skipped for _, _, skipped in plain]
        unchanged = result.skipped | result.done
        assert after.take(unchanged).equals(states.take(unchanged)).all()
        fitted += int((~unchanged).sum())
    assert fitted > 150, "too few actions fitted for this test to mean anything"


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(1, 9), max_size=6),
            st.integers(0, 9),
            st.integers(0, 9),
            st.lists(st.integers(1, 9), max_size=3),
        ),
        min_size=1,
        max_size=9,
    )
)
def test_splice_applies_edits_as_apply_does(cases: list[tuple[list[int], int, int, list[int]]]) -> None:
    edits = []
    for state, first, second, tokens in cases:
        start, stop = sorted((first % (len(state) + 1), second % (len(state) + 1)))
        edits.append(Edit(start, stop, tuple(tokens)))
    states = Sequences.from_rows([state for state, *_ in cases])
    inserted = Sequences.from_rows([edit.tokens for edit in edits]).widened(1)
    batch = EditBatch(
        np.array([edit.start for edit in edits]),
        np.array([edit.stop for edit in edits]),
        inserted.ids,
        inserted.lengths,
    )
    expected = [list(apply(state, edit)) for (state, *_), edit in zip(cases, edits, strict=True)]
    assert splice(states, batch).rows() == expected


def test_describe_records_what_an_action_changed() -> None:
    state: tuple[int, ...] = (4, 5)
    trace = list[AppliedAction]()
    chosen = [(INSERT, POSITION(1), TOKEN(1)), (DELETE, POSITION(7), POSITION(7)), (SUBSTITUTE, POSITION(0), TOKEN(2))]
    for action in chosen:
        trace.append(describe(state, action, TEMPLATES["operate"], confidence=0.5))
        state = step(state, action, TEMPLATES["operate"])[0]
    assert [(each.operation, each.start, each.before, each.after) for each in trace] == [
        ("insert", 1, (), (1,)),
        ("skip", None, (), ()),
        ("substitute", 0, (4,), (2,)),
    ]
    assert trajectory((4, 5), [each.edit for each in trace]) == [(4, 5), (4, 1, 5), (4, 1, 5), (2, 1, 5)]
    assert [each.action for each in trace] == chosen
    assert [each.confidence for each in trace] == [0.5] * 3


def test_an_action_without_a_probability_is_certain() -> None:
    for action in ((INSERT, POSITION(1), TOKEN(1)), (DELETE, POSITION(7), POSITION(7))):
        assert describe((4, 5), action, TEMPLATES["operate"]).confidence == 1


def test_an_action_of_the_wrong_length_is_skipped_in_a_batch_too() -> None:
    texts = Sequences.from_rows([[4, 5], [4]])
    result = step_batch(texts, np.array([[DONE], [POSITION(0)]]), TEMPLATES["insert"])
    assert result.skipped.all()
    assert np.array_equal(result.texts.ids, texts.ids)


@pytest.mark.parametrize(
    "edit", [Edit(1, 1, (3,)), Edit(1, 2, ()), Edit(0, 1, (2,)), Edit(0, 3, (1,)), Edit(1, 3, (4, 5))]
)
def test_an_edit_written_as_an_action_is_read_as_the_same_edit(edit: Edit[int]) -> None:
    template, state = TEMPLATES["all"], (4, 5, 4)
    inserted = np.array([[*edit.tokens, PAD, PAD][:2]])
    batch = EditBatch(np.array([edit.start]), np.array([edit.stop]), inserted, np.array([len(edit.tokens)]))
    (action,) = actions_for(batch, np.array([False]), template).tolist()
    assert template.operation_named(action) == template.operation_of(edit)
    assert template.edit(action, state) == edit


def with_rules(template: Template) -> Template:
    """Return a template in which a rule adds to the id of a word: rule 1 adds one, rule 2 two."""

    def rules(old: np.ndarray, new: np.ndarray, where: np.ndarray) -> np.ndarray:
        return np.where(where & (new > old) & (new < old + 3), new - old, -1)

    return replace(template, num_rules=3, rules_between=rules)


# two texts; an insertion, a deletion, a word form, another word, a form of the last word, a span
TEXTS = Sequences.from_rows([[4, 5, 9], [1, 3]])
FORMS = [
    (0, Edit(1, 1, (6,)), -1),
    (0, Edit[int](1, 2, ()), -1),
    (0, Edit(1, 2, (6,)), 1),
    (0, Edit(1, 2, (3,)), -1),
    (1, Edit(1, 2, (5,)), 2),
    (0, Edit(0, 2, (5,)), -1),
]


def as_batch(edits: list[Edit[int]]) -> EditBatch:
    tokens = Sequences.from_rows([edit.tokens for edit in edits]).widened(1)
    starts, stops = (np.array([getattr(edit, name) for edit in edits]) for name in ("start", "stop"))
    return EditBatch(starts, stops, tokens.ids, tokens.lengths)


@pytest.mark.parametrize(("row", "edit", "rule"), FORMS)
def test_only_a_word_that_becomes_another_one_can_have_a_rule(row: int, edit: Edit[int], rule: int) -> None:
    template, texts = with_rules(TEMPLATES["all"]), TEXTS.take([row])
    assert rules_of(as_batch([edit]), template, texts).tolist() == [rule]
    assert rules_of(as_batch([edit]), TEMPLATES["all"], texts).tolist() == [-1]
    (action,) = actions_for(as_batch([edit]), np.array([False]), template, texts).tolist()
    expected = Operation.TRANSFORM if rule >= 0 else template.operation_of(edit)
    assert template.operation_named(action) == expected
    (without,) = actions_for(as_batch([edit]), np.array([False]), template).tolist()
    assert template.operation_named(without) == template.operation_of(edit)


def test_the_rules_of_several_edits_of_each_text_are_those_of_each() -> None:
    edits = [[edit for row, edit, _ in FORMS if row == 0][:4], [FORMS[4][1]] * 4]
    plans = EditBatch(*(np.stack(parts) for parts in zip(*map(as_batch, edits), strict=True)))
    assert rules_of(plans, with_rules(TEMPLATES["all"]), TEXTS).tolist() == [[-1, -1, 1, -1], [2, 2, 2, 2]]


def test_a_template_without_operation_field_has_one_operation() -> None:
    with pytest.raises(ValueError, match="exactly one operation"):
        Template(("position", "token"), (Operation.INSERT, Operation.DELETE), TOKENS)
