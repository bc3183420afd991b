"""The confidence threshold: the best F0.5, or the highest recall that leaves clean text alone."""

from typing import Any

import pytest

from stepedit.errors import UserError
from stepedit.evaluation import clean, threshold
from stepedit.evaluation.clean import CleanRates
from stepedit.evaluation.edit_metrics import EditCounts
from stepedit.evaluation.threshold import Choice, CleanText, safest
from stepedit.inference.decoding import Decoding
from stepedit.inference.editor import Editor

CHOICES = [Choice(share / 10, EditCounts(10 - share, 10, 10 - share)) for share in range(10)]


class Untouched(Editor):
    """An editor that nothing is asked of."""

    def __init__(self) -> None:
        """Have no model."""


@pytest.fixture(autouse=True)
def _rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 100 lines of 10 words, (1 - threshold) * 20 lines have one changed word."""

    def measure(_: Editor, lines: list[str], decoding: Decoding) -> CleanRates:
        assert decoding.min_confidence is not None
        changed = round((1 - decoding.min_confidence) * 20)
        return CleanRates(100, 1000, changed, changed)

    monkeypatch.setattr(clean, "measure", measure)


@pytest.mark.parametrize(
    ("limits", "chosen", "changed"),
    [
        ({"max_changed_lines": 0.2}, 0.0, 0.2),
        ({"max_changed_lines": 0.1}, 0.5, 0.1),
        ({"max_changed_lines": 0.09}, 0.6, 0.08),
        ({"max_change_rate": 0.01}, 0.5, 0.1),
        ({"max_change_rate": 0.01, "max_changed_lines": 0.05}, 0.8, 0.04),
    ],
)
def test_the_lowest_threshold_that_leaves_clean_text_alone_is_taken(
    limits: dict[str, Any], chosen: float, changed: float
) -> None:
    found, facts = safest(Untouched(), CHOICES, CleanText(["a"], **limits))
    assert found.min_confidence == chosen
    assert (facts["clean_lines"], facts["changed_lines"]) == (100, changed)
    assert facts["changed_words"] == changed / 10


def test_if_no_threshold_is_safe_that_is_said() -> None:
    with pytest.raises(
        UserError, match=r"no threshold leaves the clean text alone: at 0.9, the highest, 0.20% of its words"
    ):
        safest(Untouched(), CHOICES, CleanText(["a"], max_changed_lines=0.01))


def test_without_clean_text_the_best_f_score_decides() -> None:
    assert threshold.best(CHOICES).min_confidence == 0
