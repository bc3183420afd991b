"""The contract of a task, tested on every registered task."""

import re

import numpy as np
import pytest
from rapidfuzz.distance import Levenshtein

from stepedit.config import EditOrder, Mode
from stepedit.data.states import SOURCE_RATE, ExpertPolicy, sample_states, states_after
from stepedit.editing.edits import EditBatch, trajectory
from stepedit.editing.interpreter import splice, step_batch
from stepedit.editing.sequences import Pairs, Sequences
from stepedit.errors import DataError, PairError, UserError
from stepedit.evaluation.metrics import CORPUS_METRICS, METRICS
from stepedit.inference import greedy
from stepedit.registry import METHODS, TASKS
from stepedit.tasks.base import Task
from stepedit.testing import CHECKS, Check
from tests.arithmetic.reference import is_true, value

BRACKET = re.compile(r"\( (- )?(\d+) ([-+*/]) (\d+) \)")
SETTINGS: list[Task] = [
    *(TASKS[name]() for name in TASKS),
    TASKS["aor"].from_args({"numbers": 3, "length": 7}),
    TASKS["aes"].from_args({"numbers": 10, "length": 3, "division": True}),
    TASKS["aec"].from_args({"numbers": 40, "length": 2, "errors": 5}),
    TASKS["sort"].from_args({"numbers": 4, "length": 9}),
]
every_task = pytest.mark.parametrize("task", SETTINGS, ids=[f"{task.name}-{i}" for i, task in enumerate(SETTINGS)])
SIZE = 30
FIXED_VOCABULARY = [name for name in TASKS if not TASKS[name].open_vocabulary]


def size_for(task: Task) -> int:
    return SIZE if task.name != "aec" or task.length > 2 else 20  # type: ignore[attr-defined]


@pytest.fixture
def pairs(task: Task, rng: np.random.Generator) -> Pairs:
    return task.generate(size_for(task), rng)


@every_task
@pytest.mark.parametrize("check", CHECKS, ids=[check.__name__ for check in CHECKS])
def test_public_contract_checks_pass(task: Task, check: Check, rng: np.random.Generator) -> None:
    check(task, rng)


@every_task
def test_edits_applied_to_the_source_give_the_target(task: Task, pairs: Pairs) -> None:
    scripts = task.edits(pairs.sources, pairs.targets)
    for index, (source, target) in enumerate(zip(pairs.sources.rows(), pairs.targets.rows(), strict=True)):
        assert trajectory(source, scripts.row(index))[-1] == tuple(target)


@every_task
def test_the_expert_policy_reaches_the_target(task: Task, pairs: Pairs) -> None:
    scripts = task.edits(pairs.sources, pairs.targets)
    policy, method = ExpertPolicy(scripts, task.template), METHODS["recurrence"](task)
    outcomes = greedy.run(pairs.sources, policy.predict, method, trace=True, max_steps=500)
    assert all(outcome.finished for outcome in outcomes)
    assert [list(outcome.tokens) for outcome in outcomes] == pairs.targets.rows()
    assert [outcome.steps for outcome in outcomes] == scripts.counts.tolist()
    assert not any(step.start is None for outcome in outcomes for step in outcome.trace)


@every_task
def test_targets_are_distinct(task: Task, pairs: Pairs) -> None:
    assert len({tuple(row) for row in pairs.targets.rows()}) == len(pairs)


@every_task
def test_generated_pairs_depend_only_on_the_seed(task: Task) -> None:
    size = size_for(task)
    first, again, other = (task.generate(size, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert first.sources.equals(again.sources).all()
    assert first.targets.equals(again.targets).all()
    assert not first.targets.equals(other.targets).all() or not first.sources.equals(other.sources).all()


@every_task
def test_resampled_sources_differ_and_lead_to_the_same_targets(
    task: Task, pairs: Pairs, rng: np.random.Generator
) -> None:
    again = task.resample(pairs.targets, rng)
    scripts = task.edits(again, pairs.targets)
    for index, (source, target) in enumerate(zip(again.rows(), pairs.targets.rows(), strict=True)):
        assert trajectory(source, scripts.row(index))[-1] == tuple(target)
    same = again.equals(pairs.sources).mean()
    synthetic = task.resamples_sources or task.open_vocabulary  # the random pairs of an open vocabulary are synthetic
    assert same < 0.6 if synthetic else same == 1  # AEC draws no error for a quarter, AES no bracket for a sixth


@every_task
def test_check_accepts_every_target(task: Task, pairs: Pairs) -> None:
    assert task.check(pairs.sources, pairs.targets).all()


def is_valid(task: Task, source: str, prediction: str) -> bool:
    """Return what `check` should, computed in another way for each task."""
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
            return True  # there is no verifier for free text
    raise AssertionError(f"add a reference for task {task.name}")


@every_task
def test_check_agrees_with_a_reference(task: Task, pairs: Pairs, rng: np.random.Generator) -> None:
    """On targets with one random change, unfinished, reversed, too long and empty."""
    scripts = task.edits(pairs.sources, pairs.targets)
    unfinished = states_after(pairs, scripts, np.maximum(scripts.counts - 1, 0))
    predictions: list[list[list[int]]] = [
        *([mutated(row, rng, len(task.vocabulary)) for row in pairs.targets.rows()] for _ in range(40)),
        unfinished.texts.rows(),
        [row[::-1] for row in pairs.targets.rows()],
        [[*row, row[-1]] for row in pairs.targets.rows()],
        [[] for _ in range(len(pairs))],
    ]
    sources, rejected = task.vocabulary.decode(pairs.sources), 0
    for rows in predictions:
        lines = [task.vocabulary.text(row) for row in rows]
        expected = [is_valid(task, source, line) for source, line in zip(sources, lines, strict=True)]
        assert task.check(pairs.sources, Sequences.from_rows(rows)).tolist() == expected
        rejected += expected.count(False)
    assert rejected > 20 * len(pairs) or task.name == "text"


def mutated(row: list[int], rng: np.random.Generator, tokens: int) -> list[int]:
    """Return a copy with one token deleted, substituted or inserted, or two exchanged, at random positions."""
    index, token = int(rng.integers(len(row))), int(rng.integers(1, tokens))
    other = int(rng.integers(len(row)))
    swapped = list(row)
    swapped[index], swapped[other] = swapped[other], swapped[index]
    changes = (
        row[:index] + row[index + 1 :],
        [*row[:index], token, *row[index + 1 :]],
        [*row[:index], token, *row[index:]],
    )
    return [*changes, swapped][int(rng.integers(4))]


@every_task
@pytest.mark.parametrize("size", [1, 2])
def test_batches_of_one_or_two_pairs_work(task: Task, size: int) -> None:
    for seed in range(25):
        pairs = task.generate(size, np.random.default_rng(seed))
        scripts = task.edits(pairs.sources, pairs.targets)
        for index, (source, target) in enumerate(zip(pairs.sources.rows(), pairs.targets.rows(), strict=True)):
            assert trajectory(source, scripts.row(index))[-1] == tuple(target)
        assert task.check(pairs.sources, pairs.targets).all()


@every_task
def test_online_states_are_uniform_over_the_trajectory(task: Task, pairs: Pairs, rng: np.random.Generator) -> None:
    """The n+1 states of a script of n edits are equally frequent."""
    scripts = task.edits(pairs.sources, pairs.targets)
    row = int(scripts.counts.argmax())
    states = sample_states(pairs, scripts, np.full(20_000, row), "online", rng)
    seen = np.bincount(scripts.counts[row] - states.remaining.counts, minlength=scripts.counts[row] + 1)
    expected = 20_000 / (scripts.counts[row] + 1)
    assert len(seen) == scripts.counts[row] + 1
    assert np.abs(seen - expected).max() < 5 * np.sqrt(expected)


@every_task
def test_online_states_lie_on_the_trajectory_and_their_action_is_the_next_edit(
    task: Task, pairs: Pairs, rng: np.random.Generator
) -> None:
    scripts = task.edits(pairs.sources, pairs.targets)
    trajectories = [trajectory(row, scripts.row(index)) for index, row in enumerate(pairs.sources.rows())]
    chosen = rng.integers(0, len(pairs), 200)
    states = sample_states(pairs, scripts, chosen, "online", rng)
    actions, texts = states.actions(task.template).tolist(), states.texts.rows()
    for row, text, action, done in zip(chosen.tolist(), texts, actions, states.done().tolist(), strict=True):
        if done:
            assert tuple(text) == trajectories[row][-1]
            assert tuple(action) == task.template.done()
        else:
            edit = task.template.edit(action, text)
            assert edit in scripts.row(row)
            assert tuple(text) in trajectories[row][:-1]
            assert any(
                tuple(text) == trajectories[row][index] and edit == its_edit
                for index, its_edit in enumerate(scripts.row(row))
            )


@every_task
def test_states_after_some_edits_are_those_reached_one_by_one(
    task: Task, pairs: Pairs, rng: np.random.Generator
) -> None:
    scripts = task.edits(pairs.sources, pairs.targets)
    assert scripts.left_to_right == (task.name != "sort")
    for counts in (rng.integers(0, scripts.counts + 1), scripts.counts, np.zeros_like(scripts.counts)):
        states = states_after(pairs, scripts, counts)
        expected = [
            list(trajectory(source, scripts.row(index))[counts[index]])
            for index, source in enumerate(pairs.sources.rows())
        ]
        assert states.texts.rows() == expected


@every_task
@pytest.mark.parametrize("order", ["left-to-right", "right-to-left", "random"])
@pytest.mark.parametrize("mode", ["online", "augmented"])
def test_every_edit_order_leads_to_the_target(
    task: Task, pairs: Pairs, rng: np.random.Generator, mode: Mode, order: EditOrder
) -> None:
    """Whatever edits have been applied: the remaining ones lead to the target, and the next one follows the order."""
    scripts, rows = task.edits(pairs.sources, pairs.targets), rng.integers(0, len(pairs), 300)
    if not scripts.left_to_right and order != "left-to-right":
        with pytest.raises(UserError, match="depend on each other"):
            sample_states(pairs, scripts, rows, mode, rng, order)
        return
    states = sample_states(pairs, scripts, rows, mode, rng, order)
    assert order == "left-to-right" or len(np.unique(states.next_edit)) > 1
    edits, last = states.current_edits(), np.maximum(states.remaining.counts - 1, 0)
    if scripts.left_to_right:  # applied from the right, no edit moves another
        texts = states.texts
        for index in reversed(range(edits.starts.shape[1])):
            texts = splice(texts, EditBatch(*(part[:, index] for part in edits)))
        assert texts.rows() == states.targets.rows()
    if order == "right-to-left":
        assert states.next_edit.tolist() == last.tolist()
    if order == "random":
        assert (states.next_edit <= last).all()
    at = (np.arange(len(states)), states.next_edit)
    expected = splice(states.texts, EditBatch(*(part[at] for part in edits)))
    result = step_batch(states.texts, states.actions(task.template), task.template)
    assert not result.skipped.any()
    assert result.done.tolist() == states.done().tolist()
    assert result.texts.rows() == expected.rows()


def test_augmented_states_cover_every_subset_of_edits(rng: np.random.Generator) -> None:
    task = TASKS["aor"]()
    pairs = task.generate(50, rng)
    scripts = task.edits(pairs.sources, pairs.targets)
    row = int(np.flatnonzero(scripts.counts == 4)[0])
    states = sample_states(pairs, scripts, np.full(4_000, row), "augmented", rng)
    texts = {tuple(text) for text in states.texts.rows()}
    assert len(texts) == 2**4
    shares = np.bincount(states.remaining.counts, minlength=5) / 4_000
    expected = np.full(5, (1 - SOURCE_RATE) / 5) + SOURCE_RATE * (np.arange(5) == 4)
    assert np.abs(shares - expected).max() < 0.04, (
        "apart from sources the rate is uniform, and so is the number of edits"
    )


@every_task
def test_offline_states_are_the_sources_with_their_first_action(
    task: Task, pairs: Pairs, rng: np.random.Generator
) -> None:
    scripts = task.edits(pairs.sources, pairs.targets)
    rows = np.arange(len(pairs))
    states = sample_states(pairs, scripts, rows, "offline", rng)
    assert states.texts.equals(pairs.sources).all()
    first = states_after(pairs, scripts, np.zeros(len(pairs), np.int64))
    assert states.actions(task.template).tolist() == first.actions(task.template).tolist()
    assert states.done().tolist() == (scripts.counts == 0).tolist()


@every_task
def test_encoding_is_the_inverse_of_decoding(task: Task, pairs: Pairs) -> None:
    sources, targets = task.vocabulary.decode(pairs.sources), task.vocabulary.decode(pairs.targets)
    encoded = task.encode(sources, targets)
    assert encoded.sources.equals(pairs.sources).all()
    assert encoded.targets.equals(pairs.targets).all()
    fitted = type(task).fitted(sources, targets)
    assert fitted.vocabulary.decode(fitted.encode(sources, targets).targets) == targets


INVALID_PAIRS = [
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


@pytest.mark.parametrize(("name", "source", "target"), INVALID_PAIRS)
def test_a_pair_that_is_not_of_the_task_is_reported(name: str, source: str, target: str) -> None:
    task = TASKS[name]()
    example = TASKS[name].example_pair()
    pairs = task.encode([example[0], source], [example[1], target])
    with pytest.raises(PairError) as caught:
        task.edits(pairs.sources, pairs.targets)
    assert caught.value.index == 1


@pytest.mark.parametrize("name", TASKS)
def test_names_titles_and_metrics_are_declared(name: str) -> None:
    kind = TASKS[name]
    assert kind.name == name
    assert kind.title
    assert len(kind.metrics) > 0
    assert set(kind.metrics) <= {*METRICS, *CORPUS_METRICS}
    assert kind.objective in kind.metrics
    module_doc = __import__(kind.__module__, fromlist=["_"]).__doc__ or ""
    source, target = kind.example_pair()
    assert source in module_doc
    assert target in module_doc


@pytest.mark.parametrize("name", FIXED_VOCABULARY)
@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"nubmers": 3}, "did you mean 'numbers'"),
        ({"numbers": 0}, "numbers: "),
        ({"length": 1}, "length: "),
        ({"numbers": "many"}, "numbers: .* not 'many'"),
    ],
)
def test_invalid_arguments_are_refused_in_one_line(name: str, args: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        TASKS[name].from_args(args)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", FIXED_VOCABULARY)
def test_a_request_for_too_many_targets_is_refused_with_their_number(name: str, rng: np.random.Generator) -> None:
    with pytest.raises(DataError, match="has exactly"):
        TASKS[name].from_args({"numbers": 3, "length": 3}).generate(10**6, rng)


@pytest.mark.parametrize("name", FIXED_VOCABULARY)
def test_an_unknown_token_is_reported(name: str) -> None:
    with pytest.raises(DataError, match="pair 2: unknown token 'x'"):
        TASKS[name]().encode(["2 3", "2 x"], ["2", "3"])
