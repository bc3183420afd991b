"""Scores of a run on a split: computed once, kept in the run's folder, read back by reports.

    scores-SPLIT.json        metrics with intervals, by edits and by length, training cost, a few examples with steps
    predictions-SPLIT.jsonl  one line per pair

The decoding is part of the name: scores-test-beam-10-verified.json.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from stepedit.config import RunConfig, checked
from stepedit.data.dataset import load_splits
from stepedit.editing.sequences import BoolArray, IntArray, Pairs
from stepedit.editing.trace import Step
from stepedit.errors import DataError, located
from stepedit.evaluation import edit_metrics
from stepedit.evaluation.evaluate import Evaluation, bootstrap_interval, breakdown, evaluate_pairs
from stepedit.evaluation.paper import paper_result
from stepedit.files import read_json, write_atomic
from stepedit.inference import model_folder
from stepedit.inference.decoding import Decoding, resolve
from stepedit.inference.editor import Editor
from stepedit.inference.predict import BATCH_SIZE
from stepedit.tasks.base import Progress, Task
from stepedit.text.vocabulary import Vocabulary

EXAMPLES = 3  # correct ones, and wrong ones


class Example(BaseModel):
    """One pair and the steps that were taken."""

    model_config = ConfigDict(frozen=True)

    source: str
    target: str
    prediction: str
    correct: bool
    finished: bool
    steps: list[Step]


class RunScores(BaseModel):
    """The scores of a run on a split."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    method: str
    mode: str
    split: str
    num_examples: int  # D, of the training data; 0 if they are not available
    pairs: int
    beam_size: int
    verify: bool
    min_confidence: float
    lexicon: bool = False
    headline: str
    metrics: dict[str, tuple[float, float, float]]  # mean and 95 % interval
    finished: float
    paper: dict[str, float] | None
    by_edits: dict[int, tuple[int, float]]
    by_length: dict[int, tuple[int, float]]
    parameters: int
    training_steps: int
    training_seconds: float
    training_finished: bool
    examples: list[Example]
    summary: dict[str, dict[str, float]] = {}  # for text: edit metrics, beside those of copying the source


def evaluate(
    folder: str | Path,
    split: str = "test",
    decoding: Decoding | None = None,
    data: dict[str, Pairs] | None = None,
    progress: Progress | None = None,
    chrf: bool = False,
) -> RunScores:
    """Score a run on a split of its own data, or of other pairs, and write the scores to its folder."""
    editor = Editor.load(folder)
    path = editor.folder or Path(folder)
    decoding = resolve(decoding or Decoding(), editor.method, editor.min_confidence)
    splits = load_splits(editor.run, whole=split) if data is None else data
    if split not in splits:
        raise DataError(f"no split {split!r}; there are: {', '.join(splits)}")
    pairs = splits[split]
    evaluation = evaluate_pairs(editor.policy, editor.method, pairs, decoding, progress, editor.keep)
    scores = _scores(editor, splits, split, evaluation, decoding, path, own_data=data is None)
    task = editor.method.task
    if task.open_vocabulary:
        table = edit_metrics.compare(task.vocabulary, pairs, evaluation.predictions, chrf)
        scores = scores.model_copy(update={"summary": table})
    if model_folder.is_shipped(path):
        return scores  # the models that come with stepedit are not changed
    name = f"{split}{decoding.suffix(editor.min_confidence)}"
    _write_predictions(path / f"predictions-{name}.jsonl", task.vocabulary, pairs, evaluation)
    if data is None:
        write_atomic(path / f"scores-{name}.json", scores.model_dump_json(indent=1).encode())
    return scores


def read_scores(folder: Path, split: str = "test") -> RunScores | None:
    """Return the scores of greedy decoding that `evaluate` wrote; None if there are none, DataError if damaged."""
    path = folder / f"scores-{split}.json"
    if not path.exists():
        return None
    value = read_json(path)
    if not isinstance(value, dict):
        raise DataError(f"{path}: damaged")
    with located(str(path)):
        return checked(RunScores, value)


def _scores(
    editor: Editor,
    splits: dict[str, Pairs],
    split: str,
    evaluation: Evaluation,
    decoding: Decoding,
    folder: Path,
    own_data: bool,
) -> RunScores:
    task, run, rng, pairs = editor.method.task, editor.run, np.random.default_rng(0), splits[split]
    num_examples, needed = _training_size(run, splits, own_data), _edits_needed(task, pairs)
    theirs = paper_result(run.task, run.method, run.mode, run.task_args, num_examples)
    headline = evaluation.scores[task.metrics[0]]
    steps, seconds = _training_cost(folder)
    return RunScores(
        task=run.task,
        method=run.method,
        mode=run.mode,
        split=split,
        num_examples=num_examples,
        pairs=len(pairs),
        beam_size=decoding.beam_size,
        verify=decoding.verify,
        min_confidence=decoding.min_confidence or 0.0,
        lexicon=decoding.lexicon is not None,
        headline=task.metrics[0],
        metrics={
            name: (float(each.mean()), *bootstrap_interval(each, rng)) for name, each in evaluation.scores.items()
        },
        finished=sum(outcome.finished for outcome in evaluation.outcomes) / len(pairs),
        paper=theirs.metrics if theirs else None,
        by_edits=breakdown(headline, needed),
        by_length=breakdown(headline, pairs.sources.lengths),
        parameters=editor.policy.num_parameters,
        training_steps=steps,
        training_seconds=seconds,
        training_finished=model_folder.is_finished(folder),
        examples=_examples(editor, pairs, headline >= 1, needed > 0, decoding),
    )


def _edits_needed(task: Task, pairs: Pairs) -> IntArray:
    """Return (B,) the number of edits of each pair, computed in batches of similar length."""
    counts, order = np.zeros(len(pairs), np.int64), np.argsort(pairs.sources.lengths, kind="stable")
    for begin in range(0, len(order), BATCH_SIZE):
        rows = order[begin : begin + BATCH_SIZE]
        batch = pairs.take(rows)
        counts[rows] = task.edits(batch.sources, batch.targets).counts
    return counts


def _training_size(run: RunConfig, splits: dict[str, Pairs], own_data: bool) -> int:
    """Return D, the size of the training data."""
    if run.data is None:
        return run.num_examples
    return sum(map(len, splits.values())) if own_data else 0


def _training_cost(folder: Path) -> tuple[int, float]:
    """Return steps and seconds of training so far."""
    reports = model_folder.read_metrics(folder)
    return (int(reports[-1]["step"]), float(reports[-1]["seconds"])) if reports else (0, 0.0)


def _examples(editor: Editor, pairs: Pairs, correct: BoolArray, needed: BoolArray, decoding: Decoding) -> list[Example]:
    """Return the first few correct predictions that needed an edit and the first few wrong ones, with their steps."""
    rows = np.concatenate([np.flatnonzero(correct & needed)[:EXAMPLES], np.flatnonzero(~correct)[:EXAMPLES]])
    vocabulary = editor.method.task.vocabulary
    chosen = pairs.take(rows)
    edited = editor.edit(vocabulary.decode(chosen.sources), decoding, trace=True)
    return [
        Example(
            source=one.source,
            target=target,
            prediction=one.text,
            correct=bool(correct[row]),
            finished=one.finished,
            steps=one.steps,
        )
        for row, one, target in zip(rows, edited, vocabulary.decode(chosen.targets), strict=True)
    ]


def _write_predictions(path: Path, vocabulary: Vocabulary, pairs: Pairs, evaluation: Evaluation) -> None:
    texts = (vocabulary.decode(side) for side in (pairs.sources, pairs.targets, evaluation.predictions))
    lines = [
        json.dumps(
            {
                "source": source,
                "target": target,
                "prediction": prediction,
                "finished": outcome.finished,
                "steps": outcome.steps,
                **{name: float(scores[index]) for name, scores in evaluation.scores.items()},
            }
        )
        for index, (source, target, prediction, outcome) in enumerate(zip(*texts, evaluation.outcomes, strict=True))
    ]
    write_atomic(path, "".join(f"{line}\n" for line in lines).encode())
