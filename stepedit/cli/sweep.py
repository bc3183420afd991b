"""`stepedit sweep`: a grid of runs, each trained and scored."""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from stepedit.cli.arguments import parse_pairs, require_torch
from stepedit.cli.display import aligned, console
from stepedit.cli.progress import progress_bar
from stepedit.config import MAX_THREADS
from stepedit.errors import UserError, shown
from stepedit.registry import TASKS

if TYPE_CHECKING:
    from stepedit.experiments.estimate import Cost
    from stepedit.experiments.executors import Event
    from stepedit.experiments.grid import Cell


MIN_MINUTES = 0.05  # of a run
SCORING_SHARE = 0.05  # of a budget


def sweep(
    grid: Annotated[
        str,
        typer.Argument(
            help="table, table-one-network, paper-curves, numbers, length, num-examples, edit-order, or a YAML file of "
            "lists.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the runs' folders.")] = Path("runs"),
    task: Annotated[
        list[str] | None,
        typer.Option(help=f"Of {', '.join(TASKS.known())}; may be repeated.", show_default="the paper's"),
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
            help="Folder of existing splits, with placeholders: data/{task}/{numbers}N/{length}L/{num_examples}D.",
            show_default="generated",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the runs and their estimated time.")] = False,
    budget: Annotated[
        str | None,
        typer.Option(help="Time for the whole sweep, shared evenly: 4h, 90m.", show_default="30 minutes a run"),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs at a time.", show_default="as the cores allow")] = None,
    threads: Annotated[int, typer.Option(min=1, max=MAX_THREADS, help="CPU threads of each run.")] = 1,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on this Ray cluster.", show_default="this machine")
    ] = None,
    max_runs: Annotated[int, typer.Option(min=1, help="Largest number of runs of a grid.")] = 1_000,
) -> None:
    """Train and score a grid of runs; finished runs are not run again.

    Examples: stepedit sweep table --budget 6h; stepedit sweep length --task aor --set mode=online --budget 2h

    table: the paper's 18 cells. table-one-network: the same with one encoder-decoder for the three methods, and
    Recurrence with the pointer. paper-curves: the table with the network that the authors trained. numbers, length,
    num-examples: its analysis over N, L and D. edit-order: which edit comes first. A grid file has names of options
    with a value or a list of values each. A sweep can be stopped or killed at any moment: the same command continues
    it. `stepedit report` shows the results.
    """
    require_torch("a sweep")
    from stepedit.experiments import estimate, executors
    from stepedit.experiments.grid import expand, grids

    values = {name: _values(value) for name, value in parse_pairs(fixed, "--set").items()}
    cells = expand(grids(grid, task or []), values | ({"data": data} if data else {}), max_runs)
    jobs = jobs or max(1, len(executors.available_cores()) // threads)
    if budget is not None:
        cells = _share_budget(cells, estimate.parse_minutes(budget), jobs)
    if dry_run:
        _show_estimate(cells, out, jobs, threads)
        return
    todo = [cell for cell in cells if estimate.state(cell, out) != "finished"]
    console().print(Text(f"{len(cells)} runs, {len(cells) - len(todo)} of them finished already; in {out}"))
    local = executors.run_locally(todo, out, jobs, threads)
    _follow(executors.run_on_ray(todo, out, ray, threads) if ray else local, len(todo), out)


def _values(text: str) -> list[Any]:
    """Return `a,b` as a list; numbers and booleans as in YAML."""
    import yaml

    if not all(text.split(",")):
        raise UserError(f"--set takes NAME=VALUE[,VALUE], and a value is missing in {text!r}")
    try:
        return [yaml.safe_load(part) for part in text.split(",")]
    except (yaml.YAMLError, ValueError, RecursionError):
        raise UserError(f"--set takes NAME=VALUE[,VALUE], and {shown(text)} is not a list of values") from None


def _share_budget(cells: Sequence[Cell], minutes: float, jobs: int) -> list[Cell]:
    """Return the runs with equal shares of the time; finished runs count, so that a second start gives the same."""
    from stepedit.experiments.grid import Cell

    share = (1 - SCORING_SHARE) * minutes / ceil(len(cells) / jobs)
    if share < MIN_MINUTES:
        raise UserError(f"--budget: {60 * share:.1f} seconds for each of {len(cells)} runs are too little")
    return [
        Cell(cell.name, cell.values | {"max_minutes": min(share, float(cell.values.get("max_minutes", share)))})
        for cell in cells
    ]


def _show_estimate(cells: Sequence[Cell], out: Path, jobs: int, threads: int) -> None:
    from stepedit.experiments.estimate import estimate

    with progress_bar("timing a few steps of each") as progress:
        costs = estimate(cells, out, threads, progress)
    console().print(aligned([["run", "state", "epochs left", "minutes"], *map(_row, costs)]))
    total = sum(cost.minutes for cost in costs)
    rest = sum(cost.state != "finished" for cost in costs)
    minutes = max([total / max(1, min(jobs, rest)), *(cost.minutes for cost in costs)])
    console().print(Text(f"\n{rest} of {len(costs)} runs to go, about {minutes:,.0f} minutes with {jobs} at a time"))


def _row(cost: Cost) -> list[str]:
    remaining = [f"{cost.epochs:,}", f"{cost.minutes:,.1f}"] if cost.state != "finished" else ["", ""]
    return [cost.cell.name, cost.state, *remaining]


def _follow(events: Generator[Event], count: int, out: Path) -> None:
    """Print events until all runs have ended; UserError if some failed."""
    failed, ended = list[str](), 0
    with progress_bar("runs") as progress, interrupt_on_sigterm(), closing(events):
        progress(0, count)
        try:
            for event in events:
                ended += event.kind in ("finished", "failed")
                progress(ended, count)
                if event.kind == "failed":
                    failed.append(event.cell.name)
                if event.kind != "started":
                    console().print(Text(f"{event.kind:<9} {event.cell.name}  {_result(event, out)}"))
        except KeyboardInterrupt:
            raise UserError(f"stopped with {ended} of {count} runs ended; the same command continues") from None
    if failed:
        raise UserError(f"{len(failed)} of {count} runs failed: {', '.join(failed)}; each has a log.txt in {out}")


def _result(event: Event, out: Path) -> str:
    """Return the scores of a run, or its error."""
    from stepedit.evaluation.scores import read_scores

    scores = read_scores(out / event.cell.name) if event.kind == "finished" else None
    if scores is None:
        return event.note
    mean, low, high = scores.metrics[scores.headline]
    theirs = f", paper {scores.paper[scores.headline]:.2%}" if scores.paper else ""
    minutes = scores.training_seconds / 60
    return f"{scores.headline} {mean:.2%} ({low:.2%} to {high:.2%}{theirs}), {minutes:.1f} min"


@contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that workers can save their checkpoints."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt  # not SIGINT, which a shell may have disabled for background processes

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
