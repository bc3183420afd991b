"""What commands share: reading a task's options, and the bar that long work shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from stepedit.errors import UserError
from stepedit.registry import TASKS

if TYPE_CHECKING:
    from stepedit.tasks.task import Task

TaskName = Annotated[str, typer.Argument(help=f"The task: {', '.join(TASKS)}.", show_default=False)]
Numbers = Annotated[
    int | None, typer.Option(help="N, how many different integers there are.", show_default="the task's own")
]
Length = Annotated[int | None, typer.Option(help="L, how many integers a text has.", show_default="the task's own")]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="Another option of the task; `stepedit tasks` lists them."),
]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same data.")]

Beam = Annotated[int, typer.Option(min=1, max=100, help="Texts followed at a time; 1: the likeliest action only.")]
Least = Annotated[
    float | None,
    typer.Option(
        "--min-confidence",
        min=0,
        max=1,
        help="Leave the text as it is where the programmer is less sure than this.",
        show_default="as `stepedit tune` has found, or 0",
    ),
]
WordList = Annotated[
    Path | None,
    typer.Option(
        "--lexicon",
        help="A file of words, one a line, for text: a word that is not in it gives way to what is near and "
        "likeliest, unless it is much likelier itself.",
        show_default=False,
    ),
]
Verify = Annotated[
    bool, typer.Option("--verify", help="Let the task's own check of a finished text, which knows the source, decide.")
]


def console() -> Console:
    """Standard output; words are not guessed at, long lines are left to the terminal."""
    return Console(highlight=False, soft_wrap=True)


def make_task(name: str, numbers: int | None, length: int | None, options: Sequence[str] | None) -> Task:
    """The task that the command line describes."""
    said = (("numbers", numbers), ("length", length))
    return TASKS[name].from_options(parsed(options) | {key: value for key, value in said if value is not None})


def parsed(options: Sequence[str] | None, flag: str = "--option") -> dict[str, Any]:
    """`NAME=VALUE` as names and values."""
    chosen: dict[str, Any] = {}
    for option in options or []:
        key, equals, value = option.partition("=")
        if not equals:
            raise UserError(f"{flag} takes NAME=VALUE, not {option!r}")
        chosen[key] = value
    return chosen


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error (if that is a terminal), moved by calling it with (done, total)."""
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    screen = Console(stderr=True)
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        work = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(work, completed=done, total=total)
