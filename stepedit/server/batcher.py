"""Dynamic batching: requests that wait together are edited together.

One thread edits, one batch at a time. Requests that arrive meanwhile wait; all of them with the same model and decoding
form the next batch. The queue has a limit, beyond which requests are refused at once.

A second thread checks requests before they are queued and encodes their results. Nothing that takes time runs on the
event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from stepedit.inference.decoding import Decoding
from stepedit.inference.editor import Editor, EditResult

NUM_CANDIDATES = 3  # of each step

Check = Callable[[], None]  # raises an error if a request cannot be edited
Encode = Callable[[Sequence[EditResult]], bytes]  # the body of the response


class BusyError(Exception):
    """The queue is full."""


class BatchKey(NamedTuple):
    """What requests of one batch have in common."""

    model: str
    decoding: Decoding
    trace: bool
    states: bool = False


@dataclass
class Waiting:
    """A request in the queue."""

    key: BatchKey
    texts: Sequence[str]
    beam_size: int
    answer: asyncio.Future[list[EditResult]] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    expired: bool = False  # nobody waits for it any more

    @property
    def weight(self) -> int:
        """The work it takes: a beam of size k extends k states by k actions each."""
        return len(self.texts) * self.beam_size**2


class Batcher:
    """The queue, and the threads that work on it."""

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
        self.load = 0  # weight of all requests that wait or are being worked on
        self.num_batches = 0
        self._editing, self._coding = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._work: asyncio.Task[None] | None = None

    async def edit(self, key: BatchKey, texts: Sequence[str], deadline: float, check: Check, encode: Encode) -> bytes:
        """Return the encoded results of some texts; BusyError if the queue is full, TimeoutError at the deadline."""
        waiting = Waiting(key, texts, self.editors[key.model].beam_size(key.decoding))
        if self.load + waiting.weight > self.max_queue and self.load:
            raise BusyError
        self.load += waiting.weight
        work = asyncio.create_task(self._answer(waiting, check, encode))
        work.add_done_callback(self._release(waiting))
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.shield(work)  # a thread cannot be stopped: what it has begun goes on
        except TimeoutError:
            waiting.expired = True  # and what it has not begun is dropped
            raise

    def _release(self, waiting: Waiting) -> Callable[[asyncio.Task[bytes]], None]:
        """Return what is called when all work on a request has ended, answered or not."""

        def release(work: asyncio.Task[bytes]) -> None:
            self.load -= waiting.weight
            if not work.cancelled():
                work.exception()  # has been reported, or nobody waits for it any more

        return release

    async def _answer(self, waiting: Waiting, check: Check, encode: Encode) -> bytes:
        """Check a request, let it be edited in a batch, and encode its results."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._coding, check)
        if waiting.expired:
            return b""
        self.queue.append(waiting)
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._run())
        results = await waiting.answer
        return b"" if waiting.expired else await loop.run_in_executor(self._coding, encode, results)

    async def _run(self) -> None:
        """Work until the queue is empty."""
        await asyncio.sleep(0)  # let in requests that arrived at the same moment
        while self.queue:
            batch = self._next_batch()
            if batch:
                await self._process(batch)

    async def _process(self, batch: Sequence[Waiting]) -> None:
        """Edit a batch in the thread."""
        self.num_batches += 1
        texts = [text for waiting in batch for text in waiting.texts]
        try:
            loop = asyncio.get_running_loop()
            _distribute(await loop.run_in_executor(self._editing, self._edit, batch[0].key, texts), batch)
        except Exception as error:  # the clients get to know
            for waiting in batch:
                waiting.answer.set_exception(error)

    def _next_batch(self) -> list[Waiting]:
        """Return the oldest request and all others that fit its batch; requests that timed out are dropped."""
        chosen, weight, rest = list[Waiting](), 0, deque[Waiting]()
        for waiting in self.queue:
            if waiting.expired:
                waiting.answer.cancel()
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
        candidates = NUM_CANDIDATES if key.trace else 0
        return self.editors[key.model].edit(texts, key.decoding, key.trace, candidates, states=key.states)

    def close(self) -> None:
        """Let the threads end."""
        for thread in (self._editing, self._coding):
            thread.shutdown(wait=True, cancel_futures=True)


def _distribute(results: Sequence[EditResult], batch: Sequence[Waiting]) -> None:
    """Give every request its results."""
    begin = 0
    for waiting in batch:
        part = slice(begin, begin + len(waiting.texts))
        begin = part.stop
        waiting.answer.set_result(list(results[part]))
