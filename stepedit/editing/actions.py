"""Actions: what a programmer predicts. A template says how many symbols an action has and what each one means.

A symbol is one integer that carries its kind in its two lowest bits: a token of the text, a position, an operation, or
an affix rule. So an action can be checked on its own, whatever output vocabulary the programmer has.

    task   template                          an action       what it does
    aor    (position, token)                 pos_0 -         insert `-` before position 0
    aes    (first, last, token)              pos_9 pos_13 7  replace positions 9 .. 13 by 7
    aec    (operation, position, token)      delete pos_5 pos_5
    sort   (operation, position)             swap pos_1      swap positions 1 and 2
    text   (operation, first, last, token)   delete pos_2 pos_5 pos_2

A network names a word form by its rule. Before the interpreter, which has no vocabulary, sees the action, the policy
replaces the rule by the form itself (`inference.word_forms`). DONE in every field ends the editing. An action that does
not fit the template or the text is skipped.

This module reads an action for one state; the interpreter does the same for batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal

from stepedit.editing.edits import Edit
from stepedit.editing.sequences import BoolArray, IntArray

TOKEN, POSITION, OPERATION, RULE = range(4)
Field = Literal["operation", "position", "first", "last", "token"]
RulesBetween = Callable[[IntArray, IntArray, BoolArray], IntArray]  # old ids, new ids, where -> rules, -1: none


class Operation(IntEnum):
    """What an action does to the text."""

    DONE = 0
    INSERT = 1
    DELETE = 2
    SUBSTITUTE = 3
    REPLACE = 4  # a span of any size by one token
    SWAP = 5  # two neighboring tokens
    TRANSFORM = 6  # a word into another form of it, by an affix rule


SPANNING = frozenset({Operation.DELETE, Operation.REPLACE})  # with fields for both ends, the others name one position


def symbol(kind: int, payload: int) -> int:
    """Return the integer for a token id, a position or an operation."""
    return payload * 4 + kind


def token(index: int) -> int:
    """Return the symbol of a token id."""
    return symbol(TOKEN, index)


def position(index: int) -> int:
    """Return the symbol of a position."""
    return symbol(POSITION, index)


def operation(which: Operation) -> int:
    """Return the symbol of an operation."""
    return symbol(OPERATION, which)


DONE = operation(Operation.DONE)
NOTHING = -1  # a symbol of no kind


@dataclass(frozen=True)
class Template:
    """The form of a task's actions: fields, operations they may name, tokens they may insert."""

    fields: tuple[Field, ...]
    operations: tuple[Operation, ...]  # without an operation field, the only one
    tokens: frozenset[int]  # ids
    copies: bool = False  # whether an action may also insert any token of the text
    num_rules: int = 0  # affix rules that a transformation may use
    rules_between: RulesBetween | None = field(default=None, compare=False)
    marks: Mapping[int, str] = field(default_factory=dict, compare=False)  # tokens that stand beside few other marks
    mark_pairs: frozenset[str] = field(default=frozenset(), compare=False)  # marks that may stand side by side

    def __post_init__(self) -> None:
        if "operation" not in self.fields and len(self.operations) != 1:
            raise ValueError("a template without an operation field has exactly one operation")

    def done(self) -> tuple[int, ...]:
        """Return the action that ends the editing."""
        return (DONE,) * len(self.fields)

    def edit(self, action: Sequence[int], state: Sequence[int]) -> Edit[int] | None:
        """Return the edit that an action names for a state, or None if it does not fit."""
        if len(action) != len(self.fields):
            return None
        values = dict(zip(self.fields, action, strict=True))
        named = values.get("operation", operation(self.operations[0]))
        first, last = values.get("first", values.get("position", 0)), values.get("last", values.get("position", 0))
        if named & 3 != OPERATION or named >> 2 not in self.operations or first & 3 != POSITION or last & 3 != POSITION:
            return None
        start, end, size = first >> 2, last >> 2, len(state)
        if start != end and named >> 2 not in SPANNING:
            return None
        inserted = values.get("token", NOTHING)
        fits = inserted & 3 == TOKEN and (inserted >> 2 in self.tokens or (self.copies and inserted >> 2 in state))
        no_token = values.get("token", first) == first
        match named >> 2:
            case Operation.INSERT if fits and 0 <= start <= size:
                return Edit(start, start, (inserted >> 2,))
            case Operation.SUBSTITUTE | Operation.REPLACE if fits and 0 <= start <= end < size:
                return Edit(start, end + 1, (inserted >> 2,))
            case Operation.DELETE if no_token and 0 <= start <= end < size:
                return Edit(start, end + 1, ())
            case Operation.TRANSFORM if inserted & 3 == TOKEN and inserted >> 2 > 0 and 0 <= start < size:
                return Edit(start, start + 1, (inserted >> 2,))
            case Operation.SWAP if no_token and 0 <= start < size - 1:
                return Edit(start, start + 2, (state[start + 1], state[start]))
        return None

    def crowds(self, edit: Edit[int], state: Sequence[int], mark_of: Callable[[int], str]) -> bool:
        """Whether an edit puts a mark beside one that it does not stand beside: a second comma behind a comma.

        `mark_of` returns the mark that a token is, or nothing.
        """
        if len(edit.tokens) != 1 or (mark := self.marks.get(edit.tokens[0])) is None:
            return False
        pairs = [mark_of(token) + mark for token in state[max(0, edit.start - 1) : edit.start]]
        pairs += [mark + mark_of(token) for token in state[edit.stop : edit.stop + 1]]
        return any(len(pair) > 1 and pair not in self.mark_pairs for pair in pairs)

    def operation_of(self, edit: Edit[int]) -> Operation:
        """Return the operation that makes an edit, from the edit's form; a word form is a substitution here."""
        if len(self.operations) == 1:
            return self.operations[0]
        if edit.start == edit.stop:
            return Operation.INSERT
        if len(edit.tokens) == 2:
            return Operation.SWAP
        if not edit.tokens:
            return Operation.DELETE
        return Operation.REPLACE if edit.stop - edit.start > 1 else Operation.SUBSTITUTE

    def operation_named(self, action: Sequence[int]) -> Operation:
        """Return the operation of an action that fits."""
        named = dict(zip(self.fields, action, strict=True)).get("operation", operation(self.operations[0]))
        return Operation(named >> 2)

    def format(self, action: Sequence[int], name: Callable[[int], str]) -> str:
        """Format an action for people: `<delete> pos_5 pos_5`; `name` maps token ids to strings."""
        return " ".join(format_symbol(part, name) for part in action)


def format_symbol(part: int, name: Callable[[int], str]) -> str:
    """Format one symbol; `?` if it has no meaning."""
    kind, payload = part & 3, part >> 2
    if kind == POSITION:
        return f"pos_{payload}"
    if kind == OPERATION and payload in tuple(Operation):
        return f"<{Operation(payload).name.lower()}>"
    if kind == RULE and payload >= 0:
        return f"rule_{payload}"
    if kind != TOKEN or payload <= 0:
        return "?"
    try:
        return name(payload)
    except LookupError:
        return "?"
