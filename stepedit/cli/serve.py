"""`stepedit serve`: an HTTP API and a page that plays the edits."""

from __future__ import annotations

import gc
import socket
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from stepedit.config import MAX_THREADS
from stepedit.errors import UserError


def serve(
    runs: Annotated[
        list[str] | None, typer.Argument(help="Folders of runs.", show_default="the models that come with stepedit")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; the default is reachable from this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 is any free one.")] = 8000,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Name by which clients reach the server, as in their Host header; may be repeated; * is any. This "
            "machine's loopback names and --host are always allowed.",
            show_default=False,
        ),
    ] = None,
    watch: Annotated[
        list[Path] | None, typer.Option(help="Also show the learning curves of this run; may be repeated.")
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            help="File of words, phrases and patterns that no edit touches, for all requests to models of text.",
            show_default=False,
        ),
    ] = None,
    keep_code: Annotated[
        bool, typer.Option("--keep-code", help="Keep addresses, paths, code and numbers, for all requests, too.")
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(min=1, max=MAX_THREADS, help="CPU threads for editing.", show_default="all cores but one"),
    ] = None,
) -> None:
    """Serve models over HTTP, with a page that shows each edit as it happens.

    Example: stepedit serve runs/aor, then open http://127.0.0.1:8000

    POST /api/edit edits texts; GET /api/models, /api/tasks and /healthz describe the server; /openapi.json has it all.
    """
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise UserError("serving needs FastAPI and uvicorn: pip install 'stepedit[serve]'")
    import uvicorn

    from stepedit.inference.decoding import Decoding
    from stepedit.inference.model_folder import read_config
    from stepedit.inference.onnx_runtime import available_threads
    from stepedit.server.app import make_app
    from stepedit.server.model_store import ModelStore

    for folder in watch or []:
        read_config(folder)
    keeping = Decoding(keep=keep, keep_code=keep_code)
    # one core is left for the requests, or both would wait for each other
    threads = threads or max(1, available_threads() - 1)
    store = ModelStore.load(runs or [], threads) if runs or not watch else ModelStore({})
    app = make_app(store, watch or [], allowed_hosts=[host, *(allowed_host or [])], keeping=keeping)
    gc.collect()
    gc.freeze()  # what is loaded stays: collections that hold up all threads need not look at it
    config = uvicorn.Config(
        app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=30, limit_concurrency=1_000
    )
    server = uvicorn.Server(config)
    listener = listen(host, port)
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
