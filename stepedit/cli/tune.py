"""`stepedit tune`: choose the confidence threshold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from stepedit.cli.arguments import RunFolder
from stepedit.cli.display import aligned, console
from stepedit.cli.progress import progress_bar

SHOWN = 8


def tune(
    run: RunFolder,
    as_json: Annotated[bool, typer.Option("--json", help="Print all thresholds as one JSON list.")] = False,
) -> None:
    """Choose the confidence threshold with the best F0.5 on validation and store it with the model.

    From then on `edit` and `evaluate` use it unless --min-confidence is given. A higher threshold makes fewer edits
    with higher precision, a lower one has higher recall.

    Example: stepedit tune runs/spelling && stepedit edit runs/spelling "recieve"
    """
    from stepedit.evaluation import threshold

    with progress_bar("editing val") as progress:
        choices = threshold.tune(Path(run), progress)
    found, out = threshold.best(choices), console()
    if as_json:
        rows = [
            {
                "min_confidence": choice.min_confidence,
                "precision": choice.counts.precision,
                "recall": choice.counts.recall,
                "f0.5": choice.counts.f_score(),
            }
            for choice in choices
        ]
        out.print(Text(json.dumps(rows)))
        return
    shown = {0, choices.index(found), *range(0, len(choices), max(1, len(choices) // SHOWN))}
    table = [["min. confidence", "precision", "recall", "F0.5", ""]]
    for choice in (choices[index] for index in sorted(shown)):
        counts = choice.counts
        figures = [f"{counts.precision:.2%}", f"{counts.recall:.2%}", f"{counts.f_score():.2%}"]
        table.append([f"{choice.min_confidence:.4g}", *figures, "<- chosen" * (choice is found)])
    out.print(aligned(table))
