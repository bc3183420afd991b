"""`stepedit evaluate`: how right a run is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from stepedit.commands.common import Beam, Verify, console, progress_bar
from stepedit.display import aligned
from stepedit.errors import DataError
from stepedit.reference import paper

if TYPE_CHECKING:
    from stepedit.config import Run
    from stepedit.evaluation import Evaluation
    from stepedit.sequences import Pairs


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    data: Annotated[Path | None, typer.Option(help="Other data than the run's own.", show_default=False)] = None,
    split: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    beam: Beam = 1,
    verify: Verify = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """Score a run on a split: all metrics with 95 % confidence intervals, by number of edits and by length.

    Predictions go to predictions-SPLIT.jsonl in the run's folder (with a beam, predictions-SPLIT-beam-K.jsonl).
    """
    from stepedit import checkpoints, datasets, evaluation
    from stepedit.editor import Editor
    from stepedit.training import load_pairs

    editor = Editor.load(run)
    if data is None:
        splits = load_pairs(editor.run)
    else:
        splits = {name: lines.encode(editor.method.task) for name, lines in datasets.read(data).splits.items()}
    if split not in splits:
        raise DataError(f"no split {split!r}; there are: {', '.join(splits)}")
    with progress_bar(f"editing {split}") as progress:
        result = evaluation.evaluate(
            editor.programmer, editor.method, splits[split], progress, evaluation.Looking(beam, verify)
        )
    run = checkpoints.find(run)
    how = f"-beam-{beam}" * (beam > 1) + "-verified" * verify
    _write_predictions(run / f"predictions-{split}{how}.jsonl", editor, splits[split], result)
    summary = _summary(editor, splits, data is None, result, split) | {"beam": beam, "verify": verify}
    if as_json:
        console().print(Text(json.dumps(summary)))
    else:
        _show(summary)


def _summary(editor: Any, splits: dict[str, Pairs], own: bool, result: Evaluation, split: str) -> dict[str, Any]:
    import numpy as np

    from stepedit.evaluation import breakdown, interval

    rng = np.random.default_rng(0)
    task = editor.method.task
    run, pairs = editor.run, splits[split]
    size = _taught_with(run, splits if own else None)
    theirs = paper(run.task, run.method, run.mode, run.task_options, size)
    headline = result.scores[task.metrics[0]]
    edits = task.edits(pairs.sources, pairs.targets).counts
    return {
        "task": task.name,
        "method": run.method,
        "mode": run.mode,
        "split": split,
        "pairs": len(pairs),
        "metrics": {name: [float(s.mean()), *interval(s, rng)] for name, s in result.scores.items()},
        "finished": sum(outcome.finished for outcome in result.outcomes) / len(pairs),
        "paper": theirs.metrics if theirs else None,
        "headline": task.metrics[0],
        "by_edits": breakdown(headline, edits),
        "by_length": breakdown(headline, pairs.sources.lengths),
    }


def _taught_with(run: Run, own: dict[str, Pairs] | None) -> int:
    """The size D of the data set a run was taught with; 0 where that is not at hand."""
    if run.data is None:
        return run.size
    return sum(map(len, own.values())) if own else 0


def _show(summary: dict[str, Any]) -> None:
    out = console()
    head = f"{summary['task']} {summary['method']} {summary['mode']}, {summary['split']}: {summary['pairs']:,} pairs"
    head += f", beam {summary['beam']}" * (summary["beam"] > 1) + ", verified" * summary["verify"]
    out.print(Text(f"{head}, {summary['finished']:.1%} finished\n"))
    rows = [["metric", "mean", "95 % interval"]]
    rows += [
        [name, f"{mean:.2%}", f"{low:.2%} to {high:.2%}"] for name, (mean, low, high) in summary["metrics"].items()
    ]
    if summary["paper"]:  # the authors' figures for this setting
        for row, theirs in zip(
            rows, ["the paper, test", *(summary["paper"].get(row[0]) for row in rows[1:])], strict=True
        ):
            row.append(theirs if isinstance(theirs, str) else "" if theirs is None else f"{theirs:.2%}")
    out.print(aligned(rows))
    for title, key in (("edits needed", "by_edits"), ("source length", "by_length")):
        table = [[title, "pairs", summary["headline"]]]
        table += [[str(group), f"{count:,}", f"{mean:.2%}"] for group, (count, mean) in summary[key].items()]
        out.print(Text())
        out.print(aligned(table))


def _write_predictions(path: Path, editor: Any, pairs: Pairs, result: Evaluation) -> None:
    from stepedit.checkpoints import write_whole

    words = editor.method.task.vocabulary
    rows = zip(words.decode(pairs.sources), words.decode(pairs.targets), words.decode(result.predictions), strict=True)
    lines = [
        json.dumps(
            {
                "source": source,
                "target": target,
                "prediction": prediction,
                "finished": outcome.finished,
                "steps": outcome.steps,
                **{name: float(scores[index]) for name, scores in result.scores.items()},
            }
        )
        for index, ((source, target, prediction), outcome) in enumerate(zip(rows, result.outcomes, strict=True))
    ]
    write_whole(path, "".join(f"{line}\n" for line in lines).encode())
