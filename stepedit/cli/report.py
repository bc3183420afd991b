"""`stepedit report`: the results of runs, beside the paper's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepedit.errors import UserError
from stepedit.registry import did_you_mean

if TYPE_CHECKING:
    from stepedit.experiments.aggregate import Results

FORMATS = ("html", "markdown", "csv")


def report(
    runs: Annotated[Path, typer.Argument(help="Folder with runs, at any depth.")],
    out: Annotated[
        Path | None, typer.Option(help="File to write.", show_default="standard output, except for HTML")
    ] = None,
    output: Annotated[
        str, typer.Option("--format", metavar="|".join(FORMATS), help="A page, or tables in Markdown or CSV.")
    ] = "html",
    figures: Annotated[
        Path | None, typer.Option(help="Folder for the figures as SVG files.", show_default="none")
    ] = None,
) -> None:
    """Show the results of runs: one page with tables, figures and examples, or tables in Markdown or CSV.

    Example: stepedit report runs --out report.html

    Runs are included once they are scored on test, which `sweep` and `evaluate` do; missing results are shown as
    missing.
    """
    from stepedit.experiments import report as reports
    from stepedit.experiments.aggregate import collect
    from stepedit.files import write_atomic

    if output not in FORMATS:
        raise UserError(did_you_mean("format", output, FORMATS))
    if out is None and figures is None and output == "html":
        raise UserError("an HTML report needs a file: --out report.html")
    results = collect(runs)
    if figures is not None:
        _write_figures(results, figures)
        if out is None and output == "html":
            return
    make = {"html": reports.as_html, "markdown": reports.as_markdown, "csv": reports.as_csv}[output]
    text = make(results)
    if out is None:
        typer.echo(text, nl=False)
        return
    write_atomic(out, text.encode())
    finished = sum(len(row.runs) for row in results.rows.values())
    typer.echo(f"{finished} finished runs, {len(results.problems)} folders not used; {out}")
    for problem in results.problems:
        typer.echo(f"stepedit: {problem}", err=True)


def _write_figures(results: Results, folder: Path) -> None:
    from stepedit.experiments.report import all_figures
    from stepedit.files import write_atomic

    folder.mkdir(parents=True, exist_ok=True)
    drawn = all_figures(results)
    for one in drawn:
        write_atomic(folder / f"{one.name}.svg", one.svg.encode())
    typer.echo(f"{folder}: {', '.join(f'{one.name}.svg' for one in drawn) or 'no figure has data yet'}", err=True)
