"""Limits around an application: sizes, times, and the pace of error responses."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from stepedit.server.middleware import HEADERS, INTERVAL, MAX_DELAY, RateLimiter, RequestLimits
from tests.server.client import call

MAX_BYTES = 100


class Echo:
    """An application that answers with a status and the size of the body, and counts requests."""

    def __init__(self, status: int = 200) -> None:
        self.status, self.calls = status, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.calls += 1
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        await send({"type": "http.response.start", "status": self.status, "headers": [(b"x-own", b"1")]})
        await send({"type": "http.response.body", "body": str(len(body)).encode()})


def post(app: RequestLimits, content: Any, **headers: str) -> httpx.Response:
    return call(app, lambda client: client.post("/", content=content, headers=headers))  # type: ignore[no-any-return]


def test_a_body_of_exactly_the_limit_is_accepted() -> None:
    answer = post(RequestLimits(Echo(), MAX_BYTES, 5.0), b"x" * MAX_BYTES)
    assert (answer.status_code, answer.text) == (200, "100")
    assert answer.headers["x-own"] == "1"
    assert HEADERS.items() <= dict(answer.headers).items()


def test_a_body_that_is_declared_too_large_is_refused_unread() -> None:
    echo = Echo()
    answer = post(RequestLimits(echo, MAX_BYTES, 5.0), b"x" * (MAX_BYTES + 1))
    assert (answer.status_code, answer.json()) == (413, {"error": "the request is larger than 100 bytes"})
    assert answer.headers["connection"] == "close"
    assert echo.calls == 0


@pytest.mark.parametrize(("size", "fits"), [(50, True), (51, False)])
def test_the_parts_of_a_body_without_a_declared_size_are_added_up(size: int, fits: bool) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(2):
            yield b"x" * size

    async def send(client: httpx.AsyncClient) -> str:
        return (await client.post("/", content=parts())).text

    echo = Echo()
    answer = call(RequestLimits(echo, MAX_BYTES, 5.0), send)  # without a handler of errors there is no answer
    assert (answer == "100") == fits
    assert echo.calls == 1


def test_the_time_limit_is_for_the_body_and_not_for_what_comes_after_it() -> None:
    """An application may wait for the client to leave, while it works."""
    deadlines = []

    async def patient(scope: Any, receive: Any, send: Any) -> None:
        deadlines.append(scope["deadline"] - asyncio.get_running_loop().time())
        while (await receive())["more_body"]:
            pass
        leaving = asyncio.create_task(receive())
        await asyncio.sleep(0.3)
        assert not leaving.done()
        leaving.cancel()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    assert post(RequestLimits(patient, MAX_BYTES, 0.1), b"x").text == "done"
    assert deadlines[0] == pytest.approx(0.1, abs=0.05)


@pytest.mark.parametrize(
    ("status", "paced"), [(200, False), (399, False), (400, True), (404, True), (499, True), (429, False), (500, False)]
)
def test_only_errors_of_the_client_are_paced(status: int, paced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = list[int]()

    async def wait(self: RateLimiter) -> None:
        waits.append(status)

    monkeypatch.setattr(RateLimiter, "wait", wait)
    assert post(RequestLimits(Echo(status), MAX_BYTES, 5.0), b"").status_code == status
    assert bool(waits) == paced


def test_error_responses_are_an_interval_apart_and_none_waits_longer_than_the_longest_delay() -> None:
    """The clock stands still: 400 responses at the same moment."""
    delays = list[float]()

    class Clock:
        now = 100.0

        def time(self) -> float:
            return self.now

    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    async def run() -> None:
        limiter, clock = RateLimiter(), Clock()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("stepedit.server.middleware.asyncio.get_running_loop", lambda: clock)
            patch.setattr("stepedit.server.middleware.asyncio.sleep", sleep)
            for _ in range(400):
                await limiter.wait()
            clock.now += 10 * MAX_DELAY
            await limiter.wait()

    asyncio.run(run())
    assert len(delays) == 399, "the first one and the one after a pause do not wait"
    assert delays[:3] == pytest.approx([INTERVAL, 2 * INTERVAL, 3 * INTERVAL])
    assert max(delays) == MAX_DELAY == 1.0
    assert delays[-1] == MAX_DELAY


def test_what_is_no_request_is_passed_on() -> None:
    echo = Echo()
    asyncio.run(RequestLimits(echo, MAX_BYTES, 5.0)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert echo.calls == 1


def test_a_declared_size_that_is_no_number_is_not_believed() -> None:
    began = time.perf_counter()
    answer = post(RequestLimits(Echo(), MAX_BYTES, 5.0), b"x", **{"content-length": "many"})
    assert answer.text == "1"
    assert time.perf_counter() - began < 4
