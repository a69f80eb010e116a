"""What a message costs on the wire: ``python -m bench.transport [--rounds N] [--json | --markdown]``.

Our gRPC, grpc.aio and a bare length prefix, each between two processes on uvloop, plain and with mTLS, in turn. Goals
are ratios to grpc.aio in the same run: the machine is shared, and only those hold.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import uvloop
from bench.figures import Figure, add_formats, report
from bench.transport_kinds import (
    Certificates,
    Conversation,
    grpc_client,
    raw_client,
    serve_grpc,
    serve_raw,
    serve_weft,
    weft_client,
)
from rich.console import Console

KINDS = ("weft", "grpc.aio", "raw")
ASKED = 1500
FLOODED = 8000
LARGE = ((130_000, 32, 400), (1_000_000, 8, 60))  # bytes, in flight, count
SMALL_BYTES = 200
IN_FLIGHT = 256
console = Console(stderr=True)


class Served(NamedTuple):
    pid: int
    port: int


async def serve(kind: str, here: str) -> None:
    certificates = Certificates(Path(here)) if here else None
    tls = None if certificates is None else certificates.context("server")
    match kind:
        case "weft":
            port = await serve_weft(tls)
        case "grpc.aio":
            port = await serve_grpc(certificates)
        case _:
            port = await serve_raw(tls)
    print(port, flush=True)
    await asyncio.Event().wait()


@contextmanager
def server(kind: str, here: str) -> Iterator[Served]:
    command = [sys.executable, "-m", "bench.transport", "--serve", kind, "--certificates", here]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield Served(process.pid, int(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@asynccontextmanager
async def conversation(kind: str, port: int, here: str) -> AsyncIterator[Conversation]:
    certificates = Certificates(Path(here)) if here else None
    tls = None if certificates is None else certificates.context("client")
    match kind:
        case "weft":
            opened = weft_client(port, tls)
        case "grpc.aio":
            opened = grpc_client(port, certificates)
        case _:
            opened = raw_client(port, tls)
    async with opened as talk:
        yield talk


def cpu_s(pid: int) -> float:
    return time.clock_gettime((~pid << 3) | 2)


Results = dict[str, dict[str, list[float]]]  # case -> measure -> a value a round


async def measure(case: str, kind: str, served: Served, here: str, results: Results) -> None:
    found = results[case]
    async with conversation(kind, served.port, here) as talk:
        small = b"x" * SMALL_BYTES
        await talk.flood(small, 500, IN_FLIGHT)
        times = []
        for _ in range(ASKED):
            begin = time.perf_counter()
            await talk.ask(small)
            times.append(time.perf_counter() - begin)
        times.sort()
        found["p50"].append(times[len(times) // 2] * 1e6)
        found["p99"].append(times[len(times) * 99 // 100] * 1e6)
        count = FLOODED // 8 if kind == "grpc.aio" else FLOODED
        ours, theirs, begin = time.process_time(), cpu_s(served.pid), time.perf_counter()
        await talk.flood(small, count, IN_FLIGHT)
        found["small"].append(count / (time.perf_counter() - begin))
        found["client cpu"].append((time.process_time() - ours) / count * 1e6)
        found["server cpu"].append((cpu_s(served.pid) - theirs) / count * 1e6)
        for size, in_flight, count in LARGE:
            message = b"x" * size
            await talk.flood(message, in_flight, in_flight)
            begin = time.perf_counter()
            await talk.flood(message, count, in_flight)
            found[f"{size}"].append(size * count / (time.perf_counter() - begin) / 1e6)


def figures_of(results: Results) -> list[Figure]:
    medians = {
        case: {name: statistics.median(values) for name, values in each.items()} for case, each in results.items()
    }
    figures = []
    for case, each in medians.items():
        figures += [
            Figure(f"{case}: round trip p50", each["p50"], "µs", note=f"p99 {each['p99']:.0f} µs"),
            Figure(f"{case}: 256 in flight, 200 bytes", each["small"], "messages/s"),
            Figure(f"{case}: CPU a message", each["client cpu"], "µs", note=f"server {each['server cpu']:.1f} µs"),
            Figure(f"{case}: 130 KB, 32 in flight", each["130000"], "MB/s"),
            Figure(f"{case}: 1 MB, 8 in flight", each["1000000"], "MB/s"),
        ]
    for suffix, large in (("", 1.0), (" mTLS", 0.9)):
        ours, theirs = medians[f"weft{suffix}"], medians[f"grpc.aio{suffix}"]
        figures += [
            Figure(f"small messages, to grpc.aio{suffix}", ours["small"] / theirs["small"], "times", goal=20),
            Figure(f"round trip, to grpc.aio{suffix}", ours["p50"] / theirs["p50"], "times", goal=0.6, ceiling=True),
            Figure(f"130 KB, to grpc.aio{suffix}", ours["130000"] / theirs["130000"], "times", goal=large),
            Figure(f"1 MB, to grpc.aio{suffix}", ours["1000000"] / theirs["1000000"], "times", goal=large),
        ]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", default="")
    parser.add_argument("--certificates", default="")
    add_formats(parser)
    arguments = parser.parse_args()
    if arguments.serve:
        uvloop.run(serve(arguments.serve, arguments.certificates))
        return
    results: Results = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory() as place, ExitStack() as servers:
        Certificates.make(Path(place), time.time())
        cases = [(f"{kind}{' mTLS' if here else ''}", kind, here) for here in ("", place) for kind in KINDS]
        served = {case: servers.enter_context(server(kind, here)) for case, kind, here in cases}
        for number in range(arguments.rounds):
            console.print(f"round {number + 1} of {arguments.rounds}", style="dim")
            for case, kind, here in cases:
                uvloop.run(measure(case, kind, served[case], here, results))
    report(figures_of(results), "transport", arguments.format)


if __name__ == "__main__":
    main()
