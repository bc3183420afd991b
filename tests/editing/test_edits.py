"""Edits, and the shortest scripts between two sequences."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from stepedit import edits
from stepedit.edits import Edit, apply, distances, script, scripts, trajectory
from stepedit.sequences import Sequences


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (Edit(0, 0, ("-",)), "- 3 4"),
        (Edit(2, 2, ("+",)), "3 4 +"),
        (Edit(0, 1, ()), "4"),
        (Edit(1, 2, ("7",)), "3 7"),
        (Edit(0, 2, ("4", "3")), "4 3"),
        (Edit(0, 2, ("1",)), "1"),
    ],
)
def test_an_edit_replaces_a_span(edit: Edit[str], expected: str) -> None:
    assert " ".join(apply(["3", "4"], edit)) == expected


def plain_script(source: list[int], target: list[int]) -> list[Edit[int]]:
    """One pair at a time: fill the table, trace back from the right; keep, substitute, delete, insert."""
    table = [[i + j if 0 in (i, j) else 0 for j in range(len(target) + 1)] for i in range(len(source) + 1)]
    for i in range(1, len(source) + 1):
        for j in range(1, len(target) + 1):
            differs = source[i - 1] != target[j - 1]
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + differs)
    i, j, found = len(source), len(target), []
    while i or j:
        if i and j and source[i - 1] == target[j - 1]:
            i, j = i - 1, j - 1
        elif i and j and table[i - 1][j - 1] + 1 == table[i][j]:
            i, j = i - 1, j - 1
            found.append(Edit(j, j + 1, (target[j],)))
        elif i and table[i - 1][j] + 1 == table[i][j]:
            i -= 1
            found.append(Edit[int](j, j + 1, ()))
        else:
            j -= 1
            found.append(Edit(j, j, (target[j],)))
    return found[::-1]


rows = st.lists(st.integers(1, 4), max_size=9)


@given(st.lists(st.tuples(rows, rows), min_size=1, max_size=20))
def test_scripts_lead_to_the_target_by_the_fewest_edits_and_the_agreed_ties(
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


def test_ties_are_broken_as_in_the_papers_example() -> None:
    found = script(["7", "*", "8", "/", "4", "8", "2", "-", "==", "6"], ["7", "*", "8", "/", "4", "-", "8", "==", "6"])
    assert found == [Edit(5, 6, ()), Edit(5, 6, ("-",)), Edit(6, 7, ("8",))]


@given(st.lists(st.text(max_size=2), max_size=8), st.lists(st.text(max_size=2), max_size=8))
def test_any_tokens_will_do(source: list[str], target: list[str]) -> None:
    assert trajectory(source, script(source, target))[-1] == tuple(target)


def test_a_script_runs_from_left_to_right(rng: np.random.Generator) -> None:
    sources, targets = (Sequences.from_rows(rng.integers(1, 5, (200, 8)).tolist()) for _ in range(2))
    found = scripts(sources, targets)
    for index in range(200):
        edits = found.row(index)
        for before, after in pairwise(edits):
            assert after.start >= before.start + len(before.tokens)


def test_many_long_pairs_are_done_in_parts(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    sources, targets = (Sequences.from_rows([rng.integers(1, 5, n).tolist() for n in range(1, 40)]) for _ in range(2))
    whole, far = scripts(sources, targets), distances(sources, targets)
    monkeypatch.setattr("stepedit.edits.MOST_CELLS", 5_000)
    parts = scripts(sources, targets)
    assert [parts.row(index) for index in range(39)] == [whole.row(index) for index in range(39)]
    assert distances(sources, targets).tolist() == far.tolist()


def test_behind_every_script_stands_an_edit_of_nothing() -> None:
    found = scripts(Sequences.from_rows([[1, 2], [1]]), Sequences.from_rows([[1, 3], [1]]))
    assert found.starts.shape[1] == found.counts.max() + 1
    last = (found.starts[:, -1], found.stops[:, -1], found.widths[:, -1])
    assert not np.any(last)


SHORT = st.lists(st.integers(1, 3), max_size=5)


@given(st.lists(st.tuples(SHORT, SHORT), min_size=1, max_size=8))
def test_closer_names_exactly_the_edits_that_bring_a_text_nearer(pairs: list[tuple[list[int], list[int]]]) -> None:
    sources, targets = (Sequences.from_rows(side) for side in zip(*pairs, strict=True))
    moves = edits.closer(sources, targets)
    named = set(zip(*(part.tolist() for part in (moves.rows, moves.starts, moves.stops, moves.tokens)), strict=True))
    assert len(named) == len(moves.rows)
    for row, (source, target) in enumerate(pairs):
        least = Levenshtein.distance(source, target)
        tokens = sorted({*source, *target})
        possible = {(row, start, start, token) for start in range(len(source) + 1) for token in tokens}
        possible |= {(row, start, start + 1, token) for start in range(len(source)) for token in (0, *tokens)}
        for move in possible:
            brings = (move[3],) if move[3] else ()
            after = edits.apply(source, edits.Edit(move[1], move[2], brings))
            assert (Levenshtein.distance(after, target) < least) == (move in named), (source, target, move)
