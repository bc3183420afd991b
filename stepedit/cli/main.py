"""The command line: its commands, and how errors are reported."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from functools import wraps
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from stepedit import __version__
from stepedit.cli.arguments import Command, mark_texts, with_plugins
from stepedit.errors import DataWarning, UserError, in_our_words, shown

COMMANDS = (
    *("tasks", "expert", "generate", "inspect", "corrupt", "train", "evaluate", "tune", "edit", "export"),
    *("sweep", "report", "serve"),
)

_python_shows = warnings.showwarning


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
            _discard_output()  # its reader is gone: exit silently
        except OSError as error:
            if error.filename is None:
                _discard_output()  # it may be what cannot be written
            _fail(f"cannot use {error.filename}: {error.strerror}" if error.filename else str(error), 2)

    return call


def _discard_output() -> None:
    """Send standard output nowhere, also what Python writes of it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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


def _open_streams() -> None:
    """Make standard streams usable that are closed, or that lack a character."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        stream = getattr(sys, name)
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a character that the terminal does not have is no reason to fail


def _options_with_value(app: typer.Typer, name: str) -> set[str]:
    """Return the names of a command's options that take a value."""
    group: Any = typer.main.get_command(app)
    options = (each for each in group.commands[name].params if each.param_type_name == "option" and not each.is_flag)
    return {flag for option in options for flag in option.opts}


def _not_utf8(arguments: Sequence[str]) -> str | None:
    """Return a message about the first argument that is not UTF-8, if any."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            return f"an argument is not UTF-8: {shown(os.fsencode(argument))}"
    return None


def _show_warning(message: Warning | str, category: type[Warning], *where: Any) -> None:
    """Print a warning about data as one line; others as Python does."""
    if issubclass(category, DataWarning):
        typer.echo(f"stepedit: warning: {message}", err=True)
    else:
        _python_shows(message, category, *where)


def main() -> None:
    """Run a command."""
    _open_streams()
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    arguments = sys.argv[1:] or ["--help"]
    if message := _not_utf8(arguments):
        typer.echo(f"stepedit: {message}", err=True)
        sys.exit(2)
    # a known command is imported alone: the others would double the time to start
    known = arguments[0] in COMMANDS
    app = make_app(arguments[:1] if known else COMMANDS)
    if arguments[0] == "edit":
        arguments = mark_texts(arguments, _options_with_value(app, "edit"))
    try:
        code = app(arguments, standalone_mode=False)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise  # a programming error keeps its traceback
        # typer's message about a wrong option, without its usage lines
        helpful = f"stepedit {arguments[0]} --help" if known else "stepedit --help"
        message = " ".join(in_our_words(error.format_message()).split())
        if arguments[0] == "edit" and message.startswith("No such option"):
            message += "; put -- before a text that begins with a dash"
        typer.echo(f"stepedit: {message} (see {helpful})", err=True)
        code = 2
    sys.exit(code)
