"""What stands before the application: limits on what a request may be, and headers that keep a page to itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

HEADERS = {
    "content-security-policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


BUSY = 429  # is said at once
APART, LONGEST = 0.005, 1.0  # seconds between two refusals, and until one


class Pace:
    """Lets refusals through one at a time, some way apart, so that who asks badly again and again is slowed by it.

    Nobody waits longer than LONGEST: a flood from ever new clients is for whatever stands before the server.
    """

    def __init__(self) -> None:
        self.next = 0.0

    async def turn(self) -> None:
        """Wait for it."""
        now = asyncio.get_running_loop().time()
        mine = min(max(now, self.next), now + LONGEST)
        self.next = mine + APART
        if mine > now:
            await asyncio.sleep(mine - now)


class Guard:
    """An ASGI application around another."""

    def __init__(self, inner: Application, largest: int, seconds: float) -> None:
        self.inner, self.largest, self.seconds = inner, largest, seconds
        self.pace = Pace()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Pass a request on, and refuse it when its body is too large or too slow to come."""
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        begun, seen, end = False, 0, asyncio.get_running_loop().time() + self.seconds

        whole = False  # the body is here

        async def counted() -> Message:
            nonlocal seen, whole
            try:
                async with asyncio.timeout_at(None if begun or whole else end):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"the request did not arrive within {self.seconds:g} seconds") from None
            seen += len(message.get("body", b""))
            whole = whole or not message.get("more_body", False)
            if seen > self.largest:
                raise HTTPException(413, self.too_large)
            return message

        async def marked(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                if 400 <= message["status"] < 500 and message["status"] != BUSY:
                    await self.pace.turn()
                message["headers"] = [*message["headers"], *((k.encode(), v.encode()) for k, v in HEADERS.items())]
            await send(message)

        if _declared(scope) > self.largest:
            await JSONResponse({"error": self.too_large}, 413, {"connection": "close"})(scope, receive, marked)
        else:
            await self.inner(scope, counted, marked)

    @property
    def too_large(self) -> str:
        """Why a request is refused."""
        return f"the request is larger than {self.largest:,} bytes"


def _declared(scope: MutableMapping[str, Any]) -> int:
    """The size that a request says it has."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0
