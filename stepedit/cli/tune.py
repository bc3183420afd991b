"""`stepedit tune`: choose the confidence threshold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from stepedit.cli.arguments import RunFolder
from stepedit.cli.display import aligned, console
from stepedit.cli.progress import progress_bar
from stepedit.errors import DataError, UserError

if TYPE_CHECKING:
    from stepedit.evaluation.threshold import CleanText

SHOWN = 8
CHANGE_RATE = 0.002  # of the words of clean text


def tune(
    run: RunFolder,
    clean: Annotated[
        Path | None,
        typer.Option(
            help="Clean text, a line or sentence a line: choose the highest recall that leaves it alone.",
            show_default=False,
        ),
    ] = None,
    max_change_rate: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="With --clean: share of its words that may be changed.", show_default=str(CHANGE_RATE)
        ),
    ] = None,
    max_changed_lines: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="With --clean: share of its lines that may be changed.", show_default="no limit"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all thresholds as one JSON list.")] = False,
) -> None:
    """Choose the confidence threshold with the best F0.5 on validation and store it with the model.

    With --clean, the lowest threshold that leaves clean text alone: the highest recall that is safe.

    From then on `edit` and `evaluate` use it unless --min-confidence is given. A higher threshold makes fewer edits
    with higher precision, a lower one has higher recall.

    Example: stepedit tune runs/spelling --clean prose.txt --max-change-rate 0.002
    """
    from stepedit.evaluation import threshold

    clean_text = _clean_text(clean, max_change_rate, max_changed_lines)
    with progress_bar("editing val") as progress:
        choices, found = threshold.tune(Path(run), progress, clean_text)
    out = console()
    if as_json:
        rows = [
            {
                "min_confidence": choice.min_confidence,
                "precision": choice.counts.precision,
                "recall": choice.counts.recall,
                "f0.5": choice.counts.f_score(),
                **(
                    {"changed_words": rates.word_rate, "changed_lines": rates.line_rate}
                    if (rates := choice.clean)
                    else {}
                ),
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
    if rates := found.clean:
        words = f"{rates.changed_words:,} of {rates.words:,} words ({rates.word_rate:.2%})"
        lines = f"{rates.changed_lines:,} of {rates.lines:,} lines ({rates.line_rate:.2%})"
        out.print(Text(f"changed in the clean text: {words}, {lines}"))


def _clean_text(path: Path | None, max_change_rate: float | None, max_changed_lines: float | None) -> CleanText | None:
    """Return the clean text with its limits; UserError if there are limits and no text."""
    from stepedit.evaluation.threshold import CleanText
    from stepedit.files import read_lines

    if path is None:
        if max_change_rate is not None or max_changed_lines is not None:
            raise UserError("--max-change-rate and --max-changed-lines are for clean text; name it with --clean FILE")
        return None
    lines = [line for line in read_lines(path) if line.strip()]
    if not lines:
        raise DataError(f"{path}: no text in it")
    if max_change_rate is None:
        max_change_rate = CHANGE_RATE if max_changed_lines is None else 1.0
    return CleanText(lines, max_change_rate, 1.0 if max_changed_lines is None else max_changed_lines)
