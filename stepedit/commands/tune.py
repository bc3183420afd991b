"""`stepedit tune`: how sure a programmer has to be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from stepedit.commands.common import console, progress_bar
from stepedit.display import aligned

SHOWN = 8


def tune(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="All that was tried, as one JSON list.")] = False,
) -> None:
    """Choose the least confidence that gives the best F0.5 on validation, and keep it with the model.

    From then on it is what `edit` and `evaluate` take unless --min-confidence says otherwise. A higher one makes fewer
    edits, more of them right; a lower one finds more.

    Example: stepedit tune runs/spelling && stepedit edit runs/spelling "recieve"
    """
    from stepedit.tuning import best
    from stepedit.tuning import tune as tuned

    with progress_bar("editing val") as progress:
        choices = tuned(run, progress)
    found, out = best(choices), console()
    if as_json:
        rows = [{"least": c.least, "precision": c.counts.precision, "recall": c.counts.recall} for c in choices]
        out.print(Text(json.dumps([row | {"f0.5": c.counts.f()} for row, c in zip(rows, choices, strict=True)])))
        return
    some = {0, choices.index(found), *range(0, len(choices), max(1, len(choices) // SHOWN))}
    table = [["least confidence", "precision", "recall", "F0.5", ""]]
    for choice in (choices[index] for index in sorted(some)):
        counts = choice.counts
        figures = [f"{counts.precision:.2%}", f"{counts.recall:.2%}", f"{counts.f():.2%}"]
        table.append([f"{choice.least:.3f}", *figures, "<- taken" * (choice is found)])
    out.print(aligned(table))
