"""The authors' results, as in the paper's main table."""

import pytest

from stepedit.evaluation.paper import paper_result

AOR = {"numbers": 10, "length": 5}


@pytest.mark.parametrize(
    ("method", "mode", "equation"),
    [("recurrence", "online", 0.5853), ("recurrence", "offline", None), ("tagging", "online", None)],
)
def test_the_main_table_is_complete(method: str, mode: str, equation: float | None) -> None:
    result = paper_result("aor", method, mode, AOR, 10_000)
    assert result is not None
    assert result.gpu_hours > 0.1
    assert set(result.metrics) == {"token", "sequence", "equation"}
    assert equation is None or result.metrics["equation"] == pytest.approx(equation, abs=1e-4)


def test_aes_has_no_equation_accuracy_and_augmented_is_compared_with_online() -> None:
    result = paper_result("aes", "recurrence", "augmented", {"numbers": 100, "length": 5, "division": False}, 10_000)
    assert result is not None
    assert set(result.metrics) == {"token", "sequence"}
    assert result == paper_result("aes", "recurrence", "online", {"numbers": 100, "length": 5}, 10_000)


def test_a_setting_that_the_authors_did_not_run_has_no_result() -> None:
    assert paper_result("aor", "recurrence", "online", AOR, 9_999) is None
    assert paper_result("aes", "recurrence", "online", {"numbers": 100, "length": 5, "division": True}, 10_000) is None
    assert paper_result("aec", "recurrence", "online", {**AOR, "errors": 1}, 10_000) is None
    assert paper_result("sort", "recurrence", "online", {"numbers": 10, "length": 5}, 10_000) is None
