"""The one family of errors that a user can cause: each says in one line what is wrong, where, and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager


class UserError(ValueError):
    """A mistake in what came in; the command line prints its one line and exits with 2."""


class DataError(UserError):
    """Text, files or settings that cannot be used as they are."""


class UnknownNameError(UserError):
    """A name that no registry holds; the message lists the names that exist."""


@contextmanager
def located(where: str) -> Iterator[None]:
    """Put the place in front of what any DataError inside says."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
