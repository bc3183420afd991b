"""Errors that a user can cause. Each has a one-line message: what is wrong, where, and what to do."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

MAX_SHOWN = 60  # characters of a wrong value
WORDS = (  # pydantic's, which typer uses as well, and ours
    (r"greater than or equal to (\S+)", r"must be at least \1"),
    (r"greater than (\S+)", r"must be greater than \1"),
    (r"less than or equal to (\S+)", r"must be at most \1"),
    (r"less than (\S+)", r"must be less than \1"),
    (r"a valid integer.*", "must be a whole number"),
    (r"a valid number.*", "must be a number"),
    (r"a valid boolean.*", "must be true or false"),
    (r"a valid string.*", "must be a text"),
    (r"a valid (?:dictionary|mapping).*", "must be names and values"),
    (r"a valid (?:list|tuple|array).*", "must be a list"),
)


class UserError(ValueError):
    """Invalid input; the command line prints the message and exits with this code."""

    exit_code = 2


class DataError(UserError):
    """Text, files or settings that cannot be used."""


class LineError(DataError):
    """A line of standard input at which `edit --strict` stops."""

    exit_code = 1


class DivergedError(UserError):
    """Training that cannot continue, because numbers are not finite."""

    exit_code = 1


class DataWarning(UserWarning):
    """Data that can be used, but are perhaps not what is meant; the command line prints the message."""


class PairError(DataError):
    """A pair that does not belong to its task."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"pair {index + 1}: {reason}")
        self.index, self.reason = index, reason


class UnknownNameError(UserError, KeyError):
    """A name that is not in a registry; the message lists the names that are."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show it quoted


@contextmanager
def located(where: str) -> Iterator[None]:
    """Prefix the message of any UserError raised inside with a location."""
    try:
        yield
    except UserError as error:
        raise DataError(f"{where}: {error}") from None


def in_our_words(message: str) -> str:
    """Return the message of a value that pydantic or typer refuses as one of ours: `must be at least 4`."""
    for theirs, ours in WORDS:
        message = re.sub(rf"Input should be {theirs}", ours, message)
    message = message.replace("Input should be ", "must be ").removeprefix("Value error, ")
    message = re.sub(r"Unable to parse input string as an integer.*", "must be a shorter whole number", message)
    return {"Field required": "is missing", "Extra inputs are not permitted": "is unknown"}.get(message, message)


def shown(value: object) -> str:
    """Return a wrong value as part of a message: one line, not too long."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write an integer of thousands of digits
        return "a very long number"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
