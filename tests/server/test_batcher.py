"""Which requests are edited together, and what becomes of those that nobody waits for."""

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from stepedit.inference.decoding import Decoding
from stepedit.inference.editor import EditResult
from stepedit.server.batcher import Batcher, BatchKey, BusyError

KEY = BatchKey("m", Decoding(), trace=False)
GATE = BatchKey("gate", Decoding(), trace=False)


class Recording:
    """An editor that writes texts in capitals and records what it is asked for; `gate` takes until it is opened."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.calls = seconds, list[tuple[list[str], int]]()
        self.began, self.gate = threading.Event(), threading.Event()

    def beam_size(self, decoding: Decoding) -> int:
        return decoding.beam_size

    def edit(self, texts: list[str], decoding: Decoding, trace: bool, candidates: int, states: bool) -> Any:
        if texts == ["gate"]:
            self.began.set()
            self.gate.wait(10)
        else:
            self.calls.append((texts, candidates))
        time.sleep(self.seconds)
        if "fail" in texts:
            raise ValueError("this text cannot be edited")
        return [EditResult(text, text.upper(), "done", None) for text in texts]


def joined(results: Any) -> bytes:
    return ",".join(result.text for result in results).encode()


def answers(
    batcher: Batcher, *requests: tuple[BatchKey, list[str]], seconds: float = 10.0, gate: bool = True
) -> list[Any]:
    """Return the body, or the error, of requests that all arrive while another one is edited."""
    editor: Any = batcher.editors["m"]

    async def send() -> list[Any]:
        deadline = asyncio.get_running_loop().time() + seconds

        def begin(key: BatchKey, texts: list[str]) -> asyncio.Task[bytes]:
            return asyncio.create_task(batcher.edit(key, texts, deadline, lambda: None, joined))

        first = [begin(GATE, ["gate"])] if gate else []
        while gate and not editor.began.is_set():
            await asyncio.sleep(0.01)
        work = [begin(*each) for each in requests]
        while gate and sum(task.done() for task in work) + len(batcher.queue) < len(work):
            await asyncio.sleep(0.01)
        editor.gate.set()
        found = await asyncio.gather(*work, return_exceptions=True)
        await asyncio.gather(*first)
        while batcher.load:
            await asyncio.sleep(0.01)
        return found

    try:
        return asyncio.run(asyncio.wait_for(send(), 20))
    finally:
        batcher.close()


def make(editor: Recording, max_batch: int = 4, max_queue: int = 100, **more: Any) -> Batcher:
    return Batcher(dict.fromkeys(("m", "n", "gate"), editor), max_batch, max_queue, **more)  # type: ignore[arg-type]


def test_every_request_gets_its_own_results() -> None:
    editor = Recording()
    assert answers(make(editor), (KEY, ["a", "b"]), (KEY, ["c"]), (KEY, ["d"])) == [b"A,B", b"C", b"D"]
    assert editor.calls == [(["a", "b", "c", "d"], 0)]


def test_requests_that_fit_go_before_one_that_does_not() -> None:
    editor = Recording()
    batcher = make(editor)
    assert answers(batcher, (KEY, ["a"] * 3), (KEY, ["b", "b"]), (KEY, ["c"])) == [b"A,A,A", b"B,B", b"C"]
    assert [texts for texts, _ in editor.calls] == [["a", "a", "a", "c"], ["b", "b"]]
    assert batcher.num_batches == 1 + 2


def test_a_request_larger_than_a_batch_is_edited_alone() -> None:
    editor = Recording()
    assert answers(make(editor), (KEY, ["a"] * 5), (KEY, ["b"])) == [b"A,A,A,A,A", b"B"]
    assert [len(texts) for texts, _ in editor.calls] == [5, 1]


@pytest.mark.parametrize(
    "other",
    [
        KEY._replace(model="n"),
        KEY._replace(decoding=Decoding(min_confidence=0.5)),
        KEY._replace(trace=True),
        KEY._replace(states=True),
    ],
    ids=["model", "decoding", "trace", "states"],
)
def test_requests_that_ask_for_something_else_are_not_in_the_same_batch(other: BatchKey) -> None:
    editor = Recording()
    assert answers(make(editor), (KEY, ["a"]), (other, ["b"]), (KEY, ["c"])) == [b"A", b"B", b"C"]
    assert [texts for texts, _ in editor.calls] == [["a", "c"], ["b"]]
    assert [candidates for _, candidates in editor.calls] == [0, 3 * other.trace]  # the three most probable actions


def test_a_text_counts_as_often_as_its_beam_is_large_squared() -> None:
    editor, wide = Recording(), KEY._replace(decoding=Decoding(beam_size=2))
    answers(make(editor, max_batch=8), *[(wide, [name]) for name in "abc"])
    assert [texts for texts, _ in editor.calls] == [["a", "b"], ["c"]]
    found = answers(make(Recording(), max_queue=9), *[(wide, [name]) for name in "abc"])
    assert [type(each) for each in found] == [bytes, bytes, BusyError]


def test_requests_can_be_edited_one_by_one() -> None:
    editor = Recording()
    assert answers(make(editor, one_by_one=True), (KEY, ["a"]), (KEY, ["b"])) == [b"A", b"B"]
    assert [texts for texts, _ in editor.calls] == [["a"], ["b"]]


def test_an_empty_queue_takes_a_request_of_any_size() -> None:
    assert answers(make(Recording(), max_queue=2), (KEY, ["a"] * 3), gate=False) == [b"A,A,A"]
    full = answers(make(Recording(), max_queue=4), (KEY, ["a", "a"]), (KEY, ["b"]), (KEY, ["c"]))
    assert [type(each) for each in full] == [bytes, bytes, BusyError]


def test_an_error_reaches_all_requests_of_the_batch_and_no_others() -> None:
    other = KEY._replace(trace=True)
    found = answers(make(Recording()), (KEY, ["a"]), (KEY, ["fail"]), (other, ["b"]))
    assert [str(each) for each in found[:2]] == ["this text cannot be edited"] * 2
    assert found[2] == b"B"


def test_what_was_not_begun_in_time_is_never_edited() -> None:
    editor, other = Recording(0.6), KEY._replace(trace=True)
    found = answers(make(editor), (KEY, ["a"]), (other, ["b"]), seconds=0.3, gate=False)
    assert [type(each) for each in found] == [TimeoutError, TimeoutError]
    assert [texts for texts, _ in editor.calls] == [["a"]]


def test_requests_behind_one_that_nobody_waits_for_any_more_are_answered() -> None:
    editor = Recording()
    batcher = make(editor)

    async def send() -> list[Any]:
        now = asyncio.get_running_loop().time()
        limits = [(GATE, "gate", 10.0), (KEY, "a", 0.3), (KEY, "b", 10.0), (KEY, "c", 10.0)]
        work = [
            asyncio.create_task(batcher.edit(key, [text], now + seconds, lambda: None, joined))
            for key, text, seconds in limits
        ]
        await asyncio.wait([work[1]])
        while len(batcher.queue) < 3:
            await asyncio.sleep(0.01)
        editor.gate.set()
        return await asyncio.gather(*work, return_exceptions=True)

    found = asyncio.run(asyncio.wait_for(send(), 10))
    batcher.close()
    assert [type(found[1]), *found[2:]] == [TimeoutError, b"B", b"C"]
    assert [texts for texts, _ in editor.calls] == [["b", "c"]]
    assert batcher.load == 0


def test_a_request_that_fails_its_check_is_not_edited_and_others_are() -> None:
    editor = Recording()
    batcher = make(editor)

    def refuse() -> None:
        raise ValueError("too much work")

    async def send() -> list[Any]:
        deadline = asyncio.get_running_loop().time() + 5
        checks: list[Callable[[], None]] = [refuse, lambda: None]
        work = [batcher.edit(KEY, [name], deadline, check, joined) for name, check in zip("ab", checks, strict=True)]
        return await asyncio.gather(*work, return_exceptions=True)

    refused, answered = asyncio.run(send())
    assert (str(refused), answered) == ("too much work", b"B")
    assert [texts for texts, _ in editor.calls] == [["b"]]
    assert batcher.load == 0
    batcher.close()
    with pytest.raises(RuntimeError, match="shutdown"):
        batcher._editing.submit(print)


def test_an_error_that_nobody_waits_for_any_more_is_not_reported_as_lost() -> None:
    """asyncio reports exceptions of tasks that nobody has looked at, when the task is thrown away."""
    editor, lost = Recording(), list[dict[str, Any]]()
    batcher = make(editor)

    async def send() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: lost.append(context))
        gate = asyncio.create_task(batcher.edit(GATE, ["gate"], loop.time() + 10, lambda: None, joined))
        while not editor.began.is_set():
            await asyncio.sleep(0.01)
        with pytest.raises(TimeoutError):
            await batcher.edit(KEY, ["a"], loop.time() + 0.1, fail, joined)
        editor.gate.set()
        await gate
        while batcher.load:
            await asyncio.sleep(0.01)
        gc.collect()

    def fail() -> None:
        time.sleep(0.3)
        raise ValueError("too late")

    asyncio.run(asyncio.wait_for(send(), 10))
    batcher.close()
    assert not lost
