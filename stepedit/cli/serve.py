"""`stepedit serve`: an HTTP API and a page that plays the edits."""

from __future__ import annotations

import socket
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepedit.errors import UserError

if TYPE_CHECKING:
    from stepedit.server.model_store import ModelStore


def serve(
    runs: Annotated[
        list[str] | None, typer.Argument(help="Folders of runs.", show_default="the models that come with stepedit")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; the default is reachable from this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 is any free one.")] = 8000,
    watch: Annotated[
        list[Path] | None, typer.Option(help="Also show the learning curves of this run; may be repeated.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="CPU threads for editing.", show_default="all cores but one")
    ] = None,
    compiled: Annotated[
        bool,
        typer.Option(
            "--compile",
            help="Compile the models first, where a C++ compiler is present: up to a minute each the first time; then "
            "a single text takes two thirds to three quarters of the time.",
        ),
    ] = False,
) -> None:
    """Serve models over HTTP, with a page that shows each edit as it happens.

    Example: stepedit serve runs/aor, then open http://127.0.0.1:8000

    POST /api/edit edits texts; GET /api/models, /api/tasks and /healthz describe the server; /openapi.json has it all.
    """
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise UserError("serving needs FastAPI and uvicorn: pip install 'stepedit[serve]'")
    import uvicorn

    from stepedit.inference.model_folder import read_config
    from stepedit.programmers import runtime
    from stepedit.server.app import make_app
    from stepedit.server.model_store import ModelStore

    # one core is left for the requests, or both would wait for each other
    runtime.set_num_threads(threads or max(1, runtime.num_threads() - 1))
    for folder in watch or []:
        read_config(folder)
    store = ModelStore.load(runs or []) if runs or not watch else ModelStore({})
    app = make_app(store, watch or [], prepare_thread=runtime.flush_denormals)
    config = uvicorn.Config(
        app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=30, limit_concurrency=1_000
    )
    server = uvicorn.Server(config)
    listener = listen(host, port)
    if compiled:
        compile_models(store)
    address, number = listener.getsockname()[:2]
    names = ", ".join(store.editors) or "learning curves"
    typer.echo(f"serving {names} on http://{address}:{number}; Ctrl-C stops it")
    server.run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; UserError if the port is taken or the address is not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (")[0]
        raise UserError(f"cannot listen on {host}, port {port}: {reason}; --port 0 takes any free one") from None


def compile_models(store: ModelStore) -> None:
    """Compile what can be compiled; a model that cannot is served as it is."""
    from stepedit.programmers.compilation import find_compiler

    if find_compiler() is None:
        typer.echo("stepedit: no C++ compiler found (set CXX to name one); nothing is compiled", err=True)
        return
    for name, editor in store.editors.items():
        typer.echo(f"compiling {name}, up to a minute the first time ...", nl=False)
        try:
            done = "done" if editor.compile() else "nothing to compile"
        except UserError as error:
            done = f"failed; it is served uncompiled ({error})"
        typer.echo(f" {done}")
