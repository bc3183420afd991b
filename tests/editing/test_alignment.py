"""Shortest scripts, distances and optimal edits, compared with plain implementations."""

from itertools import pairwise, takewhile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from stepedit.editing import alignment
from stepedit.editing.alignment import distances, optimal_edits, script, scripts, with_runs, with_swaps
from stepedit.editing.edits import Edit, Scripts, apply, trajectory
from stepedit.editing.sequences import Sequences


def common_prefix(one: list[int], other: list[int]) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))


def plain_script(source: list[int], target: list[int]) -> list[Edit[int]]:
    """One pair at a time: strip the common ends, fill the table, trace back from the right as the authors do."""
    begin = common_prefix(source, target)
    end = min(len(source), len(target)) - begin
    end = min(end, common_prefix(source[::-1], target[::-1]))
    source, target = source[begin : len(source) - end], target[begin : len(target) - end]
    table = [[i + j if 0 in (i, j) else 0 for j in range(len(target) + 1)] for i in range(len(source) + 1)]
    for i in range(1, len(source) + 1):
        for j in range(1, len(target) + 1):
            differs = source[i - 1] != target[j - 1]
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + differs)
    i, j, found, last = len(source), len(target), [], ""
    while i or j:
        differs = bool(i and j) and source[i - 1] != target[j - 1]
        possible = ["diagonal"] * bool(i and j and table[i - 1][j - 1] + differs == table[i][j])
        possible += ["insert"] * bool(j and table[i][j - 1] + 1 == table[i][j])
        possible += ["delete"] * bool(i and table[i - 1][j] + 1 == table[i][j])
        last = last if last in possible else possible[0]
        i, j = i - (last != "insert"), j - (last != "delete")
        if last == "insert":
            found.append(Edit(begin + j, begin + j, (target[j],)))
        elif last == "delete":
            found.append(Edit[int](begin + j, begin + j + 1, ()))
        elif differs:
            found.append(Edit(begin + j, begin + j + 1, (target[j],)))
    return found[::-1]


rows = st.lists(st.integers(1, 4), max_size=9)


@given(st.lists(st.tuples(rows, rows), min_size=1, max_size=20))
def test_scripts_reach_the_target_with_the_fewest_edits_and_the_documented_tie_breaking(
    pairs: list[tuple[list[int], list[int]]],
) -> None:
    sources, targets = (Sequences.from_rows(list(side)) for side in zip(*pairs, strict=True))
    found = scripts(sources, targets)
    for index, (source, target) in enumerate(pairs):
        edits = found.row(index)
        assert trajectory(source, edits)[-1] == tuple(target)
        assert len(edits) == found.counts[index] == Levenshtein.distance(source, target)
        assert edits == plain_script(source, target)
    assert distances(sources, targets).tolist() == found.counts.tolist()


def test_no_pairs_have_no_scripts() -> None:
    none = Sequences.from_rows([])
    assert (len(scripts(none, none)), distances(none, none).tolist()) == (0, [])


def test_ties_are_broken_as_in_the_papers_example() -> None:
    found = script(["7", "*", "8", "/", "4", "8", "2", "-", "==", "6"], ["7", "*", "8", "/", "4", "-", "8", "==", "6"])
    assert found == [Edit(5, 6, ()), Edit(5, 6, ("-",)), Edit(6, 7, ("8",))]


@given(st.lists(st.text(max_size=2), max_size=8), st.lists(st.text(max_size=2), max_size=8))
def test_tokens_may_be_any_hashable_values(source: list[str], target: list[str]) -> None:
    assert trajectory(source, script(source, target))[-1] == tuple(target)


def test_scripts_run_from_left_to_right(rng: np.random.Generator) -> None:
    sources, targets = (Sequences.from_rows(rng.integers(1, 5, (200, 8)).tolist()) for _ in range(2))
    found = scripts(sources, targets)
    for index in range(200):
        edits = found.row(index)
        for before, after in pairwise(edits):
            assert after.start >= before.start + len(before.tokens)


def test_a_batch_that_is_too_large_is_halved_with_the_same_result(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, targets = (Sequences.from_rows([rng.integers(1, 5, n).tolist() for n in range(1, 40)]) for _ in range(2))
    whole, expected = scripts(sources, targets), distances(sources, targets)
    optimal = optimal_edits(sources, targets)
    monkeypatch.setattr(alignment, "MAX_CELLS", 5_000)
    parts = scripts(sources, targets)
    assert [parts.row(index) for index in range(39)] == [whole.row(index) for index in range(39)]
    assert distances(sources, targets).tolist() == expected.tolist()
    halved = optimal_edits(sources, targets)
    for name in ("rows", "starts", "stops", "tokens"):
        assert getattr(halved, name).tolist() == getattr(optimal, name).tolist()


def exchange(state: tuple[int, ...], first: Edit[int], second: Edit[int]) -> bool:
    """Whether two edits, one after the other, substitute neighboring tokens by each other."""
    place = first.start
    neighbors = (first.stop, second.start, second.stop) == (place + 1, place + 1, place + 2)
    return neighbors and (*second.tokens, *first.tokens) == state[place : place + 2]


def plain_swaps(source: list[int], edits: list[Edit[int]]) -> list[Edit[int]]:
    """One script at a time, from the left."""
    merged, index, states = list[Edit[int]](), 0, trajectory(source, edits)
    while index < len(edits):
        first, *rest = edits[index : index + 2]
        both = bool(rest) and exchange(states[index], first, rest[0])
        merged.append(Edit(first.start, first.stop + 1, first.tokens + rest[0].tokens) if both else first)
        index += 1 + both
    return merged


@given(st.lists(st.tuples(rows, rows), max_size=20))
def test_two_substitutions_that_exchange_neighbors_become_one_edit(pairs: list[tuple[list[int], list[int]]]) -> None:
    pairs = [([3, 1, 2], [3, 2, 1]), *pairs]
    sources, targets = (Sequences.from_rows(list(side)) for side in zip(*pairs, strict=True))
    found = scripts(sources, targets)
    merged = with_swaps(found, sources)
    assert merged.row(0) == [Edit(1, 3, (2, 1))]
    for index, (source, target) in enumerate(pairs):
        assert merged.row(index) == plain_swaps(source, found.row(index))
        assert trajectory(source, merged.row(index))[-1] == tuple(target)


SHORT = st.lists(st.integers(1, 3), max_size=5)


@given(st.lists(st.tuples(SHORT, SHORT), min_size=1, max_size=8))
def test_optimal_edits_are_exactly_those_that_reduce_the_distance(pairs: list[tuple[list[int], list[int]]]) -> None:
    sources, targets = (Sequences.from_rows(side) for side in zip(*pairs, strict=True))
    found = optimal_edits(sources, targets)
    named = set(zip(*(part.tolist() for part in (found.rows, found.starts, found.stops, found.tokens)), strict=True))
    assert len(named) == len(found.rows)
    for row, (source, target) in enumerate(pairs):
        distance = Levenshtein.distance(source, target)
        tokens = sorted({*source, *target})
        possible = {(row, start, start, token) for start in range(len(source) + 1) for token in tokens}
        possible |= {(row, start, start + 1, token) for start in range(len(source)) for token in (0, *tokens)}
        for edit in possible:
            inserted = (edit[3],) if edit[3] else ()
            after = apply(source, Edit(edit[1], edit[2], inserted))
            assert (Levenshtein.distance(after, target) < distance) == (edit in named), (source, target, edit)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ([1, 2, 3, 4], [1, 4], [Edit[int](1, 3, ())]),
        ([1, 2, 3, 4], [1, 9, 4], [Edit(1, 3, (9,))]),
        ([1, 2, 3], [1, 9, 3], [Edit(1, 2, (9,))]),
        ([1, 2], [1, 9, 2], [Edit(1, 1, (9,))]),  # nothing is removed: an insertion
        ([1, 2], [1, 8, 9, 2], [Edit(1, 1, (8,)), Edit(2, 2, (9,))]),
        ([1, 2, 3, 4, 5], [1, 3, 5], [Edit[int](1, 2, ()), Edit[int](2, 3, ())]),  # apart
        ([1, 2, 3, 9, 2, 4], [1, 2, 4], [Edit[int](1, 4, ())]),  # 2 3 9, not 3 9 2
        ([2, 2, 2], [2], [Edit[int](0, 2, ())]),
        ([1, 2, 2, 3], [4, 2, 3], [Edit(0, 2, (4,))]),
    ],
    ids=[
        "deleted",
        "by one token",
        "one by one",
        "inserted",
        "two inserted",
        "apart",
        "leftmost",
        "of equals",
        "first",
    ],
)
def test_a_run_of_tokens_is_one_edit(source: list[int], target: list[int], expected: list[Edit[int]]) -> None:
    sources, targets = (Sequences.from_rows([row]) for row in (source, target))
    assert with_runs(scripts(sources, targets), sources).row(0) == expected


def test_a_deletion_does_not_move_to_the_left_as_far_as_the_edit_before_it() -> None:
    script = Scripts.from_rows([[Edit(0, 1, (4,)), Edit[int](3, 4, ())]])
    assert with_runs(script, Sequences.from_rows([[1, 5, 5, 5, 3]])).row(0) == [Edit(0, 1, (4,)), Edit[int](2, 3, ())]


def test_where_a_run_becomes_several_tokens_only_its_deletions_are_merged() -> None:
    touching = [Edit(0, 1, (7,)), Edit[int](1, 2, ()), Edit[int](1, 2, ()), Edit(1, 2, (8,))]
    merged = with_runs(Scripts.from_rows([touching]), Sequences.from_rows([[1, 2, 3, 4]])).row(0)
    assert merged == [Edit(0, 1, (7,)), Edit[int](1, 3, ()), Edit(1, 2, (8,))]
    assert trajectory((1, 2, 3, 4), merged)[-1] == trajectory((1, 2, 3, 4), touching)[-1] == (7, 8)


@given(st.lists(st.tuples(rows, rows), min_size=1, max_size=10))
def test_merged_runs_lead_to_the_target_and_none_touch(pairs: list[tuple[list[int], list[int]]]) -> None:
    sources, targets = (Sequences.from_rows(list(side)) for side in zip(*pairs, strict=True))
    single = scripts(sources, targets)
    merged = with_runs(single, sources)
    assert merged.left_to_right
    for index, (source, target) in enumerate(pairs):
        edits = merged.row(index)
        assert trajectory(source, edits)[-1] == tuple(target)
        assert len(edits) <= len(single.row(index))
        for first, second in pairwise(edits):
            touch = second.start == first.start + len(first.tokens)
            assert not touch or first.tokens or second.tokens
