"""The HTTP API and the page's files."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from math import ceil
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from stepedit import __version__
from stepedit.config import RunConfig
from stepedit.errors import UserError
from stepedit.inference.decoding import Decoding, can_keep
from stepedit.inference.editor import Editor, EditResult
from stepedit.inference.model_folder import read_config, read_metrics, user_task_args
from stepedit.registry import METHODS, TASKS, did_you_mean
from stepedit.server.batcher import Batcher, BatchKey, BusyError
from stepedit.server.middleware import AllowedHosts, RequestLimits
from stepedit.server.model_store import ModelStore
from stepedit.server.schemas import (
    EditRequest,
    EditResponse,
    ErrorResponse,
    Example,
    ModelInfo,
    RunStatus,
    TaskInfo,
)
from stepedit.tasks.base import Task


@dataclass(frozen=True)
class ServerLimits:
    """How much a server accepts."""

    max_characters: int = 1_000  # of a text
    max_tokens: int = 200
    max_texts: int = 256  # of a request
    max_work: int = 100_000  # texts of a request, times tokens of the longest, times the beam size squared
    max_bytes: int = 512 * 1024
    max_batch: int = 256  # texts that are edited together
    max_response_bytes: int = 4 * 1024 * 1024
    max_queue: int = 2_048  # texts that wait or are being edited, times the beam size squared
    seconds: float = 30.0  # from the arrival of a request to the end of its encoded response


def _errors(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Describe error responses."""
    return {code: {"model": ErrorResponse} for code in codes}


def make_app(
    store: ModelStore,
    watched: Sequence[Path] = (),
    limits: ServerLimits | None = None,
    one_by_one: bool = False,
    allowed_hosts: Sequence[str] = (),
    keeping: Decoding | None = None,
) -> RequestLimits:
    """Return the whole application; it answers to this machine's names and the allowed hosts.

    Every request for text also keeps what `keeping` does.
    """
    limits = limits or ServerLimits()
    batcher = Batcher(store.editors, limits.max_batch, limits.max_queue, one_by_one)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        batcher.close()

    app = FastAPI(title="stepedit", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.batcher = batcher
    _add_errors(app)
    _add_editing(app, store, batcher, limits, keeping)
    _add_info(app, store)
    _add_runs(app, _by_name(watched))
    app.mount("/", StaticFiles(directory=str(files("stepedit.server") / "page"), html=True), name="page")
    return RequestLimits(app, limits.max_bytes, limits.seconds, AllowedHosts(allowed_hosts))


def _by_name(folders: Sequence[Path]) -> dict[str, Path]:
    """Return folders by name; UserError if two have the same."""
    named = {path.resolve().name: path for path in folders}
    if len(named) < len(folders):
        raise UserError("two watched runs have the same name; rename one of their folders")
    return named


def _add_errors(app: FastAPI) -> None:
    """Answer every error with JSON that has a reason."""

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)

    @app.exception_handler(UserError)
    async def user(request: Request, error: UserError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 422)

    @app.exception_handler(Exception)
    async def internal(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": "internal server error"}, 500)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return JSONResponse({"error": f"the body is not valid JSON: {first['ctx']['error']}"}, 422)
        location = ".".join(str(part) for part in first["loc"] if part != "body")
        message = first["msg"].removeprefix("Value error, ")
        return JSONResponse({"error": f"{location}: {message}" if location else message}, 422)


def _add_editing(
    app: FastAPI, store: ModelStore, batcher: Batcher, limits: ServerLimits, keeping: Decoding | None
) -> None:
    @app.post("/api/edit", response_model=EditResponse, responses=_errors(404, 408, 413, 422, 429, 503))
    async def edit(request: EditRequest, http: Request) -> Response:
        """Edit one text or several: the results and, with a trace, each step."""
        name = request.model if request.model is not None else next(iter(store.editors), "")
        editor, texts = _find(store, name), request.all_texts()
        _check_size(texts, limits)
        asked = request.decoding()
        decoding = editor.resolve(asked.keeping(keeping) if can_keep(editor.method) else asked)
        key = BatchKey(name, decoding, request.trace or request.states, request.states)
        check = partial(_check_work, editor, texts, editor.beam_size(decoding), limits)
        encode = partial(_encode, name, limits.max_response_bytes)
        try:
            body = await batcher.edit(key, texts, http.scope["deadline"], check, encode)
        except BusyError:
            raise HTTPException(429, "the server is busy; try again soon", {"retry-after": "1"}) from None
        except TimeoutError:
            raise HTTPException(503, f"this took longer than {limits.seconds:g} seconds") from None
        return Response(body, media_type="application/json")


def _encode(model: str, max_bytes: int, results: Sequence[EditResult]) -> bytes:
    """Return an EditResponse as JSON, one result at a time: a long call of the encoder would hold up other threads."""
    parts, size = list[bytes](), 0
    for result in results:
        parts.append(json.dumps(result.as_dict(), ensure_ascii=False, allow_nan=False).encode())
        size += len(parts[-1])
        if size > max_bytes:
            reason = "send fewer texts, or ask for no states or trace"
            raise HTTPException(413, f"the response is larger than {max_bytes:,} bytes; {reason}")
    return b'{"model":%s,"results":[%s]}' % (json.dumps(model).encode(), b",".join(parts))


def _find(store: ModelStore, name: str) -> Editor:
    try:
        return store[name]
    except UserError as error:
        raise HTTPException(404, str(error)) from None


def _check_size(texts: Sequence[str], limits: ServerLimits) -> None:
    """Raise UserError if there are too many texts or characters."""
    if len(texts) > limits.max_texts:
        raise UserError(f"{len(texts)} texts are too many at once; {limits.max_texts} is the limit")
    for number, text in enumerate(texts, start=1):
        if len(text) > limits.max_characters:
            raise UserError(f"line {number}: longer than {limits.max_characters:,} characters")


def _check_work(editor: Editor, texts: Sequence[str], beam_size: int, limits: ServerLimits) -> None:
    """Raise UserError if a text is not of the model's task, or there is too much work."""
    segments = editor.segments(texts)
    longest = int(segments.lengths.max(initial=0))
    if longest > limits.max_tokens:
        raise UserError(f"a text has {longest} tokens; {limits.max_tokens} is the limit")
    if len(segments) * longest * beam_size**2 > limits.max_work:
        raise UserError("too much work for one request; send fewer texts, or a smaller beam_size")


def _add_info(app: FastAPI, store: ModelStore) -> None:
    infos = [_model_info(name, editor) for name, editor in store.editors.items()]

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Whether the server is up."""
        return {"status": "ok", "version": __version__}

    @app.get("/api/models")
    async def models() -> list[ModelInfo]:
        """The served models."""
        return infos

    @app.get("/api/tasks")
    def tasks() -> list[TaskInfo]:
        """The tasks, with an example each."""
        pairs = {name: TASKS[name].example_pair() for name in TASKS}
        return [
            TaskInfo(name=name, title=TASKS[name].title, source=source, target=target)
            for name, (source, target) in pairs.items()
        ]

    @app.get("/api/methods")
    async def methods() -> dict[str, str]:
        """The methods."""
        return {name: METHODS[name].title for name in METHODS}

    @app.get("/api/tasks/{name}/example", responses=_errors(404, 422))
    def task_example(name: str, seed: Annotated[int | None, Query(ge=0, lt=2**63)] = None) -> Example:
        """A random example of a task in its default setting."""
        if name not in TASKS:
            raise HTTPException(404, did_you_mean("task", name, TASKS))
        return _draw_example(TASKS[name].from_args({}), seed)

    @app.get("/api/models/{name}/example", responses=_errors(404, 422))
    def example(name: str, seed: Annotated[int | None, Query(ge=0, lt=2**63)] = None) -> Example:
        """A random example that the model can edit."""
        task = _find(store, name).method.task
        if task.open_vocabulary:
            raise UserError("there are no examples of your own text; type one")
        return _draw_example(task, seed)


def _model_info(name: str, editor: Editor) -> ModelInfo:
    task = editor.method.task
    return ModelInfo(
        name=name,
        task=editor.run.task,
        method=editor.run.method,
        mode=editor.run.mode,
        task_args=user_task_args(editor.run),
        parameters=editor.policy.num_parameters,
        separator=task.vocabulary.separator,
        verifiable=task.verifiable,
        keeps=can_keep(editor.method),
        iterative=editor.method.iterative,
        can_search=editor.can_search,
        has_examples=not task.open_vocabulary,
    )


def _draw_example(task: Task, seed: int | None) -> Example:
    pairs = task.generate(1, np.random.default_rng(seed))
    source, target = (task.vocabulary.decode(side)[0] for side in (pairs.sources, pairs.targets))
    return Example(source=source, target=target)


def _add_runs(app: FastAPI, runs: dict[str, Path]) -> None:
    @app.get("/api/runs")
    async def names() -> list[str]:
        """The watched runs."""
        return list(runs)

    @app.get("/api/runs/{name}", responses=_errors(404, 422))
    def status(name: str) -> RunStatus:
        """How far a watched run is."""
        if name not in runs:
            raise HTTPException(404, f"no run called {name!r} is watched")
        run = read_config(runs[name])
        return RunStatus(
            name=name,
            title=f"{run.task} {run.method} {run.mode}",
            metric=TASKS[run.task].objective,
            max_epochs=_planned_epochs(run, reports := read_metrics(runs[name])),
            reports=[_finite(report) for report in reports],
        )


def _planned_epochs(run: RunConfig, reports: list[dict[str, Any]]) -> int:
    """Return the length of a run; with limits in steps or minutes as planned at the last validation, at first 0."""
    if run.max_epochs is not None and run.max_steps is None and run.max_minutes is None:
        return run.max_epochs
    last = reports[-1] if reports else {"step": 1, "total_steps": 0, "epoch": 0}
    return ceil(last["total_steps"] * last["epoch"] / last["step"] - 1e-6)


def _finite(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report without NaN, which JSON does not have."""
    return {key: None if isinstance(value, float) and value != value else value for key, value in report.items()}
