"""The command line: what `stepedit` answers to, and how it says that something is wrong."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from stepedit import __version__
from stepedit.commands.data import data
from stepedit.commands.inspect import inspect
from stepedit.commands.tasks import tasks
from stepedit.commands.walk import walk
from stepedit.errors import UserError

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False, rich_markup_mode=None)
for command in (tasks, walk, data, inspect):
    app.command()(command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"stepedit {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Neural text editing, one edit at a time."""


def main() -> None:
    """Run a command. What a user can cause ends in one clear line and exit code 2."""
    try:
        app()
    except UserError as error:
        _fail(str(error), 2)
    except KeyboardInterrupt:
        _fail("stopped", 130)
    except BrokenPipeError:
        # the reader of our output has gone; leave without a word, also when Python flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        place = f"cannot use {error.filename}: " if error.filename else ""
        _fail(f"{place}{error.strerror or error}", 2)


def _fail(message: str, code: int) -> None:
    typer.echo(f"stepedit: {message}", err=True)
    sys.exit(code)
