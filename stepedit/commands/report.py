"""`stepedit report`: what came of runs, beside the paper's figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stepedit.errors import UserError


def report(
    runs: Annotated[Path, typer.Argument(help="A folder with runs in it, at any depth.")],
    out: Annotated[
        Path | None, typer.Option(help="The file to write.", show_default="standard output, but for HTML")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="The tables in Markdown.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="The figures as CSV.")] = False,
    drawings: Annotated[
        Path | None, typer.Option(help="A folder for the drawings as SVG files.", show_default="none is written")
    ] = None,
) -> None:
    """Show what came of runs: one page with tables, figures and examples, or the tables in Markdown or CSV.

    Example: stepedit report runs --out report.html

    Runs count once they are scored on test, which `sweep` and `evaluate` do; what is missing is shown as missing.
    """
    from stepedit.checkpoints import write_whole
    from stepedit.experiments import report as reports
    from stepedit.experiments.collection import collect

    if markdown and as_csv:
        raise UserError("--markdown or --csv, not both")
    if out is None and drawings is None and not (markdown or as_csv):
        raise UserError("where to? --out report.html")
    collection = collect(runs)
    if drawings is not None:
        drawings.mkdir(parents=True, exist_ok=True)
        drawn = reports.drawings(collection)
        for one in drawn:
            write_whole(drawings / f"{one.name}.svg", one.svg.encode())
        typer.echo(f"{drawings}: {', '.join(f'{one.name}.svg' for one in drawn) or 'nothing to draw yet'}", err=True)
        if out is None and not (markdown or as_csv):
            return
    make = reports.as_markdown if markdown else reports.as_csv if as_csv else reports.as_html
    text = make(collection)
    if out is None:
        typer.echo(text, nl=False)
        return
    write_whole(out, text.encode())
    finished = sum(len(row.runs) for row in collection.rows.values())
    typer.echo(f"{finished} finished runs, {len(collection.problems)} folders not used; {out}")
    for problem in collection.problems:
        typer.echo(f"stepedit: {problem}", err=True)
