"""`stepedit serve`: an HTTP API and a page that plays the edits."""

from __future__ import annotations

import socket
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepedit.errors import UserError

if TYPE_CHECKING:
    from stepedit.serving.shelf import Shelf


def serve(
    runs: Annotated[
        list[str] | None, typer.Argument(help="Runs' folders.", show_default="the models that come with stepedit")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Where to listen; others can reach it only if you say so here.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    watch: Annotated[
        list[Path] | None, typer.Option(help="Show the learning curves of this run, too; may be repeated.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads that edit.", show_default="all cores but one")
    ] = None,
    compiled: Annotated[
        bool,
        typer.Option(
            "--compile",
            help="Compile models first, where a C++ compiler is present: up to a minute each the first time; then a "
            "single text takes two thirds to three quarters of the time.",
        ),
    ] = False,
) -> None:
    """Serve models over HTTP, with a page that shows each edit as it happens.

    Example: stepedit serve runs/aor, then open http://127.0.0.1:8000

    POST /api/edit edits; GET /api/models, /api/tasks and /healthz tell what is there; /openapi.json describes it all.
    """
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise UserError("serving needs FastAPI and uvicorn: pip install 'stepedit[serve]'")
    import torch
    import uvicorn

    from stepedit import checkpoints
    from stepedit.serving.api import make_app
    from stepedit.serving.batching import spare_threads
    from stepedit.serving.shelf import Shelf

    torch.set_num_threads(threads or spare_threads())
    for folder in watch or []:
        checkpoints.read_run(folder)
    shelf = Shelf.load(runs or []) if runs or not watch else Shelf({})
    app = make_app(shelf, watch or [])
    config = uvicorn.Config(
        app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=30, limit_concurrency=1_000
    )
    server = uvicorn.Server(config)
    listener = listen(host, port)
    if compiled:
        compile_models(shelf)
    where, at = listener.getsockname()[:2]
    typer.echo(f"serving {', '.join(shelf.editors) or 'learning curves'} on http://{where}:{at}; Ctrl-C stops it")
    server.run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """A socket there; UserError if it is taken, or none of this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (")[0]
        raise UserError(f"cannot listen on {host}, port {port}: {reason}; --port 0 takes any that is free") from None


def compile_models(shelf: Shelf) -> None:
    """Compile what can be; a server without that is a slower one, and as good."""
    from stepedit.programmers.compiling import compiler

    if compiler() is None:
        typer.echo("stepedit: no C++ compiler found (the variable CXX may name one); nothing is compiled", err=True)
        return
    for name, editor in shelf.editors.items():
        typer.echo(f"compiling {name}, up to a minute the first time ...", nl=False)
        try:
            done = "done" if editor.speed_up() else "nothing to compile in it"
        except UserError as error:
            done = f"failed; it is served as it is ({error})"
        typer.echo(f" {done}")
