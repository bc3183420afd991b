"""Arguments that commands share, and options derived from the fields of a configuration."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.models import OptionInfo

from stepedit.config import FINE_TUNING, MAX_SEED, PRESETS
from stepedit.errors import DataError, UserError
from stepedit.registry import TASKS, load_plugins

if TYPE_CHECKING:
    from stepedit.inference.decoding import Decoding
    from stepedit.tasks.base import Task

Command = Callable[..., None]

RunFolder = Annotated[str, typer.Argument(help="Folder of a run, or name of a model that comes with stepedit.")]
TaskName = Annotated[str, typer.Argument(help=f"Task: {', '.join(TASKS.known())}.", show_default=False)]
Numbers = Annotated[int | None, typer.Option(help="N, number of different integers.", show_default="by task")]
Length = Annotated[int | None, typer.Option(help="L, number of integers in a text.", show_default="by task")]
TaskArgs = Annotated[
    list[str] | None,
    typer.Option("--task-arg", metavar="NAME=VALUE", help="Another argument of the task; see `stepedit tasks`."),
]
Seed = Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Random seed.")]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE.py",
        help="Python file that registers tasks, methods or programmers; may be repeated.",
        show_default=False,
    ),
]


TEXT_MARK = "\0"  # cannot be part of an argument
OPTION_AND_VALUE = re.compile(r"--[a-z][a-z0-9-]*=")


def mark_texts(arguments: Sequence[str], takes_value: Container[str]) -> list[str]:
    """Mark arguments that begin with a dash and are texts, such as `- 3 + 5 == 2` and `-3`.

    They are no names of options, which have two dashes and no space, nor the value of an option before them;
    `--keep="my words.txt"` is both. What follows `--` needs no mark.
    """
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    before = ["", *arguments]
    return [
        TEXT_MARK + argument
        if index < end and before[index] not in takes_value and _is_text_with_dash(argument)
        else argument
        for index, argument in enumerate(arguments)
    ]


def _is_text_with_dash(argument: str) -> bool:
    if not argument.startswith("-") or argument == "-h" or OPTION_AND_VALUE.match(argument):
        return False
    return " " in argument or not argument.startswith("--")


def with_plugins(command: Command) -> Command:
    """Return the command with an option --plugin, whose files are loaded before it runs; its errors name flags."""
    parameters = _parameters(command)

    def call(plugin: list[Path] | None, **values: Any) -> None:
        load_plugins(plugin or [])
        given = [each for each in parameters if values[each.name] != each.default]
        with _naming_flags({each.name: flag for each in given if (flag := _flag(each))}):
            command(**values)

    extra = inspect.Parameter("plugin", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Plugins)
    return _with_signature(call, command, [*parameters, extra])


def _flag(parameter: inspect.Parameter) -> str | None:
    """Return the flag of an option; None for an argument."""
    info = next((each for each in get_args(parameter.annotation) if isinstance(each, OptionInfo)), None)
    if info is None:
        return None
    named = (info.param_decls or ())[:1]
    return named[0].partition("/")[0] if named else f"--{parameter.name.replace('_', '-')}"


@contextmanager
def _naming_flags(flags: dict[str, str]) -> Iterator[None]:
    """Name options by their flags in errors raised inside: `--hidden-size: must be at least 4, not 2`.

    A name of one word may be a word of the message, so it is only replaced before a colon. Errors that begin with a
    file keep the names that are written there.
    """
    try:
        yield
    except UserError as error:
        message = str(error)
        for name, flag in flags.items():
            begin = "^" if isinstance(error, DataError) else r"(?<![\w-])" if "_" in name else "(?:^|(?<=: ))"
            message = re.sub(begin + name + (r"(?!\w)" if "_" in name else "(?=: )"), flag, message)
        error.args = (message, *error.args[1:])
        raise


def with_options(into: str, *models: type[BaseModel], skip: Sequence[str] = ()) -> Callable[[Command], Command]:
    """Return a decorator that adds one option per field of these models; their values arrive as the dict `into`."""

    def decorate(command: Command) -> Command:
        fields = {name: field for model in models for name, field in model.model_fields.items() if name not in skip}

        def call(**values: Any) -> None:
            given = {name: values.pop(name) for name in fields}
            command(**values, **{into: {name: value for name, value in given.items() if value is not None}})

        kept = [parameter for parameter in _parameters(command) if parameter.name != into]
        return _with_signature(call, command, [*kept, *(_option(name, field) for name, field in fields.items())])

    return decorate


def _parameters(command: Command) -> list[inspect.Parameter]:
    return list(inspect.signature(command, eval_str=True).parameters.values())  # typer does not evaluate strings


def _with_signature(call: Command, command: Command, parameters: Sequence[inspect.Parameter]) -> Command:
    """Return `call` with the name and help of a command and these parameters."""
    keyword = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    call = wraps(command)(call)
    del call.__wrapped__
    call.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in keyword}
    return call


def _option(name: str, field: FieldInfo) -> inspect.Parameter:
    """Return the command-line option of a field."""
    kind, choices = _kind(name, field.annotation)
    flag = f"--{name.replace('_', '-')}"
    option = typer.Option(
        f"{flag}/--no-{flag[2:]}" if kind is bool else flag,
        help=field.description,
        show_default=_default(name, field),
        metavar="|".join(choices) or None,
    )
    annotation = Annotated[kind | None, option]  # type: ignore[valid-type]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _kind(name: str, annotation: Any) -> tuple[type, list[str]]:
    """Return the type of an option, and its choices, if there are some."""
    if get_origin(annotation) in (Union, UnionType):
        annotation = next(part for part in get_args(annotation) if part is not NoneType)
    if get_origin(annotation) is Literal:
        return str, [str(value) for value in get_args(annotation)]
    if name in ("lexicon", "keep"):
        return Path, []
    if get_origin(annotation) is tuple:
        return list[str], []
    return annotation if annotation in (bool, int, float) else str, []


def _default(name: str, field: FieldInfo) -> str | bool:
    """Return what --help shows as the default, with the values of presets and of --encoder that differ."""
    extra = field.json_schema_extra
    usual = extra.get("shown_default") if isinstance(extra, dict) else field.default
    others: dict[str, list[str]] = {}  # value -> the presets that have it
    for preset, values in (PRESETS | {"--encoder": FINE_TUNING}).items():
        if name in values:
            others.setdefault(str(values[name]), []).append(preset)
    parts = [f"{', '.join(presets)}: {value}" for value, presets in others.items()]
    return "; ".join([str(usual), *parts]) if usual is not None else False


def require_torch(what: str) -> None:
    """Raise UserError if PyTorch is not installed."""
    if find_spec("torch") is None:
        raise UserError(f"{what} needs PyTorch: pip install 'stepedit[train]'")


def make_decoding(values: dict[str, Any]) -> Decoding:
    """Return the decoding that the command line describes."""
    from stepedit.inference.decoding import Decoding

    return Decoding(**values)


def hint_at_beam(decoding: Decoding) -> None:
    """Say on standard error that --verify has nothing to choose from without a beam."""
    if decoding.verify and decoding.beam_size == 1:
        typer.echo(
            "stepedit: --verify chooses among the results of a beam, of which there is one; add --beam-size 10",
            err=True,
        )


def make_task(name: str, numbers: int | None, length: int | None, task_args: Sequence[str] | None) -> Task:
    """Return the task that the command line describes."""
    given = (("numbers", numbers), ("length", length))
    return TASKS[name].from_args(parse_pairs(task_args) | {key: value for key, value in given if value is not None})


def parse_pairs(pairs: Sequence[str] | None, flag: str = "--task-arg") -> dict[str, Any]:
    """Return `NAME=VALUE` arguments as a dictionary."""
    chosen: dict[str, Any] = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"{flag} takes NAME=VALUE, not {pair!r}")
        chosen[key.replace("-", "_")] = value
    return chosen
