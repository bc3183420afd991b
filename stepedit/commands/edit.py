"""`stepedit edit`: edit texts with a trained run."""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from stepedit.commands.common import Beam, Least, Verify, console
from stepedit.display import aligned, plain, step_diff
from stepedit.errors import located

if TYPE_CHECKING:
    from stepedit.editor import Edited, Editor

BATCH = 1024  # lines read at a time


def edit(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts.", show_default="lines of standard input")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show each step, and how sure the programmer was.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object for each text, with its steps.")] = False,
    beam: Beam = 1,
    verify: Verify = False,
    min_confidence: Least = 0.0,
) -> None:
    """Edit texts, one result a line, in order.

    Example: stepedit edit runs/aor "6 10 9 5 2 3" --trace
    """
    from stepedit.editor import Editor

    editor = Editor.load(run)
    lines = iter(texts) if texts else (line.rstrip("\r\n") for line in sys.stdin)
    first = 0
    while batch := list(islice(lines, BATCH)):
        with located(f"lines from {first + 1} on" if first else "input"):
            results = editor.edit(batch, trace or as_json, beam, verify, min_confidence)
        for result in results:
            _show(result, editor, trace, as_json)
            if result.verified is False:
                typer.echo(f"stepedit: the check does not accept any result found for {result.source!r}", err=True)
        first += len(batch)


def _show(result: Edited, editor: Editor, trace: bool, as_json: bool) -> None:
    from stepedit.results import step_as_data

    out = console()
    if as_json:
        steps = [step_as_data(step, editor.method.task.vocabulary) for step in result.outcome.trace]
        whole = {"source": result.source, "text": result.text, "finished": result.finished, "steps": steps}
        whole |= {} if result.verified is None else {"verified": result.verified}
        out.print(Text(json.dumps(whole)))
        return
    if trace:
        words = editor.method.task.vocabulary
        rows: list[list[str | Text]] = [["step", "sure", "text"], ["", "", plain(result.source)]]
        for number, step in enumerate(result.outcome.trace, start=1):
            rows.append([str(number), f"{step.confidence:.1%}", step_diff(step, words)])
        out.print(aligned(rows))
    note = "" if result.finished else "   (stopped at the limit)"
    out.print(plain(f"{result.text}{note if trace else ''}"))
