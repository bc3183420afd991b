"""The confidence threshold: chosen on validation and kept beside the weights.

Without clean text, the threshold has the best F0.5. With clean text, it is the lowest one at which the model leaves
that text alone, as far as is asked: the highest recall that is safe.

One run with a trace gives the result at any threshold: editing would have stopped before the first step whose
confidence is below it. With a word list, the confidence is that of all edits of a word together, and below it the word
would have stayed.
"""

from __future__ import annotations

import warnings
from bisect import bisect_left
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path
from typing import Any

import numpy as np

from stepedit.data.dataset import Loaded, load
from stepedit.editing.interpreter import Outcome
from stepedit.editing.sequences import Pairs, Sequences
from stepedit.errors import DataWarning, UserError
from stepedit.evaluation import clean
from stepedit.evaluation.clean import CleanRates
from stepedit.evaluation.edit_metrics import EditCounts
from stepedit.evaluation.evaluate import References, score
from stepedit.files import write_json
from stepedit.inference import model_folder
from stepedit.inference.decoding import Decoding
from stepedit.inference.editor import Editor
from stepedit.inference.predict import predict
from stepedit.tasks.base import Progress

NUM_THRESHOLDS = 50


@dataclass(frozen=True)
class Choice:
    """A threshold, the edits at that threshold and, of the one chosen with clean text, what it does to that text."""

    min_confidence: float
    counts: EditCounts
    clean: CleanRates | None = None


@dataclass(frozen=True)
class CleanText:
    """Lines that need no edit, and the largest shares of words and lines that may be changed."""

    lines: list[str]
    max_change_rate: float = 1.0
    max_changed_lines: float = 1.0

    def allows(self, rates: CleanRates) -> bool:
        """Whether a model that changes so much leaves the text alone."""
        return rates.word_rate <= self.max_change_rate and rates.line_rate <= self.max_changed_lines


def tune(
    folder: Path, progress: Progress | None = None, clean_text: CleanText | None = None
) -> tuple[list[Choice], Choice]:
    """Return the results of several thresholds on validation, the first of them 0, and the best, which is stored."""
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
    pairs, references = _validation(editor, path)
    rows = pairs.sources.rows()
    segments = editor.method.task.segments
    if editor.keep is not None and any(len(segments(row, editor.method.task.vocabulary)) > 1 for row in rows):
        raise UserError("with a list of words, the threshold is that of a word; tune it on pairs of single words")
    outcomes = predict(editor.policy, editor.method, rows, trace=True, progress=progress, keep=editor.keep)
    confidences = sorted({found for outcome in outcomes for found in _confidences(editor, outcome)})
    if not confidences:
        raise UserError("the model edits nothing on validation, so there is nothing to tune")
    tried = np.quantile(confidences, np.linspace(0, 1, NUM_THRESHOLDS), method="nearest").tolist()
    choices = [
        Choice(threshold, _counts(editor, pairs, references, outcomes, threshold))
        for threshold in dict.fromkeys([0.0, *tried])
    ]
    found = best(choices) if clean_text is None else safest(editor, choices, clean_text)
    choices = [found if choice.min_confidence == found.min_confidence else choice for choice in choices]
    counts = found.counts
    value = {
        "min_confidence": found.min_confidence,
        "tuned_for": "f0.5" if clean_text is None else "recall, with clean text left alone",
        "precision": counts.precision,
        "recall": counts.recall,
        "f0.5": counts.f_score(),
        "split": "val",
    }
    try:
        write_json(path / model_folder.TUNED, value | _clean_facts(found.clean, clean_text))
    except OSError as error:
        message = f"{path} cannot be written ({error.strerror}); the threshold is shown, but not stored"
        warnings.warn(message, DataWarning, stacklevel=2)
    return choices, found


def _validation(editor: Editor, path: Path) -> tuple[Pairs, References | None]:
    """Return the validation pairs and, where texts have several, their references; the best one counts, as in tests."""
    task = editor.method.task
    loaded = load(editor.run, task, folder=path)
    if "val" in loaded.read and loaded.read["val"].groups is not None:
        loaded = Loaded.encode(task, loaded.read, "val")
    return loaded.pairs["val"], loaded.references("val")


def best(choices: list[Choice]) -> Choice:
    """Return the choice with the highest F0.5; of equal ones the one with the most edits."""
    return max(choices, key=lambda choice: (choice.counts.f_score(), -choice.min_confidence))


def safest(editor: Editor, choices: list[Choice], clean_text: CleanText) -> Choice:
    """Return the lowest threshold that leaves clean text alone, and what it does to it; UserError if there is none.

    A higher threshold makes fewer edits, so the lowest one is found by bisection.
    """
    measured = dict[float, CleanRates]()

    def is_safe(choice: Choice) -> bool:
        decoding = Decoding(min_confidence=choice.min_confidence)
        measured[choice.min_confidence] = clean.measure(editor, clean_text.lines, decoding)
        return clean_text.allows(measured[choice.min_confidence])

    index = bisect_left(choices, True, key=is_safe)
    if index == len(choices):
        rates = measured[choices[-1].min_confidence]
        raise UserError(
            f"no threshold leaves the clean text alone: at {choices[-1].min_confidence:.4g}, the highest confidence on "
            f"validation, {rates.word_rate:.2%} of its words and {rates.line_rate:.2%} of its lines are changed"
        )
    return replace(choices[index], clean=measured[choices[index].min_confidence])


def _clean_facts(rates: CleanRates | None, clean_text: CleanText | None) -> dict[str, Any]:
    """Return what is stored about clean text, if there was some."""
    if rates is None or clean_text is None:
        return {}
    return {
        "clean_lines": rates.lines,
        "clean_words": rates.words,
        "changed_lines": rates.line_rate,
        "changed_words": rates.word_rate,
        "max_changed_lines": clean_text.max_changed_lines,
        "max_change_rate": clean_text.max_change_rate,
    }


def _counts(
    editor: Editor, pairs: Pairs, references: References | None, outcomes: list[Outcome], threshold: float
) -> EditCounts:
    """Return the edits at a threshold, in words."""
    rows = zip(pairs.sources.rows(), outcomes, strict=True)
    results = [_result(editor, source, outcome, threshold) for source, outcome in rows]
    scored = score(editor.method.task, Sequences.from_rows(results), pairs, references=references)
    return EditCounts(*scored.counts.sum(0).tolist())


def _confidences(editor: Editor, outcome: Outcome) -> list[float]:
    """Return the confidences that a threshold is compared with: of each step or, with a word list, of all together."""
    return [exp(outcome.score)] * bool(outcome.trace) if editor.keep else [step.confidence for step in outcome.trace]


def _result(editor: Editor, source: list[int], outcome: Outcome, threshold: float) -> list[int]:
    """Return the text before the first step below the threshold; with a word list, it is all steps or none."""
    if editor.keep:
        return list(source if exp(outcome.score) < threshold else outcome.tokens)
    state = list(source)
    for step in outcome.trace:
        if step.confidence < threshold:
            break
        if step.start is not None:
            state[step.start : step.start + len(step.before)] = step.after
    return state
