"""Names of what can be chosen. A new task is one new file and one line here; nothing else lists them.

Entries are written as "module:attribute" and imported when first asked for, so that this module stays a leaf which
everything may import, and so that `stepedit --help` does not wait for torch.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from stepedit.errors import UnknownNameError

if TYPE_CHECKING:
    from stepedit.methods.method import Method
    from stepedit.programmers.programmer import Programmer
    from stepedit.tasks.task import Task

Entry = TypeVar("Entry")


def did_you_mean(kind: str, name: str, choices: Iterable[str]) -> str:
    """One line that says the name is unknown, guesses the one meant, and lists all."""
    names = sorted(choices)
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    guess = f" (did you mean {close[0]!r}?)" if close else ""
    return f"unknown {kind} {name!r}{guess}; available: {', '.join(names)}"


class Registry(Mapping[str, Entry], Generic[Entry]):
    """A read-only mapping from name to entry; an unknown name teaches the known ones."""

    def __init__(self, kind: str, places: Mapping[str, str]) -> None:
        self.kind = kind
        self._places = dict(places)

    def __getitem__(self, name: str) -> Entry:
        if not isinstance(name, str) or name not in self._places:
            raise UnknownNameError(did_you_mean(self.kind, name, self._places))
        module, attribute = self._places[name].split(":")
        return cast(Entry, getattr(importlib.import_module(module), attribute))

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


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
