"""Tokens to ids and back. Strings live only at the edges (files, command line, HTTP); inside there are ids.

A vocabulary of a task with a fixed set of tokens knows those and no others. An open one takes any text: a token that it
does not know gets an id above all known ones, which stands for this very token until the text is written out again.
Such ids tell a programmer one thing only: `(id - known) % buckets` is the bucket that the token's shape falls into.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Self
from zlib import crc32

from stepedit import tokens as text_tokens
from stepedit.errors import DataError, PairError
from stepedit.sequences import Sequences
from stepedit.tokens import Level

PAD_TOKEN = "<pad>"
DISGUISE = 1 << 40  # above all unknown tokens that there will ever be


class Vocabulary:
    """A fixed list of tokens; a token's id is its place in the list, and place 0 is padding."""

    buckets: ClassVar[int] = 0  # that unknown tokens fall into
    glue: ClassVar[str] = " "  # between tokens

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

    def __contains__(self, index: object) -> bool:
        """Whether an id stands for a token that may be in a text."""
        return isinstance(index, int) and 0 < index < len(self.tokens)

    def name(self, index: int) -> str:
        """The token of an id."""
        return self.tokens[index]

    def opened(self) -> Self:
        """The vocabulary for some texts of their own: what is unknown in them is forgotten with it."""
        return self

    def split(self, line: str) -> list[str]:
        """A text's tokens."""
        return line.split()

    def join(self, tokens: Sequence[str]) -> str:
        """The text of some tokens."""
        return " ".join(tokens)

    def text(self, ids: Iterable[int]) -> str:
        """The text of some ids."""
        return self.join([self.name(index) for index in ids])

    def encode(self, lines: Iterable[str]) -> Sequences:
        """Lines as padded ids; PairError tells the first line that is wrong."""
        rows = []
        for index, line in enumerate(lines):
            try:
                rows.append(self.ids(self.split(line)))
            except DataError as error:
                raise PairError(index, str(error)) from None
        return Sequences.from_rows(rows)

    def decode(self, sequences: Sequences) -> list[str]:
        """One line of text per sequence."""
        return [self.text(row) for row in sequences.rows()]


class OpenVocabulary(Vocabulary):
    """Any text, cut without loss; see `tokens`."""

    buckets: ClassVar[int] = 64
    glue: ClassVar[str] = ""

    def __init__(self, tokens: Iterable[str], level: Level) -> None:
        super().__init__(tokens)
        self.level = level
        self._unknown: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._filled: dict[int, int] = {}  # how many of a bucket there are

    def __contains__(self, index: object) -> bool:
        """Whether an id stands for a token that may be in a text."""
        return super().__contains__(index) or index in self._names

    def name(self, index: int) -> str:
        """The token of an id, be it known or not."""
        return self.tokens[index] if index < len(self.tokens) else self._names[index]

    def opened(self) -> Self:
        """The same known tokens, and no unknown ones yet."""
        return type(self)(self.tokens, self.level)

    def ids(self, tokens: Sequence[str]) -> list[int]:
        """The ids of some tokens; what is unknown becomes known under an id of its own."""
        return [self._ids[token] if token in self._ids else self._id_of_unknown(token) for token in tokens]

    def _id_of_unknown(self, token: str) -> int:
        if token not in self._unknown:
            bucket = self._bucket(token)
            before = self._filled[bucket] = self._filled.get(bucket, -1) + 1
            index = len(self.tokens) + bucket + self.buckets * before
            self._unknown[token], self._names[index] = index, token
        return self._unknown[token]

    def _bucket(self, token: str) -> int:
        return crc32(text_tokens.shape(token).encode()) % self.buckets

    def disguised(self, index: int) -> int:
        """An id that a known token might have if it were not known; it has no name."""
        return len(self.tokens) + self._bucket(self.tokens[index]) + self.buckets * (DISGUISE + index)

    def split(self, line: str) -> list[str]:
        """A text's tokens."""
        return text_tokens.split(line, self.level)

    def join(self, tokens: Sequence[str]) -> str:
        """The text of some tokens."""
        return "".join(self.pieces(tokens))

    def pieces(self, tokens: Sequence[str]) -> list[str]:
        """What each of the tokens adds to their text."""
        return text_tokens.pieces(tokens, self.level)
