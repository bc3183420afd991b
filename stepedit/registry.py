"""Tasks, methods and programmers by name. Adding one is a new file and one line here.

Built-in entries are written as "module:attribute" and imported on first use, so that this module imports nothing of
the package and `stepedit --help` does not load PyTorch.

Entries can also live outside the package:

- `register_task("dedupe", Dedupe)` (`register_method`, `register_programmer`) in Python;
- entry points in the groups `stepedit.tasks`, `stepedit.methods` and `stepedit.programmers`;
- `--plugin my_tasks.py` on the command line, a file that calls `register_task`.

A run's `config.json` names its task; it never makes anything be imported.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar, cast
from zlib import crc32

from stepedit.errors import UnknownNameError, UserError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from stepedit.methods.base import Method
    from stepedit.programmers.base import Programmer
    from stepedit.tasks.base import Task

Entry = TypeVar("Entry")


def did_you_mean(kind: str, name: object, choices: Iterable[str]) -> str:
    """Return one line: the name is unknown, the closest choice, and all choices."""
    names = sorted(choices)
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    guess = f" (did you mean {close[0]!r}?)" if close else ""
    return f"unknown {kind} {name!r}{guess}; available: {', '.join(names)}"


class Registry(Mapping[str, Entry], Generic[Entry]):
    """A mapping from names to classes: built-in, registered in this process, or from entry points."""

    def __init__(self, kind: str, builtin: Mapping[str, str]) -> None:
        self.kind = kind
        self._entries: dict[str, str | Entry] = dict(builtin)

    @cached_property
    def _installed(self) -> dict[str, EntryPoint]:
        """Entry points of installed packages."""
        from importlib.metadata import entry_points  # takes a while, and is rarely needed

        return {point.name: point for point in entry_points(group=f"stepedit.{self.kind}s")}

    def known(self) -> list[str]:
        """Return the names that are known without looking at installed packages."""
        return list(self._entries)

    def register(self, name: str, entry: Entry) -> None:
        """Add an entry; UserError if the name is taken by something else."""
        known = self._entries.get(name, self._installed.get(name))
        if known is not None and known != entry and not _redefined(known, entry):
            raise UserError(f"a {self.kind} named {name!r} is registered already; choose another name")
        self._entries[name] = entry

    def __getitem__(self, name: str) -> Entry:
        if not isinstance(name, str) or name not in self:
            raise UnknownNameError(did_you_mean(self.kind, name, self))
        if name not in self._entries:
            return cast(Entry, _load_entry_point(self._installed[name]))
        entry = self._entries[name]
        if not isinstance(entry, str):
            return entry
        module, _, attribute = entry.partition(":")
        try:
            return cast(Entry, getattr(importlib.import_module(module), attribute))
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise UserError(f"the {self.kind} {name!r} needs PyTorch: pip install 'stepedit[train]'") from None

    def __contains__(self, name: object) -> bool:
        return name in self._entries or name in self._installed

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._entries, *self._installed]))

    def __len__(self) -> int:
        return len({*self._entries, *self._installed})


def _redefined(old: object, new: object) -> bool:
    """Whether two classes are the same definition, executed twice."""
    names = [(getattr(each, "__module__", None), getattr(each, "__qualname__", None)) for each in (old, new)]
    return None not in names[0] and names[0] == names[1]


def _load_entry_point(point: EntryPoint) -> object:
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise UserError(f"the installed plugin {point.name!r} ({point.value}) cannot be loaded: {error}") from error


TASKS: Registry[type[Task]] = Registry(
    "task",
    {
        "aor": "stepedit.tasks.operator_restoration:OperatorRestoration",
        "aes": "stepedit.tasks.equation_simplification:EquationSimplification",
        "aec": "stepedit.tasks.equation_correction:EquationCorrection",
        "sort": "stepedit.tasks.number_sorting:NumberSorting",
        "text": "stepedit.tasks.parallel_text:ParallelText",
    },
)

METHODS: Registry[type[Method]] = Registry(
    "method",
    {
        "recurrence": "stepedit.methods.recurrence:Recurrence",
        "tagging": "stepedit.methods.tagging:Tagging",
        "end2end": "stepedit.methods.end2end:End2end",
    },
)

PROGRAMMERS: Registry[type[Programmer]] = Registry(
    "programmer",
    {
        "seq2seq": "stepedit.programmers.seq2seq:SeqToSeq",
        "pointer": "stepedit.programmers.pointer:Pointer",
    },
)


def register_task(name: str, task: type[Task]) -> None:
    """Make a task available by name."""
    TASKS.register(name, task)


def register_method(name: str, method: type[Method]) -> None:
    """Make a method available by name."""
    METHODS.register(name, method)


def register_programmer(name: str, programmer: type[Programmer]) -> None:
    """Make a programmer available by name."""
    PROGRAMMERS.register(name, programmer)


_plugins: list[str] = []


def load_plugins(paths: Iterable[str | Path]) -> None:
    """Execute Python files that register tasks, methods or programmers; each file once."""
    for path in (Path(each).resolve() for each in paths):
        if str(path) not in _plugins:
            _execute(path)
            _plugins.append(str(path))


def loaded_plugins() -> list[str]:
    """Paths of the plugin files loaded so far, for worker processes to load as well."""
    return list(_plugins)


def _execute(path: Path) -> None:
    if not path.is_file():
        raise UserError(f"--plugin {path}: no such file")
    name = f"stepedit_plugin_{path.stem}_{crc32(str(path).encode()):08x}"  # two files may have the same name
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"--plugin {path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        if isinstance(error, UserError):
            raise
        raise UserError(f"--plugin {path}: {type(error).__name__}: {error}") from error
