"""Contract tests for anyone's task: `check_task(MyTask())` in a test of your own.

Each check takes a task and a generator and raises an AssertionError that says what the task gets wrong. The package's
own tasks are tested with the same checks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stepedit.data.states import ExpertPolicy, sample_states, states_after
from stepedit.editing.edits import Scripts, replay, trajectory
from stepedit.editing.interpreter import step_batch
from stepedit.editing.sequences import Pairs, Sequences
from stepedit.evaluation.metrics import CORPUS_METRICS, METRICS
from stepedit.inference import greedy
from stepedit.registry import METHODS
from stepedit.tasks.base import Task

SIZE = 20  # pairs
MAX_STEPS = 500

Check = Callable[[Task, np.random.Generator], None]


def check_task(task: Task | type[Task], seed: int = 0) -> None:
    """Run all contract checks on a task; AssertionError says which one fails and why."""
    instance = task.from_args({}) if isinstance(task, type) else task
    for check in CHECKS:
        check(instance, np.random.default_rng(seed))


def check_declarations(task: Task, rng: np.random.Generator) -> None:
    """Name, metrics and limits are declared and known."""
    assert task.name, "a task needs a name"
    known = [*METRICS, *CORPUS_METRICS]
    unknown = set(task.metrics) - set(known)
    assert task.metrics, "a task needs a metric"
    assert not unknown, f"metrics must be some of {', '.join(known)}; not {', '.join(unknown)}"
    assert task.objective in task.metrics, f"the objective must be one of the metrics; not {task.objective!r}"
    assert task.max_length > 0, "max_length must be positive"
    assert task.max_edits > 0, "max_edits must be positive"
    assert set(task.fitted_args) <= set(task.arg_names()), "fitted_args must be names of arguments"
    source, target = task.example_pair()
    fitted = type(task).fitted([source], [target])
    pairs = fitted.encode([source], [target])
    _assert_edits_reach_target(pairs, fitted.edits(pairs.sources, pairs.targets))


def check_generation(task: Task, rng: np.random.Generator) -> None:
    """Targets are distinct, within the limits, and determined by the seed."""
    pairs = task.generate(SIZE, rng)
    assert len(pairs.sources) == SIZE == len(pairs.targets), f"generate({SIZE}) must return {SIZE} pairs"
    assert len(pairs.targets.distinct()) == SIZE, "targets must be distinct"
    for side in (pairs.sources, pairs.targets):
        assert int(side.lengths.max()) <= task.max_length, "a text is longer than max_length"
        assert int(side.ids.max()) < len(task.vocabulary), "an id is outside the vocabulary"
    first, again, other = (task.generate(SIZE, np.random.default_rng(seed)) for seed in (3, 3, 4))
    same = [(one.sources.equals(first.sources) & one.targets.equals(first.targets)).all() for one in (again, other)]
    assert same[0], "the same seed must give the same pairs"
    assert not same[1], "another seed must give other pairs"


def check_edits(task: Task, rng: np.random.Generator) -> None:
    """The expert's edits, applied one after the other, turn each source into its target; also for one or two pairs."""
    for size in (SIZE, 1, 2):
        pairs = task.generate(size, rng)
        scripts = task.edits(pairs.sources, pairs.targets)
        _assert_edits_reach_target(pairs, scripts)
        assert int(scripts.counts.max()) <= task.max_edits, "a pair needs more edits than max_edits"


def _assert_edits_reach_target(pairs: Pairs, scripts: Scripts) -> None:
    for index, (source, target) in enumerate(zip(pairs.sources.rows(), pairs.targets.rows(), strict=True)):
        reached = trajectory(source, scripts.row(index))[-1]
        assert reached == tuple(target), f"the edits of pair {index + 1} lead to {reached}, not to {tuple(target)}"


def check_actions(task: Task, rng: np.random.Generator) -> None:
    """The interpreter reaches the targets with the expert as policy; no state is too long."""
    pairs = task.generate(SIZE, rng)
    scripts = task.edits(pairs.sources, pairs.targets)
    expert, method = ExpertPolicy(scripts, task.template), METHODS["recurrence"](task)
    outcomes = greedy.run(pairs.sources, expert.predict, method, trace=True, max_steps=MAX_STEPS)
    sources = pairs.sources.rows()
    for index, (outcome, target) in enumerate(zip(outcomes, pairs.targets.rows(), strict=True)):
        assert outcome.finished, f"pair {index + 1}: the expert does not come to DONE"
        assert list(outcome.tokens) == target, f"pair {index + 1} is not edited to its target"
        assert outcome.steps == scripts.counts[index], f"pair {index + 1} takes another number of steps"
        longest = max(map(len, replay(sources[index], (step.edit for step in outcome.trace))))
        assert longest <= task.max_length, f"pair {index + 1}: an intermediate state is longer than max_length"


def check_states(task: Task, rng: np.random.Generator) -> None:
    """Sampled training states lie on a trajectory, and their actions lead on to the target."""
    pairs = task.generate(SIZE, rng)
    scripts = task.edits(pairs.sources, pairs.targets)
    paths = [trajectory(source, scripts.row(index)) for index, source in enumerate(pairs.sources.rows())]
    for count in range(int(scripts.counts.max()) + 1):
        counts = np.minimum(count, scripts.counts)
        states = states_after(pairs, scripts, counts)
        skipped = step_batch(states.texts, states.actions(task.template), task.template).skipped
        for index, text in enumerate(states.texts.rows()):
            where = f"pair {index + 1} after {counts[index]} edits"
            assert tuple(text) == paths[index][counts[index]], f"{where}: not the text that the edits lead to"
            assert not skipped[index], f"{where}: the template cannot express the next edit"
    for mode in ("offline", "online", "augmented"):
        states = sample_states(pairs, scripts, rng.integers(0, SIZE, 5 * SIZE), mode, rng)
        result = step_batch(states.texts, states.actions(task.template), task.template)
        assert not result.skipped.any(), f"{mode}: the action of a training state does not fit it"
        assert (result.done == states.done()).all(), f"{mode}: DONE must be predicted where no edit remains"


def check_resampling(task: Task, rng: np.random.Generator) -> None:
    """Resampled sources lead to the same targets, and differ if the task says so."""
    pairs = task.generate(SIZE, rng)
    again = Pairs(task.resample(pairs.targets, rng), pairs.targets)
    _assert_edits_reach_target(again, task.edits(again.sources, again.targets))
    same = float(again.sources.equals(pairs.sources).mean())
    if task.resamples_sources:
        assert same < 1, "resamples_sources is declared, but resample returns the same sources"
    elif not task.open_vocabulary:
        assert same == 1, "resample returns other sources: declare resamples_sources"


def check_verifier(task: Task, rng: np.random.Generator) -> None:
    """`check` accepts every target and, if the task is verifiable, rejects damaged ones."""
    pairs = task.generate(SIZE, rng)
    assert task.check(pairs.sources, pairs.targets).all(), "check rejects a target"
    damaged = Sequences.from_rows([[*row, row[-1]] if row else [1] for row in pairs.targets.rows()])
    accepted = task.check(pairs.sources, damaged)
    if task.verifiable:
        assert not accepted.all(), "check accepts targets with their last token repeated, but the task is verifiable"
    else:
        assert accepted.all(), "check rejects something: declare the task verifiable"


def check_text(task: Task, rng: np.random.Generator) -> None:
    """Decoding and encoding are inverse."""
    pairs = task.generate(SIZE, rng)
    sources, targets = (task.vocabulary.decode(side) for side in (pairs.sources, pairs.targets))
    encoded = task.encode(sources, targets)
    assert encoded.sources.equals(pairs.sources).all(), "encoding the decoded sources gives other ids"
    assert encoded.targets.equals(pairs.targets).all(), "encoding the decoded targets gives other ids"
    fitted = type(task).fitted(sources, targets)
    again = fitted.vocabulary.decode(fitted.encode(sources, targets).targets)
    assert again == targets, "a fitted task changes the texts"


CHECKS: tuple[Check, ...] = (
    check_declarations,
    check_generation,
    check_edits,
    check_states,
    check_actions,
    check_resampling,
    check_verifier,
    check_text,
)
