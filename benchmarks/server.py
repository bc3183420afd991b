"""The server under load: batched against one request at a time, memory over minutes, and a flood of invalid requests.

`python -m benchmarks.server MODEL [MINUTES]` starts its own servers on loopback and stops them.
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
import uvicorn

from benchmarks.timing import verdict
from stepedit.inference.onnx_runtime import available_threads
from stepedit.server.app import make_app
from stepedit.server.model_store import ModelStore

SECONDS = 8.0  # of each measurement
INVALID = b'{"text": "no such token"}'


@dataclass
class Responses:
    """Status codes and latencies of some responses."""

    latencies: list[float] = field(default_factory=list)  # seconds
    codes: dict[int, int] = field(default_factory=dict)

    def add(self, code: int, latency: float) -> None:
        """Add a response."""
        self.codes[code] = self.codes.get(code, 0) + 1
        self.latencies.append(latency)

    def quantile(self, share: float) -> float:
        """Return a quantile of the latencies, in milliseconds."""
        return 1e3 * sorted(self.latencies)[min(int(share * len(self.latencies)), len(self.latencies) - 1)]

    @property
    def rate(self) -> float:
        """Responses per second."""
        return len(self.latencies) / SECONDS

    def require(self, code: int) -> Responses:
        """Return these responses; the benchmark ends if there are other status codes."""
        if set(self.codes) != {code}:
            raise SystemExit(f"expected only responses with status {code}: {self.codes}")
        return self


def serve(model: str, port: int, one_by_one: bool) -> None:
    """Run a server, as `stepedit serve` does, until it is stopped."""
    app = make_app(ModelStore.load([model], max(1, available_threads() - 1)), one_by_one=one_by_one)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


@contextmanager
def server(model: str, one_by_one: bool = False) -> Iterator[tuple[int, int]]:
    """Yield the port and the process id of a running server."""
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = model, port, one_by_one
    process = multiprocessing.get_context("spawn").Process(target=serve, args=arguments, daemon=True)
    process.start()
    asyncio.run(_wait_until_up(port))
    try:
        yield port, process.pid or 0
    finally:
        process.terminate()
        process.join()


async def _wait_until_up(port: int) -> None:
    for _ in range(3_000):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        except OSError:
            await asyncio.sleep(0.1)
    raise SystemExit("the server did not start")


async def client(port: int, body: bytes, end: float, responses: Responses) -> None:
    """Send requests one after the other until `end`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = [
        "POST /api/edit HTTP/1.1",
        "host: localhost",
        "content-type: application/json",
        f"content-length: {len(body)}",
    ]
    head = "".join(f"{line}\r\n" for line in [*lines, ""])
    while (started := time.perf_counter()) < end:
        writer.write(head.encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = int(answer.split("content-length: ")[1].split("\r\n")[0])
        await reader.readexactly(size)
        responses.add(int(answer.split()[1]), time.perf_counter() - started)
    writer.close()


async def load(
    port: int, body: bytes, clients: int, invalid_clients: int = 0, seconds: float = SECONDS
) -> tuple[Responses, Responses]:
    """Return the responses to so many clients at a time, and to clients that send only invalid requests."""
    good, invalid, end = Responses(), Responses(), time.perf_counter() + seconds
    await asyncio.gather(
        *(client(port, body, end, good) for _ in range(clients)),
        *(client(port, INVALID, end, invalid) for _ in range(invalid_clients)),
    )
    return good, invalid


def memory(pid: int) -> float:
    """Return a process's memory in MB."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def run(model: str, minutes: float, trace: bool) -> None:
    """Run all measurements, with a trace in the response or without."""
    task = ModelStore.load([model]).editors.popitem()[1].method.task
    text = task.vocabulary.decode(task.generate(1, np.random.default_rng(0)).sources)[0]
    body = json.dumps({"text": text, "trace": trace}).encode()
    print(f"requests for {text!r} {'with' if trace else 'without'} a trace")
    rates: dict[bool, float] = {}
    for one_by_one in (True, False):
        print("one request at a time" if one_by_one else "batched")
        with server(model, one_by_one) as (port, pid):
            asyncio.run(load(port, body, 4, seconds=2))  # warm up
            for clients in (1, 16, 64):
                rates[one_by_one] = _measure_rate(port, body, clients)
            if not one_by_one:
                _measure_flood(port, body)
                _measure_memory(port, pid, body, minutes)
    ratio = rates[False] / rates[True]
    print(f"batching, 64 clients: {ratio:.1f} x   {verdict(ratio >= 3)} (3 x)")


def _measure_rate(port: int, body: bytes, clients: int) -> float:
    """Print and return requests per second."""
    good = asyncio.run(load(port, body, clients))[0].require(200)
    latency = f"p50 {good.quantile(0.5):6.1f} ms   p99 {good.quantile(0.99):6.1f} ms"
    print(f"  {clients:>2} clients   {good.rate:7.0f} requests/s   {latency}")
    return good.rate


def _measure_flood(port: int, body: bytes) -> None:
    """Print how much slower valid requests are while others send invalid ones."""
    calm = asyncio.run(load(port, body, 8))[0].require(200)
    busy, invalid = asyncio.run(load(port, body, 8, invalid_clients=32))
    share = busy.require(200).rate / calm.rate
    rates = (
        f"{calm.rate:.0f} valid requests/s, then {busy.rate:.0f} beside {invalid.require(422).rate:.0f} invalid ones/s"
    )
    latency = f"p99 {calm.quantile(0.99):.0f} ms, then {busy.quantile(0.99):.0f} ms"
    print(f"  flood of invalid requests: {rates} ({latency}): {share:.0%}   {verdict(share >= 0.5)} (half)")


def _measure_memory(port: int, pid: int, body: bytes, minutes: float) -> None:
    """Print how much the memory grows under load."""
    asyncio.run(load(port, body, 16, seconds=10))  # until everything is allocated
    before = memory(pid)
    asyncio.run(load(port, body, 16, seconds=60 * minutes))
    growth = memory(pid) - before
    print(
        f"  {minutes:g} minutes of load: memory {before:.0f} MB, then {growth:+.1f} MB   {verdict(growth < 10)} (10 MB)"
    )


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m benchmarks.server MODEL [MINUTES]")
    for trace, minutes in ((True, 0.5), (False, float(sys.argv[2]) if len(sys.argv) > 2 else 10.0)):
        run(sys.argv[1], minutes, trace)
