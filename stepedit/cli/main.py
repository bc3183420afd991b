"""The command line: its commands, and how errors are reported."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import wraps
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from stepedit import __version__
from stepedit.cli.arguments import Command, mark_text, with_plugins
from stepedit.errors import UserError

COMMANDS = (
    *("tasks", "expert", "generate", "inspect", "corrupt", "train", "evaluate", "tune", "edit", "export"),
    *("sweep", "report", "serve"),
)


def reporting_errors(command: Command) -> Command:
    """Return the command with errors that a user can cause reported in one line and an exit code."""

    @wraps(command)
    def call(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
            sys.stdout.flush()
        except UserError as error:
            _fail(str(error), error.exit_code)
        except KeyboardInterrupt:
            _fail("stopped", 130)
        except BrokenPipeError:
            # the reader of the output is gone; exit silently, also when Python flushes at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            _fail(f"cannot use {error.filename}: {error.strerror}" if error.filename else str(error), 2)

    return call


def _fail(message: str, code: int) -> None:
    typer.echo(f"stepedit: {message}", err=True)
    raise typer.Exit(code)


def make_app(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """Return an application with these commands."""
    app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False, rich_markup_mode=None)
    for name in names:
        command = getattr(import_module(f"stepedit.cli.{name}"), name)
        app.command()(reporting_errors(with_plugins(command)))
    app.callback()(about)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"stepedit {__version__}")
        raise typer.Exit


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
            stream.reconfigure(errors="replace")  # a character that the terminal does not have is no reason to fail
    # a known command is imported alone: the others would double the time to start
    known = len(sys.argv) > 1 and sys.argv[1] in COMMANDS
    arguments = sys.argv[1:] or ["--help"]
    if arguments[0] == "edit":
        arguments = [mark_text(argument) for argument in arguments]
    try:
        code = make_app(sys.argv[1:2] if known else COMMANDS)(arguments, standalone_mode=False)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise  # a programming error keeps its traceback
        # typer's message about a wrong option, without its usage lines
        helpful = f"stepedit {sys.argv[1]} --help" if known else "stepedit --help"
        typer.echo(f"stepedit: {error.format_message()} (see {helpful})", err=True)
        code = 2
    sys.exit(code)
