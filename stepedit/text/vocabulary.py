"""Tokens to ids and back. Strings exist only at the edges (files, command line, HTTP); inside, text is ids.

A fixed vocabulary knows its tokens and no others. An open one accepts any text: an unknown token gets an id above all
known ones, which stands for this token until the text is decoded again. What a network sees of it is in the id:
`(id - known) % num_buckets` is the bucket of the token's shape or, with `spelled`, a number whose digits, in the bases
`bucket_sizes` and lowest first, are the buckets of its shape and of the characters that it begins and ends with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import ClassVar, Self
from zlib import crc32

from stepedit.editing.sequences import Sequences
from stepedit.errors import DataError, PairError
from stepedit.text import tokenization
from stepedit.text.tokenization import Level

PAD_TOKEN = "<pad>"
NUM_IDS = 1 << 58  # so that an id with two marks (`inference.protection`), times four, is an integer of 64 bits
SHAPES = 64  # buckets of shapes
SPELLINGS = (128, 128, 1024, 1024)  # buckets of the first letter, the first three, the last three, the first five


def _place(character: str) -> int:
    """Return a number whose remainder by 128 is another one for each small letter of nearly any alphabet."""
    code = ord(character)
    return code if code < 128 else code - 64


class Vocabulary:
    """A fixed list of tokens; a token's id is its index, and index 0 is padding."""

    is_open: ClassVar[bool] = False  # whether any text can be encoded
    bucket_sizes: tuple[int, ...] = ()  # of unknown tokens
    separator: ClassVar[str] = " "  # between tokens

    def __init__(self, tokens: Iterable[str]) -> None:
        self.tokens = tuple(tokens)
        self._ids = {token: index for index, token in enumerate(self.tokens)}
        if self.tokens[:1] != (PAD_TOKEN,):
            raise ValueError(f"a vocabulary starts with {PAD_TOKEN!r}")
        if len(self._ids) != len(self.tokens):
            raise ValueError("a vocabulary lists each token once")

    def __len__(self) -> int:
        return len(self.tokens)

    def buckets(self) -> list[int]:
        """Return the bucket of each known token, if networks see the spelling of known tokens, too."""
        return []

    def ids(self, tokens: Sequence[str]) -> list[int]:
        """Return the ids of some tokens; DataError names the first unknown one."""
        try:
            ids = [self._ids[token] for token in tokens]
        except KeyError as error:
            raise DataError(f"unknown token {error.args[0]!r}") from None
        if 0 in ids:
            raise DataError(f"the token {PAD_TOKEN!r} is padding and cannot be part of a text")
        return ids

    def __contains__(self, index: object) -> bool:
        """Whether an id is that of a token that may be part of a text."""
        return isinstance(index, int) and 0 < index < len(self.tokens)

    def name(self, index: int) -> str:
        """Return the token of an id."""
        return self.tokens[index]

    def opened(self) -> Self:
        """Return the vocabulary for one batch of texts; unknown tokens are forgotten with it."""
        return self

    def split(self, line: str) -> list[str]:
        """Tokenize a text."""
        return line.split()

    def pieces(self, tokens: Sequence[str]) -> list[str]:
        """Return what each token contributes to the text."""
        return [token if index == 0 else f" {token}" for index, token in enumerate(tokens)]

    def join(self, tokens: Sequence[str]) -> str:
        """Return the text of some tokens."""
        return "".join(self.pieces(tokens))

    def text(self, ids: Iterable[int]) -> str:
        """Return the text of some ids."""
        return self.join([self.name(index) for index in ids])

    def encode(self, lines: Iterable[str]) -> Sequences:
        """Encode lines as padded ids; PairError gives the first line that cannot be encoded."""
        rows = []
        for index, line in enumerate(lines):
            try:
                rows.append(self.ids(self.split(line)))
            except DataError as error:
                raise PairError(index, str(error)) from None
        return Sequences.from_rows(rows)

    def decode(self, sequences: Sequences) -> list[str]:
        """Return one line of text per sequence."""
        return [self.text(row) for row in sequences.rows()]


class OpenVocabulary(Vocabulary):
    """Encodes any text without loss; see `tokenization`."""

    is_open: ClassVar[bool] = True
    separator: ClassVar[str] = ""

    def __init__(self, tokens: Iterable[str], level: Level, spelled: bool = False) -> None:
        super().__init__(tokens)
        self.level, self.spelled = level, spelled
        self.bucket_sizes = (SHAPES, *SPELLINGS) if spelled else (SHAPES,)
        self.num_buckets = prod(self.bucket_sizes)  # kinds of unknown tokens that a network can tell apart
        self._unnamed = NUM_IDS // self.num_buckets // 2  # above the rank of every unknown token of a text
        self._unknown: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._in_bucket: dict[int, int] = {}  # unknown tokens of each bucket, less one

    def __contains__(self, index: object) -> bool:
        """Whether an id is that of a token that may be part of a text."""
        return super().__contains__(index) or index in self._names

    def name(self, index: int) -> str:
        """Return the token of an id, known or not."""
        return self.tokens[index] if index < len(self.tokens) else self._names[index]

    def text(self, ids: Iterable[int]) -> str:
        """Return the text of some ids, known or not."""
        known, unknown, size = self.tokens, self._names, len(self.tokens)  # beam search asks for thousands of texts
        return self.join([known[index] if index < size else unknown[index] for index in ids])

    def opened(self) -> Self:
        """Return a vocabulary with the same known tokens and no unknown ones yet."""
        return type(self)(self.tokens, self.level, self.spelled)

    def ids(self, tokens: Sequence[str]) -> list[int]:
        """Return the ids of some tokens; an unknown one gets an id of its own."""
        return [self._ids[token] if token in self._ids else self._id_of_unknown(token) for token in tokens]

    def _id_of_unknown(self, token: str) -> int:
        if token not in self._unknown:
            bucket = self._bucket(token)
            rank = self._in_bucket[bucket] = self._in_bucket.get(bucket, -1) + 1
            if rank >= self._unnamed:
                raise DataError(f"more than {rank:,} unknown tokens that begin and end as {token!r}")
            index = len(self.tokens) + bucket + self.num_buckets * rank
            self._unknown[token], self._names[index] = index, token
        return self._unknown[token]

    def _bucket(self, token: str) -> int:
        bucket = 0
        if self.spelled:
            first, *others = tokenization.spelling(token)
            numbers = [_place(first), *(crc32(part.encode()) for part in others)]
            for number, size in zip(reversed(numbers), reversed(SPELLINGS), strict=True):
                bucket = bucket * size + number % size
        return bucket * SHAPES + crc32(tokenization.shape(token).encode()) % SHAPES

    def buckets(self) -> list[int]:
        """Return the bucket of each known token, if networks see the spelling of known tokens, too."""
        return [self._bucket(token) for token in self.tokens] if self.spelled else []

    def as_unknown(self, index: int) -> int:
        """Return an id that a known token could have if it were unknown; it has no name."""
        return len(self.tokens) + self._bucket(self.tokens[index]) + self.num_buckets * (self._unnamed + index)

    def split(self, line: str) -> list[str]:
        """Tokenize a text."""
        return tokenization.split(line, self.level)

    def pieces(self, tokens: Sequence[str]) -> list[str]:
        """Return what each token contributes to the text."""
        return tokenization.pieces(tokens, self.level)
