"""Symbols and templates that tests write actions with."""

from stepedit.editing import actions
from stepedit.editing.actions import Operation, Template

POSITION, TOKEN = actions.position, actions.token
INSERT, DELETE, SUBSTITUTE, REPLACE, SWAP, TRANSFORM = (actions.operation(which) for which in tuple(Operation)[1:])

TOKENS = frozenset({1, 2, 3})  # ids 4 and 5 occur in texts, but no action may insert them
TEMPLATES = {
    "insert": Template(("position", "token"), (Operation.INSERT,), TOKENS),
    "replace": Template(("first", "last", "token"), (Operation.REPLACE,), TOKENS),
    "operate": Template(
        ("operation", "position", "token"), (Operation.INSERT, Operation.DELETE, Operation.SUBSTITUTE), TOKENS
    ),
    "swap": Template(("operation", "position"), (Operation.SWAP,), frozenset()),
    "all": Template(("operation", "first", "last", "token"), tuple(Operation)[1:], TOKENS),
    "copy": Template(
        ("operation", "position", "token"),
        (Operation.INSERT, Operation.DELETE, Operation.SUBSTITUTE, Operation.SWAP),
        frozenset({1}),
        copies=True,
    ),
}
