"""`stepedit evaluate`: score a model."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from stepedit.cli.arguments import RunFolder, hint_at_beam, make_decoding, with_options
from stepedit.cli.display import aligned, console
from stepedit.cli.progress import progress_bar
from stepedit.errors import UserError
from stepedit.inference.decoding import Decoding
from stepedit.registry import did_you_mean

if TYPE_CHECKING:
    from stepedit.evaluation.scores import RunScores

MAX_GROUPS = 12  # in a table
LABELS = {  # of the metrics of text: each says which scorer it is from
    "exact": "exact match",
    "precision": "edit precision (words, stepedit)",
    "recall": "edit recall (words, stepedit)",
    "f0.5": "edit F0.5 (words, stepedit)",
    "gleu": "GLEU (stepedit)",
    "false_alarms": "false alarms, lower is better",
    "cer": "character error rate, lower is better",
    "chrf": "chrF (sacrebleu)",
    "errant_precision": "ERRANT precision",
    "errant_recall": "ERRANT recall",
    "errant_f0.5": "ERRANT F0.5",
}


@with_options("decoding", Decoding)
def evaluate(
    run: RunFolder,
    data: Annotated[Path | None, typer.Option(help="Other pairs than the run's own.", show_default=False)] = None,
    target_file: Annotated[
        list[Path] | None,
        typer.Option(
            help="File of targets, if --data is a file of sources only; repeated: several references.",
            show_default=False,
        ),
    ] = None,
    source_column: Annotated[
        str | None, typer.Option(help="Name of the source column in --data.", show_default="the run's")
    ] = None,
    target_column: Annotated[
        str | None, typer.Option(help="Name of the target column in --data.", show_default="the run's")
    ] = None,
    changed_data: Annotated[
        bool, typer.Option("--changed-data", help="Use the run's data although they have changed since its training.")
    ] = False,
    split: Annotated[str | None, typer.Option(help="train, val or test.", show_default="test")] = None,
    chrf: Annotated[bool, typer.Option("--chrf", help="Also chrF, for text; needs the extra [chrf].")] = False,
    errant: Annotated[
        bool, typer.Option("--errant", help="Also ERRANT's F0.5 and error types, for English; needs the extra [gec].")
    ] = False,
    scoring: Annotated[
        str,
        typer.Option(
            metavar="own|authors",
            help="authors: as the paper's authors score; outputs that are cut off, prefixes, the end symbol.",
        ),
    ] = "own",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    *,
    decoding: dict[str, Any],
) -> None:
    """Score a model on a split: all metrics with 95 % confidence intervals, by number of edits and by length.

    Text: edit precision, recall and F0.5 in words, GLEU, exact match and false alarms (texts changed that no reference
    changes), beside two baselines: doing nothing, and the most frequent replacement of each word in training. Of
    several references (M2, lists in JSONL, several --target-file) the best one counts for each text.

    Predictions are written to predictions-SPLIT.jsonl in the run's folder, scores to scores-SPLIT.json. The decoding is
    part of the names (scores-SPLIT-beam-K.json), and so are other pairs (scores-other-NAME-HASH-all.json). A model that
    comes with stepedit is not changed.
    """
    if scoring not in ("own", "authors"):
        raise UserError(did_you_mean("scoring", scoring, ("own", "authors")))
    from stepedit.data import dataset as datasets
    from stepedit.data.location import Location
    from stepedit.evaluation import scores
    from stepedit.inference import model_folder

    folder = model_folder.find(run)
    config = model_folder.read_config(folder)
    if (chrf or errant) and not model_folder.make_task(config).open_vocabulary:
        raise UserError(f"{'chrF' if chrf else 'ERRANT'} is for text; task {config.task} has metrics of its own")
    if chrf and find_spec("sacrebleu") is None:
        raise UserError("chrF needs sacrebleu: pip install 'stepedit[chrf]'")
    chosen, other, location = make_decoding(decoding), None, None
    if data is not None:
        columns = source_column, target_column
        if datasets.has_columns(data, target_file or ()):
            columns = source_column or config.source_column, target_column or config.target_column
        other = datasets.read(data, *columns, target_file or (), config.strip).splits
        location = Location(data, tuple(target_file or ()))
    hint_at_beam(chosen)
    split = split or ("all" if other and set(other) == {"all"} else "test")
    with progress_bar(f"editing {split}") as progress:
        result = scores.evaluate(
            folder,
            split,
            chosen,
            other,
            progress,
            chrf,
            location,
            changed_data,
            scoring,  # type: ignore[arg-type]
            errant,
        )
    if as_json:
        console().print(Text(result.model_dump_json()))
    else:
        _show(result)


def ranges(groups: dict[int, tuple[int, float]]) -> list[tuple[str, int, float]]:
    """Return groups in order, small neighbors merged where there are many: name, size, mean."""
    min_size = sum(count for count, _ in groups.values()) / MAX_GROUPS if len(groups) > MAX_GROUPS else 0
    merged, together = list[tuple[str, int, float]](), list[int]()
    for group in sorted(groups):
        together.append(group)
        count = sum(groups[each][0] for each in together)
        if count >= min_size or group == max(groups):
            mean = sum(groups[each][0] * groups[each][1] for each in together) / count
            name = str(group) if len(together) == 1 else f"{together[0]} to {group}"
            merged.append((name, count, mean))
            together = []
    return merged


def _show(result: RunScores) -> None:
    out = console()
    out.print(Text(f"{_headline(result)}, {_ends(result)}\n"))
    rows = [["metric", "mean", "95 % interval"]]
    rows += [[name, f"{mean:.2%}", f"{low:.2%} to {high:.2%}"] for name, (mean, low, high) in result.metrics.items()]
    if result.paper:  # the authors' figures for this setting
        rows[0].append("paper, test")
        for row in rows[1:]:
            row.append(f"{result.paper[row[0]]:.2%}" if row[0] in result.paper else "")
    # text has a table of its own, with the baselines
    out.print(_summary(result) if result.summary else aligned(rows))
    if result.errant_types:
        out.print(Text())
        out.print(_errant_types(result))
    grouped = LABELS["exact"] if result.summary and result.grouped_metric == "sequence" else result.grouped_metric
    for title, groups in (("edits needed", result.by_edits), ("source length", result.by_length)):
        table = [[title, "pairs", grouped]]
        table += [[group, f"{count:,}", f"{mean:.2%}"] for group, count, mean in ranges(groups)]
        out.print(Text())
        out.print(aligned(table))

    if not result.own_data and not result.trained_on_known and not result.trained_on:
        note = "not all pairs that the model was trained on are known: some of these may be among them"
        out.print(Text(f"\n{note}"))
    if result.by_seen:
        table = [["trained on", "pairs", grouped]]
        table += [[name, f"{count:,}", f"{mean:.2%}"] for name, (count, mean) in result.by_seen.items()]
        out.print(Text())
        out.print(aligned(table))


def _summary(result: RunScores) -> Text:
    """Return the metrics of text with their intervals, beside those of the baselines."""
    from stepedit.evaluation.baselines import MOST_FREQUENT

    edited, *baselines = result.summary
    table = [["metric", edited, "95 % interval", *baselines]]
    for name, (value, low, high) in result.summary[edited].items():
        interval = "" if low is None or high is None else f"{low:.2%} to {high:.2%}"
        others = [f"{result.summary[system][name][0]:.2%}" for system in baselines]
        table.append([LABELS.get(name, name), f"{value:.2%}", interval, *others])
    text = aligned(table)
    if result.unchanged:
        changed = round(result.summary[edited]["false_alarms"][0] * result.unchanged)
        text.append(f"\nfalse alarms: {changed:,} of {result.unchanged:,} texts that need no change were changed")
    if MOST_FREQUENT not in result.summary:
        text.append(f"\n{MOST_FREQUENT}: not available, because the model's training pairs are not here")
    return text


def _errant_types(result: RunScores) -> Text:
    """Return the edits of each error type of ERRANT, the most frequent in the reference first."""
    from stepedit.evaluation.edit_metrics import EditCounts

    table = [["ERRANT type", "predicted", "reference", "correct", "precision", "recall", "F0.5"]]
    for name, numbers in sorted(result.errant_types.items(), key=lambda each: (-each[1][1], each[0])):
        counts = EditCounts(*numbers)
        rates = (counts.precision, counts.recall, counts.f_score())
        table.append([name, *(f"{number:,}" for number in numbers), *(f"{rate:.2%}" for rate in rates)])
    return aligned(table)


def _ends(result: RunScores) -> str:
    """Return why texts ended, with their shares: `97.2% done, 2.8% cycle`."""
    return ", ".join(f"{share:.1%} {reason}" for reason, share in result.stop_reasons.items() if share)


def _headline(result: RunScores) -> str:
    parts = [f"{result.task} {result.method} {result.mode}, {result.split}: {result.pairs:,} pairs"]
    parts += [f"of {result.data}"] * (result.data is not None and not result.own_data)
    parts += [f"beam size {result.beam_size}"] * (result.beam_size > 1)
    parts += [f"up to {result.references} references"] * (result.references > 1)
    parts += ["the authors' scoring"] * (result.scoring == "authors")
    parts += ["verified"] * result.verify + ["with a lexicon"] * result.lexicon
    parts += ["with a keep list"] * result.keep + ["code kept"] * result.keep_code
    parts += [f"edits per step {result.edits_per_step or 'auto'}"] * (result.edits_per_step != 1)
    parts += [f"min. confidence {result.min_confidence:.0%}"] * (result.min_confidence > 0)
    return ", ".join(parts)
