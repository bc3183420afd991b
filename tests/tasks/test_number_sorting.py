"""Number sorting by swaps of neighbors, as in the paper's first figure."""

from collections import Counter
from math import comb

import numpy as np

from stepedit.editing.edits import trajectory
from stepedit.registry import TASKS


def test_the_trajectory_is_that_of_the_papers_figure() -> None:
    task = TASKS["sort"]()
    pairs = task.encode(["0 2 1 4 3 5"], ["0 1 2 3 4 5"])
    edits = task.edits(pairs.sources, pairs.targets).row(0)
    assert [edit.start for edit in edits] == [1, 3]
    texts = [task.vocabulary.text(state) for state in trajectory(pairs.sources.rows()[0], edits)]
    assert texts == ["0 2 1 4 3 5", "0 1 2 4 3 5", "0 1 2 3 4 5"]


def bubble_sort(values: list[int]) -> list[int]:
    """Return the positions of bubble sort's swaps, in order."""
    values, positions = list(values), []
    for _ in values:
        for index in range(len(values) - 1):
            if values[index] > values[index + 1]:
                values[index], values[index + 1] = values[index + 1], values[index]
                positions.append(index)
    return positions


def test_swaps_are_those_of_bubble_sort(rng: np.random.Generator) -> None:
    task = TASKS["sort"].from_args({"numbers": 9, "length": 7})
    pairs = task.generate(300, rng)
    scripts = task.edits(pairs.sources, pairs.targets)
    for index, row in enumerate(pairs.sources.rows()):
        assert [edit.start for edit in scripts.row(index)] == bubble_sort(row)


def test_texts_of_different_lengths_are_sorted_in_one_batch() -> None:
    task = TASKS["sort"]()
    pairs = task.encode(["3 1 2", "2 1", "7"], ["1 2 3", "1 2", "7"])
    scripts = task.edits(pairs.sources, pairs.targets)
    assert [[edit.start for edit in scripts.row(index)] for index in range(3)] == [[0, 1], [0], []]
    assert task.check(pairs.sources, pairs.targets).all()


def test_all_sorted_lists_can_be_sampled(rng: np.random.Generator) -> None:
    total = comb(6, 3)
    targets = TASKS["sort"].from_args({"numbers": 4, "length": 3}).generate_targets(total, rng)
    assert len({tuple(row) for row in targets.rows()}) == total
    assert (np.diff(targets.ids, axis=1) >= 0).all()


def test_sorted_lists_are_uniformly_sampled() -> None:
    task = TASKS["sort"].from_args({"numbers": 5, "length": 2})
    rng = np.random.default_rng(4)
    seen = Counter(tuple(row - np.arange(2)) for _ in range(10) for row in task._choices(rng))
    wide = TASKS["sort"].from_args({"numbers": 40, "length": 2})
    seen_wide = Counter(tuple(row - np.arange(2)) for _ in range(10) for row in wide._choices(rng))
    for counts, total in ((seen, comb(6, 2)), (seen_wide, comb(41, 2))):
        mean = counts.total() / total
        assert len(counts) == total
        assert sum((count - mean) ** 2 / mean for count in counts.values()) < total - 1 + 5 * np.sqrt(2 * total)


def test_a_hundred_thousand_numbers_can_be_sampled(rng: np.random.Generator) -> None:
    targets = TASKS["sort"].from_args({"numbers": 100_000}).generate_targets(10_000, rng)
    assert len(targets.distinct()) == 10_000


def test_a_large_setting_is_sampled_not_enumerated(rng: np.random.Generator) -> None:
    targets = TASKS["sort"].from_args({"numbers": 200, "length": 8}).generate_targets(5_000, rng)
    assert len({tuple(row) for row in targets.rows()}) == 5_000
    assert (np.diff(targets.ids, axis=1) >= 0).all()
