"""Actions: what a programmer says. A template fixes how many symbols an action has and what each one means.

A symbol is one integer that carries its kind in its two lowest bits: a token of the text, a position, or an operation.
So an action of any programmer can be judged by itself, whatever the programmer's own coding is.

    task   template                          an action       what it does
    aor    (position, token)                 pos_0 -         insert `-` before place 0
    aes    (first, last, token)              pos_9 pos_13 7  put 7 in the place of 9 .. 13
    aec    (operation, position, token)      delete pos_5 pos_5
    sort   (operation, position)             swap pos_1      exchange places 1 and 2

DONE in every field ends the editing. Whatever else does not fit the template or the text is to be skipped.

Here an action is read for one state; the interpreter does the same for whole arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from stepedit.edits import Edit
from stepedit.vocabulary import Vocabulary

TOKEN, POSITION, OPERATION = range(3)
Field = Literal["operation", "position", "first", "last", "token"]


class Operation(IntEnum):
    """What an action does to the text."""

    DONE = 0
    INSERT = 1
    DELETE = 2
    SUBSTITUTE = 3
    REPLACE = 4  # a span of any size by one token
    SWAP = 5  # two neighbours


def symbol(kind: int, payload: int) -> int:
    """The integer that stands for a token id, a position or an operation."""
    return payload * 4 + kind


def token(index: int) -> int:
    """The symbol of a token id."""
    return symbol(TOKEN, index)


def position(place: int) -> int:
    """The symbol of a position."""
    return symbol(POSITION, place)


def operation(which: Operation) -> int:
    """The symbol of an operation."""
    return symbol(OPERATION, which)


DONE = operation(Operation.DONE)
NOTHING = -1  # a symbol of no kind: what a programmer's own coding has no meaning for


@dataclass(frozen=True)
class Template:
    """The form of a task's actions: its fields, the operations they may name, the tokens they may bring."""

    fields: tuple[Field, ...]
    operations: tuple[Operation, ...]  # where no field names the operation, it is the only one here
    tokens: frozenset[int]  # ids
    copies: bool = False  # whether an action may also bring any token that is in the text

    def __post_init__(self) -> None:
        if "operation" not in self.fields and len(self.operations) != 1:
            raise ValueError("without an operation field there is exactly one operation")

    def done(self) -> tuple[int, ...]:
        """The action that ends the editing."""
        return (DONE,) * len(self.fields)

    def edit(self, action: Sequence[int], state: Sequence[int]) -> Edit[int] | None:
        """The edit that an action names for a state, or None if it does not fit."""
        if len(action) != len(self.fields):
            return None
        said = dict(zip(self.fields, action, strict=True))
        implied = operation(self.operations[0])
        which, is_operation = said.get("operation", implied) >> 2, said.get("operation", implied) & 3 == OPERATION
        first, last = said.get("first", said.get("position", 0)), said.get("last", said.get("position", 0))
        if not is_operation or which not in self.operations or first & 3 != POSITION or last & 3 != POSITION:
            return None
        start, end, size = first >> 2, last >> 2, len(state)
        brings = said.get("token", NOTHING)
        fits = brings & 3 == TOKEN and (brings >> 2 in self.tokens or (self.copies and brings >> 2 in state))
        match which:
            case Operation.INSERT if fits and 0 <= start <= size:
                return Edit(start, start, (brings >> 2,))
            case Operation.SUBSTITUTE | Operation.REPLACE if fits and 0 <= start <= end < size:
                return Edit(start, end + 1, (brings >> 2,))
            case Operation.DELETE if said.get("token", first) == first and 0 <= start < size:
                return Edit(start, start + 1, ())
            case Operation.SWAP if said.get("token", first) == first and 0 <= start < size - 1:
                return Edit(start, start + 2, (state[start + 1], state[start]))
        return None

    def operation_of(self, edit: Edit[int]) -> Operation:
        """The operation that makes an edit, told by its form."""
        if len(self.operations) == 1:
            return self.operations[0]
        if edit.start == edit.stop:
            return Operation.INSERT
        if len(edit.tokens) == 2:
            return Operation.SWAP
        if edit.stop - edit.start > 1:
            return Operation.REPLACE
        return Operation.SUBSTITUTE if edit.tokens else Operation.DELETE

    def operation_named(self, action: Sequence[int]) -> Operation:
        """The operation that an action which fits names."""
        named = dict(zip(self.fields, action, strict=True)).get("operation", operation(self.operations[0]))
        return Operation(named >> 2)

    def text(self, action: Sequence[int], vocabulary: Vocabulary) -> str:
        """An action in words: `delete pos_5 pos_5`."""
        return " ".join(symbol_text(part, vocabulary) for part in action)


def symbol_text(part: int, vocabulary: Vocabulary) -> str:
    """A symbol in words; one without meaning is shown as `?`."""
    kind, payload = part & 3, part >> 2
    if kind == TOKEN and payload in vocabulary:
        return vocabulary.name(payload)
    if kind == POSITION:
        return f"pos_{payload}"
    if kind == OPERATION and payload in tuple(Operation):
        return f"<{Operation(payload).name.lower()}>"
    return "?"
