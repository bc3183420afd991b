"""How sure a programmer has to be of an edit: chosen on validation for the best F0.5, kept beside the weights.

One greedy run with its steps tells what would come of any least confidence: editing would have stopped before the first
step that it was less sure of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stepedit import checkpoints, text_metrics
from stepedit.editor import Editor
from stepedit.errors import UserError
from stepedit.evaluation import predict
from stepedit.interpreter import Outcome
from stepedit.methods.recurrence import Recurrence
from stepedit.sequences import Pairs
from stepedit.text_metrics import Counts
from stepedit.training import load_pairs

CHOICES = 50


@dataclass(frozen=True)
class Choice:
    """What comes of a least confidence."""

    least: float
    counts: Counts


def tune(folder: Path, progress: Callable[[int, int], None] | None = None) -> list[Choice]:
    """What comes of several least confidences on validation; the best is written down. The first is 0."""
    place = checkpoints.find(folder)
    if checkpoints.is_shipped(place):
        raise UserError("a model that comes with stepedit stays as it came; export it to a folder of your own first")
    editor = Editor.load(place)
    if not isinstance(editor.method, Recurrence):
        raise UserError(f"a least confidence is for actions, which {editor.method.name} has none of")
    pairs = load_pairs(editor.run)["val"]
    outcomes = predict(editor.programmer, editor.method, pairs.sources.rows(), trace=True, progress=progress)
    sure = sorted({step.confidence for outcome in outcomes for step in outcome.trace})
    if not sure:
        raise UserError("the programmer edits nothing on validation, so there is nothing to tune")
    tried = np.quantile(sure, np.linspace(0, 1, CHOICES), method="nearest").tolist()
    choices = [Choice(least, _counts(pairs, outcomes, least)) for least in dict.fromkeys([0.0, *tried])]
    found = best(choices)
    value = {"min_confidence": found.least, "f0.5": found.counts.f(), "split": "val"}
    checkpoints.write_json(place / checkpoints.TUNED, value)
    return choices


def best(choices: list[Choice]) -> Choice:
    """The highest F0.5; of several, the one that edits most."""
    return max(choices, key=lambda choice: (choice.counts.f(), -choice.least))


def _counts(pairs: Pairs, outcomes: list[Outcome], least: float) -> Counts:
    rows = zip(pairs.sources.rows(), pairs.targets.rows(), outcomes, strict=True)
    return text_metrics.total(
        [text_metrics.counts(source, target, _until(source, outcome, least)) for source, target, outcome in rows]
    )


def _until(source: list[int], outcome: Outcome, least: float) -> list[int]:
    """The text before the first step that is not sure enough."""
    state = source
    for step in outcome.trace:
        if step.confidence < least:
            break
        state = list(step.state)
    return state
