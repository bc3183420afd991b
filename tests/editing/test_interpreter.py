"""The interpreter applies what fits and skips the rest, batched exactly as the plain one does."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stepedit import actions
from stepedit.actions import DONE, NOTHING, Operation, Template
from stepedit.edits import Edit
from stepedit.interpreter import EditBatch, Programmer, actions_for, run, splice, step, step_batch, tensors
from stepedit.sequences import PAD, Sequences

TOKENS = frozenset({1, 2, 3})  # ids 4 and 5 occur in texts, but no action may bring them
TEMPLATES = {
    "insert": Template(("position", "token"), (Operation.INSERT,), TOKENS),
    "replace": Template(("first", "last", "token"), (Operation.REPLACE,), TOKENS),
    "operate": Template(
        ("operation", "position", "token"), (Operation.INSERT, Operation.DELETE, Operation.SUBSTITUTE), TOKENS
    ),
    "swap": Template(("operation", "position"), (Operation.SWAP,), frozenset()),
    "all": Template(("operation", "first", "last", "token"), tuple(Operation)[1:], TOKENS),
    "copy": Template(
        ("operation", "position", "token"),
        (Operation.INSERT, Operation.DELETE, Operation.SUBSTITUTE, Operation.SWAP),
        frozenset({1}),
        copies=True,
    ),
}
POSITION, TOKEN = actions.position, actions.token
INSERT, DELETE, SUBSTITUTE, REPLACE, SWAP = (actions.operation(which) for which in tuple(Operation)[1:])


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
        ("insert", (POSITION(4), TOKEN(1))),  # behind the end
        ("insert", (POSITION(-1), TOKEN(1))),
        ("insert", (POSITION(0), TOKEN(4))),  # a token no action may bring
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
        ("swap", (SWAP, POSITION(2))),  # no right neighbour
        ("swap", (DONE, POSITION(0))),
    ],
)
def test_an_action_that_does_not_fit_is_skipped(template: str, action: tuple[int, ...]) -> None:
    assert step((4, 5, 4), action, TEMPLATES[template]) == ((4, 5, 4), False, True)


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_done_in_every_field_ends(template: Template) -> None:
    assert step((4, 5), template.done(), template) == ((4, 5), True, False)


def random_actions(template: Template, count: int, rng: np.random.Generator) -> np.ndarray:
    """Mostly nonsense: any small symbol in any field, huge and negative integers, and some that fit."""
    shape = (count, len(template.fields))
    anything = rng.integers(-12, 48, shape)
    huge = rng.integers(np.iinfo(np.int64).min, np.iinfo(np.int64).max, shape)
    places = rng.integers(-1, 6, shape) * 4 + actions.POSITION
    named = np.where(rng.random(count) < 0.8, rng.choice(template.operations, count), rng.integers(0, 7, count))
    well_kinded = np.stack(
        [
            named * 4 + actions.OPERATION
            if field == "operation"
            else rng.integers(0, 6, count) * 4 + actions.TOKEN
            if field == "token"
            else places[:, index]
            for index, field in enumerate(template.fields)
        ],
        axis=1,
    )
    repeated = well_kinded.copy()  # a position in the place of the token, as a deletion says it
    repeated[:, -1] = repeated[:, -2]
    choice = rng.choice(5, (count, 1), p=[0.2, 0.05, 0.5, 0.2, 0.05])
    return np.select([choice == k for k in range(4)], [anything, huge, well_kinded, repeated], DONE)


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_batched_equals_plain_on_thousands_of_random_actions(template: Template, rng: np.random.Generator) -> None:
    fitted = 0
    for width in (0, 1, 2, 5, 8):
        lengths = rng.integers(0, width + 1, 2_000)
        states = Sequences.pack(rng.integers(1, 6, int(lengths.sum())), lengths)
        chosen = random_actions(template, len(states), rng)
        ids, sizes = tensors(states)
        before = ids.clone()
        result = step_batch(ids, sizes, torch.from_numpy(chosen), template)
        assert torch.equal(ids, before), "the states that came in were changed"
        after = Sequences(result.ids.numpy(), result.lengths.numpy())
        assert (after.ids[~after.mask()] == PAD).all()
        plain = [step(state, action, template) for state, action in zip(states.rows(), chosen.tolist(), strict=True)]
        assert [tuple(row) for row in after.rows()] == [state for state, _, _ in plain]
        assert result.done.tolist() == [done for _, done, _ in plain]
        assert result.skipped.tolist() == [skipped for _, _, skipped in plain]
        unchanged = result.skipped.numpy() | result.done.numpy()
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
def test_splice_is_the_edit_type_for_whole_arrays(cases: list[tuple[list[int], int, int, list[int]]]) -> None:
    from stepedit.edits import apply

    edits = []
    for state, first, second, tokens in cases:
        start, stop = sorted((first % (len(state) + 1), second % (len(state) + 1)))
        edits.append(Edit(start, stop, tuple(tokens)))
    states = Sequences.from_rows([state for state, *_ in cases])
    brings = Sequences.from_rows([edit.tokens for edit in edits]).widened(1)
    batch = EditBatch(
        torch.tensor([edit.start for edit in edits]),
        torch.tensor([edit.stop for edit in edits]),
        *tensors(brings),
    )
    ids, lengths = splice(*tensors(states), batch)
    expected = [list(apply(state, edit)) for (state, *_), edit in zip(cases, edits, strict=True)]
    assert Sequences(ids.numpy(), lengths.numpy()).rows() == expected


def saying(*said: tuple[int, ...]) -> Programmer:
    """A programmer that says these actions in turn, to every row alike, and the last one for ever."""
    turn = iter(range(10**9))
    return lambda ids, lengths: (torch.tensor([said[min(next(turn), len(said) - 1)]] * len(ids)), torch.ones(len(ids)))


def test_finished_and_truncated_are_told_apart() -> None:
    insert = (POSITION(0), TOKEN(1))
    sources = Sequences.from_rows([[4], [5, 4]])
    done = run(sources, saying(insert, (DONE, DONE)), TEMPLATES["insert"], limit=9)
    assert [(outcome.tokens, outcome.steps, outcome.finished) for outcome in done] == [
        ((1, 4), 1, True),
        ((1, 5, 4), 1, True),
    ]
    cut = run(sources, saying(insert), TEMPLATES["insert"], limit=3)
    assert [(outcome.tokens, outcome.steps, outcome.truncated) for outcome in cut] == [
        ((1, 1, 1, 4), 3, True),
        ((1, 1, 1, 5, 4), 3, True),
    ]


def test_who_goes_in_a_circle_is_stopped_where_it_closes() -> None:
    def exchange(ids: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """2 for 1 and 1 for 2; a 4 is turned into a 1 first, a 5 is left alone."""
        said = [
            (DONE,) * 3 if row[0] == 5 else (SUBSTITUTE, POSITION(0), TOKEN(2 if row[0] == 1 else 1))
            for row in ids.tolist()
        ]
        return torch.tensor(said), torch.ones(len(ids))

    sources = Sequences.from_rows([[1, 9], [4], [5]])
    round_and_round = run(sources, exchange, TEMPLATES["operate"], limit=8)
    assert [(outcome.tokens, outcome.steps) for outcome in round_and_round] == [((1, 9), 8), ((2,), 8), ((5,), 0)]
    stopped = run(sources, exchange, TEMPLATES["operate"], limit=8, trace=True, stop_circles=True)
    assert [(outcome.tokens, outcome.steps) for outcome in stopped] == [((1, 9), 2), ((1,), 3), ((5,), 0)]
    assert [outcome.finished for outcome in stopped] == [False, False, True]
    assert [len(outcome.trace) for outcome in stopped] == [2, 3, 0]
    nowhere = (DELETE, POSITION(7), POSITION(7))
    skipped = run(sources, saying(nowhere), TEMPLATES["operate"], limit=8, stop_circles=True)
    assert [(outcome.steps, outcome.finished) for outcome in skipped] == [(1, False)] * 3


def test_finished_rows_leave_the_batch_and_outcomes_keep_their_order() -> None:
    seen: list[int] = []

    def shorten(ids: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        seen.append(len(ids))
        delete = torch.tensor([DELETE, POSITION(0), POSITION(0)])
        return torch.where((lengths == 1)[:, None], torch.full((3,), DONE), delete), torch.ones(len(ids))

    outcomes = run(Sequences.from_rows([[4, 5, 4], [5], [4, 5]]), shorten, TEMPLATES["operate"], limit=9)
    assert [outcome.tokens for outcome in outcomes] == [(4,), (5,), (5,)]
    assert [outcome.steps for outcome in outcomes] == [2, 0, 1]
    assert seen == [3, 2, 1]


def test_a_trace_records_each_step() -> None:
    said = [
        (INSERT, POSITION(1), TOKEN(1)),
        (DELETE, POSITION(7), POSITION(7)),
        (SUBSTITUTE, POSITION(0), TOKEN(2)),
        (DONE,) * 3,
    ]
    outcome = run(Sequences.from_rows([[4, 5]]), saying(*said), TEMPLATES["operate"], limit=9, trace=True)[0]
    assert [(s.operation, s.start, s.before, s.after, s.state, s.skipped) for s in outcome.trace] == [
        ("insert", 1, (), (1,), (4, 1, 5), False),
        ("skip", None, (), (), (4, 1, 5), True),
        ("substitute", 0, (4,), (2,), (2, 1, 5), False),
    ]
    assert [s.action for s in outcome.trace] == said[:-1]
    assert outcome.steps == 3
    assert outcome.finished


def test_a_trace_names_the_operation_that_was_said() -> None:
    said = [
        (SWAP, POSITION(0), POSITION(0), POSITION(0)),
        (REPLACE, POSITION(0), POSITION(1), TOKEN(2)),
        (SUBSTITUTE, POSITION(0), POSITION(0), TOKEN(3)),
        (DONE,) * 4,
    ]
    outcome = run(Sequences.from_rows([[4, 5]]), saying(*said), TEMPLATES["all"], limit=9, trace=True)[0]
    assert [(step.operation, step.state) for step in outcome.trace] == [
        ("swap", (5, 4)),
        ("replace", (2,)),
        ("substitute", (3,)),
    ]


def test_an_action_of_the_wrong_length_is_skipped_in_a_batch_too() -> None:
    ids, lengths = tensors(Sequences.from_rows([[4, 5], [4]]))
    result = step_batch(ids, lengths, torch.tensor([[DONE], [POSITION(0)]]), TEMPLATES["insert"])
    assert result.skipped.all()
    assert torch.equal(result.ids, ids)


@pytest.mark.parametrize(
    "edit", [Edit(1, 1, (3,)), Edit(1, 2, ()), Edit(0, 1, (2,)), Edit(0, 3, (1,)), Edit(1, 3, (4, 5))]
)
def test_an_edit_said_as_an_action_is_read_as_the_same_edit(edit: Edit[int]) -> None:
    template, state = TEMPLATES["all"], (4, 5, 4)
    brings = torch.tensor([[*edit.tokens, 0, 0][:2]])
    batch = EditBatch(
        *(torch.tensor([value]) for value in (edit.start, edit.stop)), brings, torch.tensor([len(edit.tokens)])
    )
    (action,) = actions_for(batch, torch.tensor([False]), template).tolist()
    assert template.operation_named(action) == template.operation_of(edit)
    assert template.edit(action, state) == edit


def test_nothing_to_edit_is_no_trouble() -> None:
    assert run(Sequences.from_rows([]), saying((DONE, DONE)), TEMPLATES["insert"], limit=3) == []


def test_a_template_without_operation_field_has_one_operation() -> None:
    with pytest.raises(ValueError, match="exactly one operation"):
        Template(("position", "token"), (Operation.INSERT, Operation.DELETE), TOKENS)
