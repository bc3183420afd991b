"""Middleware: limits on the size and time of a request, the hosts that are answered to, and security headers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
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


LOOPBACK = {"localhost", "127.0.0.1", "::1"}
TOO_MANY_REQUESTS = 429  # is answered at once
INTERVAL, MAX_DELAY = 0.005, 1.0  # seconds between two error responses, and until one


class RateLimiter:
    """Delays error responses so that they go out one at a time: clients that send bad requests are slowed down.

    No response is delayed by more than MAX_DELAY; floods from ever new clients are for a proxy in front of the server.
    """

    def __init__(self) -> None:
        self.next = 0.0

    async def wait(self) -> None:
        """Wait for the next slot."""
        now = asyncio.get_running_loop().time()
        slot = min(max(now, self.next), now + MAX_DELAY)
        self.next = slot + INTERVAL
        if slot > now:
            await asyncio.sleep(slot - now)


class AllowedHosts:
    """The names that a server answers to. A page elsewhere whose name points here (DNS rebinding) has another one."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = {*LOOPBACK, *(name.lower().strip("[]") for name in names)}

    def refusal(self, scope: MutableMapping[str, Any]) -> str | None:
        """Return why a request is refused, or None."""
        given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if "*" in self.names or (len(given) == 1 and _without_port(given[0]) in self.names):
            return None
        if len(given) != 1:
            return "a request needs exactly one Host header"
        return f"the host {given[0]!r} is not served here; the option --allowed-host of stepedit serve adds a name"


def _without_port(host: str) -> str:
    """Return a Host header in lower case without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


class RequestLimits:
    """An ASGI application around another."""

    def __init__(
        self, app: Application, max_bytes: int, seconds: float, allowed_hosts: AllowedHosts | None = None
    ) -> None:
        self.app, self.max_bytes, self.seconds = app, max_bytes, seconds
        self.allowed_hosts = allowed_hosts or AllowedHosts()
        self.errors = RateLimiter()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Pass a request on; refuse it if its host is not ours, or its body is too large or too slow."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, received, complete = False, 0, False
        scope["deadline"] = deadline = asyncio.get_running_loop().time() + self.seconds

        async def limited_receive() -> Message:
            nonlocal received, complete
            try:
                async with asyncio.timeout_at(None if started or complete else deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"the request did not arrive within {self.seconds:g} seconds") from None
            received += len(message.get("body", b""))
            complete = complete or not message.get("more_body", False)
            if received > self.max_bytes:
                raise HTTPException(413, self.too_large)
            return message

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                if 400 <= message["status"] < 500 and message["status"] != TOO_MANY_REQUESTS:
                    await self.errors.wait()
                message["headers"] = [*message["headers"], *((k.encode(), v.encode()) for k, v in HEADERS.items())]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self.app(scope, limited_receive, send_with_headers)
        else:
            await refusal(scope, receive, send_with_headers)

    def _refusal(self, scope: MutableMapping[str, Any]) -> JSONResponse | None:
        """Return the response to a request that is refused by its headers."""
        close = {"connection": "close"}  # the body is not read
        if reason := self.allowed_hosts.refusal(scope):
            return JSONResponse({"error": reason}, 400, close)
        if _content_length(scope) > self.max_bytes:
            return JSONResponse({"error": self.too_large}, 413, close)
        return None

    @property
    def too_large(self) -> str:
        """The message for a body that is too large."""
        return f"the request is larger than {self.max_bytes:,} bytes"


def _content_length(scope: MutableMapping[str, Any]) -> int:
    """Return the declared size of a request."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0
