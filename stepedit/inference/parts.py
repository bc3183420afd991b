"""Large batches in parts that run at the same time, each on one thread.

The intermediate results of a part stay in the cache of a core, and a part is only as wide as its own longest text.

Shapes: B texts, T tokens of the longest.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

from stepedit.data.states import States
from stepedit.editing.sequences import Sequences

MAX_PART = 1_024  # tokens of a part, padding included
MIN_PART = 64  # tokens of a part for another thread: with fewer, waking it takes longer than it saves

Batch = TypeVar("Batch", Sequences, States)
Result = TypeVar("Result")


class Parts:
    """Calls functions on the parts of a batch; they have to release the interpreter lock to run at the same time."""

    def __init__(self, num_threads: int) -> None:
        self.num_threads = num_threads

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.num_threads, "stepedit-part")

    def map(self, function: Callable[[Batch], Result], batch: Batch) -> list[Result]:
        """Return the results of all parts in order."""
        texts = batch.texts if isinstance(batch, States) else batch
        bounds = part_bounds(len(texts), texts.ids.shape[1], self.num_threads) if len(texts) > 1 else [0, 1]
        if len(bounds) == 2:
            return [function(batch)]
        taken: list[Batch] = [batch.take(slice(*part)) for part in pairwise(bounds)]
        return [*self._pool.map(function, taken)] if self.num_threads > 1 else [*map(function, taken)]


def part_bounds(num_texts: int, width: int, num_threads: int) -> list[int]:
    """Return where the parts of a batch (B, T) begin, and its end; with more than one, all threads have as many."""
    tokens = num_texts * (width + 1)  # with end tokens
    count = max(-(-tokens // MAX_PART), min(num_threads, tokens // MIN_PART), 1)
    if count > 1:
        count = -(-count // num_threads) * num_threads
    count = max(min(count, num_texts), 1)
    return [index * num_texts // count for index in range(count + 1)]
