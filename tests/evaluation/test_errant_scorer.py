"""ERRANT's scores, with a module that stands in for it: words are its tokens, and each changed span is an edit."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from stepedit.editing.edits import edit_spans
from stepedit.errors import UserError
from stepedit.evaluation import errant_scorer
from stepedit.evaluation.edit_metrics import EditCounts
from stepedit.evaluation.errant_scorer import errant_scores

SOURCES = ["this are a cat", "fine here", "he go home"]
REFERENCES = [["this is a cat", "these are a cat"], ["fine here"], ["he goes home ."]]


class Annotator:
    """As `errant.Annotator`: parse a text, and annotate a pair of them."""

    def parse(self, text: str) -> list[str]:
        return text.split()

    def annotate(self, source: list[str], text: list[str]) -> list[Any]:
        kinds = {"is": "R:VERB:SVA", "goes": "R:VERB:SVA", ".": "M:PUNCT", "odd": "UNK"}
        return [
            SimpleNamespace(o_start=edit.start, o_end=edit.stop, c_str=" ".join(edit.tokens), type=kind)
            for edit in edit_spans(source, text)
            for kind in [kinds.get(" ".join(edit.tokens), "R:OTHER")]
        ]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("errant")
    module.__spec__ = ModuleSpec("errant", None)
    module.load = {"en": Annotator()}.__getitem__  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "errant", module)
    return module


def test_its_edits_are_scored_with_the_best_reference_and_by_type(fake: ModuleType) -> None:
    systems = {"edited": ["these are a cat", "fine odd", "he goes house"], "nothing": SOURCES}
    metrics, types = errant_scores(errant_scorer.load(), SOURCES, REFERENCES, systems)
    # right: these; wrong: goes house (one span); missed: goes and the full stop; an edit of type UNK does not count
    assert types["edited"] == {
        "M:PUNCT": EditCounts(0, 1, 0),
        "R:OTHER": EditCounts(2, 1, 1),
        "R:VERB:SVA": EditCounts(0, 1, 0),
    }
    figures = {name: figure[0] for name, figure in metrics["edited"].items()}
    assert figures == pytest.approx({"errant_precision": 1 / 2, "errant_recall": 1 / 3, "errant_f0.5": 5 / 11})
    assert metrics["nothing"]["errant_f0.5"][0] == 0.0


def test_without_errant_or_its_model_one_line_says_what_to_install(
    fake: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_model(_: str) -> None:
        raise OSError("[E050] Can't find model 'en_core_web_sm'.\nMore lines.")

    monkeypatch.setattr(fake, "load", no_model)
    with pytest.raises(UserError, match=r"needs a spaCy model: .*spacy download en_core_web_sm \(\[E050\]") as caught:
        errant_scorer.load()
    assert "\n" not in str(caught.value)
    monkeypatch.setattr(errant_scorer, "find_spec", lambda _: None)
    with pytest.raises(UserError, match=r"ERRANT is not installed: pip install 'stepedit\[gec\]'"):
        errant_scorer.load()
