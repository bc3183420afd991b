"""Equation correction (AEC) follows the paper."""

from collections import Counter

import numpy as np
import pytest

from stepedit.arithmetic import equations
from stepedit.arithmetic.equations import EQUALS, ZERO
from stepedit.editing.alignment import distances
from stepedit.editing.sequences import Sequences
from stepedit.registry import TASKS


@pytest.mark.parametrize(
    ("source", "target", "errors"),
    [
        ("4 - 3 / 6 * 4 == 2", "4 - 3 / 6 * 4 == 2", 0),
        ("6 7 * + / 7 + / 7 == 2", "- 7 * 5 / 7 + 7 == 2", 3),
        ("- 6 5 + 11 - 2", "- 6 + 5 + 11 - 8 == 2", 3),
        ("7 * 8 / 4 8 2 - == 6", "7 * 8 / 4 - 8 == 6", 3),
    ],
)
def test_the_papers_examples_need_that_many_edits(source: str, target: str, errors: int) -> None:
    task = TASKS["aec"]()
    pairs = task.encode([source], [target])
    assert task.check(pairs.sources, pairs.targets).all()
    assert task.edits(pairs.sources, pairs.targets).counts.tolist() == [errors]


def test_the_edits_are_those_of_the_papers_tags() -> None:
    """keep x5, delete, sub -, sub 8, keep x2."""
    task = TASKS["aec"]()
    pairs = task.encode(["7 * 8 / 4 8 2 - == 6"], ["7 * 8 / 4 - 8 == 6"])
    edits = task.edits(pairs.sources, pairs.targets).row(0)
    assert [(edit.start, edit.stop, task.vocabulary.text(edit.tokens)) for edit in edits] == [
        (5, 6, ""),
        (5, 6, "-"),
        (6, 7, "8"),
    ]


@pytest.fixture(scope="module")
def resampled() -> tuple[Sequences, Sequences]:
    """Return many sources and their targets."""
    rng = np.random.default_rng(11)
    task = TASKS["aec"]()
    targets = task.generate_targets(3_000, rng)
    repeated = targets.take(np.repeat(np.arange(len(targets)), 10))
    return task.resample(repeated, rng), repeated


def test_in_a_short_text_the_number_of_errors_is_uniform_up_to_its_length() -> None:
    task = TASKS["aec"]()
    hit = task._error_positions(Sequences(np.ones((40_000, 3), np.int64), np.full(40_000, 3)), np.random.default_rng(1))
    assert np.abs(np.bincount(hit.sum(1)) / len(hit) - 1 / 3).max() < 0.01


def test_the_right_hand_integer_never_changes(resampled: tuple[Sequences, Sequences]) -> None:
    sources, targets = resampled
    rows = np.arange(len(sources))
    last = sources.ids[rows, sources.lengths - 1]
    assert (last == targets.ids[rows, targets.lengths - 1]).all()


@pytest.fixture(scope="module")
def errors() -> list[list[tuple[str, int, int]]]:
    """Return the errors (kind, position, token) in many copies of a text of ten tokens that no error can insert."""
    size = 40_000
    targets = Sequences(np.tile(np.arange(1000, 1010), (size, 1)), np.full(size, 10))
    sources = TASKS["aec"]().resample(targets, np.random.default_rng(13))
    return [read_errors(row) for row in sources.rows()]


def read_errors(row: list[int]) -> list[tuple[str, int, int]]:
    """Return the errors in a copy of 1000 .. 1009; tokens between two kept ones were inserted there, in order."""
    found, position, inserted = [], 0, list[int]()
    for token in row:
        if token < 1000:
            inserted.append(token)
            continue
        missing = token - 1000 - position
        if missing == 1 and len(inserted) == 1:
            found.append(("substitute", position, inserted[0]))
        elif missing == 0 and len(inserted) == 1:
            found.append(("insert", position, inserted[0]))
        elif missing and not inserted:
            found.extend(("delete", position + k, 0) for k in range(missing))
        elif missing or inserted:  # adjacent errors of several kinds: their number is ambiguous
            found.extend(("ambiguous", -1, other) for other in inserted)
        position, inserted = token - 1000 + 1, []
    return found


def single_errors(errors: list[list[tuple[str, int, int]]]) -> list[tuple[str, int, int]]:
    """Return the errors of texts with one error, which are never ambiguous."""
    return [row[0] for row in errors if len(row) == 1 and row[0][0] != "ambiguous"]


def test_the_number_of_errors_is_uniform_from_zero_to_three(errors: list[list[tuple[str, int, int]]]) -> None:
    assert abs(sum(not row for row in errors) / len(errors) - 1 / 4) < 0.01
    assert max(len(row) for row in errors) <= 3
    separate = [len(row) for row in errors if all(kind != "ambiguous" for kind, _, _ in row)]
    assert abs(separate.count(1) / len(errors) - 1 / 4) < 0.01  # one error is never ambiguous
    hit = TASKS["aec"]()._error_positions(
        Sequences(np.ones((40_000, 10), np.int64), np.full(40_000, 10)), np.random.default_rng(1)
    )
    shares = np.bincount(hit.sum(1), minlength=4) / len(hit)
    assert np.abs(shares - 1 / 4).max() < 0.01
    assert len(shares) == 4


def test_deletions_substitutions_and_insertions_are_equally_likely(errors: list[list[tuple[str, int, int]]]) -> None:
    kinds = Counter(kind for kind, _, _ in single_errors(errors))
    assert set(kinds) == {"delete", "substitute", "insert"}
    assert all(abs(count / kinds.total() - 1 / 3) < 0.02 for count in kinds.values())


def test_errors_are_uniform_over_all_positions_but_the_last(errors: list[list[tuple[str, int, int]]]) -> None:
    positions = Counter(position for _, position, _ in single_errors(errors))
    assert set(positions) == set(range(9))
    assert all(abs(count / positions.total() - 1 / 9) < 0.015 for count in positions.values())
    assert all(position != 9 for row in errors for _, position, _ in row)


def test_inserted_tokens_are_uniform_over_operators_and_integers(errors: list[list[tuple[str, int, int]]]) -> None:
    tokens = Counter(token for kind, _, token in single_errors(errors) if kind != "delete")
    assert set(tokens) == {*equations.OPERATORS, *range(ZERO + 2, ZERO + 12)}
    assert all(abs(count / tokens.total() - 1 / 14) < 0.012 for count in tokens.values())


def test_the_equals_sign_can_be_removed_but_is_never_inserted(resampled: tuple[Sequences, Sequences]) -> None:
    sources, _ = resampled
    equals = (sources.ids == EQUALS).sum(1)
    assert equals.max() == 1
    assert 0.05 < (equals == 0).mean() < 0.2


def test_the_edit_distance_never_exceeds_the_number_of_errors(resampled: tuple[Sequences, Sequences]) -> None:
    distance = distances(*resampled)
    assert distance.max() == 3
    assert 0.24 < (distance == 0).mean() < 0.28


def test_a_correction_with_more_than_three_edits_is_rejected() -> None:
    task = TASKS["aec"]()
    predictions = [
        "6 + 5 - 9 == 2",
        "- 6 + 5 + 11 - 8 == 2",
        "2 == 2",
        "- 6 + 5 + 11 - 2 == 8",
        "- 6 + 5 + 11 - 7 == 3",
    ]
    sources = task.vocabulary.encode(["- 6 5 + 11 - 2"] * len(predictions))
    assert task.check(sources, task.vocabulary.encode(predictions)).tolist() == [False, True, False, False, False]
