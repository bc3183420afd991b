"""AEC as the paper defines it."""

from collections import Counter

import numpy as np
import pytest

from stepedit import equations
from stepedit.edits import distances
from stepedit.equations import EQUALS, ZERO
from stepedit.registry import TASKS
from stepedit.sequences import Sequences


@pytest.mark.parametrize(
    ("source", "target", "errors"),
    [
        ("4 - 3 / 6 * 4 == 2", "4 - 3 / 6 * 4 == 2", 0),
        ("6 7 * + / 7 + / 7 == 2", "- 7 * 5 / 7 + 7 == 2", 3),
        ("- 6 5 + 11 - 2", "- 6 + 5 + 11 - 8 == 2", 3),
        ("7 * 8 / 4 8 2 - == 6", "7 * 8 / 4 - 8 == 6", 3),
    ],
)
def test_the_papers_printed_examples(source: str, target: str, errors: int) -> None:
    task = TASKS["aec"]()
    pairs = task.encode([source], [target])
    assert task.check(pairs.sources, pairs.targets).all()
    assert task.edits(pairs.sources, pairs.targets).counts.tolist() == [errors]


def test_the_papers_printed_tags() -> None:
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
def drawn() -> tuple[Sequences, Sequences]:
    """Many sources and their targets."""
    rng = np.random.default_rng(11)
    task = TASKS["aec"]()
    targets = task.generate_targets(3_000, rng)
    repeated = targets.take(np.repeat(np.arange(len(targets)), 10))
    return task.resample(repeated, rng), repeated


def test_with_few_places_the_number_of_errors_is_uniform_over_what_can_be() -> None:
    task = TASKS["aec"]()
    hit = task._places(Sequences(np.ones((40_000, 3), np.int64), np.full(40_000, 3)), np.random.default_rng(1))
    assert np.abs(np.bincount(hit.sum(1)) / len(hit) - 1 / 3).max() < 0.01


def test_the_right_hand_integer_is_never_touched(drawn: tuple[Sequences, Sequences]) -> None:
    sources, targets = drawn
    rows = np.arange(len(sources))
    last = sources.ids[rows, sources.lengths - 1]
    assert (last == targets.ids[rows, targets.lengths - 1]).all()


@pytest.fixture(scope="module")
def errors() -> list[list[tuple[str, int, int]]]:
    """The errors (kind, place, token) in many copies of a text of ten tokens that no error can bring in."""
    size = 40_000
    targets = Sequences(np.tile(np.arange(1000, 1010), (size, 1)), np.full(size, 10))
    sources = TASKS["aec"]().resample(targets, np.random.default_rng(13))
    return [read_errors(row) for row in sources.rows()]


def read_errors(row: list[int]) -> list[tuple[str, int, int]]:
    """What happened to 1000 .. 1009. Between two kept tokens stand the strays of the errors there, in order."""
    found, place, strays = [], 0, list[int]()
    for token in row:
        if token < 1000:
            strays.append(token)
            continue
        missing = token - 1000 - place
        inserted = len(strays) - missing if len(strays) > missing else 0
        if missing == 1 and len(strays) == 1:
            found.append(("substitute", place, strays[0]))
        elif missing == 0 and len(strays) == 1:
            found.append(("insert", place, strays[0]))
        elif missing and not strays:
            found.extend(("delete", place + k, 0) for k in range(missing))
        elif missing or inserted:  # neighbouring errors of several kinds: how many there are is not to be told
            found.extend(("unclear", -1, token) for token in strays)
        place, strays = token - 1000 + 1, []
    return found


def clear(errors: list[list[tuple[str, int, int]]]) -> list[tuple[str, int, int]]:
    """The errors of texts with one error: nothing about those is unclear."""
    return [row[0] for row in errors if len(row) == 1 and row[0][0] != "unclear"]


def test_the_number_of_errors_is_uniform_from_none_to_three(errors: list[list[tuple[str, int, int]]]) -> None:
    assert abs(sum(not row for row in errors) / len(errors) - 1 / 4) < 0.01
    assert max(len(row) for row in errors) <= 3
    apart = [len(row) for row in errors if all(kind != "unclear" for kind, _, _ in row)]
    assert abs(apart.count(1) / len(errors) - 1 / 4) < 0.01  # one error is always clear
    hit = TASKS["aec"]()._places(
        Sequences(np.ones((40_000, 10), np.int64), np.full(40_000, 10)), np.random.default_rng(1)
    )
    shares = np.bincount(hit.sum(1), minlength=4) / len(hit)
    assert np.abs(shares - 1 / 4).max() < 0.01
    assert len(shares) == 4


def test_deletions_substitutions_and_insertions_are_equally_likely(errors: list[list[tuple[str, int, int]]]) -> None:
    kinds = Counter(kind for kind, _, _ in clear(errors))
    assert set(kinds) == {"delete", "substitute", "insert"}
    assert all(abs(count / kinds.total() - 1 / 3) < 0.02 for count in kinds.values())


def test_errors_hit_every_place_alike_but_never_the_last(errors: list[list[tuple[str, int, int]]]) -> None:
    places = Counter(place for _, place, _ in clear(errors))
    assert set(places) == set(range(9))
    assert all(abs(count / places.total() - 1 / 9) < 0.015 for count in places.values())
    assert all(place != 9 for row in errors for _, place, _ in row)


def test_strays_are_uniform_over_operators_and_integers(errors: list[list[tuple[str, int, int]]]) -> None:
    tokens = Counter(token for kind, _, token in clear(errors) if kind != "delete")
    assert set(tokens) == {*equations.OPERATORS, *range(ZERO + 2, ZERO + 12)}
    assert all(abs(count / tokens.total() - 1 / 14) < 0.012 for count in tokens.values())


def test_the_equal_sign_can_be_hit_but_never_comes_in(drawn: tuple[Sequences, Sequences]) -> None:
    sources, _ = drawn
    equals = (sources.ids == EQUALS).sum(1)
    assert equals.max() == 1
    assert 0.05 < (equals == 0).mean() < 0.2


def test_the_edit_distance_never_exceeds_the_errors(drawn: tuple[Sequences, Sequences]) -> None:
    far = distances(*drawn)
    assert far.max() == 3
    assert 0.24 < (far == 0).mean() < 0.28


def test_a_repair_further_away_than_three_errors_is_not_accepted() -> None:
    task = TASKS["aec"]()
    answers = ["6 + 5 - 9 == 2", "- 6 + 5 + 11 - 8 == 2", "2 == 2", "- 6 + 5 + 11 - 2 == 8", "- 6 + 5 + 11 - 7 == 3"]
    sources = task.vocabulary.encode(["- 6 5 + 11 - 2"] * len(answers))
    assert task.check(sources, task.vocabulary.encode(answers)).tolist() == [False, True, False, False, False]
