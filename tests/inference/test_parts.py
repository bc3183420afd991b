"""Parts of a batch: every text is in one, and results come back in order."""

import threading

import numpy as np
import pytest

from stepedit.editing.sequences import Sequences
from stepedit.inference.editor import Editor
from stepedit.inference.parts import MAX_PART, MIN_PART, Parts, part_bounds


@pytest.mark.parametrize("num_threads", [1, 2, 5])
@pytest.mark.parametrize("num_texts", [0, 1, 2, 7, 64, 1_000])
@pytest.mark.parametrize("width", [0, 1, 9, 3_000])
def test_parts_cover_the_batch_and_fit_the_cache(num_texts: int, width: int, num_threads: int) -> None:
    bounds = part_bounds(num_texts, width, num_threads)
    sizes = np.diff(bounds)
    assert (bounds[0], bounds[-1]) == (0, num_texts)
    assert sizes.min() >= min(num_texts, 1)
    assert sizes.max() - sizes.min() <= 1
    assert sizes.max() == 1 or (sizes.max() - 1) * (width + 1) < MAX_PART
    if 1 < len(sizes) < num_texts:
        assert len(sizes) % num_threads == 0


def test_a_small_batch_is_one_part() -> None:
    assert part_bounds(1, 10_000, 4) == [0, 1], "a text is not split"
    assert part_bounds(MIN_PART // 8 - 1, 7, 4) == [0, MIN_PART // 8 - 1]
    assert part_bounds(2 * MIN_PART // 8, 7, 2) == [0, MIN_PART // 8, 2 * MIN_PART // 8]
    assert part_bounds(MAX_PART // 8, 7, 1) == [0, MAX_PART // 8]


def test_parts_run_at_the_same_time_and_come_back_in_order() -> None:
    together = threading.Barrier(2, timeout=10)

    def function(texts: Sequences) -> list[int]:
        together.wait()
        return texts.lengths.tolist()

    lengths = [*range(1, 25)]
    found = Parts(2).map(function, Sequences.from_rows([[1] * length for length in lengths]))
    assert len(found) == 2
    assert [length for part in found for length in part] == lengths


@pytest.mark.parametrize("name", ["aor", "spelling", "punctuation"])
def test_predictions_do_not_depend_on_the_number_of_threads(name: str) -> None:
    one, three = (Editor.load(name, num_threads=count) for count in (1, 3))
    rows = np.random.default_rng(0).integers(2, 14, (200, 12))
    lengths = np.arange(200) % 13
    texts = Sequences(np.where(np.arange(12) < lengths[:, None], rows, 0), lengths)
    for first, second in (
        (one.policy.predict(texts), three.policy.predict(texts)),
        (one.policy.top_k(texts, 6), three.policy.top_k(texts, 6)),
    ):
        assert np.array_equal(first[0], second[0])
        np.testing.assert_allclose(np.exp(first[1]), np.exp(second[1]), atol=1e-5)
