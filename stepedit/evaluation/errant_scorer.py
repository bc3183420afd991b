"""Scores of ERRANT (Bryant et al. 2017): its alignment, its error types, its F0.5.

It needs the extra [gec] and a spaCy model. Texts are given to ERRANT as they are, tokens separated by spaces, as in M2.
Edits are compared as its `errant_compare` does by default: span and correction; edits of type UNK and noop do not
count. The reference of a text is chosen by the rule of `edit_metrics`, which is ERRANT's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from stepedit.data.m2 import NOOP, UNKNOWN
from stepedit.errors import UserError
from stepedit.evaluation.edit_metrics import EditCounts, Metrics, as_table, choose_references, rates

LANGUAGE = "en"
INSTALL = "pip install 'stepedit[gec]' && python -m spacy download en_core_web_sm"

TypeCounts = dict[str, EditCounts]
TypedEdits = dict[tuple[int, int, str], str]  # start, stop, correction -> error type
Annotate = Callable[[str, str], TypedEdits]  # (source, text) -> edits


def load() -> Annotate:
    """Return ERRANT's annotation of a pair; UserError if it or its spaCy model is not installed."""
    if find_spec("errant") is None:
        raise UserError(f"ERRANT is not installed: {INSTALL}")
    try:
        annotator = import_module("errant").load(LANGUAGE)
    except OSError as error:  # spaCy's, if there is no model
        raise UserError(f"ERRANT needs a spaCy model: {INSTALL} ({str(error).splitlines()[0]})") from None
    parsed: dict[str, Any] = {}

    def parse(text: str) -> Any:
        if text not in parsed:
            parsed[text] = annotator.parse(text)
        return parsed[text]

    def annotate(source: str, text: str) -> TypedEdits:
        if source == text:
            return {}
        edits = annotator.annotate(parse(source), parse(text))
        return {(each.o_start, each.o_end, each.c_str): each.type for each in edits if each.type not in (NOOP, UNKNOWN)}

    return annotate


def errant_scores(
    annotate: Annotate,
    sources: Sequence[str],
    references: Sequence[Sequence[str]],
    systems: Mapping[str, Sequence[str]],
) -> tuple[dict[str, Metrics], dict[str, TypeCounts]]:
    """Return precision, recall and F0.5 of several systems, and their edits by error type."""
    expected = [[annotate(source, each) for each in texts] for source, texts in zip(sources, references, strict=True)]
    metrics, types = dict[str, Metrics](), dict[str, TypeCounts]()
    for name, texts in systems.items():
        predicted = [annotate(source, text) for source, text in zip(sources, texts, strict=True)]
        metrics[name], types[name] = _score(predicted, expected)
    return metrics, types


def _score(predicted: Sequence[TypedEdits], expected: Sequence[Sequence[TypedEdits]]) -> tuple[Metrics, TypeCounts]:
    counts = [
        [EditCounts(len(own), len(each), len(own.keys() & each.keys())) for each in theirs]
        for own, theirs in zip(predicted, expected, strict=True)
    ]
    chosen = choose_references(counts)
    rows = [each[index] for each, index in zip(counts, chosen, strict=True)]
    references = [theirs[index] for theirs, index in zip(expected, chosen, strict=True)]
    return rates(as_table(rows), "errant_"), _by_type(zip(predicted, references, strict=True))


def _by_type(texts: Iterable[tuple[TypedEdits, TypedEdits]]) -> TypeCounts:
    """Return the edits of each error type; a correct edit has the type that the reference gives it."""
    made, wanted, correct = Counter[str](), Counter[str](), Counter[str]()
    for own, theirs in texts:
        correct.update(theirs[edit] for edit in own.keys() & theirs.keys())
        made.update(theirs.get(edit, kind) for edit, kind in own.items())
        wanted.update(theirs.values())
    return {kind: EditCounts(made[kind], wanted[kind], correct[kind]) for kind in sorted(made | wanted)}
