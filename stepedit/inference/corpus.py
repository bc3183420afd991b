"""Edit a stream of lines: in batches, in order, by one process or several."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from stepedit.errors import DataError
from stepedit.registry import load_plugins, loaded_plugins

if TYPE_CHECKING:
    from concurrent.futures import Future

BATCH_LINES = 1024
BATCH_CHARACTERS = 1 << 20  # so that long lines do not pile up

Line = tuple[str, str]  # a text and its line end
Result = TypeVar("Result")
Work = Callable[[Sequence[Line], int], Result]  # (lines, number of lines before them) -> result


def batches(lines: Iterator[Line]) -> Iterator[tuple[list[Line], int]]:
    """Yield lines in batches, each with the number of lines before it; an error is raised after the lines before it."""
    first, batch, characters, failure = 0, list[Line](), 0, None
    while True:
        try:
            line = next(lines, None)
        except DataError as error:
            line, failure = None, error
        if line is not None:
            batch.append(line)
            characters += len(line[0])
        if batch and (line is None or len(batch) == BATCH_LINES or characters >= BATCH_CHARACTERS):
            yield batch, first
            first, batch, characters = first + len(batch), [], 0
        if failure:
            raise failure
        if line is None:
            return


def in_processes(work: Work[Result], lines: Iterator[Line], num_workers: int) -> Generator[Result]:
    """Apply `work` to batches of lines in several processes; yield results in order, a few batches ahead at most."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    waiting: deque[Future[Result]] = deque()
    pool = ProcessPoolExecutor(
        num_workers, mp_context=get_context("spawn"), initializer=_start_worker, initargs=(loaded_plugins(),)
    )
    failure: DataError | None = None
    try:
        for batch, first in _until_error(batches(lines)):
            if isinstance(batch, DataError):
                failure = batch
                break
            waiting.append(pool.submit(work, batch, first))
            if len(waiting) > 2 * num_workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
        if failure:
            raise failure
    finally:  # also if a batch fails or nobody reads on: later batches are not edited
        pool.shutdown(cancel_futures=True)


def _until_error(found: Iterator[tuple[list[Line], int]]) -> Iterator[tuple[list[Line] | DataError, int]]:
    """Yield batches and, if reading fails, the error as the last one."""
    try:
        yield from found
    except DataError as error:
        yield error, 0


def _start_worker(plugins: Sequence[str]) -> None:
    """Load plugins and use one thread: processes with several would wait for each other."""
    import os

    os.environ["OMP_NUM_THREADS"] = "1"
    load_plugins(plugins)
