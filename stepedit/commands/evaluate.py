"""`stepedit evaluate`: how right a run is."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from stepedit.commands.common import Beam, Least, Verify, WordList, console, progress_bar
from stepedit.display import aligned
from stepedit.errors import UserError

if TYPE_CHECKING:
    from stepedit.results import Result

MOST_GROUPS = 12  # in a table


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    data: Annotated[Path | None, typer.Option(help="Other data than the run's own.", show_default=False)] = None,
    targets: Annotated[
        Path | None, typer.Option(help="The targets, if --data is a file of sources only.", show_default=False)
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Column of the source in --data.", show_default="the run's")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Column of the target in --data.", show_default="the run's")
    ] = None,
    split: Annotated[str | None, typer.Option(help="train, val or test.", show_default="test")] = None,
    beam: Beam = 1,
    verify: Verify = False,
    min_confidence: Least = None,
    lexicon: WordList = None,
    chrf: Annotated[bool, typer.Option("--chrf", help="chrF too, for text; needs the extra [chrf].")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """Score a run on a split: all metrics with 95 % confidence intervals, by number of edits and by length.

    Predictions go to predictions-SPLIT.jsonl in the run's folder (with a beam, predictions-SPLIT-beam-K.jsonl), what is
    shown here to scores-SPLIT.json, unless the data are others than the run's own. A model that comes with stepedit
    keeps neither.
    """
    from stepedit import checkpoints, datasets
    from stepedit.evaluation import Looking
    from stepedit.lexicon import Lexicon
    from stepedit.results import score
    from stepedit.training import make_method

    others, place = None, checkpoints.find(run)
    if chrf and checkpoints.read_run(place).task != "text":
        raise UserError("chrF is for text; the metrics of equations are shown without asking")
    if chrf and find_spec("sacrebleu") is None:
        raise UserError("chrF needs sacrebleu: pip install 'stepedit[chrf]'")
    known = Lexicon.read(lexicon) if lexicon else None
    if min_confidence is None:
        min_confidence = checkpoints.read_tuned(place) if beam == 1 and not (verify or known) else 0.0
    if data is not None:
        own = checkpoints.read_run(place)
        task = make_method(own).task
        read = datasets.read(data, source or own.source, target or own.target, targets)
        split = split or ("all" if set(read.splits) == {"all"} else "test")
        others = {name: lines.encode(task, whole=name == split) for name, lines in read.splits.items()}
    split = split or "test"
    with progress_bar(f"editing {split}") as progress:
        result = score(run, split, Looking(beam, verify, min_confidence), others, progress, known, chrf)
    if as_json:
        console().print(Text(result.model_dump_json()))
    else:
        _show(result)


def ranges(groups: dict[int, tuple[int, float]]) -> list[tuple[str, int, float]]:
    """Groups in order, small neighbours taken together where there are many: name, how many there are, their mean."""
    least = sum(count for count, _ in groups.values()) / MOST_GROUPS if len(groups) > MOST_GROUPS else 0
    merged, together = list[tuple[str, int, float]](), list[int]()
    for group in sorted(groups):
        together.append(group)
        count = sum(groups[each][0] for each in together)
        if count >= least or group == max(groups):
            mean = sum(groups[each][0] * groups[each][1] for each in together) / count
            name = str(group) if len(together) == 1 else f"{together[0]} to {group}"
            merged.append((name, count, mean))
            together = []
    return merged


def _show(result: Result) -> None:
    out = console()
    head = f"{result.task} {result.method} {result.mode}, {result.split}: {result.pairs:,} pairs"
    head += (
        f", beam {result.beam}" * (result.beam > 1)
        + ", verified" * result.verify
        + ", with a list of words" * result.lexicon
    )
    head += f", at least {result.least:.0%} sure" * (result.least > 0)
    out.print(Text(f"{head}, {result.finished:.1%} finished\n"))
    rows = [["metric", "mean", "95 % interval"]]
    rows += [[name, f"{mean:.2%}", f"{low:.2%} to {high:.2%}"] for name, (mean, low, high) in result.metrics.items()]
    if result.paper:  # the authors' figures for this setting
        rows[0].append("the paper, test")
        for row in rows[1:]:
            row.append(f"{result.paper[row[0]]:.2%}" if row[0] in result.paper else "")
    out.print(aligned(rows))
    if result.summary:
        names = list(next(iter(result.summary.values())))
        table = [["", *names]]
        table += [[kind, *(f"{said[name]:.2%}" for name in names)] for kind, said in result.summary.items()]
        out.print(Text())
        out.print(aligned(table))
    for title, groups in (("edits needed", result.by_edits), ("source length", result.by_length)):
        table = [[title, "pairs", result.headline]]
        table += [[group, f"{count:,}", f"{mean:.2%}"] for group, count, mean in ranges(groups)]
        out.print(Text())
        out.print(aligned(table))
