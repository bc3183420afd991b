"""How right a run is on a split: worked out once, kept in the run's folder, read back by reports.

    scores-SPLIT.json        all metrics with intervals, by edits and by length, what it took, a few examples with steps
    predictions-SPLIT.jsonl  one line for every pair

A beam or the check is said in the name: scores-test-beam-10-verified.json.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from stepedit import checkpoints
from stepedit.config import Run, checked
from stepedit.editor import Editor
from stepedit.errors import DataError, located
from stepedit.evaluation import BATCH, GREEDY, Evaluation, Looking, breakdown, evaluate, interval
from stepedit.interpreter import Step
from stepedit.lexicon import Lexicon, Suggestions
from stepedit.reference import paper
from stepedit.sequences import BoolArray, IntArray, Pairs
from stepedit.tasks.task import Task
from stepedit.training import load_pairs
from stepedit.vocabulary import Vocabulary

EXAMPLES = 3  # of the right, and of the wrong


class Taken(BaseModel):
    """A step, in words."""

    model_config = ConfigDict(frozen=True)

    operation: str
    position: int | None
    before: str
    after: str
    text: str
    tokens: list[str]  # of the text
    gone: list[str]  # those that were at the position
    came: list[str]  # those that are there now
    skipped: bool
    confidence: float


class Example(BaseModel):
    """One pair with each step that was taken."""

    model_config = ConfigDict(frozen=True)

    source: str
    target: str
    prediction: str
    right: bool
    finished: bool
    steps: list[Taken]


class Result(BaseModel):
    """What came of a run on a split."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    method: str
    mode: str
    split: str
    size: int  # D, of the data it was taught with; 0 where that is not at hand
    pairs: int
    beam: int
    verify: bool
    least: float
    lexicon: bool = False
    headline: str
    metrics: dict[str, tuple[float, float, float]]  # mean, and its 95 % interval
    finished: float
    paper: dict[str, float] | None
    by_edits: dict[int, tuple[int, float]]
    by_length: dict[int, tuple[int, float]]
    parameters: int
    steps: int  # of the optimiser, and the time they took
    seconds: float
    ended: bool  # whether the training had come to its end
    examples: list[Example]
    summary: dict[str, dict[str, float]] = {}  # of a text: more metrics, beside those of doing nothing


def score(
    folder: Path,
    split: str = "test",
    looking: Looking = GREEDY,
    others: dict[str, Pairs] | None = None,
    progress: Callable[[int, int], None] | None = None,
    lexicon: Lexicon | None = None,
    chrf: bool = False,
) -> Result:
    """Score a run on a split of its own data, or of others, and keep what came of it in its folder."""
    place = checkpoints.find(folder)
    editor = Editor.load(place)
    splits = load_pairs(editor.run, whole=split) if others is None else others
    if split not in splits:
        raise DataError(f"no split {split!r}; there are: {', '.join(splits)}")
    pairs = splits[split]
    if lexicon is not None:
        words = editor.method.task.vocabulary
        looking = replace(looking, check=lexicon.check(words), suggest=Suggestions(lexicon, words))
    came = evaluate(editor.programmer, editor.method, pairs, progress, looking)
    name = f"{split}{named(looking, editor.least)}"
    size, needed = _taught_with(editor.run, splits, others is None), _needed(editor.method.task, pairs)
    more = {
        "examples": _examples(editor, pairs, came, needed > 0, looking, lexicon),
        "summary": editor.method.task.summary(pairs, came.predictions, chrf),
    }
    result = _result(editor, size, pairs, came, needed, split, looking, place).model_copy(update=more)
    if checkpoints.is_shipped(place):
        return result  # what comes with stepedit stays as it came
    _write_predictions(place / f"predictions-{name}.jsonl", editor.method.task.vocabulary, pairs, came)
    if others is None:
        checkpoints.write_whole(place / f"scores-{name}.json", result.model_dump_json(indent=1).encode())
    return result


def named(looking: Looking, tuned: float = 0.0) -> str:
    """How far ahead was looked, as part of a file's name; what a run was tuned to be goes without saying."""
    usual = looking.least == (0.0 if looking.beam > 1 or looking.verify or looking.check else tuned)
    sure = "" if usual else f"-sure-{looking.least:g}"
    ahead = f"-beam-{looking.beam}" * (looking.beam > 1) + "-lexicon" * (looking.check is not None)
    return ahead + "-verified" * looking.verify + sure


def read(folder: Path, split: str = "test", looking: Looking = GREEDY) -> Result | None:
    """What `score` kept; None if nothing yet; DataError if it is damaged or of another version."""
    path = folder / f"scores-{split}{named(looking, looking.least)}.json"
    if not path.exists():
        return None
    value = checkpoints.read_json(path)
    if not isinstance(value, dict):
        raise DataError(f"{path}: damaged")
    with located(str(path)):
        return checked(Result, value)


def _result(
    editor: Editor,
    size: int,
    pairs: Pairs,
    came: Evaluation,
    needed: IntArray,
    split: str,
    looking: Looking,
    place: Path,
) -> Result:
    task, run, rng = editor.method.task, editor.run, np.random.default_rng(0)
    theirs = paper(run.task, run.method, run.mode, run.task_options, size)
    headline = came.scores[task.metrics[0]]
    steps, seconds = _effort(place)
    return Result(
        task=task.name,
        method=run.method,
        mode=run.mode,
        split=split,
        size=size,
        pairs=len(pairs),
        beam=looking.beam,
        verify=looking.verify,
        least=looking.least,
        headline=task.metrics[0],
        metrics={name: (float(each.mean()), *interval(each, rng)) for name, each in came.scores.items()},
        finished=sum(outcome.finished for outcome in came.outcomes) / len(pairs),
        paper=theirs.metrics if theirs else None,
        by_edits=breakdown(headline, needed),
        by_length=breakdown(headline, pairs.sources.lengths),
        parameters=sum(parameter.numel() for parameter in editor.programmer.parameters()),
        steps=steps,
        seconds=seconds,
        ended=checkpoints.has_ended(place),
        lexicon=looking.check is not None,
        examples=[],
    )


def _needed(task: Task, pairs: Pairs) -> IntArray:
    """(B,) how many edits each pair needs; pairs of like length are looked at together, or one would widen all."""
    counts, order = np.zeros(len(pairs), np.int64), np.argsort(pairs.sources.lengths, kind="stable")
    for begin in range(0, len(order), BATCH):
        rows = order[begin : begin + BATCH]
        some = pairs.take(rows)
        counts[rows] = task.edits(some.sources, some.targets).counts
    return counts


def _taught_with(run: Run, splits: dict[str, Pairs], own: bool) -> int:
    """The size D of the data a run was taught with."""
    if run.data is None:
        return run.size
    return sum(map(len, splits.values())) if own else 0


def _effort(place: Path) -> tuple[int, float]:
    """Steps and seconds of training so far."""
    reports = checkpoints.read_reports(place)
    return (int(reports[-1]["step"]), float(reports[-1]["seconds"])) if reports else (0, 0.0)


def _examples(
    editor: Editor, pairs: Pairs, came: Evaluation, needed: BoolArray, looking: Looking, lexicon: Lexicon | None
) -> list[Example]:
    """The first few right ones that needed an edit, and the first few wrong ones, with their steps."""
    right = came.scores[editor.method.task.metrics[0]] >= 1
    rows = np.concatenate([np.flatnonzero(right & needed)[:EXAMPLES], np.flatnonzero(~right)[:EXAMPLES]])
    words = editor.method.task.vocabulary
    chosen = pairs.take(rows)
    edited = editor.edit(words.decode(chosen.sources), True, looking.beam, looking.verify, looking.least, lexicon)
    return [
        Example(
            source=one.source,
            target=target,
            prediction=one.text,
            right=bool(right[row]),
            finished=one.finished,
            steps=[Taken(**step_as_data(step, one.words)) for step in one.outcome.trace],
        )
        for row, one, target in zip(rows, edited, words.decode(chosen.targets), strict=True)
    ]


def step_as_data(step: Step, words: Vocabulary) -> dict[str, Any]:
    """A step for machines."""
    return {
        "operation": step.operation,
        "position": step.start,
        "before": words.text(step.before),
        "after": words.text(step.after),
        "text": words.text(step.state),
        "tokens": [words.name(token) for token in step.state],
        "gone": [words.name(token) for token in step.before],
        "came": [words.name(token) for token in step.after],
        "skipped": step.skipped,
        "confidence": step.confidence,
    }


def _write_predictions(path: Path, words: Vocabulary, pairs: Pairs, came: Evaluation) -> None:
    rows = zip(words.decode(pairs.sources), words.decode(pairs.targets), words.decode(came.predictions), strict=True)
    lines = [
        json.dumps(
            {
                "source": source,
                "target": target,
                "prediction": prediction,
                "finished": outcome.finished,
                "steps": outcome.steps,
                **{name: float(scores[index]) for name, scores in came.scores.items()},
            }
        )
        for index, ((source, target, prediction), outcome) in enumerate(zip(rows, came.outcomes, strict=True))
    ]
    checkpoints.write_whole(path, "".join(f"{line}\n" for line in lines).encode())
