"""What stands before the application: limits on what a request may be, and headers that keep a page to itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

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


class TooLargeError(Exception):
    """The body is larger than allowed."""


class Guard:
    """An ASGI application around another."""

    def __init__(self, inner: Application, largest: int, seconds: float) -> None:
        self.inner, self.largest, self.seconds = inner, largest, seconds

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Pass a request on, and refuse it when its body is too large or too slow to come."""
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        begun = False
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await (receive() if begun else asyncio.wait_for(receive(), self.seconds))
            seen += len(message.get("body", b""))
            if seen > self.largest:
                raise TooLargeError
            return message

        async def marked(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = [*message["headers"], *((k.encode(), v.encode()) for k, v in HEADERS.items())]
            await send(message)

        try:
            if _declared(scope) > self.largest:
                raise TooLargeError
            await self.inner(scope, counted, marked)
        except TooLargeError:
            await _refuse(marked, 413, f"the request is larger than {self.largest:,} bytes")
        except TimeoutError:
            if not begun:
                await _refuse(marked, 408, f"the request did not arrive within {self.seconds:g} seconds")


def _declared(scope: MutableMapping[str, Any]) -> int:
    """The size that a request says it has."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


async def _refuse(send: Send, status: int, reason: str) -> None:
    body = json.dumps({"error": reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": body})
