"""Intervals, against known values and formulas."""

from math import sqrt

import numpy as np
import pytest

from stepedit.evaluation import intervals
from stepedit.evaluation.edit_metrics import EditCounts, f_score, precision_recall, summary
from stepedit.evaluation.evaluate import score
from stepedit.evaluation.intervals import bootstrap, wilson
from stepedit.registry import TASKS


@pytest.mark.parametrize(
    ("successes", "count", "low", "high"),
    [  # known values of Wilson's score interval at 95 %
        (0, 1500, 0.0, 0.0026),
        (1500, 1500, 0.9974, 1.0),
        (15, 20, 0.5313, 0.8881),
        (81, 263, 0.2553, 0.3662),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilsons_interval_has_its_known_values(successes: int, count: int, low: float, high: float) -> None:
    assert wilson(successes / count, count) == pytest.approx((low, high), abs=5e-5)


def test_a_higher_level_gives_a_wider_interval() -> None:
    assert wilson(0.5, 100, 0.99) == pytest.approx((0.3753, 0.6247), abs=5e-5)


def test_the_bootstrap_of_a_mean_is_that_of_the_normal_distribution() -> None:
    values = np.random.default_rng(3).normal(0.3, 0.1, 4_000)
    low, high = bootstrap(values[:, None], lambda sums: sums[..., 0] / len(values))
    half = 1.96 * values.std() / sqrt(len(values))
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.08 * half)
    assert bootstrap(values[:, None], lambda sums: sums[..., 0] / len(values)) == (low, high), "always the same"
    assert intervals.RESAMPLES == 1_000


def test_whole_lines_are_resampled() -> None:
    """Each line has as many correct as predicted edits: precision is 1 in any resample, whatever the lines are."""
    table = np.array([[5, 9, 5], [1, 1, 1], [0, 3, 0]])
    assert bootstrap(table, lambda sums: precision_recall(sums)[0]) == (1.0, 1.0)
    low, high = bootstrap(table, lambda sums: precision_recall(sums)[1])
    assert (low, high) == (0.0, 1.0), "with three lines, some resamples have one of them only"


def test_f_scores_of_arrays_are_those_of_counts() -> None:
    rng = np.random.default_rng(0)
    table = np.array([(max(a, c), max(b, c), c) for a, b, c in rng.integers(0, 4, (300, 3)).tolist()])
    expected = [EditCounts(*row) for row in table.tolist()]
    np.testing.assert_allclose(f_score(table), [each.f_score() for each in expected])
    precision, recall = precision_recall(table)
    np.testing.assert_allclose(precision, [each.precision for each in expected])
    np.testing.assert_allclose(recall, [each.recall for each in expected])


def test_every_figure_of_a_summary_is_inside_its_interval() -> None:
    sources = ["a abxd c d e", "ab", "a b e f g", "xz d e", "q"] * 30
    references = [["a abcd c d e"], ["ab"], ["a c e f g"], ["xyz d e"], ["q"]] * 30
    predictions = ["a abcd d c e", "ab", "a c e f g", "xz d e", "p"] * 30
    figures = summary(sources, references, predictions)
    for value, low, high in figures.values():
        assert low is not None
        assert high is not None
        assert low < value < high
    assert figures["exact"] == (0.4, *wilson(0.4, 150))
    assert figures["cer"][0] == pytest.approx(4 / 31)


@pytest.mark.parametrize("task", TASKS)
def test_scores_of_zero_and_one_have_wilsons_interval_and_others_the_bootstrap(task: str) -> None:
    setting = TASKS[task].from_args({})
    pairs = setting.generate(60, np.random.default_rng(0))
    evaluation = score(setting, pairs.sources, pairs)
    assert tuple(evaluation.means()) == setting.metrics
    mean, low, high = evaluation.figure("sequence")
    assert (low, high) == wilson(mean, 60)
    assert low < high
    for name in set(setting.metrics) & {"token", "f0.5"}:
        mean, low, high = evaluation.figure(name)
        assert low <= mean <= high
        assert (low, high) != wilson(mean, 60)
