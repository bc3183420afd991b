"""How much of a clean text a model changes."""

from types import SimpleNamespace
from typing import Any

import pytest

from stepedit.evaluation import clean
from stepedit.evaluation.clean import CleanRates, changed_spans, measure


class Shouting:
    """Writes `x` as two words, and drops `y`."""

    def edit(self, lines: list[str], decoding: Any) -> list[SimpleNamespace]:
        return [SimpleNamespace(source=line, text=line.replace("x", "x !").replace(" y", "")) for line in lines]


def test_changed_lines_and_words_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean, "BATCH_LINES", 2)
    found = measure(Shouting(), ["a b c", "a x c d", "x", "a y", "x y"])  # type: ignore[arg-type]
    assert (found.lines, found.words) == (5, 12)
    assert (found.changed_lines, found.line_rate) == (4, 0.8)
    assert (found.changed_words, found.word_rate) == (4, 4 / 12)
    assert len(found.examples) == 4


def test_a_few_examples_are_kept() -> None:
    found = measure(Shouting(), ["x"] * 30)  # type: ignore[arg-type]
    assert (found.changed_words, len(found.examples)) == (30, clean.EXAMPLES)


@pytest.mark.parametrize(
    ("source", "result", "spans"),
    [
        ("a b c", "a b c", []),
        ("a b c", "a d c", [("b", "d")]),
        ("a b", "b", [("a", "")]),
        ("a", "a b", [("", "b")]),
        ("a b c d", "e f c g", [("a b", "e f"), ("d", "g")]),
    ],
)
def test_changes_are_told_word_by_word(source: str, result: str, spans: list[tuple[str, str]]) -> None:
    assert changed_spans(source, result) == spans


def test_no_text_has_no_rates_that_cannot_be_computed() -> None:
    none = CleanRates(0, 0, 0, 0)
    assert (none.line_rate, none.word_rate) == (0, 0)
