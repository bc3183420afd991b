"""The confidence threshold: chosen on validation for the best F0.5 and kept beside the weights.

One greedy run with a trace gives the result at any threshold: editing would have stopped before the first step whose
confidence is below it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import numpy as np

from stepedit.data.dataset import load_splits
from stepedit.editing.edits import replay
from stepedit.editing.interpreter import Outcome
from stepedit.editing.sequences import Pairs
from stepedit.errors import UserError
from stepedit.evaluation import edit_metrics
from stepedit.evaluation.edit_metrics import EditCounts
from stepedit.files import write_json
from stepedit.inference import model_folder
from stepedit.inference.editor import Editor
from stepedit.inference.predict import predict
from stepedit.tasks.base import Progress

NUM_THRESHOLDS = 50


@dataclass(frozen=True)
class Choice:
    """A threshold and the edits at that threshold."""

    min_confidence: float
    counts: EditCounts


def tune(folder: Path, progress: Progress | None = None) -> list[Choice]:
    """Return the results of several thresholds on validation, the first of them 0, and write the best to the folder."""
    path = model_folder.find(folder)
    if model_folder.is_shipped(path):
        raise UserError("a model that comes with stepedit can't be changed; export it to a folder of your own first")
    editor = Editor.load(path)
    if editor.method.task.objective != "f0.5":
        raise UserError(
            f"tune chooses the threshold with the best F0.5, which means nothing for task {editor.run.task} "
            f"(its objective is {editor.method.task.objective})"
        )
    if not editor.method.iterative:
        raise UserError(f"a confidence threshold needs actions, which {editor.method.name} has none of")
    pairs = load_splits(editor.run, editor.method.task, folder=path)["val"]
    outcomes = predict(editor.policy, editor.method, pairs.sources.rows(), trace=True, progress=progress)
    confidences = sorted({step.confidence for outcome in outcomes for step in outcome.trace})
    if not confidences:
        raise UserError("the model edits nothing on validation, so there is nothing to tune")
    tried = np.quantile(confidences, np.linspace(0, 1, NUM_THRESHOLDS), method="nearest").tolist()
    choices = [Choice(threshold, _counts(pairs, outcomes, threshold)) for threshold in dict.fromkeys([0.0, *tried])]
    found = best(choices)
    value = {"min_confidence": found.min_confidence, "f0.5": found.counts.f_score(), "split": "val"}
    write_json(path / model_folder.TUNED, value)
    return choices


def best(choices: list[Choice]) -> Choice:
    """Return the choice with the highest F0.5; of equal ones the one with the most edits."""
    return max(choices, key=lambda choice: (choice.counts.f_score(), -choice.min_confidence))


def _counts(pairs: Pairs, outcomes: list[Outcome], threshold: float) -> EditCounts:
    rows = zip(pairs.sources.rows(), pairs.targets.rows(), outcomes, strict=True)
    return edit_metrics.total(
        [
            edit_metrics.count_edits(source, target, _until(source, outcome, threshold))
            for source, target, outcome in rows
        ]
    )


def _until(source: list[int], outcome: Outcome, threshold: float) -> list[int]:
    """Return the text before the first step below the threshold."""
    sure = takewhile(lambda step: step.confidence >= threshold, outcome.trace)
    return list(deque(replay(source, (step.edit for step in sure)), maxlen=1).pop())
