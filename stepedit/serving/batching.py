"""Requests that arrive together are edited together.

One thread edits, one batch at a time. What arrives meanwhile waits, and all of it that asks for the same model in the
same way is the next batch. The queue has a limit: what does not fit is refused at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from stepedit.editor import Alternative, Edited, Editor

SHOWN = 3  # alternatives of each step


def spare_threads() -> int:
    """How many threads may edit: one core is left for the requests, or both would wait for each other."""
    return max(1, torch.get_num_threads() - 1)


class BusyError(Exception):
    """There is no room in the queue."""


class Way(NamedTuple):
    """What requests must have in common to be edited together."""

    model: str
    beam: int
    verify: bool
    trace: bool
    least: float | None = None


@dataclass(frozen=True)
class Answer:
    """What came of a request."""

    edited: list[Edited]
    right: list[bool]  # what the task's check says
    alternatives: list[list[list[Alternative]]]  # of each text, of each state


@dataclass
class Waiting:
    """A request in the queue."""

    way: Way
    texts: Sequence[str]
    answer: asyncio.Future[Answer] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def weight(self) -> int:
        """How much work it is: a beam goes through its width squared for each text."""
        return len(self.texts) * self.way.beam**2


class Batcher:
    """The queue, and the thread that works on it."""

    def __init__(self, editors: dict[str, Editor], batch: int, room: int, alone: bool = False) -> None:
        self.editors, self.batch, self.room = editors, batch, room
        self.alone = alone  # one request at a time, to compare with
        self.queue: deque[Waiting] = deque()
        self.taken = 0  # weight of what waits or is being edited
        self.batches = 0
        self._thread = ThreadPoolExecutor(1, initializer=torch.set_flush_denormal, initargs=(True,))
        self._work: asyncio.Task[None] | None = None

    async def edit(self, way: Way, texts: Sequence[str], seconds: float) -> Answer:
        """What comes of some texts; BusyError if there is no room, TimeoutError if it takes longer than that."""
        waiting = Waiting(way, texts)
        if self.taken + waiting.weight > self.room and self.taken:
            raise BusyError
        self.queue.append(waiting)
        self.taken += waiting.weight
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._go())
        return await asyncio.wait_for(waiting.answer, seconds)

    async def _go(self) -> None:
        """Work until the queue is empty."""
        await asyncio.sleep(0)  # let those in that arrived at the same moment
        while self.queue:
            together = self._together()
            if together:
                await self._do(together)

    async def _do(self, together: Sequence[Waiting]) -> None:
        """Edit a batch in the thread; room is there again only when that has ended, answered or not."""
        self.batches += 1
        texts = [text for waiting in together for text in waiting.texts]
        try:
            loop = asyncio.get_running_loop()
            _share(await loop.run_in_executor(self._thread, self._edit, together[0].way, texts), together)
        except Exception as error:  # whoever asked gets to know
            for waiting in together:
                if not waiting.answer.done():
                    waiting.answer.set_exception(error)
        finally:
            self.taken -= sum(waiting.weight for waiting in together)

    def _together(self) -> list[Waiting]:
        """The oldest request and all others that can go with it; who has given up waiting is left out."""
        chosen, weight, rest = list[Waiting](), 0, deque[Waiting]()
        for waiting in self.queue:
            if waiting.answer.done():
                self.taken -= waiting.weight
                continue
            alike = not chosen or (waiting.way == chosen[0].way and not self.alone)
            if alike and (not chosen or weight + waiting.weight <= self.batch):
                chosen.append(waiting)
                weight += waiting.weight
            else:
                rest.append(waiting)
        self.queue = rest
        return chosen

    def _edit(self, way: Way, texts: Sequence[str]) -> Answer:
        editor = self.editors[way.model]
        with torch.inference_mode():
            edited = editor.edit(texts, way.trace, way.beam, way.verify, way.least)
            alternatives = editor.alternatives(edited, SHOWN) if way.trace else [[] for _ in edited]
        return Answer(edited, editor.holds(edited), alternatives)

    def close(self) -> None:
        """Let the thread end."""
        self._thread.shutdown(wait=True, cancel_futures=True)


def _share(answer: Answer, together: Sequence[Waiting]) -> None:
    """Give everyone their part."""
    begin = 0
    for waiting in together:
        part = slice(begin, begin + len(waiting.texts))
        begin = part.stop
        if not waiting.answer.done():
            waiting.answer.set_result(Answer(answer.edited[part], answer.right[part], answer.alternatives[part]))
