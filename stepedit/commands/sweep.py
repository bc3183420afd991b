"""`stepedit sweep`: a grid of runs, each trained, scored and kept."""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from stepedit.commands.common import console, parsed, progress_bar
from stepedit.display import aligned
from stepedit.errors import UserError
from stepedit.registry import TASKS

if TYPE_CHECKING:
    from stepedit.experiments.costs import Cost
    from stepedit.experiments.grid import Cell
    from stepedit.experiments.places import Event


LEAST = 0.05  # minutes of a run


def sweep(
    grid: Annotated[
        str, typer.Argument(help="table, numbers, length, size, order, or a YAML file of lists.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="Where the runs' folders are.")] = Path("runs"),
    task: Annotated[
        list[str] | None, typer.Option(help=f"Of {', '.join(TASKS)}; may be repeated.", show_default="the paper's")
    ] = None,
    fixed: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE[,VALUE]", help="Values of any option of `train`, instead of the grid's."
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Existing splits: a folder, with places to fill in: data/{task}/{numbers}N/{length}L/{size}D.",
            show_default="made anew",
        ),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only show what would run, and what it would take.")] = False,
    budget: Annotated[
        str | None,
        typer.Option(help="Time for the whole sweep, shared evenly: 4h, 90m.", show_default="30 minutes a run"),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Runs at a time.", show_default="as the cores allow")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each run.")] = 1,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on this Ray cluster.", show_default="this machine")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="The most runs that a grid may have.")] = 1_000,
) -> None:
    """Run a grid of trainings, each scored on test at its end; what is finished already is not run again.

    Examples: stepedit sweep table --budget 6h; stepedit sweep length --task aor --set mode=online --budget 2h

    table: the paper's 18 cells. numbers, length, size: its analysis over N, L and D. order: which edit comes first. A
    grid file holds names of options with a value or a list of values each. Stop it or kill it at any moment: the same
    command goes on where it was. `stepedit report` shows what came of it.
    """
    from stepedit.experiments import costs, places
    from stepedit.experiments.grid import expand, grids

    values = {name: _values(value) for name, value in parsed(fixed, "--set").items()} | ({"data": data} if data else {})
    cells = expand(grids(grid, task or []), values, limit)
    workers = workers or max(1, len(places.cores()) // threads)
    if budget is not None:
        cells = _fitted(cells, costs.minutes_of(budget), workers)
    states = {cell.name: costs.state(cell, out) for cell in cells}
    todo = [cell for cell in cells if states[cell.name] != "finished"]
    if plan:
        _show_plan(cells, out, workers, threads)
        return
    console().print(Text(f"{len(cells)} runs, {len(cells) - len(todo)} of them finished already; in {out}"))
    events = places.on_ray(todo, out, ray, threads) if ray else places.on_this_machine(todo, out, workers, threads)
    _follow(events, len(todo), out)


def _values(text: str) -> list[Any]:
    """`a,b` as a list; numbers and truths as YAML reads them."""
    import yaml

    if not all(text.split(",")):
        raise UserError(f"--set takes NAME=VALUE[,VALUE], and a value is missing in {text!r}")
    try:
        return [yaml.safe_load(part) for part in text.split(",")]
    except yaml.YAMLError:
        raise UserError(f"--set takes NAME=VALUE[,VALUE], and {text!r} is no list of values") from None


def _fitted(cells: Sequence[Cell], minutes: float, workers: int) -> list[Cell]:
    """The same runs, each with its share of the time; finished ones count, so a second start gives the same shares."""
    from stepedit.experiments.grid import Cell

    share = 0.95 * minutes / ceil(len(cells) / workers)  # scoring takes a little, too
    if share < LEAST:
        raise UserError(f"--budget: {60 * share:.1f} seconds for each of {len(cells)} runs are too little")
    return [
        Cell(cell.name, cell.values | {"max_minutes": min(share, float(cell.values.get("max_minutes", share)))})
        for cell in cells
    ]


def _show_plan(cells: Sequence[Cell], out: Path, workers: int, threads: int) -> None:
    import torch

    from stepedit.experiments.costs import estimate

    torch.set_num_threads(threads)
    with progress_bar("timing a few steps of each") as progress:
        costs = estimate(cells, out, progress)
    console().print(aligned([["run", "state", "epochs left", "minutes"], *map(_row, costs)]))
    whole = sum(cost.minutes for cost in costs)
    rest = sum(cost.state != "finished" for cost in costs)
    took = max([whole / max(1, min(workers, rest)), *(cost.minutes for cost in costs)])
    console().print(Text(f"\n{rest} of {len(costs)} runs to go, about {took:,.0f} minutes with {workers} at a time"))


def _row(cost: Cost) -> list[str]:
    left = [f"{cost.epochs:,}", f"{cost.minutes:,.1f}"] if cost.state != "finished" else ["", ""]
    return [cost.cell.name, cost.state, *left]


def _follow(events: Generator[Event], count: int, out: Path) -> None:
    """Say what happens until all runs have ended; UserError if some failed."""
    failed, ended = list[str](), 0
    with progress_bar("runs") as progress, terminating(), closing(events):
        progress(0, count)
        try:
            for event in events:
                ended += event.kind in ("finished", "failed")
                progress(ended, count)
                if event.kind == "failed":
                    failed.append(event.cell.name)
                if event.kind != "started":
                    console().print(Text(f"{event.kind:<9} {event.cell.name}  {_told(event, out)}"))
        except KeyboardInterrupt:
            raise UserError(f"stopped with {ended} of {count} runs ended; the same command goes on") from None
    if failed:
        raise UserError(f"{len(failed)} of {count} runs failed: {', '.join(failed)}; each has a log.txt in {out}")


def _told(event: Event, out: Path) -> str:
    """What came of a run, or what was wrong."""
    from stepedit import results

    result = results.read(out / event.cell.name) if event.kind == "finished" else None
    if result is None:
        return event.note
    mean, low, high = result.metrics[result.headline]
    theirs = f", paper {result.paper[result.headline]:.2%}" if result.paper else ""
    return f"{result.headline} {mean:.2%} ({low:.2%} to {high:.2%}{theirs}), {result.seconds / 60:.1f} min"


@contextmanager
def terminating() -> Iterator[None]:
    """Being told to end is like Ctrl-C here: workers are let to save where they stand."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt  # not SIGINT, which a shell may have switched off for what runs in the background

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
