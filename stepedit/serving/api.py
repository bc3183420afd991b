"""The HTTP API and the page's files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from stepedit import __version__, checkpoints
from stepedit.editor import Alternative, Editor
from stepedit.errors import UserError
from stepedit.interpreter import Step as Taken
from stepedit.registry import METHODS, TASKS, did_you_mean
from stepedit.results import step_as_data
from stepedit.serving.batching import Answer, Batcher, BusyError, Way
from stepedit.serving.guard import Guard
from stepedit.serving.shapes import (
    Asked,
    Considered,
    Edits,
    ModelInfo,
    One,
    Pair,
    Step,
    TaskInfo,
    Watched,
    Wrong,
)
from stepedit.serving.shelf import Shelf
from stepedit.tasks.task import Task
from stepedit.vocabulary import Vocabulary


@dataclass(frozen=True)
class Limits:
    """How much a server takes on."""

    characters: int = 1_000  # of a text
    tokens: int = 200
    texts: int = 256  # of a request
    work: int = 100_000  # texts of a request, times tokens of the longest, times the beam's width squared
    body: int = 512 * 1024
    batch: int = 256  # texts that are edited together
    room: int = 2_048  # texts that wait or are being edited at the most, times the beam's width squared
    seconds: float = 30.0


def _wrong(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Answers that say why not."""
    return {code: {"model": Wrong} for code in codes}


def make_app(shelf: Shelf, watched: Sequence[Path] = (), limits: Limits | None = None, alone: bool = False) -> Guard:
    """The whole application."""
    limits = limits or Limits()
    batcher = Batcher(shelf.editors, limits.batch, limits.room, alone)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        batcher.close()

    app = FastAPI(title="stepedit", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.batcher = batcher
    _add_errors(app)
    _add_editing(app, shelf, batcher, limits)
    _add_facts(app, shelf)
    _add_runs(app, _by_name(watched))
    app.mount("/", StaticFiles(directory=str(files("stepedit.serving") / "page"), html=True), name="page")
    return Guard(app, limits.body, limits.seconds)


def _by_name(folders: Sequence[Path]) -> dict[str, Path]:
    """Folders by their names; UserError if two have the same."""
    named = {path.resolve().name: path for path in folders}
    if len(named) < len(folders):
        raise UserError("two watched runs have the same name; rename one of their folders")
    return named


def _add_errors(app: FastAPI) -> None:
    """Everything that goes wrong is JSON with a reason."""

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)

    @app.exception_handler(UserError)
    async def user(request: Request, error: UserError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 422)

    @app.exception_handler(Exception)
    async def fault(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": "a fault of the server, not of the request"}, 500)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return JSONResponse({"error": f"the body is no valid JSON: {first['ctx']['error']}"}, 422)
        place = ".".join(str(part) for part in first["loc"] if part != "body")
        return JSONResponse({"error": f"{place}: {first['msg']}" if place else first["msg"]}, 422)


def _add_editing(app: FastAPI, shelf: Shelf, batcher: Batcher, limits: Limits) -> None:
    @app.post("/api/edit", responses=_wrong(404, 408, 413, 422, 429, 503))
    async def edit(asked: Asked) -> Edits:
        """Edit one text or several: the results, and each step that led there."""
        name = asked.model if asked.model is not None else next(iter(shelf.editors), "")
        editor, texts = _known(shelf, name), asked.all_texts()
        _check(editor, texts, asked, limits)
        way = Way(name, asked.beam, asked.verify, asked.trace, asked.min_confidence)
        try:
            answer = await batcher.edit(way, texts, limits.seconds)
        except BusyError:
            raise HTTPException(429, "too much to do at the moment; try again soon", {"retry-after": "1"}) from None
        except TimeoutError:
            raise HTTPException(503, f"this took longer than {limits.seconds:g} seconds") from None
        return Edits(model=name, results=_results(answer, editor))


def _known(shelf: Shelf, name: str) -> Editor:
    try:
        return shelf[name]
    except UserError as error:
        raise HTTPException(404, str(error)) from None


def _check(editor: Editor, texts: Sequence[str], asked: Asked, limits: Limits) -> None:
    """UserError if there is too much of something, or a text is none of the model's task."""
    if len(texts) > limits.texts:
        raise UserError(f"{len(texts)} texts are too many at once; {limits.texts} is the limit")
    for number, text in enumerate(texts, start=1):
        if len(text) > limits.characters:
            raise UserError(f"line {number}: longer than {limits.characters:,} characters")
    ahead = asked.beam > 1 or asked.verify
    if asked.verify and not editor.method.task.checks:
        raise UserError(f"nothing but its pairs says what is right in {editor.run.task}, so it can't be verified")
    if (ahead or asked.min_confidence) and editor.run.method != "recurrence":
        raise UserError(f"beam, verify and min_confidence are for actions, which {editor.run.method} has none of")
    if ahead and asked.min_confidence:
        raise UserError("min_confidence goes with the likeliest action only, not with beam or verify")
    parts = editor.parts(texts)
    longest = int(parts.lengths.max(initial=0))
    if longest > limits.tokens:
        raise UserError(f"a text has {longest} tokens; {limits.tokens} is the limit")
    if len(parts) * longest * asked.beam**2 > limits.work:
        raise UserError("so many texts with so wide a beam are too much work at once; send fewer, or a smaller beam")


def _results(answer: Answer, editor: Editor) -> list[One]:
    results, checked = [], editor.method.task.checks
    for edited, right, states in zip(answer.edited, answer.right, answer.alternatives, strict=True):
        words = edited.words
        steps = [
            Step(
                **step_as_data(step, words),
                alternatives=_considered(states[number], step, words) if states else [],
            )
            for number, step in enumerate(edited.outcome.trace)
        ]
        last = _considered(states[-1], None, words) if states else []
        if not edited.finished:
            last = [each.model_copy(update={"chosen": False}) for each in last]
        results.append(
            One(
                source=edited.source,
                tokens=[words.name(token) for token in edited.tokens],
                text=edited.text,
                finished=edited.finished,
                right=right if checked else None,
                verified=edited.verified,
                steps=steps,
                last=last,
                changes=edited.changes() if edited.outcome.trace else [],
            )
        )
    return results


def _considered(alternatives: Sequence[Alternative], step: Taken | None, words: Vocabulary) -> list[Considered]:
    """The likeliest actions of a state; the one that was taken (None: DONE) is among them and marked."""
    taken = Alternative("done", None, (), (), 0.0)
    if step is not None:
        taken = Alternative(step.operation, step.start, step.before, step.after, step.confidence)
    shown = list(alternatives)
    if step is not None and not any(_same(each, taken) for each in shown):
        shown = [*shown[:-1], taken]  # a wide beam may take what is not among the likeliest
    return [
        Considered(
            chosen=_same(each, taken),
            operation=each.operation,
            position=each.position,
            before=words.text(each.before),
            after=words.text(each.after),
            probability=each.probability,
        )
        for each in shown
    ]


def _same(one: Alternative, other: Alternative) -> bool:
    return one == replace(other, probability=one.probability)


def _add_facts(app: FastAPI, shelf: Shelf) -> None:
    infos = [
        ModelInfo(
            name=name,
            task=editor.run.task,
            method=editor.run.method,
            mode=editor.run.mode,
            setting=checkpoints.said_options(editor.run),
            parameters=sum(part.numel() for part in editor.programmer.parameters()),
            glue=editor.method.task.vocabulary.glue,
            examples=editor.method.task.checks,
        )
        for name, editor in shelf.editors.items()
    ]

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Whether the server is there."""
        return {"status": "ok", "version": __version__}

    @app.get("/api/models")
    async def models() -> list[ModelInfo]:
        """The models that can be asked."""
        return infos

    @app.get("/api/tasks")
    async def tasks() -> list[TaskInfo]:
        """The tasks there are, with an example each."""
        kinds = [TASKS[name] for name in TASKS]
        return [TaskInfo(name=k.name, title=k.title, source=k.example[0], target=k.example[1]) for k in kinds]

    @app.get("/api/methods")
    async def methods() -> dict[str, str]:
        """The methods there are."""
        return {name: METHODS[name].title for name in METHODS}

    @app.get("/api/tasks/{name}/example", responses=_wrong(404, 422))
    def task_example(name: str, seed: Annotated[int | None, Query(ge=0, lt=2**63)] = None) -> Pair:
        """A random text of a task in its usual setting."""
        if name not in TASKS:
            raise HTTPException(404, did_you_mean("task", name, TASKS))
        return _draw(TASKS[name].from_options({}), seed)

    @app.get("/api/models/{name}/example", responses=_wrong(404, 422))
    def example(name: str, seed: Annotated[int | None, Query(ge=0, lt=2**63)] = None) -> Pair:
        """A random text that the model could be asked about."""
        task = _known(shelf, name).method.task
        if task.learned:
            raise UserError("there are no examples of a text of one's own; type one")
        return _draw(task, seed)


def _draw(task: Task, seed: int | None) -> Pair:
    pairs = task.generate(1, np.random.default_rng(seed))
    source, target = (task.vocabulary.decode(side)[0] for side in (pairs.sources, pairs.targets))
    return Pair(source=source, target=target)


def _add_runs(app: FastAPI, runs: dict[str, Path]) -> None:
    @app.get("/api/runs")
    async def names() -> list[str]:
        """The runs that are watched."""
        return list(runs)

    @app.get("/api/runs/{name}", responses=_wrong(404, 422))
    def progress(name: str) -> Watched:
        """How far a watched run is."""
        if name not in runs:
            raise HTTPException(404, f"no run called {name!r} is watched")
        run = checkpoints.read_run(runs[name])
        return Watched(
            name=name,
            title=f"{run.task} {run.method} {run.mode}",
            metric=TASKS[run.task].metrics[0],
            epochs=run.epochs,
            reports=[_finite(report) for report in checkpoints.read_reports(runs[name])],
        )


def _finite(report: dict[str, Any]) -> dict[str, Any]:
    """A report without numbers that JSON does not have."""
    return {key: None if isinstance(value, float) and value != value else value for key, value in report.items()}
