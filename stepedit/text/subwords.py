"""A pretrained tokenizer beside ours: which subwords each of our tokens covers.

A text goes through the encoder's own tokenizer as it is written, as one string. A token of ours covers all subwords
that share a character with it; a token that writes nothing (a case sign) covers those of the character after it, and
one that the tokenizer drops (a space, for BERT) those beside it. The end token behind each text covers the tokenizer's
own end. If a text has more subwords than the encoder has positions, only the beginnings of its long tokens are read.

Shapes: B texts, T tokens with an end token, S subwords of the longest text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stepedit.editing.sequences import IntArray
from stepedit.errors import DataError, UserError
from stepedit.text.vocabulary import Vocabulary

SHORTENED = (32, 8, 2)  # characters of each token that are read of a text with too many subwords
MIN_SPECIAL = 2  # symbols around a text: a first one, which stands for the whole text, and a last one


class SubwordBatch(NamedTuple):
    """B texts as subwords, and which of them each token covers."""

    ids: IntArray  # (B, S)
    lengths: IntArray  # (B,)
    starts: IntArray  # (B, T) first subword of each token
    stops: IntArray  # (B, T) behind the last one; start + 1 at least


class SubwordTokenizer:
    """The tokenizer of a pretrained encoder."""

    def __init__(self, path: Path, max_length: int, vocab_size: int | None = None) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise UserError("a pretrained encoder needs tokenizers: pip install 'stepedit[encoders]'") from None
        if not path.exists():
            raise DataError(f"{path}: no such file; an encoder's folder needs a fast tokenizer (tokenizer.json)")
        try:
            self._tokenizer: Any = Tokenizer.from_str(path.read_text(encoding="utf-8"))
        except Exception:  # tokenizers raises plain exceptions
            raise DataError(f"{path}: damaged (not a tokenizer)") from None
        self._tokenizer.encode_special_tokens = True  # `</s>` in a text is text, not its end
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_length)
        largest = max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=0)
        if vocab_size is not None and largest >= vocab_size:
            raise DataError(f"{path}: it has subword {largest}, and the encoder has embeddings for {vocab_size} only")
        if len(self._tokenizer.encode("").ids) < MIN_SPECIAL:
            raise DataError(f"{path}: its tokenizer puts no symbols around a text; an encoder such as BERT's does")

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the subwords of texts, without symbols around them."""
        return [found.ids for found in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def read(self, pieces: Sequence[Sequence[str]], num_tokens: int = 0) -> SubwordBatch:
        """Return the subwords of texts, given what each token contributes to it; T is at least `num_tokens` + 1."""
        found = self._tokenizer.encode_batch(["".join(parts) for parts in pieces])
        pieces = list(pieces)
        for row, each in enumerate(found):
            if each.overflowing:
                found[row], pieces[row] = self._shortened(pieces[row])
        lengths = np.array([len(each.ids) for each in found])
        width = max(map(len, pieces), default=0)
        width = max(width, num_tokens) + 1
        ids = np.zeros((len(found), int(lengths.max(initial=0))), np.int64)
        starts, stops = np.zeros((len(found), width), np.int64), np.ones((len(found), width), np.int64)
        for row, (each, parts) in enumerate(zip(found, pieces, strict=True)):
            ids[row, : len(each.ids)] = each.ids
            starts[row, : len(parts)], stops[row, : len(parts)] = _covered(each, parts)
            starts[row, len(parts) :], stops[row, len(parts) :] = len(each.ids) - 1, len(each.ids)
        return SubwordBatch(ids, lengths, starts, stops)

    def _shortened(self, parts: Sequence[str]) -> tuple[Any, list[str]]:
        """Return a text with too many subwords, of which the beginning of each token is read; cut off if need be."""
        for size in SHORTENED:
            kept = [part[:size] for part in parts]
            found = self._tokenizer.encode("".join(kept))
            if not found.overflowing:
                break
        return found, kept


def _covered(encoding: Any, pieces: Sequence[str]) -> tuple[IntArray, IntArray]:
    """Return the range of subwords that each token covers."""
    offsets = np.array(encoding.offsets).reshape(-1, 2)
    real = np.flatnonzero(np.array(encoding.special_tokens_mask) == 0)
    ends = np.cumsum([len(piece) for piece in pieces])
    begins = ends - [len(piece) for piece in pieces]
    if not len(real):
        return np.zeros_like(begins), np.ones_like(ends)
    first = np.searchsorted(np.maximum.accumulate(offsets[real, 1]), begins, side="right")
    last = np.searchsorted(offsets[real, 0], np.maximum(ends, begins + 1), side="left")
    first = np.minimum(first, len(real) - 1)
    return real[first], real[np.maximum(last - 1, first)] + 1


class SubwordReader:
    """Reads the ids of a vocabulary as subwords."""

    def __init__(self, tokenizer: SubwordTokenizer, vocabulary: Vocabulary) -> None:
        self.tokenizer, self.vocabulary = tokenizer, vocabulary

    def __deepcopy__(self, memo: dict[int, Any]) -> SubwordReader:
        return self  # a copied network reads the same texts

    def __call__(self, ids_BT: IntArray, lengths_B: IntArray) -> SubwordBatch:
        """Return the subwords of texts."""
        name, pieces = self.vocabulary.name, self.vocabulary.pieces
        rows = zip(ids_BT, lengths_B.tolist(), strict=True)
        texts = [pieces([name(token) for token in row[:length].tolist()]) for row, length in rows]
        return self.tokenizer.read(texts, ids_BT.shape[1])
