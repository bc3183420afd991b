"""Errors that a user can cause. Each has a one-line message: what is wrong, where, and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager


class UserError(ValueError):
    """Invalid input; the command line prints the message and exits with this code."""

    exit_code = 2


class DataError(UserError):
    """Text, files or settings that cannot be used."""


class DivergedError(UserError):
    """Training that cannot continue, because numbers are not finite."""

    exit_code = 1


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
