"""Sampled equations are true, distinct and uniform; a request for too many is refused."""

import tracemalloc
from collections import Counter

import numpy as np
import pytest

from stepedit.arithmetic import equations, sampling
from stepedit.arithmetic.counting import count_true
from stepedit.arithmetic.sampling import sample
from stepedit.errors import DataError
from tests.arithmetic.reference import VOCABULARY, all_equations, is_true

SMALL_SETTINGS = [(10, 2), (1, 3), (1, 4), (2, 5), (3, 4), (5, 3), (7, 4), (3, 6)]


@pytest.mark.parametrize(("numbers", "length"), SMALL_SETTINGS)
def test_the_count_equals_that_of_a_full_enumeration(numbers: int, length: int) -> None:
    assert count_true(numbers, length) == len(all_equations(numbers, length))


def test_the_papers_main_setting_has_84379_equations() -> None:
    assert count_true(10, 5) == 84_379


def test_a_setting_too_large_to_count_gives_none() -> None:
    assert count_true(300, 9) is None
    assert count_true(2, 60) is None


def test_all_equations_can_be_sampled_and_not_one_more(rng: np.random.Generator) -> None:
    every = all_equations(5, 4)
    assert set(VOCABULARY.decode(sample(len(every), 5, 4, rng))) == every
    with pytest.raises(DataError, match=f"exactly {len(every):,}"):
        sample(len(every) + 1, 5, 4, rng)


@pytest.mark.parametrize(
    ("size", "numbers", "length", "count"),
    [(84_380, 10, 5, "exactly 84,379"), (2_336_526, 10, 6, "exactly 2,336,525"), (10**10, 100, 5, "about")],
)
def test_a_size_that_is_too_large_is_refused_with_the_count(
    size: int, numbers: int, length: int, count: str, rng: np.random.Generator
) -> None:
    with pytest.raises(DataError, match=count):
        sample(size, numbers, length, rng)


def test_equations_too_rare_to_sample_are_refused_instead_of_searched_for_ever(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "MIN_DRAWN", 1 << 24)
    with pytest.raises(DataError, match="too rare to be sampled"):
        sample(5, 1_000, 500, rng)


@pytest.mark.parametrize(("size", "numbers", "length"), [(0, 10, 5), (5, 0, 5), (5, 10, 1), (-3, 10, 5)])
def test_invalid_settings_are_refused(size: int, numbers: int, length: int, rng: np.random.Generator) -> None:
    with pytest.raises(DataError):
        sample(size, numbers, length, rng)


@pytest.mark.parametrize(
    ("size", "numbers", "length"), [(2_000, 10, 5), (3_000, 100, 5), (500, 300, 9), (50, 40, 12), (40, 1, 9)]
)
def test_sampled_equations_are_true_distinct_and_of_the_setting(
    size: int, numbers: int, length: int, rng: np.random.Generator
) -> None:
    sampled = sample(size, numbers, length, rng)
    lines = VOCABULARY.decode(sampled)
    assert len({line.split("==")[0] for line in lines}) == size
    assert all(is_true(line) for line in lines)
    integers = equations.integers_of(sampled)
    assert (integers.lengths == length).all()
    assert integers.ids.min() >= equations.ZERO + 2
    assert integers.ids.max() <= equations.ZERO + numbers + 1


def test_all_equations_of_a_large_setting_can_be_sampled(rng: np.random.Generator) -> None:
    """If most equations are requested, all left sides are enumerated instead of sampled."""
    numbers, length = 12, 5
    total = count_true(numbers, length)
    assert total is not None
    sampled = sample(total, numbers, length, rng)
    assert len(np.unique(sampled.ids, axis=0)) == total


def test_the_same_seed_gives_the_same_equations_and_another_seed_others() -> None:
    first, again, other = (sample(1_000, 30, 5, np.random.default_rng(seed)) for seed in (7, 7, 8))
    assert first.equals(again).all()
    assert not first.equals(other).all()


def test_sampled_equations_are_uniformly_distributed() -> None:
    """Chi-square test over the equations of a setting that is sampled, not enumerated."""
    every = sorted(all_equations(4, 4))
    rng = np.random.default_rng(5)
    seen: Counter[str] = Counter()
    for _ in range(20):
        codes = sampling._draw(20_000, 4, 4, rng)
        seen.update(VOCABULARY.decode(sampling._true_ones(codes, 4)))
    assert set(seen) == set(every)
    expected = sum(seen.values()) / len(every)
    chi_square = sum((seen[line] - expected) ** 2 / expected for line in every)
    freedom = len(every) - 1
    assert chi_square < freedom + 5 * np.sqrt(2 * freedom)


@pytest.mark.parametrize(("numbers", "length"), [(10, 9), (300, 9), (10, 30), (100_000, 6)])
@pytest.mark.parametrize("prime", [sampling.PRIME, sampling._prime_below(sampling.PRIME)])
def test_residues_are_exact_for_long_runs_of_divisions(numbers: int, length: int, prime: int) -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 4 * numbers, (length - 1, 4_000))
    codes[1:, ::2] = rng.integers(3 * numbers, 4 * numbers, (length - 2, 2_000))  # only divisions
    codes[0] %= numbers
    found = sampling._residues(codes, numbers, prime)
    for column in range(0, codes.shape[1], 7):
        total, term = 0, 0
        for code in codes[:, column].tolist():
            operator, integer = divmod(code, numbers)
            if operator < 2:
                total, term = total + term, (integer + 2) * (-1) ** operator
            else:
                term *= integer + 2 if operator == 2 else pow(integer + 2, -1, prime)
        assert found[column] == (total + term) % prime


def test_an_equation_of_many_divisions_is_found() -> None:
    """7 / 5 / 9 / 7 / 9 * 9 * 10 * 9 == 2"""
    parts = [(0, 7), (3, 5), (3, 9), (3, 7), (3, 9), (2, 9), (2, 10), (2, 9)]
    codes = np.array([[operator * 10 + integer - 2] for operator, integer in parts])
    assert VOCABULARY.decode(sampling._true_ones(codes, 10)) == ["7 / 5 / 9 / 7 / 9 * 9 * 10 * 9 == 2"]


def test_memory_stays_bounded_for_large_settings(rng: np.random.Generator) -> None:
    tracemalloc.start()
    try:
        sample(2_000, 300, 9, rng)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20


def test_progress_is_monotonic_and_reaches_the_size(rng: np.random.Generator) -> None:
    calls: list[tuple[int, int]] = []
    sample(20_000, 100, 5, rng, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (20_000, 20_000)
    assert all(0 <= done <= total == 20_000 for done, total in calls)
    assert calls == sorted(calls)
