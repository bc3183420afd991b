"""What every task owes, tested on every task there is."""

import re

import numpy as np
import pytest
import torch
from rapidfuzz.distance import Levenshtein

from stepedit.batches import FRESH, expert, sample_states, states_after
from stepedit.config import Mode, Order
from stepedit.edits import trajectory
from stepedit.errors import DataError, PairError, UserError
from stepedit.interpreter import EditBatch, run, splice, step_batch
from stepedit.metrics import METRICS
from stepedit.registry import TASKS
from stepedit.sequences import Pairs, Sequences
from stepedit.tasks.task import Task
from tests.arithmetic import is_true, value

BRACKET = re.compile(r"\( (- )?(\d+) ([-+*/]) (\d+) \)")
SETTINGS: list[Task] = [
    *(TASKS[name]() for name in TASKS),
    TASKS["aor"].from_options({"numbers": 3, "length": 7}),
    TASKS["aes"].from_options({"numbers": 10, "length": 3, "division": True}),
    TASKS["aec"].from_options({"numbers": 40, "length": 2, "errors": 5}),
    TASKS["sort"].from_options({"numbers": 4, "length": 9}),
]
every_task = pytest.mark.parametrize("task", SETTINGS, ids=[f"{task.name}-{i}" for i, task in enumerate(SETTINGS)])
SIZE = 30
OF_NUMBERS = [name for name in TASKS if not TASKS[name].learned]


def size_for(task: Task) -> int:
    return SIZE if task.name != "aec" or task.length > 2 else 20  # type: ignore[attr-defined]


@pytest.fixture
def pairs(task: Task, rng: np.random.Generator) -> Pairs:
    return task.generate(size_for(task), rng)


@every_task
def test_edits_applied_to_the_source_give_the_target(task: Task, pairs: Pairs) -> None:
    scripts = task.edits(pairs.sources, pairs.targets)
    for index, (source, target) in enumerate(zip(pairs.sources.rows(), pairs.targets.rows(), strict=True)):
        assert trajectory(source, scripts.row(index))[-1] == tuple(target)


@every_task
def test_the_interpreter_led_by_the_expert_reaches_the_target(task: Task, pairs: Pairs) -> None:
    scripts = task.edits(pairs.sources, pairs.targets)
    outcomes = run(pairs.sources, expert(scripts, task.template), task.template, limit=500, trace=True)
    assert all(outcome.finished for outcome in outcomes)
    assert [list(outcome.tokens) for outcome in outcomes] == pairs.targets.rows()
    assert [outcome.steps for outcome in outcomes] == scripts.counts.tolist()
    assert not any(step.skipped for outcome in outcomes for step in outcome.trace)


@every_task
def test_targets_are_distinct(task: Task, pairs: Pairs) -> None:
    assert len({tuple(row) for row in pairs.targets.rows()}) == len(pairs)


@every_task
def test_generation_depends_on_the_seed_alone(task: Task) -> None:
    size = size_for(task)
    first, again, other = (task.generate(size, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert first.sources.equals(again.sources).all()
    assert first.targets.equals(again.targets).all()
    assert not first.targets.equals(other.targets).all() or not first.sources.equals(other.sources).all()


@every_task
def test_redrawn_sources_differ_and_lead_to_the_same_targets(
    task: Task, pairs: Pairs, rng: np.random.Generator
) -> None:
    again = task.resample(pairs.targets, rng)
    scripts = task.edits(again, pairs.targets)
    for index, (source, target) in enumerate(zip(again.rows(), pairs.targets.rows(), strict=True)):
        assert trajectory(source, scripts.row(index))[-1] == tuple(target)
    same = again.equals(pairs.sources).mean()
    made_up = task.redraws or bool(task.learned)  # own pairs are as they are, those that stand in for them are not
    assert same < 0.6 if made_up else same == 1  # AEC draws no error at all for a quarter, AES no bracket for a sixth


@every_task
def test_check_accepts_every_target(task: Task, pairs: Pairs) -> None:
    assert task.check(pairs.sources, pairs.targets).all()


def is_right(task: Task, source: str, prediction: str) -> bool:
    """What `check` should say, worked out another way for each task."""
    tokens, given = prediction.split(), source.split()
    match task.name:
        case "aor":
            return is_true(prediction) and [token for token in tokens if token.isdecimal()] == given
        case "aes":
            return prediction == BRACKET.sub(lambda match: str(value(match[0][2:-2].split())), source)
        case "aec":
            near = Levenshtein.distance(given, tokens) <= task.errors  # type: ignore[attr-defined]
            return is_true(prediction) and tokens[-1] == given[-1] and near
        case "sort":
            return [int(token) for token in tokens if token.isdecimal()] == sorted(map(int, given)) and len(
                tokens
            ) == len(given)
        case "text":
            return True  # nobody can tell
    raise AssertionError(f"tell how to judge {task.name}")


@every_task
def test_check_accepts_and_rejects_as_it_should(task: Task, pairs: Pairs, rng: np.random.Generator) -> None:
    """Targets with a token deleted, substituted, inserted or two exchanged anywhere; unfinished, reversed and empty."""
    scripts = task.edits(pairs.sources, pairs.targets)
    halfway = states_after(pairs, scripts, np.maximum(scripts.counts - 1, 0))
    predictions = [
        *([mutated(row, rng, len(task.vocabulary)) for row in pairs.targets.rows()] for _ in range(40)),
        Sequences(halfway.ids.numpy(), halfway.lengths.numpy()).rows(),
        [row[::-1] for row in pairs.targets.rows()],
        [[*row, row[-1]] for row in pairs.targets.rows()],
        [[] for _ in range(len(pairs))],
    ]
    sources, rejected = task.vocabulary.decode(pairs.sources), 0
    for rows in predictions:
        lines = [task.vocabulary.text(row) for row in rows]
        expected = [is_right(task, source, line) for source, line in zip(sources, lines, strict=True)]
        assert task.check(pairs.sources, Sequences.from_rows(rows)).tolist() == expected
        rejected += expected.count(False)
    assert rejected > 20 * len(pairs) or task.name == "text"


def mutated(row: list[int], rng: np.random.Generator, tokens: int) -> list[int]:
    """One small thing changed at a random place."""
    place, token = int(rng.integers(len(row))), int(rng.integers(1, tokens))
    other = int(rng.integers(len(row)))
    swapped = list(row)
    swapped[place], swapped[other] = swapped[other], swapped[place]
    changes = (
        row[:place] + row[place + 1 :],
        [*row[:place], token, *row[place + 1 :]],
        [*row[:place], token, *row[place:]],
    )
    return [*changes, swapped][int(rng.integers(4))]


@every_task
@pytest.mark.parametrize("size", [1, 2])
def test_one_or_two_pairs_are_as_good_as_many(task: Task, size: int) -> None:
    for seed in range(25):
        pairs = task.generate(size, np.random.default_rng(seed))
        scripts = task.edits(pairs.sources, pairs.targets)
        for index, (source, target) in enumerate(zip(pairs.sources.rows(), pairs.targets.rows(), strict=True)):
            assert trajectory(source, scripts.row(index))[-1] == tuple(target)
        assert task.check(pairs.sources, pairs.targets).all()


@every_task
def test_online_states_are_uniform_over_the_way(task: Task, pairs: Pairs, rng: np.random.Generator) -> None:
    """Of a script of n edits each of the n+1 states should come up as often."""
    scripts = task.edits(pairs.sources, pairs.targets)
    row = int(scripts.counts.argmax())
    states = sample_states(pairs, scripts, np.full(20_000, row), "online", rng)
    seen = np.bincount(scripts.counts[row] - states.left.counts, minlength=scripts.counts[row] + 1)
    expected = 20_000 / (scripts.counts[row] + 1)
    assert len(seen) == scripts.counts[row] + 1
    assert np.abs(seen - expected).max() < 5 * np.sqrt(expected)


@every_task
def test_online_states_lie_on_the_way_and_answer_with_the_next_edit(
    task: Task, pairs: Pairs, rng: np.random.Generator
) -> None:
    scripts = task.edits(pairs.sources, pairs.targets)
    ways = [trajectory(row, scripts.row(index)) for index, row in enumerate(pairs.sources.rows())]
    chosen = rng.integers(0, len(pairs), 200)
    states = sample_states(pairs, scripts, chosen, "online", rng)
    said = states.actions(task.template).tolist()
    texts = Sequences(states.ids.numpy(), states.lengths.numpy()).rows()
    for row, text, action, done in zip(chosen.tolist(), texts, said, states.done().tolist(), strict=True):
        if done:
            assert tuple(text) == ways[row][-1]
            assert tuple(action) == task.template.done()
        else:
            edit = task.template.edit(action, text)
            assert edit in scripts.row(row)
            assert tuple(text) in ways[row][:-1]
            assert any(
                tuple(text) == ways[row][index] and edit == its_edit for index, its_edit in enumerate(scripts.row(row))
            )


@every_task
def test_states_halfway_are_those_reached_step_by_step(task: Task, pairs: Pairs, rng: np.random.Generator) -> None:
    scripts = task.edits(pairs.sources, pairs.targets)
    assert scripts.run_right == (task.name != "sort")
    for taken in (rng.integers(0, scripts.counts + 1), scripts.counts, np.zeros_like(scripts.counts)):
        states = states_after(pairs, scripts, taken)
        expected = [
            list(trajectory(source, scripts.row(index))[taken[index]])
            for index, source in enumerate(pairs.sources.rows())
        ]
        assert Sequences(states.ids.numpy(), states.lengths.numpy()).rows() == expected


@every_task
@pytest.mark.parametrize("order", ["left", "right", "random"])
@pytest.mark.parametrize("mode", ["online", "augmented"])
def test_any_order_leads_to_the_target(
    task: Task, pairs: Pairs, rng: np.random.Generator, mode: Mode, order: Order
) -> None:
    """Whatever has been made already: what is left leads to the target, and the next edit is the one in order."""
    scripts, rows = task.edits(pairs.sources, pairs.targets), rng.integers(0, len(pairs), 300)
    if not scripts.run_right and order != "left":
        with pytest.raises(UserError, match="build on each other"):
            sample_states(pairs, scripts, rows, mode, rng, order)
        return
    states = sample_states(pairs, scripts, rows, mode, rng, order)
    assert order == "left" or len(np.unique(states.turn)) > 1
    places = states.edits_now()
    ids, lengths = states.ids, states.lengths
    if scripts.run_right:  # from the right, no edit moves another
        for index in reversed(range(places.starts.shape[1])):
            ids, lengths = splice(ids, lengths, EditBatch(*(part[:, index] for part in places)))
        assert Sequences(ids.numpy(), lengths.numpy()).rows() == states.targets.rows()
    if order == "right":
        assert states.turn.tolist() == np.maximum(states.left.counts - 1, 0).tolist()
    if order == "random":
        assert (states.turn <= np.maximum(states.left.counts - 1, 0)).all()
    said = states.actions(task.template)
    at = (torch.arange(len(states)), torch.from_numpy(states.turn))
    ids, lengths = splice(states.ids, states.lengths, EditBatch(*(part[at] for part in places)))
    result = step_batch(states.ids, states.lengths, said, task.template)
    assert not result.skipped.any()
    assert result.done.tolist() == states.done().tolist()
    after = Sequences(result.ids.numpy(), result.lengths.numpy())
    assert after.rows() == Sequences(ids.numpy(), lengths.numpy()).rows()


def test_augmented_states_keep_every_subset_of_edits(rng: np.random.Generator) -> None:
    task = TASKS["aor"]()
    pairs = task.generate(50, rng)
    scripts = task.edits(pairs.sources, pairs.targets)
    row = int(np.flatnonzero(scripts.counts == 4)[0])
    states = sample_states(pairs, scripts, np.full(4_000, row), "augmented", rng)
    texts = {tuple(text) for text in Sequences(states.ids.numpy(), states.lengths.numpy()).rows()}
    assert len(texts) == 2**4
    shares = np.bincount(states.left.counts, minlength=5) / 4_000
    expected = np.full(5, (1 - FRESH) / 5) + FRESH * (np.arange(5) == 4)
    assert np.abs(shares - expected).max() < 0.04, "of the others the rate is uniform, so is the number of edits"


@every_task
def test_offline_states_are_the_sources_with_their_first_action(
    task: Task, pairs: Pairs, rng: np.random.Generator
) -> None:
    scripts = task.edits(pairs.sources, pairs.targets)
    rows = np.arange(len(pairs))
    states = sample_states(pairs, scripts, rows, "offline", rng)
    assert Sequences(states.ids.numpy(), states.lengths.numpy()).equals(pairs.sources).all()
    first = states_after(pairs, scripts, np.zeros(len(pairs), np.int64))
    assert states.actions(task.template).tolist() == first.actions(task.template).tolist()
    assert states.done().tolist() == (scripts.counts == 0).tolist()


@every_task
def test_text_and_ids_are_inverse(task: Task, pairs: Pairs) -> None:
    sources, targets = task.vocabulary.decode(pairs.sources), task.vocabulary.decode(pairs.targets)
    encoded = task.encode(sources, targets)
    assert encoded.sources.equals(pairs.sources).all()
    assert encoded.targets.equals(pairs.targets).all()
    fitted = type(task).fitted(sources, targets)
    assert fitted.vocabulary.decode(fitted.encode(sources, targets).targets) == targets


FOREIGN = [
    ("aor", "2 3 5", "2 + 4 == 6"),
    ("aor", "2 3 5", "( 2 + 3 ) == 5"),
    ("aes", "( 3 + 4 ) == 7", "9 == 7"),
    ("aes", "( 3 - 2 ) + 2 == 3", "1 + 2 == 3"),
    ("aes", "( 3 + 4 == 7", "7 == 7"),
    ("aes", "2 + 5 == 7", "2 + 4 == 7"),
    ("aec", "2 == 3", "1 + 2 == 3"),
    ("aec", "2 == 3", "( 2 ) == 3"),
    ("aec", "2 + 3 == 6", "2 + 3 == 5"),
    ("sort", "3 2 1", "1 2 4"),
]


@pytest.mark.parametrize(("name", "source", "target"), FOREIGN)
def test_a_pair_that_is_none_of_the_task_is_told(name: str, source: str, target: str) -> None:
    task = TASKS[name]()
    example = TASKS[name].example
    pairs = task.encode([example[0], source], [example[1], target])
    with pytest.raises(PairError) as caught:
        task.edits(pairs.sources, pairs.targets)
    assert caught.value.index == 1


@pytest.mark.parametrize("name", TASKS)
def test_names_titles_and_metrics_are_in_order(name: str) -> None:
    kind = TASKS[name]
    assert kind.name == name
    assert kind.title
    assert len(kind.metrics) > 0
    assert {*kind.metrics, kind.stop_metric} <= set(METRICS)
    module_doc = __import__(kind.__module__, fromlist=["_"]).__doc__
    source, target = kind.example
    assert source in module_doc
    assert target in module_doc


@pytest.mark.parametrize("name", OF_NUMBERS)
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"nubmers": 3}, "did you mean 'numbers'"),
        ({"numbers": 0}, "numbers: "),
        ({"length": 1}, "length: "),
        ({"numbers": "many"}, "numbers: .* not 'many'"),
    ],
)
def test_wrong_options_are_refused_in_one_line(name: str, options: dict[str, object], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint) as caught:
        TASKS[name].from_options(options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_more_targets_than_there_are_is_refused_with_their_number(name: str, rng: np.random.Generator) -> None:
    with pytest.raises(DataError, match="has exactly"):
        TASKS[name].from_options({"numbers": 3, "length": 3}).generate(10**6, rng)


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_a_token_of_no_task_is_named(name: str) -> None:
    with pytest.raises(DataError, match="pair 2: unknown token 'x'"):
        TASKS[name]().encode(["2 3", "2 x"], ["2", "3"])
