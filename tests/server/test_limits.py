"""What the server refuses, and that no request keeps others waiting."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from stepedit.inference.editor import Editor, EditResult
from stepedit.server.app import ServerLimits, make_app
from stepedit.server.batcher import Batcher
from stepedit.server.middleware import RequestLimits
from stepedit.server.model_store import ModelStore
from tests.server.client import call, post

SLOW = [(Editor, "segments"), (Editor, "edit"), (EditResult, "as_dict")]  # tokenize, edit, serialize


@pytest.fixture(scope="module")
def app(store: ModelStore) -> RequestLimits:
    return make_app(store)


def batcher_of(app: RequestLimits) -> Batcher:
    return app.app.state.batcher  # type: ignore[attr-defined, no-any-return]


def slow(original: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """Return a function that takes so many seconds more."""

    def delayed(*arguments: Any, **named: Any) -> Any:
        time.sleep(seconds)
        return original(*arguments, **named)

    return delayed


@pytest.mark.parametrize("path", ["/", "/app.js", "/healthz", "/api/models", "/api/nothing"])
def test_every_response_has_the_security_headers(app: RequestLimits, path: str) -> None:
    headers = call(app, lambda client: client.get(path)).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert "script-src" not in policy  # as default-src
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


def test_a_batch_has_at_most_max_batch_texts(store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    app, sizes, original = make_app(store, limits=ServerLimits(max_batch=4)), list[int](), Editor.edit

    def recorded(self: Editor, texts: list[str], *arguments: Any, **named: Any) -> Any:
        sizes.append(len(texts))
        time.sleep(0.2)  # the others arrive meanwhile
        return original(self, texts, *arguments, **named)

    monkeypatch.setattr(Editor, "edit", recorded)

    async def send_many(client: httpx.AsyncClient) -> list[httpx.Response]:
        return await asyncio.gather(*(client.post("/api/edit", json={"text": "9 5 2"}) for _ in range(14)))

    assert {response.status_code for response in call(app, send_many)} == {200}
    assert sum(sizes) == 14
    assert max(sizes) == 4


@pytest.mark.parametrize("which", SLOW, ids=[name for _, name in SLOW])
def test_other_requests_are_answered_while_one_is_worked_on(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch, which: tuple[type, str]
) -> None:
    app = make_app(store)
    monkeypatch.setattr(*which, slow(getattr(*which), 1.0))

    async def poll(client: httpx.AsyncClient) -> tuple[list[float], httpx.Response]:
        edit, seconds = asyncio.create_task(client.post("/api/edit", json={"text": "9 5 2", "trace": True})), []
        while not edit.done():
            began = time.perf_counter()
            assert (await client.get("/healthz")).status_code == 200
            seconds.append(time.perf_counter() - began)
            await asyncio.sleep(0.02)
        return seconds, await edit

    seconds, response = call(app, poll)
    assert response.status_code == 200
    assert len(seconds) > 10
    assert sorted(seconds)[len(seconds) // 2] < 0.1
    assert max(seconds) < 0.5


@pytest.mark.parametrize("which", SLOW, ids=[name for _, name in SLOW])
def test_the_time_limit_covers_all_work_and_its_weight_is_released(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch, which: tuple[type, str]
) -> None:
    app = make_app(store, limits=ServerLimits(seconds=0.3))
    monkeypatch.setattr(*which, slow(getattr(*which), 1.0))

    async def send(client: httpx.AsyncClient) -> tuple[httpx.Response, list[int]]:
        response = await client.post("/api/edit", json={"texts": ["9 5 2", "3 2"]})
        loads = [batcher_of(app).load]
        await asyncio.sleep(2)
        return response, [*loads, batcher_of(app).load]

    response, loads = call(app, send)
    assert (response.status_code, "longer than 0.3 seconds" in response.json()["error"]) == (503, True)
    assert loads == [2, 0]  # what a thread has begun counts until it ends


def test_the_time_limit_starts_when_a_request_arrives(store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app(store, limits=ServerLimits(seconds=0.6))
    monkeypatch.setattr(Editor, "edit", slow(Editor.edit, 0.4))

    async def slow_body() -> Any:
        yield b'{"text": '
        await asyncio.sleep(0.4)
        yield b'"9 5 2"}'

    headers = {"content-type": "application/json"}
    response = call(app, lambda client: client.post("/api/edit", content=slow_body(), headers=headers))
    assert response.status_code == 503


def test_a_response_that_is_too_large_is_refused(store: ModelStore) -> None:
    app = make_app(store, limits=ServerLimits(max_response_bytes=3_000))
    texts = ["9 5 2", "8 7 6", "5 4 3"]
    assert post(app, texts=texts).status_code == 200
    refused = post(app, texts=texts, trace=True)
    assert refused.status_code == 413
    assert refused.json()["error"].startswith("the response is larger than 3,000 bytes; send fewer texts")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (rb'{"text": "3 \ud800"}', "text: a lone surrogate, U+D800, is not a character"),
        (rb'{"texts": ["3", "\udfff"]}', "texts: line 2: a lone surrogate, U+DFFF, is not a character"),
        (rb'{"text": "3", "model": "\udc00"}', "model: a lone surrogate, U+DC00, is not a character"),
        (
            rb'{"text": "3", "\ud800": 1}',
            "Input should be a valid string, unable to parse raw data as a unicode string",
        ),
    ],
)
def test_lone_surrogates_are_refused(app: RequestLimits, body: bytes, message: str) -> None:
    headers = {"content-type": "application/json"}
    response = call(app, lambda client: client.post("/api/edit", content=body, headers=headers))
    assert (response.status_code, response.json()) == (422, {"error": message})


def test_a_surrogate_pair_is_a_character(app: RequestLimits) -> None:
    body, headers = rb'{"text": "\ud83d\ude00"}', {"content-type": "application/json"}
    response = call(app, lambda client: client.post("/api/edit", content=body, headers=headers))
    assert (response.status_code, response.json()) == (422, {"error": "unknown token '😀'"})


@pytest.mark.parametrize(
    ("allowed", "host", "status"),
    [
        ([], "localhost", 200),
        ([], "LOCALHOST:8000", 200),
        ([], "127.0.0.1:80", 200),
        ([], "[::1]:8000", 200),
        ([], "evil.example", 400),
        ([], "localhost.evil.example:8000", 400),
        ([], "127.0.0.1.evil.example", 400),
        ([], "", 400),
        (["Edit.example"], "edit.example:8000", 200),
        (["edit.example"], "other.example", 400),
        (["fe80::1"], "[fe80::1]:8000", 200),
        (["*"], "evil.example", 200),
    ],
)
def test_only_our_own_host_names_are_answered_to(store: ModelStore, allowed: list[str], host: str, status: int) -> None:
    app = make_app(store, allowed_hosts=allowed)
    for path in ("/", "/healthz", "/api/models"):
        response = call(app, lambda client, path=path: client.get(path, headers={"host": host}))  # type: ignore[misc]
        assert response.status_code == status
        assert "content-security-policy" in response.headers
    if status == 400:
        assert response.json()["error"].startswith(f"the host {host!r} is not served here; the option --allowed-host")


def test_a_request_with_two_hosts_is_refused(app: RequestLimits) -> None:
    headers = [("host", "localhost"), ("host", "evil.example")]
    assert call(app, lambda client: client.get("/healthz", headers=headers)).status_code == 400
