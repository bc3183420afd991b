"""A gate: the text models that come with stepedit leave clean prose alone."""

import re
from pathlib import Path

import pytest

from benchmarks.clean_prose import MAX_CHANGED, text_models
from stepedit.evaluation.clean import changed_spans, measure
from stepedit.inference.editor import Editor
from stepedit.text.noise import help_sentences

WRITTEN = Path(__file__).with_name("clean_prose.txt").read_text(encoding="utf-8").splitlines()
PROSE = {
    "written": WRITTEN,
    "with exclamation marks": [re.sub(r"[.?]$", "!", line) for line in WRITTEN],
    "with ellipses": [re.sub(r"[.?]$", "…", line) for line in WRITTEN],
    "with spaces before marks": [re.sub(r"([.,?])(?=\s|$)", r" \1", line) for line in WRITTEN],
    "help topics": help_sentences()[::8],
}


@pytest.mark.parametrize("title", PROSE)
@pytest.mark.parametrize("name", text_models())
def test_a_text_model_changes_at_most_two_percent_of_clean_sentences(name: str, title: str) -> None:
    assert len(PROSE[title]) >= 80
    rates = measure(Editor.load(name), PROSE[title])
    assert rates.line_rate <= MAX_CHANGED, rates.examples


def test_the_rates_count_changed_lines_and_words() -> None:
    class Shouting:
        """An editor that spoils two words of every line with an a."""

        def edit(self, lines: list[str], decoding: object = None) -> list[object]:
            return [type("Result", (), {"source": line, "text": line.replace("a", "aa")}) for line in lines]

    rates = measure(Shouting(), ["a cat sat", "the dog", "no, a b"])  # type: ignore[arg-type]
    assert (rates.lines, rates.words, rates.changed_lines, rates.changed_words) == (3, 8, 2, 4)
    assert (rates.line_rate, rates.word_rate) == (2 / 3, 4 / 8)
    assert changed_spans("one two three", "one too three four") == [("two", "too"), ("", "four")]
