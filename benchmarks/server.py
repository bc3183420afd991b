"""The server under load: batched against one request at a time, memory over minutes, and a flood of bad requests.

`python -m benchmarks.load RUN [MINUTES]` starts servers of its own on loopback and ends them.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socket import create_server

import numpy as np
import torch
import uvicorn

from benchmarks.timing import verdict
from stepedit.commands.serve import compile_models
from stepedit.serving.api import Limits, make_app
from stepedit.serving.batching import spare_threads
from stepedit.serving.shelf import Shelf

SECONDS = 8.0  # of each measurement
BAD = b'{"text": "no such token"}'


@dataclass
class Measured:
    """Answers of one kind, with how long each took."""

    seconds: list[float] = field(default_factory=list)
    codes: dict[int, int] = field(default_factory=dict)

    def add(self, code: int, seconds: float) -> None:
        """One more."""
        self.codes[code] = self.codes.get(code, 0) + 1
        self.seconds.append(seconds)

    def at(self, share: float) -> float:
        """A quantile, in milliseconds."""
        return 1e3 * sorted(self.seconds)[min(int(share * len(self.seconds)), len(self.seconds) - 1)]

    @property
    def rate(self) -> float:
        """Answers in a second."""
        return len(self.seconds) / SECONDS

    def must_be(self, code: int) -> Measured:
        """The same; the benchmark ends if there were other answers."""
        if set(self.codes) != {code}:
            raise SystemExit(f"other answers than {code}: {self.codes}")
        return self


def serve(place: str, port: int, alone: bool, compiled: bool) -> None:
    """A server, until it is ended."""
    torch.set_num_threads(spare_threads())
    shelf = Shelf.load([place])
    if compiled:
        compile_models(shelf)
    app = make_app(shelf, limits=Limits(), alone=alone)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


@contextmanager
def server(place: str, alone: bool = False, compiled: bool = False) -> Iterator[tuple[int, int]]:
    """A server process: its port and its process number."""
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = place, port, alone, compiled
    process = multiprocessing.get_context("spawn").Process(target=serve, args=arguments, daemon=True)
    process.start()
    asyncio.run(_until_up(port))
    try:
        yield port, process.pid or 0
    finally:
        process.terminate()
        process.join()


async def _until_up(port: int) -> None:
    for _ in range(3_000):  # compiling takes its time
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        except OSError:
            await asyncio.sleep(0.1)
    raise SystemExit("the server did not come up")


async def client(port: int, body: bytes, end: float, measured: Measured) -> None:
    """One client that asks again as soon as it is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = ["POST /api/edit HTTP/1.1", "host: here", "content-type: application/json", f"content-length: {len(body)}"]
    head = "".join(f"{line}\r\n" for line in [*lines, ""])
    while (began := time.perf_counter()) < end:
        writer.write(head.encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = int(answer.split("content-length: ")[1].split("\r\n")[0])
        await reader.readexactly(size)
        measured.add(int(answer.split()[1]), time.perf_counter() - began)
    writer.close()


async def load(
    port: int, body: bytes, clients: int, bad: int = 0, seconds: float = SECONDS
) -> tuple[Measured, Measured]:
    """So many clients at a time, some of them with nothing but bad requests."""
    good, wrong, end = Measured(), Measured(), time.perf_counter() + seconds
    await asyncio.gather(
        *(client(port, body, end, good) for _ in range(clients)), *(client(port, BAD, end, wrong) for _ in range(bad))
    )
    return good, wrong


def memory(process: int) -> float:
    """A process's memory, in MB."""
    text = Path(f"/proc/{process}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def run(place: str, minutes: float, trace: bool) -> None:
    """All of it."""
    task = Shelf.load([place]).editors.popitem()[1].method.task
    text = task.vocabulary.decode(task.generate(1, np.random.default_rng(0)).sources)[0]
    body = json.dumps({"text": text, "trace": trace}).encode()
    print(f"asking for {text!r} {'with' if trace else 'without'} each step")
    rates: dict[bool, float] = {}
    for alone in (True, False):
        print("one request at a time" if alone else "requests that arrive together edited together")
        with server(place, alone) as (port, process):
            asyncio.run(load(port, body, 4, seconds=2))  # warm up
            for clients in (1, 16, 64):
                rates[alone] = _rate(port, body, clients)
            if not alone:
                _flood(port, body)
                _last(port, process, body, minutes)
    with server(place, compiled=True) as (port, process):
        _rate(port, body, 1)
        print(f"  memory {memory(process):.0f} MB")
    ratio = rates[False] / rates[True]
    print(f"batching at 64 clients: {ratio:.1f} x   {verdict(ratio >= 3)} (3 x)")


def _rate(port: int, body: bytes, clients: int) -> float:
    """Requests in a second, and one line about them."""
    good = asyncio.run(load(port, body, clients))[0].must_be(200)
    print(
        f"  {clients:>2} clients   {good.rate:7.0f} requests/s   p50 {good.at(0.5):6.1f} ms   "
        f"p99 {good.at(0.99):6.1f} ms"
    )
    return good.rate


def _flood(port: int, body: bytes) -> None:
    calm = asyncio.run(load(port, body, 8))[0].must_be(200)
    busy, wrong = asyncio.run(load(port, body, 8, bad=32))
    share = busy.must_be(200).rate / calm.rate
    said = f"{calm.rate:.0f} good requests/s alone, {busy.rate:.0f} beside {wrong.must_be(422).rate:.0f} bad ones/s"
    late = f"p99 {calm.at(0.99):.0f} ms, then {busy.at(0.99):.0f} ms"
    print(f"  a flood of bad requests: {said} ({late}): {share:.0%}   {verdict(share >= 0.5)} (half)")


def _last(port: int, process: int, body: bytes, minutes: float) -> None:
    asyncio.run(load(port, body, 16, seconds=10))  # so that all there is to allocate is there
    before = memory(process)
    asyncio.run(load(port, body, 16, seconds=60 * minutes))
    grown = memory(process) - before
    print(
        f"  {minutes:g} minutes of load: memory {before:.0f} MB, then {grown:+.1f} MB   {verdict(grown < 10)} (10 MB)"
    )


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m benchmarks.load RUN [MINUTES]")
    for trace, minutes in ((True, 0.5), (False, float(sys.argv[2]) if len(sys.argv) > 2 else 10.0)):
        run(sys.argv[1], minutes, trace)
