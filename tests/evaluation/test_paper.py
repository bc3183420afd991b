"""The authors' figures, as they stand in the paper's main table."""

import pytest

from stepedit.reference import paper

AOR = {"numbers": 10, "length": 5}


@pytest.mark.parametrize(
    ("method", "mode", "equation"),
    [("recurrence", "online", 0.5853), ("recurrence", "offline", None), ("tagging", "online", None)],
)
def test_the_main_table_is_there(method: str, mode: str, equation: float | None) -> None:
    figures = paper("aor", method, mode, AOR, 10_000)
    assert figures is not None
    assert figures.gpu_hours > 0.1
    assert set(figures.metrics) == {"token", "sequence", "equation"}
    assert equation is None or figures.metrics["equation"] == pytest.approx(equation, abs=1e-4)


def test_aes_has_no_equation_accuracy_and_augmented_is_compared_with_online() -> None:
    figures = paper("aes", "recurrence", "augmented", {"numbers": 100, "length": 5, "division": False}, 10_000)
    assert figures is not None
    assert set(figures.metrics) == {"token", "sequence"}
    assert figures == paper("aes", "recurrence", "online", {"numbers": 100, "length": 5}, 10_000)


def test_a_setting_of_ones_own_has_no_figure() -> None:
    assert paper("aor", "recurrence", "online", AOR, 9_999) is None
    assert paper("aes", "recurrence", "online", {"numbers": 100, "length": 5, "division": True}, 10_000) is None
    assert paper("aec", "recurrence", "online", {**AOR, "errors": 1}, 10_000) is None
    assert paper("sort", "recurrence", "online", {"numbers": 10, "length": 5}, 10_000) is None
