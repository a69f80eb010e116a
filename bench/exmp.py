"""How fast EXMP is: ``python -m bench.exmp [--scale S] [--dir DIR] [--json | --markdown]``.

A node with its gateway, and a bare asyncio server that reads the same frames and writes them back, each in a process of
its own on the same kind of event loop. The load is the same for both. Events that are published are synced before their
answers.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvloop
from bench.exmp_load import Load, connect, rate, requests
from bench.figures import Figure, Format, add_formats, report
from bench.mesh_nodes import free_address, node
from rich.console import Console

from weft.wire.exmp.framing import LENGTH

ROUNDS = 7
PIPELINED = 40_000
ONE_AT_A_TIME = 3_000
PUBLISHED = 96_000
CONNECTIONS = 64
WINDOW = 256  # requests under way on the one connection
PUBLISH_WINDOW = 64  # on each of 64
GATEWAY_VARIABLE = "WEFT_GATEWAY_EXMP_TCP"
ECHO_DATA = {"n": 12345, "text": "x" * 60}
PUBLISH_DATA = {"topic": "bench.exmp", "payload": "x" * 100}
console = Console(stderr=True)


# --- the bare echo ---------------------------------------------------------------------------------------------------


async def echo_frames(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As plain as asyncio has it: a length, so many bytes, and both back."""
    try:
        while True:
            head = await reader.readexactly(LENGTH.size)
            writer.write(head + await reader.readexactly(LENGTH.unpack(head)[0]))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve_bare() -> None:
    server = await asyncio.start_server(echo_frames, "127.0.0.1", 0)
    print(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


@contextmanager
def bare() -> Iterator[str]:
    """A bare server that serves; its address."""
    process = subprocess.Popen([sys.executable, "-m", "bench.exmp", "--bare"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@contextmanager
def gateway(place: Path) -> Iterator[str]:
    """A node with EXMP; the address of that."""
    os.environ[GATEWAY_VARIABLE] = free_address()
    with node(place, "one"):
        yield os.environ[GATEWAY_VARIABLE]


# --- measuring -------------------------------------------------------------------------------------------------------


class Bench:
    """Rounds of everything in turn, so that a noisy minute hits all of it; medians at the end."""

    def __init__(self, scale: float, node_address: str, bare_address: str) -> None:
        self._scale = scale
        self._node_address = node_address
        self._bare_address = bare_address
        self._rates: dict[str, list[float]] = {}

    async def run(self) -> None:
        one = await connect(self._node_address, says_hello=True)
        plain = await connect(self._bare_address, says_hello=False)
        many = [await connect(self._node_address, says_hello=True) for _ in range(CONNECTIONS)]
        echoes = publishes = 1  # the next id on each kind of connection
        for number in range(ROUNDS):
            console.print(f"round {number + 1} of {ROUNDS}", style="dim")
            for name, count, window in (
                ("pipelined", int(PIPELINED * self._scale), WINDOW),
                ("one at a time", int(ONE_AT_A_TIME * self._scale), 1),
            ):
                frames = requests("$echo", ECHO_DATA, echoes, count)
                echoes += count
                await self._measure(f"bare echo, {name}", [plain], [frames], window)
                await self._measure(f"$echo, {name}", [one], [frames], window)
            count = int(PUBLISHED * self._scale) // CONNECTIONS
            frames = requests("publish", PUBLISH_DATA, publishes, count)
            publishes += count
            await self._measure("publish, 64 connections", many, [frames] * CONNECTIONS, PUBLISH_WINDOW)
        for load in (one, plain, *many):
            load.close()

    async def _measure(self, name: str, loads: list[Load], frames: list[list[bytes]], window: int) -> None:
        self._rates.setdefault(name, []).append(await rate(loads, frames, window))

    def figures(self) -> list[Figure]:
        medians = {name: statistics.median(rates) for name, rates in self._rates.items()}
        goals = {"publish, 64 connections": 40_000.0}
        figures = [
            Figure(
                name,
                median,
                "events/s" if "publish" in name else "requests/s",
                goal=goals.get(name),
                limit="bare" in name,
                note=f"best {max(self._rates[name]):,.0f}",
            )
            for name, median in medians.items()
        ]
        for name in ("pipelined", "one at a time"):
            share = statistics.median(
                ours / theirs
                for ours, theirs in zip(self._rates[f"$echo, {name}"], self._rates[f"bare echo, {name}"], strict=True)
            )
            goal = 50.0 if name == "pipelined" else None
            figures.append(Figure(f"$echo of the bare echo, {name}", 100 * share, "%", goal=goal))
        return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="how much of everything")
    parser.add_argument("--dir", type=Path, default=None, help="where the log goes; a disk like the one you will use")
    add_formats(parser)
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if arguments.bare:
            runner.run(serve_bare())
            return
        output: Format = arguments.format
        with ExitStack() as stack:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=arguments.dir)))
            bench = Bench(arguments.scale, stack.enter_context(gateway(place)), stack.enter_context(bare()))
            runner.run(bench.run())
    report(bench.figures(), "EXMP: 100-byte events, synced before the answer", output)


if __name__ == "__main__":
    main()
