"""The confidence threshold: the best F0.5, or the highest recall that leaves clean text alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from stepedit.data.dataset import Loaded
from stepedit.data.readers import Lines
from stepedit.errors import UserError
from stepedit.evaluation import clean, threshold
from stepedit.evaluation.clean import CleanRates
from stepedit.evaluation.edit_metrics import EditCounts, count_edits, total
from stepedit.evaluation.threshold import Choice, CleanText, safest
from stepedit.inference import model_folder
from stepedit.inference.decoding import Decoding
from stepedit.inference.editor import Editor
from stepedit.text.tokenization import words_and_marks

CHOICES = [Choice(share / 10, EditCounts(10 - share, 10, 10 - share)) for share in range(10)]


class Untouched(Editor):
    """An editor that nothing is asked of."""

    def __init__(self) -> None:
        """Have no model."""


@pytest.fixture
def _rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 100 lines of 10 words, (1 - threshold) * 20 lines have one changed word."""

    def measure(_: Editor, lines: list[str], decoding: Decoding) -> CleanRates:
        assert decoding.min_confidence is not None
        changed = round((1 - decoding.min_confidence) * 20)
        return CleanRates(100, 1000, changed, changed)

    monkeypatch.setattr(clean, "measure", measure)


@pytest.mark.usefixtures("_rates")
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
    found = safest(Untouched(), CHOICES, CleanText(["a"], **limits))
    assert found.min_confidence == chosen
    assert found.clean is not None
    assert (found.clean.lines, found.clean.line_rate) == (100, changed)
    assert found.clean.word_rate == changed / 10


@pytest.mark.usefixtures("_rates")
def test_if_no_threshold_is_safe_that_is_said() -> None:
    with pytest.raises(
        UserError,
        match=r"no threshold leaves the clean text alone: at 0.9, the highest confidence on validation, 0.20% of its w",
    ):
        safest(Untouched(), CHOICES, CleanText(["a"], max_changed_lines=0.01))


def test_without_clean_text_the_best_f_score_decides() -> None:
    assert threshold.best(CHOICES).min_confidence == 0


def test_of_equal_thresholds_the_one_with_the_most_edits_is_best() -> None:
    equal = [Choice(share, EditCounts(4, 4, 2)) for share in (0.1, 0.2, 0.3)]
    better = Choice(0.4, EditCounts(2, 4, 2))
    assert threshold.best(equal).min_confidence == 0.1
    assert threshold.best([*equal, better]) is better


WORDS = {
    "spelling": [
        ("teh", "the"),
        ("recieve", "receive"),
        ("abotu", "about"),
        ("becuase", "because"),
        ("wierd", "weird"),
    ],
    "punctuation": [
        ("what is the name of the largest river in europe", "What is the name of the largest river in Europe?"),
        ("the tower was built in 1889", "The tower was built in 1889."),
        ("Where is it?", "Where is it?"),
    ],
}


def validate_on(monkeypatch: pytest.MonkeyPatch, *pairs: tuple[str, str]) -> None:
    """Let these pairs be the validation split of any run."""
    lines = Lines(*map(list, zip(*pairs, strict=True)))
    monkeypatch.setattr(threshold, "load", lambda _, task, **__: Loaded.encode(task, {"val": lines}, "val"))


@pytest.fixture(params=WORDS)
def copy(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Editor:
    """A copy of an included text model without a threshold, and a few pairs to validate it on."""
    model_folder.export(model_folder.find(request.param), tmp_path / "copy")
    (tmp_path / "copy" / model_folder.TUNED).unlink()
    validate_on(monkeypatch, *WORDS[request.param])
    return Editor.load(tmp_path / "copy")


def edits_at(editor: Editor, pairs: list[tuple[str, str]], min_confidence: float) -> EditCounts:
    """Edit with a threshold and count, without any shortcut."""
    results = editor.edit([source for source, _ in pairs], Decoding(min_confidence=min_confidence))
    texts = [(source, target, result.text) for (source, target), result in zip(pairs, results, strict=True)]
    return total([count_edits(*map(words_and_marks, row)) for row in texts])


def test_the_edits_at_each_threshold_are_those_of_editing_with_it(copy: Editor) -> None:
    assert copy.folder is not None
    choices, found = threshold.tune(copy.folder)
    pairs = next(pairs for name, pairs in WORDS.items() if (name == "spelling") == (copy.keep is not None))
    assert choices[0].min_confidence == 0
    assert len(choices) > 2
    # with a word list, a threshold also adds what it stops to the probability of stopping: nearly the same in between
    for choice in choices if copy.keep is None else (choices[0], choices[-1]):
        assert choice.counts == edits_at(copy, pairs, choice.min_confidence), choice.min_confidence
    assert choices[0].counts.predicted > choices[-1].counts.predicted
    assert found is threshold.best(choices)
    stored = json.loads((copy.folder / "tuned.json").read_text())
    assert stored == {
        "min_confidence": found.min_confidence,
        "tuned_for": "f0.5",
        "precision": found.counts.precision,
        "recall": found.counts.recall,
        "f0.5": found.counts.f_score(),
        "split": "val",
    }


def test_with_clean_text_the_chosen_threshold_says_what_it_does_to_it(copy: Editor) -> None:
    assert copy.folder is not None
    lines = ["the cat sat", "teh dog"]
    choices, found = threshold.tune(copy.folder, clean_text=CleanText(lines, max_changed_lines=1.0))
    assert found in choices
    assert found.min_confidence == 0
    assert found.clean == clean.measure(copy, lines, Decoding(min_confidence=0))
    stored = json.loads((copy.folder / "tuned.json").read_text())
    assert (stored["clean_lines"], stored["clean_words"]) == (2, 5)
    assert (stored["changed_lines"], stored["changed_words"]) == (found.clean.line_rate, found.clean.word_rate)


@pytest.mark.parametrize("copy", ["spelling"], indirect=True)
def test_of_several_references_the_best_one_counts(copy: Editor, monkeypatch: pytest.MonkeyPatch) -> None:
    assert copy.folder is not None
    lines = Lines(["teh", "teh", "wich", "wich"], ["ten", "the", "which", "witch"], groups=[0, 0, 1, 1])
    monkeypatch.setattr(threshold, "load", lambda _, task, **__: Loaded.encode(task, {"val": lines}))
    choices, _ = threshold.tune(copy.folder)
    assert [result.text for result in copy.edit(["teh", "wich"])] == ["the", "which"]
    assert choices[0].counts == EditCounts(predicted=2, reference=2, correct=2)


@pytest.mark.parametrize("copy", ["spelling"], indirect=True)
def test_tuning_is_refused_where_it_means_nothing(copy: Editor, monkeypatch: pytest.MonkeyPatch) -> None:
    assert copy.folder is not None
    validate_on(monkeypatch, ("the cat sat on teh mat", "the cat sat on the mat"))
    with pytest.raises(UserError, match="tune it on pairs of single words"):
        threshold.tune(copy.folder)
    validate_on(monkeypatch, ("the", "the"))
    with pytest.raises(UserError, match="the model edits nothing on validation"):
        threshold.tune(copy.folder)
    assert not (copy.folder / "tuned.json").exists()
