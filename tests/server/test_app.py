"""The API: what it answers, what it refuses, and that requests which arrive together are edited together."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any
from unittest import SkipTest

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from stepedit.commands.serve import compile_models, listen
from stepedit.editor import Editor
from stepedit.errors import UserError
from stepedit.serving.api import Limits, make_app
from stepedit.serving.guard import APART, Guard
from stepedit.serving.shelf import Shelf

TIGHT = Limits(characters=100, tokens=20, texts=8, body=2_000, batch=8, room=10, seconds=5.0)


@pytest.fixture(scope="session")
def shelf(runs: Path) -> Shelf:
    return Shelf.load([str(runs / name) for name in ("recurrence", "tagging", "end2end")])


def talk(app: Guard, ask: Callable[[httpx.AsyncClient], Coroutine[Any, Any, Any]]) -> Any:
    async def whole() -> Any:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await ask(client)

    return asyncio.run(whole())


def post(app: Guard, **body: Any) -> httpx.Response:
    return talk(app, lambda client: client.post("/api/edit", json=body))  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def app(shelf: Shelf) -> Guard:
    return make_app(shelf, limits=TIGHT)


def test_an_edit_comes_with_every_step_and_what_was_considered(app: Guard, shelf: Shelf) -> None:
    answer = post(app, text="9 5 2").json()
    (result,) = answer["results"]
    expected = shelf["recurrence"].edit(["9 5 2"], trace=True)[0]
    assert answer["model"] == "recurrence"
    assert (result["source"], result["text"], result["finished"]) == ("9 5 2", expected.text, expected.finished)
    assert result["right"] == (result["text"] == "2 5 9")
    assert [step["text"] for step in result["steps"]][-1] == result["text"]
    for step in result["steps"]:
        best = step["alternatives"][0]
        assert (best["operation"], best["position"]) == (step["operation"], step["position"])
        assert best["probability"] == pytest.approx(step["confidence"], abs=1e-4)
        assert 1 <= len(step["alternatives"]) <= 3
    assert result["last"][0]["operation"] == "done"


@pytest.mark.parametrize("model", ["tagging", "end2end"])
def test_other_methods_have_one_step_and_nothing_else_considered(app: Guard, model: str) -> None:
    (result,) = post(app, model=model, texts=["9 5 2"]).json()["results"]
    assert len(result["steps"]) == 1
    assert result["steps"][0]["alternatives"] == result["last"] == []


def test_a_batch_keeps_its_order_and_needs_no_trace(app: Guard) -> None:
    texts = ["3 2 5", "2 3 4", "9 8 7"]
    results = post(app, texts=texts, trace=False).json()["results"]
    assert [result["source"] for result in results] == texts
    assert all(result["steps"] == [] for result in results)


def test_a_beam_with_the_check_gives_results_that_hold(app: Guard) -> None:
    (result,) = post(app, text="9 5 2", beam=5, verify=True).json()["results"]
    assert result["verified"] is result["right"] is True


def test_what_there_is_can_be_asked(app: Guard) -> None:
    def get(path: str) -> Any:
        return talk(app, lambda client: client.get(path)).json()

    assert get("/healthz")["status"] == "ok"
    assert [model["name"] for model in get("/api/models")] == ["recurrence", "tagging", "end2end"]
    assert {task["name"] for task in get("/api/tasks")} >= {"aor", "aes", "aec", "sort"}
    example = get("/api/models/recurrence/example?seed=3")
    assert example == get("/api/models/recurrence/example?seed=3")
    assert sorted(map(int, example["source"].split())) == list(map(int, example["target"].split()))
    assert "/api/edit" in get("/openapi.json")["paths"]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"text": "3 x 5"}, 422, "unknown token 'x'"),
        ({"texts": ["3 2", ""]}, 422, "line 2: the text is empty"),
        ({"text": "3 2", "model": "recurence"}, 404, "did you mean 'recurrence'?"),
        ({"text": "3 2", "texts": ["3 2"]}, 422, "either `text` or `texts` is needed"),
        ({}, 422, "either `text` or `texts` is needed"),
        ({"texts": []}, 422, "texts"),
        ({"text": "3 2", "beam": 0}, 422, "beam"),
        ({"text": "3 2", "colour": 1}, 422, "colour"),
        ({"text": "3 2", "model": "tagging", "beam": 2}, 422, "are for actions, which tagging has none of"),
        ({"text": "3 " * 49}, 422, "a text has 49 tokens; 20 is the limit"),
        ({"text": "3" * 101}, 422, "longer than 100 characters"),
        ({"texts": ["3 2"] * 9}, 422, "9 texts are too many at once; 8 is the limit"),
        ({"text": "<script>alert(1)</script>"}, 422, "unknown token"),
        ({"text": "3" * 2_000}, 413, "larger than 2,000 bytes"),
    ],
)
def test_bad_input_gets_a_reason(app: Guard, body: dict[str, Any], status: int, said: str) -> None:
    answer = post(app, **body)
    assert answer.status_code == status
    assert said in answer.json()["error"]


def test_a_body_that_lies_about_its_size_or_never_ends_is_refused(app: Guard) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 1_000

    answer = talk(app, lambda client: client.post("/api/edit", content=endless()))
    assert answer.status_code == 413


def test_what_is_no_json_and_what_is_not_there_get_json(app: Guard) -> None:
    assert "error" in talk(app, lambda client: client.post("/api/edit", content=b"{")).json()
    missing = talk(app, lambda client: client.get("/api/nothing"))
    assert (missing.status_code, "error" in missing.json()) == (404, True)


def test_requests_that_arrive_together_are_one_batch(shelf: Shelf) -> None:
    app = make_app(shelf)

    async def many(client: httpx.AsyncClient) -> list[httpx.Response]:
        texts = [f"{a} {b} 2" for a in range(3, 11) for b in range(3, 8)]
        return await asyncio.gather(*(client.post("/api/edit", json={"text": text}) for text in texts))

    answers = talk(app, many)
    assert [answer.status_code for answer in answers] == [200] * 40
    alone = [shelf["recurrence"].edit([answer.json()["results"][0]["source"]])[0].text for answer in answers]
    assert [answer.json()["results"][0]["text"] for answer in answers] == alone
    assert app.inner.state.batcher.batches < 10  # type: ignore[attr-defined]


def test_too_much_at_once_is_refused_at_once_and_the_rest_is_answered(shelf: Shelf) -> None:
    app = make_app(shelf, limits=TIGHT)

    async def flood(client: httpx.AsyncClient) -> list[httpx.Response]:
        bodies = [{"texts": ["9 5 2", "5 4 3"]} for _ in range(30)]
        return await asyncio.gather(*(client.post("/api/edit", json=body) for body in bodies))

    answers = talk(app, flood)
    codes = [answer.status_code for answer in answers]
    assert set(codes) == {200, 429}
    assert codes.count(200) >= 5
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.headers["retry-after"] == "1"
    assert app.inner.state.batcher.taken == 0  # type: ignore[attr-defined]
    assert post(app, text="9 5 2").status_code == 200


def test_refusals_come_one_at_a_time_and_what_is_asked_well_does_not_wait_for_them(shelf: Shelf) -> None:
    async def flood(client: httpx.AsyncClient) -> tuple[float, float]:
        began = time.perf_counter()
        bad = [asyncio.create_task(client.post("/api/edit", json={"text": "x"})) for _ in range(100)]
        await asyncio.wait(bad, return_when=asyncio.FIRST_COMPLETED)
        assert (await client.get("/healthz")).status_code == 200
        waiting = sum(not task.done() for task in bad)
        assert {(await task).status_code for task in bad} == {422}
        return waiting, time.perf_counter() - began

    waiting, seconds = talk(make_app(shelf), flood)
    assert waiting > 10
    assert seconds >= 99 * APART


def test_what_takes_too_long_is_given_up(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app(shelf, limits=Limits(seconds=0.2))
    release = threading.Event()
    real = Editor.edit

    def slow(self: Editor, *arguments: Any) -> Any:
        release.wait(5)
        return real(self, *arguments)

    monkeypatch.setattr(Editor, "edit", slow)
    answer = post(app, text="9 5 2")
    release.set()
    assert answer.status_code == 503
    assert "longer than 0.2 seconds" in answer.json()["error"]


def test_a_fault_inside_is_told_in_json_and_does_not_last(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app(shelf)
    monkeypatch.setattr(Editor, "alternatives", lambda *_: 1 / 0)
    assert "error" in post(app, text="9 5 2").json()
    monkeypatch.undo()
    assert post(app, text="9 5 2").status_code == 200


def test_watched_runs_tell_their_validations(shelf: Shelf, runs: Path) -> None:
    app = make_app(shelf, [runs / "recurrence"])
    assert talk(app, lambda client: client.get("/api/runs")).json() == ["recurrence"]
    shown = talk(app, lambda client: client.get("/api/runs/recurrence")).json()
    assert (shown["metric"], shown["epochs"]) == ("sequence", 60)
    assert shown["reports"][-1]["epoch"] == 60
    assert talk(app, lambda client: client.get("/api/runs/x")).status_code == 404


def test_nothing_that_its_own_description_allows_breaks_it(shelf: Shelf, runs: Path) -> None:
    app = make_app(shelf, [runs / "recurrence"], limits=TIGHT)
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) == 9
    codes: list[int] = []
    for operation in operations:
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):

            @given(case=operation.as_strategy(generation_mode=mode))
            @settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
            def holds(case: Any) -> None:
                if isinstance(case.body, dict):
                    case.body.pop("model", None)  # a name that is there, or nothing would ever be edited
                if case.path_parameters:
                    case.path_parameters = {"name": "recurrence"}
                answer = case.call()
                codes.append(answer.status_code)
                assert answer.status_code < 500
                if answer.status_code >= 400:
                    assert "error" in answer.json()

            with contextlib.suppress(SkipTest, Unsatisfiable):  # some operations have nothing that could be wrong
                holds()
    assert codes.count(200) > len(codes) / 4


WORDS = st.lists(st.integers(0, 19).map(str), min_size=1, max_size=9).map(" ".join)


def test_whatever_its_vocabulary_can_say_is_answered(shelf: Shelf) -> None:
    app = make_app(shelf, limits=TIGHT)

    @given(st.lists(WORDS, min_size=1, max_size=4), st.integers(1, 3), st.booleans(), st.booleans())
    @settings(max_examples=40, deadline=None)
    def answered(texts: list[str], beam: int, verify: bool, trace: bool) -> None:
        answer = post(app, texts=texts, beam=beam, verify=verify, trace=trace)
        assert answer.status_code == 200
        for text, result in zip(texts, answer.json()["results"], strict=True):
            assert result["source"] == text
            for step in result["steps"]:
                assert [each["chosen"] for each in step["alternatives"]].count(True) == 1
            assert sum(each["chosen"] for each in result["last"]) <= result["finished"]

    answered()


def test_what_the_programmer_is_not_sure_of_is_not_done(app: Guard) -> None:
    (bold,) = post(app, text="9 5 2").json()["results"]
    least = max(step["confidence"] for step in bold["steps"])
    (shy,) = post(app, text="9 5 2", min_confidence=1.0).json()["results"]
    assert (shy["text"], shy["steps"]) == ("9 5 2", [])
    assert least < 1
    assert post(app, text="9 5 2", min_confidence=0.5, beam=2).status_code == 422


def test_too_wide_a_beam_for_so_much_text_is_refused(shelf: Shelf) -> None:
    app = make_app(shelf, limits=Limits(work=1_000))
    assert post(app, texts=["9 5 2"] * 10, beam=5).status_code == 200
    refused = post(app, texts=["9 5 2"] * 10, beam=10)
    assert (refused.status_code, "too much work" in refused.json()["error"]) == (422, True)


def test_a_body_that_trickles_in_is_given_up(shelf: Shelf) -> None:
    async def slow() -> AsyncIterator[bytes]:
        for letter in b'{"text": "9 5 2"}':
            await asyncio.sleep(0.05)
            yield bytes([letter])

    app = make_app(shelf, limits=Limits(seconds=0.3))
    answer = talk(app, lambda client: client.post("/api/edit", content=slow()))
    assert answer.status_code == 408


def test_without_models_there_is_nothing_to_ask(runs: Path) -> None:
    answer = post(make_app(Shelf({}), [runs / "recurrence"]), text="9 5 2")
    assert answer.status_code == 404


def test_the_server_binds_to_loopback_and_ends_on_sigterm_with_what_it_has_begun(runs: Path) -> None:
    program = "from stepedit.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", str(runs / "recurrence"), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    assert process.stdout is not None
    first = process.stdout.readline()
    assert "serving recurrence on http://127.0.0.1:" in first, first
    base = first.split(" on ")[1].split(";")[0]
    got: list[int] = []

    def ask() -> None:
        body = json.dumps({"texts": ["9 5 2"] * 200, "beam": 5}).encode()
        request = urllib.request.Request(f"{base}/api/edit", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            got.append(len(json.loads(answer.read())["results"]))

    asking = threading.Thread(target=ask)
    wait_until_up(base)
    asking.start()
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    asking.join(60)
    assert got == [200]
    process.communicate(timeout=30)
    assert process.returncode in (0, -signal.SIGTERM)


def test_a_port_that_is_taken_is_named() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"^cannot listen on 127.0.0.1, port {port}: [^(]*; --port 0 takes any"):
            listen("127.0.0.1", port)


@pytest.mark.parametrize(
    ("compiler", "works", "said"),
    [
        ("no-such-compiler", True, "no C++ compiler found"),
        (sys.executable, True, "compiling recurrence, up to a minute the first time ... done"),
        (sys.executable, False, "compiling tagging, up to a minute the first time ... nothing to compile in it"),
        (sys.executable, UserError("broken"), "failed; it is served as it is (broken)"),
    ],
)
def test_what_is_compiled_is_said(
    shelf: Shelf,
    compiler: str,
    works: bool | UserError,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def speed_up(_: Editor) -> bool:
        if isinstance(works, UserError):
            raise works
        return works

    monkeypatch.setenv("CXX", compiler)
    monkeypatch.setattr(Editor, "speed_up", speed_up)
    compile_models(shelf)
    told = capsys.readouterr()
    assert said in told.out + told.err


def wait_until_up(base: str) -> None:
    for _ in range(200):
        try:
            urllib.request.urlopen(f"{base}/healthz", timeout=5).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the server is not there")
