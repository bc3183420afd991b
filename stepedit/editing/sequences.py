"""Batches of token sequences as padded arrays: the form in which text travels through the package.

Shapes: B sequences, T tokens of the longest one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

PAD = 0


def map_ids(old: IntArray, ids: IntArray) -> IntArray:
    """Replace each id below V by `ids` (V,); larger ids stay."""
    return np.where(old < len(ids), ids[np.minimum(old, len(ids) - 1)], old)


@dataclass(frozen=True)
class Sequences:
    """B sequences of token ids; every position at or after a sequence's length holds PAD."""

    ids: IntArray  # (B, T)
    lengths: IntArray  # (B,)

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[int]]) -> Sequences:
        """Pad a list of lists."""
        lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
        flat = np.fromiter((token for row in rows for token in row), np.int64, int(lengths.sum()))
        return cls.pack(flat, lengths)

    @classmethod
    def pack(cls, flat: IntArray, lengths: IntArray) -> Sequences:
        """Split a flat array of tokens at the lengths and pad the rows."""
        ids = np.full((len(lengths), int(lengths.max(initial=0))), PAD, np.int64)
        ids[np.arange(ids.shape[1]) < lengths[:, None]] = flat
        return cls(ids, lengths)

    @classmethod
    def keep(cls, slots: IntArray) -> Sequences:
        """Keep what is not PAD in each row of (B, ...) slots, in order."""
        slots = slots.reshape(len(slots), prod(slots.shape[1:]))
        kept = slots != PAD
        return cls.pack(slots[kept], kept.sum(1))

    @classmethod
    def join(cls, parts: Sequence[Sequences]) -> Sequences:
        """Concatenate batches."""
        width = max((part.ids.shape[1] for part in parts), default=0)
        return cls(
            np.concatenate([part.widened(width).ids for part in parts]),
            np.concatenate([part.lengths for part in parts]),
        )

    def rows(self) -> list[list[int]]:
        """Return the sequences as lists, without padding."""
        return [row[:length].tolist() for row, length in zip(self.ids, self.lengths.tolist(), strict=True)]

    def take(self, rows: npt.ArrayLike | slice) -> Sequences:
        """Return the rows selected by indices, a slice or a mask, trimmed to their longest."""
        picked = rows if isinstance(rows, slice) else np.asarray(rows)
        lengths = self.lengths[picked]
        return Sequences(self.ids[picked, : int(lengths.max(initial=0))], lengths)

    def mapped(self, ids: IntArray) -> Sequences:
        """Replace each id below V by `ids` (V,)."""
        return Sequences(map_ids(self.ids, ids), self.lengths)

    def widened(self, width: int) -> Sequences:
        """Return the same sequences with at least `width` columns."""
        missing = width - self.ids.shape[1]
        if missing <= 0:
            return self
        return Sequences(np.pad(self.ids, ((0, 0), (0, missing)), constant_values=PAD), self.lengths)

    def distinct(self) -> Sequences:
        """Drop repeated rows; the first of each stays.

        Rows are compared by 64-bit keys. In the improbable case of a collision a distinct row is dropped; equal rows
        never both stay.
        """
        keys = self.keys()
        in_order = np.sort(keys)
        repeated = np.flatnonzero(np.isin(keys, in_order[1:][in_order[1:] == in_order[:-1]]))
        kept = np.ones(len(self), np.bool_)
        kept[repeated] = False
        kept[repeated[np.unique(keys[repeated], return_index=True)[1]]] = True
        return self.take(kept) if len(repeated) else self

    def keys(self) -> npt.NDArray[np.uint64]:
        """Return a 64-bit hash (B,) of each row that does not depend on the padding."""
        weights = np.random.default_rng(0).integers(0, 1 << 63, self.ids.shape[1], dtype=np.uint64) * np.uint64(2) + 1
        keys: npt.NDArray[np.uint64] = np.ascontiguousarray(self.ids).view(np.uint64) @ weights
        return keys

    def mask(self) -> BoolArray:
        """Return (B, T), true where there is a token."""
        return np.arange(self.ids.shape[1]) < self.lengths[:, None]

    def equals(self, other: Sequences) -> BoolArray:
        """Return (B,), true where two rows are equal token by token."""
        width = max(self.ids.shape[1], other.ids.shape[1])
        same: BoolArray = (self.widened(width).ids == other.widened(width).ids).all(1)
        return same & (self.lengths == other.lengths)


@dataclass(frozen=True)
class Pairs:
    """Sources and their targets, row by row."""

    sources: Sequences
    targets: Sequences

    def __len__(self) -> int:
        return len(self.targets)

    def mapped(self, ids: IntArray) -> Pairs:
        """Replace each id below V by `ids` (V,)."""
        return Pairs(self.sources.mapped(ids), self.targets.mapped(ids))

    def take(self, rows: npt.ArrayLike | slice) -> Pairs:
        """Return the selected pairs."""
        return Pairs(self.sources.take(rows), self.targets.take(rows))

    @classmethod
    def join(cls, parts: Sequence[Pairs]) -> Pairs:
        """Concatenate pairs."""
        return cls(Sequences.join([part.sources for part in parts]), Sequences.join([part.targets for part in parts]))
