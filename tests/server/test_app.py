"""The API: what it returns, what it refuses, and that concurrent requests are edited in one batch."""

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
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest import SkipTest

import httpx
import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from numpy.random import default_rng
from starlette.exceptions import HTTPException

from stepedit.cli.serve import listen
from stepedit.errors import UserError
from stepedit.inference.editor import Editor, EditResult
from stepedit.registry import TASKS
from stepedit.server.app import ServerLimits, _encode, make_app
from stepedit.server.middleware import INTERVAL, RequestLimits
from stepedit.server.model_store import ModelStore
from tests.server.client import call, post

TIGHT = ServerLimits(
    max_characters=100, max_tokens=20, max_texts=8, max_bytes=2_000, max_batch=8, max_queue=10, seconds=5.0
)


@pytest.fixture(scope="session")
def app(store: ModelStore) -> RequestLimits:
    return make_app(store, limits=TIGHT)


def test_a_result_has_every_step_and_its_candidates(app: RequestLimits, store: ModelStore) -> None:
    response = post(app, text="9 5 2", trace=True, states=True).json()
    (result,) = response["results"]
    expected = store["recurrence"].edit(["9 5 2"], trace=True)[0]
    assert result["stop_reason"] == expected.stop_reason
    assert response["model"] == "recurrence"
    assert (result["source"], result["text"], result["finished"]) == ("9 5 2", expected.text, expected.finished)
    assert result["valid"] == (result["text"] == "2 5 9")
    assert [step["text"] for step in result["steps"]][-1] == result["text"]
    for step in result["steps"]:
        best = step["candidates"][0]
        assert (best["operation"], best["position"]) == (step["operation"], step["position"])
        assert best["probability"] == pytest.approx(step["confidence"], abs=1e-4)
        assert len(step["candidates"]) == 3
    assert result["final_candidates"][0]["operation"] == "done"


@pytest.mark.parametrize("model", ["tagging", "end2end"])
def test_single_pass_methods_have_one_step_and_no_candidates(app: RequestLimits, model: str) -> None:
    (result,) = post(app, model=model, texts=["9 5 2"], trace=True).json()["results"]
    assert len(result["steps"]) == 1
    assert result["steps"][0]["candidates"] == result["final_candidates"] == []


def test_several_texts_keep_their_order_and_the_trace_is_optional(app: RequestLimits) -> None:
    texts = ["3 2 5", "2 3 4", "9 8 7"]
    results = post(app, texts=texts).json()["results"]
    assert [result["source"] for result in results] == texts
    assert all(result["steps"] == [] for result in results)
    (traced,) = post(app, texts=["3 2 5"], trace=True).json()["results"]
    assert traced["steps"]
    assert not {"text", "tokens"} & traced["steps"][0].keys()
    (whole,) = post(app, texts=["3 2 5"], states=True).json()["results"]
    assert whole["steps"][-1]["text"] == whole["text"]


def test_verified_beam_search_gives_a_valid_result(app: RequestLimits) -> None:
    (result,) = post(app, text="9 5 2", beam_size=5, verify=True).json()["results"]
    assert result["valid"] is True


def test_models_tasks_and_examples_are_listed(app: RequestLimits) -> None:
    def get(path: str) -> Any:
        return call(app, lambda client: client.get(path)).json()

    assert get("/healthz")["status"] == "ok"
    models = get("/api/models")
    assert [model["name"] for model in models] == ["recurrence", "tagging", "end2end"]
    assert [model["iterative"] for model in models] == [True, False, False]
    assert [model["can_search"] for model in models] == [True, False, False]
    assert all(model["verifiable"] and model["has_examples"] for model in models)
    assert {task["name"] for task in get("/api/tasks")} >= {"aor", "aes", "aec", "sort"}
    example = get("/api/models/recurrence/example?seed=3")
    assert example == get("/api/models/recurrence/example?seed=3")
    assert sorted(map(int, example["source"].split())) == list(map(int, example["target"].split()))
    assert "/api/edit" in get("/openapi.json")["paths"]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"text": "3 x 5"}, 422, "unknown token 'x'"),
        ({"texts": ["3 2", ""]}, 422, "line 2: the text is empty"),
        ({"text": "3 2", "model": "recurence"}, 404, "did you mean 'recurrence'?"),
        ({"text": "3 2", "texts": ["3 2"]}, 422, "exactly one of `text` and `texts` is needed"),
        ({}, 422, "exactly one of `text` and `texts` is needed"),
        ({"texts": []}, 422, "texts"),
        ({"text": "3 2", "beam_size": 0}, 422, "beam_size"),
        ({"text": "3 2", "color": 1}, 422, "color"),
        ({"text": "3 2", "lexicon": __file__}, 422, "lexicon: Input should be None"),
        ({"text": "3 2", "lexicon": "no-such-file"}, 422, "lexicon: Input should be None"),
        ({"text": "3 2", "model": "tagging", "beam_size": 2}, 422, "need actions, which tagging has none of"),
        ({"text": "3 " * 49}, 422, "a text has 49 tokens; 20 is the limit"),
        ({"text": "3" * 101}, 422, "longer than 100 characters"),
        ({"texts": ["3 2"] * 9}, 422, "9 texts are too many at once; 8 is the limit"),
        ({"text": "<script>alert(1)</script>"}, 422, "unknown token"),
        ({"text": "3" * 2_000}, 413, "larger than 2,000 bytes"),
    ],
)
def test_a_bad_request_gets_a_reason(app: RequestLimits, body: dict[str, Any], status: int, message: str) -> None:
    response = post(app, **body)
    assert response.status_code == status
    assert message in response.json()["error"]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["3 2" + " " * 997], None),
        (["3 2" + " " * 998], "line 1: longer than 1,000 characters"),
        (["3 2", "3" * 1_001], "line 2: longer than 1,000 characters"),
        ([" ".join(["3"] * 200)], None),
        ([" ".join(["3"] * 201)], "a text has 201 tokens; 200 is the limit"),
        (["3 2"] * 256, None),
        (["3 2"] * 257, "257 texts are too many at once; 256 is the limit"),
    ],
    ids=["characters", "characters + 1", "of the second text", "tokens", "tokens + 1", "texts", "texts + 1"],
)
def test_the_documented_limits_are_the_default(store: ModelStore, texts: list[str], message: str | None) -> None:
    response = post(make_app(store), texts=texts, model="tagging")
    assert response.json().get("error") == message
    assert response.status_code == (200 if message is None else 422)


@pytest.mark.parametrize(("more", "status"), [(0, 200), (1, 413)])
def test_a_request_may_have_512_kilobytes(store: ModelStore, more: int, status: int) -> None:
    body = b'{"text": "3 2"}'.ljust(512 * 1024 + more)
    headers = {"content-type": "application/json"}
    response = call(make_app(store), lambda client: client.post("/api/edit", content=body, headers=headers))
    assert response.status_code == status


@pytest.mark.parametrize(("size", "status"), [(4_190_000, 200), (4_200_000, 413)])
def test_a_response_may_have_4_megabytes(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch, size: int, status: int
) -> None:
    monkeypatch.setattr(Editor, "edit", lambda *_, **__: [EditResult("3 2", "x" * size, "done", None)])
    assert post(make_app(store), text="3 2").status_code == status


def test_the_page_is_served_at_the_root(app: RequestLimits) -> None:
    page = call(app, lambda client: client.get("/"))
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "app.js" in page.text


@pytest.mark.parametrize(("size", "status"), [(200, 404), (201, 422)])
def test_the_name_of_a_model_has_at_most_200_characters(app: RequestLimits, size: int, status: int) -> None:
    assert post(app, text="3 2", model="m" * size).status_code == status


def test_the_description_has_the_errors_of_every_path(app: RequestLimits) -> None:
    paths = call(app, lambda client: client.get("/openapi.json")).json()["paths"]
    assert set(paths["/api/edit"]["post"]["responses"]) == {"200", "404", "408", "413", "422", "429", "503"}
    for path in ("/api/tasks/{name}/example", "/api/models/{name}/example", "/api/runs/{name}"):
        assert set(paths[path]["get"]["responses"]) == {"200", "404", "422"}


def test_an_endless_body_without_a_declared_size_is_refused(app: RequestLimits) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 1_000

    response = call(app, lambda client: client.post("/api/edit", content=endless()))
    assert response.status_code == 413


def test_invalid_json_and_unknown_paths_get_json_errors(app: RequestLimits) -> None:
    assert "error" in call(app, lambda client: client.post("/api/edit", content=b"{")).json()
    missing = call(app, lambda client: client.get("/api/nothing"))
    assert (missing.status_code, "error" in missing.json()) == (404, True)


def test_concurrent_requests_are_edited_in_one_batch(store: ModelStore) -> None:
    app = make_app(store)

    async def send_many(client: httpx.AsyncClient) -> list[httpx.Response]:
        texts = [f"{a} {b} 2" for a in range(3, 11) for b in range(3, 8)]
        return await asyncio.gather(*(client.post("/api/edit", json={"text": text}) for text in texts))

    responses = call(app, send_many)
    assert [response.status_code for response in responses] == [200] * 40
    results = [response.json()["results"][0] for response in responses]
    alone = [store["recurrence"].edit([result["source"]])[0].text for result in results]
    assert [result["text"] for result in results] == alone
    assert app.app.state.batcher.num_batches < 10  # type: ignore[attr-defined]


def test_a_full_queue_refuses_at_once_and_accepted_requests_are_answered(store: ModelStore) -> None:
    app = make_app(store, limits=TIGHT)

    async def flood(client: httpx.AsyncClient) -> list[httpx.Response]:
        bodies = [{"texts": ["9 5 2", "5 4 3"]} for _ in range(30)]
        return await asyncio.gather(*(client.post("/api/edit", json=body) for body in bodies))

    responses = call(app, flood)
    codes = [response.status_code for response in responses]
    assert set(codes) == {200, 429}
    assert codes.count(200) >= 5
    refused = next(response for response in responses if response.status_code == 429)
    assert refused.headers["retry-after"] == "1"
    assert app.app.state.batcher.load == 0  # type: ignore[attr-defined]
    assert post(app, text="9 5 2").status_code == 200


def test_error_responses_are_sent_one_at_a_time_and_do_not_delay_valid_requests(store: ModelStore) -> None:
    async def flood(client: httpx.AsyncClient) -> tuple[float, float]:
        began = time.perf_counter()
        bad = [asyncio.create_task(client.post("/api/edit", json={"text": "x"})) for _ in range(100)]
        await asyncio.wait(bad, return_when=asyncio.FIRST_COMPLETED)
        assert (await client.get("/healthz")).status_code == 200
        waiting = sum(not task.done() for task in bad)
        assert {(await task).status_code for task in bad} == {422}
        return waiting, time.perf_counter() - began

    waiting, seconds = call(make_app(store), flood)
    assert waiting > 10
    assert seconds >= 99 * INTERVAL


def test_a_request_that_takes_too_long_gets_status_503(store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app(store, limits=ServerLimits(seconds=0.2))
    release = threading.Event()
    original = Editor.edit

    def slow(self: Editor, *arguments: Any, **named: Any) -> Any:
        release.wait(5)
        return original(self, *arguments, **named)

    monkeypatch.setattr(Editor, "edit", slow)
    response = post(app, text="9 5 2")
    release.set()
    assert response.status_code == 503
    assert "longer than 0.2 seconds" in response.json()["error"]


def test_an_internal_error_gets_json_and_the_next_request_works(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(store)
    monkeypatch.setattr(Editor, "_candidates", lambda *_: 1 / 0)
    assert post(app, text="9 5 2", trace=True).json() == {"error": "internal server error"}
    monkeypatch.undo()
    assert post(app, text="9 5 2").status_code == 200


def test_watched_runs_list_their_validations(store: ModelStore, runs: Path) -> None:
    app = make_app(store, [runs / "recurrence"])
    assert call(app, lambda client: client.get("/api/runs")).json() == ["recurrence"]
    status = call(app, lambda client: client.get("/api/runs/recurrence")).json()
    assert (status["metric"], status["max_epochs"]) == ("sequence", 60)
    assert status["reports"][-1]["epoch"] == 60
    assert call(app, lambda client: client.get("/api/runs/x")).status_code == 404


@pytest.mark.parametrize(
    ("limits", "last", "epochs"),
    [
        ({"max_epochs": 60}, {"epoch": 20, "step": 160, "total_steps": 400}, 60),
        ({"max_epochs": 60, "max_steps": 320}, {"epoch": 20, "step": 160, "total_steps": 320}, 40),
        ({"max_epochs": None, "max_minutes": 3.0}, {"epoch": 20, "step": 160, "total_steps": 321}, 41),
        ({"max_epochs": 60, "max_minutes": 3.0}, None, 0),
    ],
    ids=["epochs", "steps", "minutes, within an epoch", "minutes, not yet validated"],
)
def test_the_length_of_a_watched_run_is_as_planned_at_its_last_validation(
    runs: Path, tmp_path: Path, limits: dict[str, Any], last: dict[str, int] | None, epochs: int
) -> None:
    config = json.loads((runs / "recurrence" / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | limits))
    lines = [{"epoch": 1, "step": 8, "total_steps": 9_999}, last] if last else []
    common = {"seconds": 1.0, "metrics": {}}
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(line | common)}\n" for line in lines))
    app = make_app(ModelStore({}), [tmp_path])
    status = call(app, lambda client: client.get(f"/api/runs/{tmp_path.name}")).json()
    assert (status["max_epochs"], len(status["reports"])) == (epochs, len(lines))
    assert status["title"] == "sort recurrence augmented"


def test_a_loss_that_is_not_a_number_is_null_in_the_report(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((runs / "recurrence" / "config.json").read_bytes())
    written = {"epoch": 1, "step": 8, "seconds": 2, "metrics": {}, "loss": float("nan"), "best": 0.5}
    (tmp_path / "metrics.jsonl").write_text(f"{json.dumps(written)}\n")
    app = make_app(ModelStore({}), [tmp_path])
    (report,) = call(app, lambda client: client.get(f"/api/runs/{tmp_path.name}")).json()["reports"]
    assert report == written | {"loss": None}


def test_names_of_models_and_watched_runs_are_unique(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="two watched runs have the same name"):
        make_app(ModelStore({}), [tmp_path / "a" / "run", tmp_path / "b" / "run"])
    with pytest.raises(UserError, match="two runs are called 'recurrence'"):
        ModelStore.load([str(runs / "recurrence")] * 2)


def test_examples_are_those_of_the_default_setting_of_a_task_and_of_a_models_own(app: RequestLimits) -> None:
    def get(path: str) -> httpx.Response:
        return call(app, lambda client: client.get(path))  # type: ignore[no-any-return]

    first, second = (get(f"/api/tasks/aor/example?seed={seed}").json() for seed in (0, 1))
    assert first != second
    assert [part for part in first["target"].split() if part.isdigit()] == first["source"].split()
    assert get("/api/tasks/aor/example").status_code == 200
    assert (get("/api/tasks/aro/example").status_code, "'aor'" in get("/api/tasks/aro/example").text) == (404, True)
    assert get("/api/models/nothing/example").status_code == 404
    for path in ("/api/tasks/sort/example", "/api/models/recurrence/example"):
        codes = [get(f"{path}?seed={seed}").status_code for seed in (-1, 0, 2**63 - 1, 2**63)]
        assert codes == [422, 200, 200, 422]


def test_a_model_of_text_has_no_examples() -> None:
    app = make_app(ModelStore.load(["punctuation"]))
    (model,) = call(app, lambda client: client.get("/api/models")).json()
    assert (model["has_examples"], model["verifiable"], model["separator"]) == (False, False, "")
    assert call(app, lambda client: client.get("/api/models/punctuation/example")).status_code == 422


def test_a_server_that_ends_lets_its_threads_end(store: ModelStore) -> None:
    app = make_app(store)
    with TestClient(app, "http://localhost") as client:
        assert client.post("/api/edit", json={"text": "9 5 2"}).status_code == 200
    with pytest.raises(RuntimeError, match="after shutdown"):
        app.app.state.batcher._editing.submit(print)  # type: ignore[attr-defined]


def test_no_request_that_the_schema_describes_causes_a_server_error(store: ModelStore, runs: Path) -> None:
    app = make_app(store, [runs / "recurrence"], limits=TIGHT, allowed_hosts=["*"])
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) == 9
    codes: list[int] = []
    for operation in operations:
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):

            @given(case=operation.as_strategy(generation_mode=mode))
            @settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
            def check(case: Any) -> None:
                if isinstance(case.body, dict):
                    case.body.pop("model", None)  # a random name never exists, and nothing would be edited
                if case.path_parameters:
                    case.path_parameters = {"name": "recurrence"}
                response = case.call()
                codes.append(response.status_code)
                assert response.status_code < 500
                if response.status_code >= 400:
                    assert "error" in response.json()

            with contextlib.suppress(SkipTest, Unsatisfiable):  # some operations have no invalid requests
                check()
    assert codes.count(200) > len(codes) / 4


TEXTS = st.lists(st.integers(0, 19).map(str), min_size=1, max_size=9).map(" ".join)


def test_any_text_of_the_vocabulary_is_edited(store: ModelStore) -> None:
    app = make_app(store, limits=TIGHT)

    @given(st.lists(TEXTS, min_size=1, max_size=4), st.integers(1, 3), st.booleans(), st.booleans())
    @settings(max_examples=40, deadline=None)
    def check(texts: list[str], beam_size: int, verify: bool, trace: bool) -> None:
        response = post(app, texts=texts, beam_size=beam_size, verify=verify, trace=trace)
        assert response.status_code == 200
        for text, result in zip(texts, response.json()["results"], strict=True):
            assert result["source"] == text
            for step in result["steps"]:
                assert [each["chosen"] for each in step["candidates"]].count(True) == 1
            assert sum(each["chosen"] for each in result["final_candidates"]) <= result["finished"]

    check()


def test_edits_below_the_confidence_threshold_are_not_applied(app: RequestLimits) -> None:
    (edited,) = post(app, text="9 5 2", trace=True).json()["results"]
    assert max(step["confidence"] for step in edited["steps"]) < 1
    (unchanged,) = post(app, text="9 5 2", trace=True, min_confidence=1.0).json()["results"]
    assert (unchanged["text"], unchanged["steps"]) == ("9 5 2", [])
    assert (unchanged["stop_reason"], unchanged["finished"]) == ("confidence", False)
    (searched,) = post(app, text="9 5 2", trace=True, min_confidence=1.0, beam_size=2).json()["results"]
    assert (searched["text"], searched["steps"]) == ("9 5 2", [])


def test_a_large_beam_for_many_texts_is_refused(store: ModelStore) -> None:
    app = make_app(store, limits=ServerLimits(max_work=1_000))
    assert post(app, texts=["9 5 2"] * 10, beam_size=5).status_code == 200
    refused = post(app, texts=["9 5 2"] * 10, beam_size=10)
    assert (refused.status_code, "too much work" in refused.json()["error"]) == (422, True)


def test_a_body_that_arrives_too_slowly_gets_status_408(store: ModelStore) -> None:
    async def slow() -> AsyncIterator[bytes]:
        for byte in b'{"text": "9 5 2"}':
            await asyncio.sleep(0.05)
            yield bytes([byte])

    app = make_app(store, limits=ServerLimits(seconds=0.3))
    response = call(app, lambda client: client.post("/api/edit", content=slow()))
    assert response.status_code == 408


def test_a_server_without_models_edits_nothing(runs: Path) -> None:
    response = post(make_app(ModelStore({}), [runs / "recurrence"]), text="9 5 2")
    assert response.status_code == 404


def test_the_server_binds_to_loopback_and_completes_running_requests_on_sigterm(runs: Path) -> None:
    program = "from stepedit.cli.main import main; main()"
    command = [sys.executable, "-c", program, "serve", str(runs / "recurrence"), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    assert process.stdout is not None
    first = process.stdout.readline()
    assert "serving recurrence on http://127.0.0.1:" in first, first
    base = first.split(" on ")[1].split(";")[0]
    received: list[int] = []

    def send() -> None:
        body = json.dumps({"texts": ["9 5 2"] * 200, "beam_size": 5}).encode()
        request = urllib.request.Request(f"{base}/api/edit", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as response:
            received.append(len(json.loads(response.read())["results"]))

    client = threading.Thread(target=send)
    wait_until_up(base)
    client.start()
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    client.join(60)
    assert received == [200]
    process.communicate(timeout=30)
    assert process.returncode in (0, -signal.SIGTERM)


def test_the_error_for_a_taken_port_names_it() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"^cannot listen on 127.0.0.1, port {port}: [^(]*; --port 0 takes any"):
            listen("127.0.0.1", port)


def wait_until_up(base: str) -> None:
    for _ in range(200):
        try:
            urllib.request.urlopen(f"{base}/healthz", timeout=5).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the server did not start")


def test_a_response_may_be_as_large_as_the_limit_and_no_larger() -> None:
    results = [EditResult("a", "b", "done", None)] * 2
    size = sum(len(json.dumps(result.as_dict())) for result in results)
    assert json.loads(_encode("m", size, results))["results"] == [result.as_dict() for result in results]
    with pytest.raises(HTTPException, match="larger than"):
        _encode("m", size - 1, results)


@pytest.mark.parametrize("path", ["/api/tasks/sort/example", "/api/models/recurrence/example"])
@pytest.mark.parametrize(("seed", "status"), [(0, 200), (2**63 - 1, 200), (-1, 422), (2**63, 422)])
def test_seeds_of_examples_have_63_bits(app: RequestLimits, path: str, seed: int, status: int) -> None:
    found = [call(app, lambda client: client.get(path, params={"seed": seed})) for _ in range(2)]
    assert [each.status_code for each in found] == [status] * 2
    assert found[0].json() == found[1].json()


def test_an_example_is_the_first_that_a_seed_generates(app: RequestLimits) -> None:
    task = TASKS["aor"].from_args({})
    found = call(app, lambda client: client.get("/api/tasks/aor/example", params={"seed": 3})).json()
    assert found["target"] == task.vocabulary.decode(task.generate(1, default_rng(3)).targets)[0]
