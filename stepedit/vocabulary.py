"""Tokens to ids and back. Strings live only at the edges (files, command line, HTTP); inside there are ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stepedit.errors import DataError, PairError
from stepedit.sequences import Sequences

PAD_TOKEN = "<pad>"


class Vocabulary:
    """A fixed list of tokens; a token's id is its place in the list, and place 0 is padding."""

    def __init__(self, tokens: Iterable[str]) -> None:
        self.tokens = tuple(tokens)
        self._ids = {token: index for index, token in enumerate(self.tokens)}
        if self.tokens[:1] != (PAD_TOKEN,):
            raise ValueError(f"a vocabulary starts with {PAD_TOKEN!r}")
        if len(self._ids) != len(self.tokens):
            raise ValueError("a vocabulary names each token once")

    def __len__(self) -> int:
        return len(self.tokens)

    def ids(self, tokens: Sequence[str]) -> list[int]:
        """The ids of some tokens; DataError names the first one that is unknown."""
        try:
            ids = [self._ids[token] for token in tokens]
        except KeyError as error:
            raise DataError(f"unknown token {error.args[0]!r}") from None
        if 0 in ids:
            raise DataError(f"the token {PAD_TOKEN!r} stands for padding and cannot be in a text")
        return ids

    def text(self, ids: Iterable[int]) -> str:
        """The tokens of some ids, separated by blanks."""
        return " ".join(self.tokens[index] for index in ids)

    def encode(self, lines: Iterable[str]) -> Sequences:
        """Lines of tokens separated by blanks, as padded ids; PairError tells the first line that is wrong."""
        rows = []
        for index, line in enumerate(lines):
            try:
                rows.append(self.ids(line.split()))
            except DataError as error:
                raise PairError(index, str(error)) from None
        return Sequences.from_rows(rows)

    def decode(self, sequences: Sequences) -> list[str]:
        """One line of text per sequence."""
        return [self.text(row) for row in sequences.rows()]
