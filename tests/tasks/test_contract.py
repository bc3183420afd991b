"""What every task owes, tested on every task there is."""

import numpy as np
import pytest

from stepedit.batches import expert, sample_states, states_after
from stepedit.edits import trajectory
from stepedit.errors import DataError, UserError
from stepedit.interpreter import run
from stepedit.metrics import METRICS
from stepedit.registry import TASKS
from stepedit.sequences import Pairs, Sequences
from stepedit.tasks.task import Task

SETTINGS: list[Task] = [
    *(TASKS[name]() for name in TASKS),
    TASKS["aor"].from_options({"numbers": 3, "length": 7}),
    TASKS["aes"].from_options({"numbers": 10, "length": 3, "division": True}),
    TASKS["aec"].from_options({"numbers": 40, "length": 2, "errors": 5}),
    TASKS["sort"].from_options({"numbers": 4, "length": 9}),
]
every_task = pytest.mark.parametrize("task", SETTINGS, ids=[f"{task.name}-{i}" for i, task in enumerate(SETTINGS)])
SIZE = 30


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
    assert again.equals(pairs.sources).all() != task.redraws


@every_task
def test_check_accepts_every_target(task: Task, pairs: Pairs) -> None:
    assert task.check(pairs.sources, pairs.targets).all()


@every_task
def test_check_rejects_broken_targets(task: Task, pairs: Pairs) -> None:
    """Without the last token, with it twice, with another in its place, reversed, empty."""
    rows = pairs.targets.rows()
    largest = len(task.vocabulary) - 1
    broken = {
        "shorter": [row[:-1] for row in rows],
        "longer": [[*row, row[-1]] for row in rows],
        "other end": [[*row[:-1], largest if row[-1] != largest else largest - 1] for row in rows],
        "empty": [[] for _ in rows],
    }
    for name, predictions in broken.items():
        assert not task.check(pairs.sources, Sequences.from_rows(predictions)).any(), name


@every_task
def test_check_rejects_unfinished_texts(task: Task, pairs: Pairs) -> None:
    scripts = task.edits(pairs.sources, pairs.targets)
    unfinished = np.flatnonzero(scripts.counts > 0)
    accepted = task.check(pairs.sources.take(unfinished), pairs.sources.take(unfinished))
    # a wrong equation may by chance be another true one, with nothing left to tell by; AEC alone has such
    assert accepted.mean() < (0.2 if task.name == "aec" else 1e-9)


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
            assert tuple(text) == ways[row][scripts.row(row).index(edit)] or task.name == "sort"


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


@every_task
def test_pairs_of_another_kind_are_named(task: Task, pairs: Pairs) -> None:
    """A target with one more integer than its source is nobody's pair, except where any edit is allowed."""
    rows = pairs.targets.rows()
    rows[3] = [*rows[3], rows[3][-1], rows[3][-1]]
    if task.name == "aec":
        return
    with pytest.raises(DataError, match="pair 4"):
        task.edits(pairs.sources, Sequences.from_rows(rows))


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


@pytest.mark.parametrize("name", TASKS)
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


@pytest.mark.parametrize("name", TASKS)
def test_more_targets_than_there_are_is_refused_with_their_number(name: str, rng: np.random.Generator) -> None:
    with pytest.raises(DataError, match="has exactly"):
        TASKS[name].from_options({"numbers": 3, "length": 3}).generate(10**6, rng)


@pytest.mark.parametrize("name", TASKS)
def test_a_token_of_no_task_is_named(name: str) -> None:
    with pytest.raises(DataError, match="source: line 2: unknown token 'x'"):
        TASKS[name]().encode(["2 3", "2 x"], ["2", "3"])
