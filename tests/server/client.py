"""Requests to an application in the same process."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import httpx

from stepedit.server.middleware import RequestLimits


def call(
    app: RequestLimits, send: Callable[[httpx.AsyncClient], Coroutine[Any, Any, Any]], host: str = "localhost"
) -> Any:
    """Return what `send` returns for a client of the application."""

    async def with_client() -> Any:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
            return await send(client)

    return asyncio.run(with_client())


def post(app: RequestLimits, **body: Any) -> httpx.Response:
    """Return the response to a request for editing."""
    return call(app, lambda client: client.post("/api/edit", json=body))  # type: ignore[no-any-return]
