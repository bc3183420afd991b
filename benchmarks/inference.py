"""Editing with graphs (onnxruntime) against the PyTorch network with the same weights; each line is a ratio of one run.

`python -m benchmarks.inference` runs this alone. The model is the included `aor`; its network is built from the weights
in its graph.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from benchmarks.timing import interleaved, seconds, verdict
from stepedit.inference import model_folder
from stepedit.inference.editor import Editor
from stepedit.inference.onnx_runtime import available_threads
from stepedit.programmers.base import weights_of
from stepedit.registry import PROGRAMMERS

MODEL, TEXT = "aor", "6 10 9 5 2"
IMPORTS = [sys.executable, "-c", "import numpy, onnxruntime"]
EDIT = [sys.executable, "-c", "from stepedit.cli.main import main; main()", "edit", MODEL, TEXT]
REQUESTS = 300


def run() -> None:
    """Print all ratios."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / MODEL
        write_weights(MODEL, folder)
        print(f"editing with graphs, model {MODEL}, against the PyTorch network with the same weights, interleaved")
        _startup()
        _loop(folder)
        _words(folder)
        _server(folder)


def write_weights(name: str, out: Path) -> None:
    """Write a folder with the weights of a graph and without the graph."""
    source = model_folder.find(name)
    model_folder.export(source, out)
    (out / model_folder.GRAPH).unlink()
    graph = onnx.load(str(source / model_folder.GRAPH)).graph
    arrays = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    found = {key.removesuffix(".T"): array.T if key.endswith(".T") else array for key, array in arrays.items()}
    run = model_folder.read_config(source)
    net = PROGRAMMERS[run.training.programmer].from_seed(0, model_folder.make_method(run), run.training)
    # a graph has only the weights that editing needs
    weights = {key: found.get(key, array) for key, array in weights_of(net).items()}
    model_folder.write_tensors(out / model_folder.WEIGHTS, weights, {})


def _print(what: str, fast: str, slow: str, ratio: float, goal: float, at_most: bool = False) -> None:
    met = ratio <= goal if at_most else ratio >= goal
    sign = "at most " * at_most
    print(f"  {what:<34} {fast:>14} {slow:>14} {ratio:7.1f} x   {verdict(met)} ({sign}{goal:g} x)")


def _startup() -> None:
    """Compare `stepedit edit` from the shell with importing numpy and onnxruntime."""
    jobs = {"imports": partial(_command, IMPORTS), "edit": partial(_command, EDIT)}
    times = interleaved(jobs, rounds=7)
    ratio = times["edit"] / times["imports"]
    _print("stepedit edit, whole process", f"{times['edit']:.2f} s", f"{times['imports']:.2f} s", ratio, 3, True)


def _command(words: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(words, check=True, capture_output=True, env=environment)  # the first round writes the bytecode


def _loop(folder: Path) -> None:
    """Compare texts per second, one by one and in a batch, each in a process of its own, in turns."""
    task = Editor.load(MODEL).method.task
    texts = task.vocabulary.decode(task.generate(256, np.random.default_rng(0)).sources)
    with _workers({"graph": MODEL, "network": str(folder)}) as ask:
        singles = {name: partial(ask, name, texts[:32], True) for name in ("graph", "network")}
        _rates("one text after another", interleaved(singles, rounds=15), 32, 6)
        batches = {name: partial(ask, name, texts, False) for name in ("graph", "network")}
        _rates("a batch of 256", interleaved(batches, rounds=15), 256, 1.3)


@contextmanager
def _workers(models: dict[str, str]) -> Iterator[Callable[[str, list[str], bool], None]]:
    """Yield a function that lets the process of a model edit texts; threads of one would disturb the other."""
    context, pipes = multiprocessing.get_context("spawn"), dict[str, Any]()
    processes = []
    for name, model in models.items():
        pipes[name], there = context.Pipe()
        processes.append(context.Process(target=_work, args=(model, there), daemon=True))
        processes[-1].start()

    def ask(name: str, texts: list[str], one_by_one: bool) -> None:
        pipes[name].send((texts, one_by_one))
        pipes[name].recv()

    yield ask
    for process in processes:
        process.terminate()


def _work(model: str, pipe: Any) -> None:
    """Edit what comes through a pipe."""
    editor = Editor.load(model)
    while True:
        texts, one_by_one = pipe.recv()
        for batch in [[text] for text in texts] if one_by_one else [texts]:
            editor.edit(batch)
        pipe.send(None)


def _rates(what: str, times: dict[str, float], size: int, goal: float) -> None:
    rates = {name: size / time for name, time in times.items()}
    ratio = rates["graph"] / rates["network"]
    _print(what, f"{rates['graph']:,.0f}/s", f"{rates['network']:,.0f}/s", ratio, goal)


def _words(folder: Path) -> None:
    """Compare lines per second of files of short lines, the model loaded already."""
    spelling = Path(str(folder.parent)) / "spelling"
    write_weights("spelling", spelling)
    rng = np.random.default_rng(0)
    letters = list("abcdefghijklmnopqrstuvwxyz")
    words = ["".join(rng.choice(letters, int(rng.integers(3, 10)))) for _ in range(1_000)]
    with _workers({"graph": "spelling", "network": str(spelling)}) as ask:
        jobs = {name: partial(ask, name, words, False) for name in ("graph", "network")}
        _rates("lines of one word (spelling)", interleaved(jobs, rounds=7), len(words), 1.5)


def _server(folder: Path) -> None:
    """Compare the median latency of one client."""
    latencies = {"graph": _latency(MODEL), "network": _latency(str(folder))}
    ratio = latencies["network"] / latencies["graph"]
    shown = {name: f"{value * 1e3:.1f} ms" for name, value in latencies.items()}
    _print("serve, one client, median latency", shown["graph"], shown["network"], ratio, 5)


def _latency(model: str) -> float:
    from benchmarks.server import server

    with server(model) as (port, _):
        return median(_ask(port) for _ in range(REQUESTS))


def _ask(port: int) -> float:
    from http.client import HTTPConnection

    connection = HTTPConnection("127.0.0.1", port)
    body = json.dumps({"text": TEXT, "trace": False})

    def request() -> None:
        connection.request("POST", "/api/edit", body, {"content-type": "application/json"})
        connection.getresponse().read()

    request()  # the connection is made
    taken = seconds(request)
    connection.close()
    return taken


if __name__ == "__main__":
    print(f"{available_threads()} threads; torch {torch.__version__}")
    run()
