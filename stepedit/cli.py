"""The command line: what `stepedit` answers to, and how it says that something is wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from stepedit import __version__
from stepedit.commands.corrupt import corrupt
from stepedit.commands.data import data
from stepedit.commands.edit import edit
from stepedit.commands.evaluate import evaluate
from stepedit.commands.export import export
from stepedit.commands.inspect import inspect
from stepedit.commands.report import report
from stepedit.commands.serve import serve
from stepedit.commands.sweep import sweep
from stepedit.commands.tasks import tasks
from stepedit.commands.train import train
from stepedit.commands.tune import tune
from stepedit.commands.walk import walk
from stepedit.errors import UserError

Command = Callable[..., None]


def answering(command: Command) -> Command:
    """The command, with what a user can cause ending in one clear line and an exit code."""

    @wraps(command)
    def answer(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
            sys.stdout.flush()
        except UserError as error:
            _fail(str(error), 2)
        except KeyboardInterrupt:
            _fail("stopped", 130)
        except BrokenPipeError:
            # the reader of our output has gone; leave without a word, also when Python flushes at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            _fail(f"cannot use {error.filename}: {error.strerror}" if error.filename else str(error), 2)

    return answer


def _fail(message: str, code: int) -> None:
    typer.echo(f"stepedit: {message}", err=True)
    raise typer.Exit(code)


app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False, rich_markup_mode=None)
for command in (tasks, walk, data, inspect, corrupt, train, evaluate, tune, edit, export, sweep, report, serve):
    app.command()(answering(command))


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"stepedit {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Neural text editing, one edit at a time."""


def main() -> None:
    """Run a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a letter that the terminal does not have is no reason to fail
    try:
        code = app(standalone_mode=False)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise  # a fault of ours keeps its traceback
        # typer's word about a wrong option, without the lines of usage around it
        typer.echo(f"stepedit: {error.format_message()} (see stepedit --help)", err=True)
        code = 2
    sys.exit(code)
