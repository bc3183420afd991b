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


class BusyError(Exception):
    """There is no room in the queue."""


class Way(NamedTuple):
    """What requests must have in common to be edited together."""

    model: str
    beam: int
    verify: bool
    trace: bool


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


class Batcher:
    """The queue, and the thread that works on it."""

    def __init__(self, editors: dict[str, Editor], batch: int, room: int, alone: bool = False) -> None:
        self.editors, self.batch, self.room = editors, batch, room
        self.alone = alone  # one request at a time, to compare with
        self.queue: deque[Waiting] = deque()
        self.texts = 0  # waiting or being edited
        self.batches = 0
        self._thread = ThreadPoolExecutor(1, initializer=torch.set_flush_denormal, initargs=(True,))
        self._work: asyncio.Task[None] | None = None

    async def edit(self, way: Way, texts: Sequence[str], seconds: float) -> Answer:
        """What comes of some texts; BusyError if there is no room, TimeoutError if it takes longer than that."""
        if self.texts + len(texts) > self.room:
            raise BusyError
        waiting = Waiting(way, texts)
        self.queue.append(waiting)
        self.texts += len(texts)
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._go())
        try:
            return await asyncio.wait_for(waiting.answer, seconds)
        finally:
            self.texts -= len(texts)

    async def _go(self) -> None:
        """Work until the queue is empty."""
        await asyncio.sleep(0)  # let those in that arrived at the same moment
        while self.queue:
            together = self._together()
            if not together:
                continue
            self.batches += 1
            texts = [text for waiting in together for text in waiting.texts]
            loop = asyncio.get_running_loop()
            try:
                answer = await loop.run_in_executor(self._thread, self._edit, together[0].way, texts)
            except Exception as error:  # whoever asked gets to know
                for waiting in together:
                    if not waiting.answer.done():
                        waiting.answer.set_exception(error)
                continue
            _share(answer, together)

    def _together(self) -> list[Waiting]:
        """The oldest request and all others that can go with it; who has given up waiting is left out."""
        self.queue = deque(waiting for waiting in self.queue if not waiting.answer.done())
        chosen, count, rest = list[Waiting](), 0, deque[Waiting]()
        for waiting in self.queue:
            fits = not chosen or (
                waiting.way == chosen[0].way and count + len(waiting.texts) <= self.batch and not self.alone
            )
            if fits:
                chosen.append(waiting)
                count += len(waiting.texts)
            else:
                rest.append(waiting)
        self.queue = rest
        return chosen

    def _edit(self, way: Way, texts: Sequence[str]) -> Answer:
        editor = self.editors[way.model]
        with torch.inference_mode():
            edited = editor.edit(texts, way.trace, way.beam, way.verify)
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
