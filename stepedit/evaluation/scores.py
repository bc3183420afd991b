"""Scores of a run on a split: computed once, kept in the run's folder, read back by reports.

    scores-SPLIT.json        metrics with intervals, by edits and by length, training cost, a few examples with steps
    predictions-SPLIT.jsonl  one line per pair

The decoding is part of the name, and so are data that are not the run's own:
scores-test-beam-10-verified.json, scores-test-confidence-0.9.json, scores-other-NAME-HASH-all.json. The authors'
scoring has a file of its own: scores-test-authors.json.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict

from stepedit.config import RunConfig, checked
from stepedit.data.dataset import Dataset, Loaded, load, overlap_warning, read_run_splits
from stepedit.data.location import Location, label, of_run
from stepedit.data.readers import Lines
from stepedit.editing.interpreter import StopReason
from stepedit.editing.sequences import BoolArray, IntArray, Pairs
from stepedit.editing.trace import Step
from stepedit.errors import DataError, DataWarning, UserError, located
from stepedit.evaluation import errant_scorer
from stepedit.evaluation.authors import score_as_the_authors
from stepedit.evaluation.evaluate import Evaluation, References, breakdown, evaluate_pairs
from stepedit.evaluation.paper import paper_result
from stepedit.evaluation.text_summary import text_summary
from stepedit.files import read_json, write_atomic
from stepedit.inference import model_folder
from stepedit.inference.decoding import Decoding
from stepedit.inference.editor import Editor
from stepedit.inference.predict import BATCH_SIZE
from stepedit.inference.trained_on import TrainedOn, read_trained_on
from stepedit.tasks.base import Progress, Task
from stepedit.text.vocabulary import Vocabulary

Scoring = Literal["own", "authors"]
EXAMPLES = 3  # correct ones, and wrong ones


class Example(BaseModel):
    """One pair and the steps that were taken."""

    model_config = ConfigDict(frozen=True)

    source: str
    target: str
    prediction: str
    correct: bool
    stop_reason: StopReason
    tokens: list[str]  # of the source
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
    keep: bool = False
    keep_code: bool = False
    edits_per_step: int = 1
    scoring: Scoring = "own"
    data: str | None = None  # name of the file or folder; None: generated
    data_hash: str | None = None
    own_data: bool = True  # those that the run was trained with
    headline: str
    metrics: dict[str, tuple[float, float, float]]  # mean and 95 % interval
    grouped_metric: str = ""  # the metric of by_edits, by_length and by_seen: a score per pair
    stop_reasons: dict[StopReason, float]  # shares
    paper: dict[str, float] | None
    by_edits: dict[int, tuple[int, float]]
    by_length: dict[int, tuple[int, float]]
    by_seen: dict[str, tuple[int, float]] = {}  # where sources of the split were trained on: those, and the others
    trained_on: int | None = None  # pairs whose target was trained on; None: not known
    trained_on_known: bool = True  # whether all that the model was trained on is known
    parameters: int
    training_steps: int
    training_seconds: float
    training_finished: bool
    examples: list[Example]
    edit_unit: str = ""  # for text: what edits are counted in: word; in files of 0.2 also char
    summary: dict[str, dict[str, tuple[float, float | None, float | None]]] = {}  # metrics of text, also of baselines
    references: int = 1  # the most that a text has
    unchanged: int = 0  # texts that no reference changes
    errant_types: dict[str, tuple[int, int, int]] = {}  # predicted, reference and correct edits of each type of ERRANT


def evaluate(
    folder: str | Path,
    split: str = "test",
    decoding: Decoding | None = None,
    data: dict[str, Lines] | None = None,
    progress: Progress | None = None,
    chrf: bool = False,
    location: Location | None = None,
    changed_data: bool = False,
    scoring: Scoring = "own",
    errant: bool = False,
) -> RunScores:
    """Score a run on a split of its own data, or of other pairs, and write the scores to its folder.

    Other pairs are named by their `location`. `changed_data`: the run's data may have changed since, and count as
    other ones then. If the folder cannot be written, there is a DataWarning.
    """
    if not isinstance(data, dict | None):
        raise UserError("data: expected the splits of `stepedit.data.dataset.read(PATH)`, a dict of Lines")
    editor = Editor.load(folder)
    path = editor.folder or Path(folder)
    decoding = editor.resolve(decoding)
    if data is None:
        location = of_run(editor.run, path, changed_data) if editor.run.data is not None else None
    task = editor.method.task
    if data is None:
        splits = load(editor.run, task, whole=split, folder=path, changed=changed_data)
    else:
        splits = _encoded(task, data, split)
    if split not in splits.pairs:
        raise DataError(f"no split {split!r}; there are: {', '.join(splits.pairs if data is None else data)}")
    pairs, references = splits.pairs[split], splits.references(split)
    annotate = errant_scorer.load() if errant else None  # before anything is edited
    evaluation = evaluate_pairs(editor.policy, editor.method, pairs, decoding, progress, editor.keep, references)
    if scoring == "authors":
        if decoding.searches or task.open_vocabulary:
            raise UserError("the authors' scoring is for their tasks and greedy decoding")
        evaluation = score_as_the_authors(editor.policy, editor.method, pairs, evaluation)
    digest = location.hash() if location else _hash_of(pairs) if data is not None else None
    own_data = data is None and editor.run.data_hash in (None, digest)
    needed = _edits_needed(task, pairs, references)
    scores = _scores(editor, splits.pairs, split, evaluation, decoding, path, own_data, needed).model_copy(
        update={
            "data": location.name if location else None,
            "data_hash": digest,
            "own_data": own_data,
            "scoring": scoring,
        }
    )
    trained = _trained_on(path, splits, own_data)
    if trained is not None:
        scores = scores.model_copy(update=_seen(scores, evaluation, task, pairs, trained))
    _warn(scores, editor.run, splits, trained, own_data)
    if task.open_vocabulary:
        train = _training_lines(editor.run, path, splits, own_data)
        update = text_summary(task.vocabulary, pairs, evaluation.predictions, references, train, chrf, annotate)
        scores = scores.model_copy(update=update)
    if model_folder.is_shipped(path):
        return scores  # the models that come with stepedit are not changed
    name = _name(split, decoding, scoring)
    if not own_data:
        name = f"{label(scores.data or 'pairs', digest or '')}-{name}"
    try:
        _write_predictions(path / f"predictions-{name}.jsonl", task.vocabulary, pairs, evaluation, references)
        write_atomic(path / f"scores-{name}.json", scores.model_dump_json(indent=1).encode())
    except OSError as error:
        warnings.warn(f"{path}: the scores were not written: {error.strerror}", DataWarning, stacklevel=2)
    return scores


def _name(split: str, decoding: Decoding, scoring: Scoring) -> str:
    """Return what names the files of scores on a run's own data."""
    return f"{split}{decoding.suffix()}" + "-authors" * (scoring == "authors")


def _hash_of(pairs: Pairs) -> str:
    """Return a hash of pairs that came without their location."""
    sides = (np.ascontiguousarray(side.ids).tobytes() for side in (pairs.sources, pairs.targets))
    return sha256(b"".join(sides)).hexdigest()


def read_scores(folder: Path, split: str = "test", scoring: Scoring = "own") -> RunScores | None:
    """Return the scores of greedy decoding at the model's threshold; None if there are none, DataError if damaged."""
    decoding = Decoding(min_confidence=model_folder.read_tuned(folder))
    path = folder / f"scores-{_name(split, decoding, scoring)}.json"
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
    needed: IntArray,
) -> RunScores:
    task, run, pairs = editor.method.task, editor.run, splits[split]
    num_examples = _training_size(run, splits, own_data)
    theirs = paper_result(run.task, run.method, run.mode, run.task_args, num_examples)
    grouped = task.objective if task.objective in evaluation.scores else "sequence"
    each = evaluation.scores[grouped]
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
        keep=decoding.keep is not None,
        keep_code=decoding.keep_code,
        edits_per_step=decoding.edits_per_step,
        headline=task.objective,
        metrics={name: evaluation.figure(name) for name in evaluation.metrics},
        grouped_metric=grouped,
        stop_reasons=_stop_reasons(evaluation),
        paper=theirs.metrics if theirs else None,
        by_edits=breakdown(each, needed),
        by_length=breakdown(each, pairs.sources.lengths),
        parameters=editor.policy.num_parameters,
        training_steps=steps,
        training_seconds=seconds,
        training_finished=model_folder.is_finished(folder),
        examples=_examples(editor, pairs, each >= 1, needed > 0, decoding),
    )


def _encoded(task: Task, data: dict[str, Lines], split: str) -> Loaded:
    """Return other pairs with the split to score encoded."""
    encoded = {split: data[split]} if split in data else {}
    return replace(Loaded.encode(task, encoded, whole=split), read=data)


def _training_lines(run: RunConfig, folder: Path, splits: Loaded, own_data: bool) -> Lines | None:
    """Return the training pairs of a run, as they were; None if they are not here."""
    if own_data:
        return splits.lines("train") if "train" in splits.pairs else None
    try:
        place = of_run(run, folder)
    except DataError:
        return None
    return read_run_splits(run, place).splits.get("train")


def _trained_on(folder: Path, splits: Loaded, own_data: bool) -> TrainedOn | None:
    """Return what a model was trained on: the training split, or what its folder says; None if neither is known."""
    if not own_data:
        return read_trained_on(folder)
    lines = splits.lines("train") if "train" in splits.pairs else None
    return TrainedOn.from_texts(lines.sources, lines.targets) if lines else None


def _seen(
    scores: RunScores, evaluation: Evaluation, task: Task, pairs: Pairs, trained: TrainedOn
) -> dict[str, dict[str, tuple[int, float]] | int]:
    """Return the scores of pairs with and without a source that was trained on, and the number of such targets."""
    sources, targets = (task.vocabulary.decode(side) for side in (pairs.sources, pairs.targets))
    seen, each = trained.has_source(sources), evaluation.scores[scores.grouped_metric]
    parts = {"source in train": seen, "source not in train": ~seen}
    by_seen = {name: (int(rows.sum()), float(each[rows].mean())) for name, rows in parts.items() if rows.any()}
    told_apart = seen.any() and trained.complete
    return {
        "by_seen": by_seen if told_apart else {},
        "trained_on": int(trained.has_target(targets).sum()),
        "trained_on_known": trained.complete,
    }


def _warn(scores: RunScores, run: RunConfig, splits: Loaded, trained: TrainedOn | None, own_data: bool) -> None:
    """Warn if pairs of the split were trained on."""
    message = None
    if not own_data and trained is not None and scores.trained_on:
        least = "" if trained.complete else "at least "
        message = (
            f"of {scores.pairs:,} pairs, {least}{scores.trained_on:,} have a target that the model was trained on; "
            "the scores are not those of new pairs"
        )
    elif own_data and _given_in_splits(run, splits) and scores.split != "train":
        parts = {name: splits.lines(name) for name in splits.pairs}
        message = overlap_warning(Dataset(parts, path=str(run.data)), splits.task.open_vocabulary, scores.split)
    if message:
        warnings.warn(message, DataWarning, stacklevel=3)


def _given_in_splits(run: RunConfig, splits: Loaded) -> bool:
    """Whether a run's data are a folder of splits that were made elsewhere."""
    return run.data is not None and Path(run.data).is_dir() and "train" in splits.pairs


def _stop_reasons(evaluation: Evaluation) -> dict[StopReason, float]:
    """Return the share of texts that ended for each reason, in the order of StopReason."""
    counts = Counter(outcome.stop_reason for outcome in evaluation.outcomes)
    return {reason: counts[reason] / len(evaluation.outcomes) for reason in get_args(StopReason)}


def _edits_needed(task: Task, pairs: Pairs, references: References | None) -> IntArray:
    """Return (B,) the number of edits that each source needs; of several references, to the nearest one."""
    if references is None:
        return _edit_counts(task, pairs)
    rows = np.repeat(np.arange(len(pairs)), [len(each) for each in references])
    targets = task.vocabulary.encode([text for each in references for text in each])
    needed = np.full(len(pairs), np.iinfo(np.int64).max)
    np.minimum.at(needed, rows, _edit_counts(task, Pairs(pairs.sources.take(rows), targets)))
    return needed


def _edit_counts(task: Task, pairs: Pairs) -> IntArray:
    """Return (B,) the number of edits of each pair, computed in batches of similar length."""
    counts, order = np.zeros(len(pairs), np.int64), np.argsort(pairs.sources.lengths, kind="stable")
    for begin in range(0, len(order), BATCH_SIZE):
        rows = order[begin : begin + BATCH_SIZE]
        batch = pairs.take(rows)
        counts[rows] = task.edits(batch.sources, batch.targets).counts
    return counts


def _training_size(run: RunConfig, splits: dict[str, Pairs], own_data: bool) -> int:
    """Return D, the size of the training data."""
    if not own_data:
        return 0
    return run.num_examples if run.data is None else sum(map(len, splits.values()))


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
            stop_reason=one.stop_reason,
            tokens=one.tokens,
            steps=one.steps,
        )
        for row, one, target in zip(rows, edited, vocabulary.decode(chosen.targets), strict=True)
    ]


def _write_predictions(
    path: Path, vocabulary: Vocabulary, pairs: Pairs, evaluation: Evaluation, references: References | None
) -> None:
    texts = (vocabulary.decode(side) for side in (pairs.sources, pairs.targets, evaluation.predictions))
    lines = [
        json.dumps(
            {
                "source": source,
                "target": target,
                **({"references": references[index]} if references else {}),
                "prediction": prediction,
                "stop_reason": outcome.stop_reason,
                "steps": outcome.steps,
                **{name: float(scores[index]) for name, scores in evaluation.scores.items()},
            }
        )
        for index, (source, target, prediction, outcome) in enumerate(zip(*texts, evaluation.outcomes, strict=True))
    ]
    write_atomic(path, "".join(f"{line}\n" for line in lines).encode())
