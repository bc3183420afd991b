"""The one family of errors that a user can cause: each says in one line what is wrong, where, and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager


class UserError(ValueError):
    """A mistake in what came in; the command line prints its one line and exits with 2."""


class DataError(UserError):
    """Text, files or settings that cannot be used as they are."""


class PairError(DataError):
    """A pair that is none of its task."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"pair {index + 1}: {reason}")
        self.index, self.reason = index, reason


class UnknownNameError(UserError, KeyError):
    """A name that no registry holds; the message lists the names that exist."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would quote it


@contextmanager
def located(where: str) -> Iterator[None]:
    """Put the place in front of what any UserError inside says."""
    try:
        yield
    except UserError as error:
        raise DataError(f"{where}: {error}") from None
