"""Dynamic batching: requests that wait together are edited together.

One thread edits, one batch at a time. Requests that arrive meanwhile wait; all of them with the same model and decoding
form the next batch. The queue has a limit, beyond which requests are refused at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from stepedit.inference.decoding import Decoding
from stepedit.inference.editor import Editor, EditResult

NUM_CANDIDATES = 3  # of each step


class BusyError(Exception):
    """The queue is full."""


class BatchKey(NamedTuple):
    """What requests of one batch have in common."""

    model: str
    decoding: Decoding
    trace: bool


@dataclass
class Waiting:
    """A request in the queue."""

    key: BatchKey
    texts: Sequence[str]
    answer: asyncio.Future[list[EditResult]] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def weight(self) -> int:
        """The work it takes: a beam of size k extends k states by k actions each."""
        return len(self.texts) * self.key.decoding.beam_size**2


class Batcher:
    """The queue, and the thread that works on it."""

    def __init__(
        self,
        editors: dict[str, Editor],
        max_batch: int,
        max_queue: int,
        one_by_one: bool = False,
    ) -> None:
        self.editors, self.max_batch, self.max_queue = editors, max_batch, max_queue
        self.one_by_one = one_by_one  # one request at a time, for comparison
        self.queue: deque[Waiting] = deque()
        self.load = 0  # weight of all requests that wait or are being edited
        self.num_batches = 0
        self._thread = ThreadPoolExecutor(1)
        self._work: asyncio.Task[None] | None = None

    async def edit(self, key: BatchKey, texts: Sequence[str], seconds: float) -> list[EditResult]:
        """Return the results of some texts; BusyError if the queue is full, TimeoutError after so many seconds."""
        waiting = Waiting(key, texts)
        if self.load + waiting.weight > self.max_queue and self.load:
            raise BusyError
        self.queue.append(waiting)
        self.load += waiting.weight
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._run())
        return await asyncio.wait_for(waiting.answer, seconds)

    async def _run(self) -> None:
        """Work until the queue is empty."""
        await asyncio.sleep(0)  # let in requests that arrived at the same moment
        while self.queue:
            batch = self._next_batch()
            if batch:
                await self._process(batch)

    async def _process(self, batch: Sequence[Waiting]) -> None:
        """Edit a batch in the thread; its weight is released when that has ended, answered or not."""
        self.num_batches += 1
        texts = [text for waiting in batch for text in waiting.texts]
        try:
            loop = asyncio.get_running_loop()
            _distribute(await loop.run_in_executor(self._thread, self._edit, batch[0].key, texts), batch)
        except Exception as error:  # the clients get to know
            for waiting in batch:
                if not waiting.answer.done():
                    waiting.answer.set_exception(error)
        finally:
            self.load -= sum(waiting.weight for waiting in batch)

    def _next_batch(self) -> list[Waiting]:
        """Return the oldest request and all others that fit its batch; requests that timed out are dropped."""
        chosen, weight, rest = list[Waiting](), 0, deque[Waiting]()
        for waiting in self.queue:
            if waiting.answer.done():
                self.load -= waiting.weight
                continue
            matches = not chosen or (waiting.key == chosen[0].key and not self.one_by_one)
            if matches and (not chosen or weight + waiting.weight <= self.max_batch):
                chosen.append(waiting)
                weight += waiting.weight
            else:
                rest.append(waiting)
        self.queue = rest
        return chosen

    def _edit(self, key: BatchKey, texts: Sequence[str]) -> list[EditResult]:
        editor = self.editors[key.model]
        return editor.edit(texts, key.decoding, key.trace, NUM_CANDIDATES if key.trace else 0)

    def close(self) -> None:
        """Let the thread end."""
        self._thread.shutdown(wait=True, cancel_futures=True)


def _distribute(results: Sequence[EditResult], batch: Sequence[Waiting]) -> None:
    """Give every request its results."""
    begin = 0
    for waiting in batch:
        part = slice(begin, begin + len(waiting.texts))
        begin = part.stop
        if not waiting.answer.done():
            waiting.answer.set_result(list(results[part]))
