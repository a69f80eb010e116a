"""How much Python an event runs through, from ``publish`` to its receipt: ``python -m bench.path [--markdown]``.

Bytecodes and calls of Python functions, of the client and of the node together, which share this process. They do not
depend on how busy the machine is, as times do; a bytecode takes 20 to 50 ns. What C does (sockets, the log's writes,
checksums) is not in them. Of several rounds the least counts: in others a timer was due.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import uvloop
from bench.figures import Figure, Format, add_formats, report

import weft
from tests.node.running import running_node
from weft.client import Client

PAYLOAD = b"x" * 100
CONNECTIONS = 32
TOPICS = 500
PER_TOPIC = 6  # events of each, in one batch: as when 65,536 are in flight in 10,000 topics
IN_FLIGHT = 4_096
ROUNDS = 8
WARM_UPS = 3

Work = Callable[[list[Client]], Awaitable[None]]


@dataclass(frozen=True)
class Case:
    name: str
    connections: int
    unit: str  # of what there are ``count``
    count: int
    work: Work


async def waiting(clients: list[Client]) -> None:
    await asyncio.gather(*(client.publish("path.one", PAYLOAD) for client in clients))


async def in_turn(clients: list[Client]) -> None:
    for _ in range(PER_TOPIC):
        for topic in range(TOPICS):
            clients[0].publish_nowait(f"path.turn{topic}", PAYLOAD)
    await clients[0].flush()


async def in_flight(clients: list[Client]) -> None:
    for _ in range(IN_FLIGHT):
        clients[0].publish_nowait("path.many", PAYLOAD)
    await clients[0].flush()


CASES = [
    Case("one event, waiting for its receipt", 1, "event", 1, waiting),
    Case(f"{CONNECTIONS} connections, each waiting", CONNECTIONS, "event", CONNECTIONS, waiting),
    Case(f"{TOPICS} topics in turn, {PER_TOPIC} events a batch", 1, "batch", TOPICS, in_turn),
    Case(f"{IN_FLIGHT} events in flight, one topic", 1, "event", IN_FLIGHT, in_flight),
]


class Counting:
    """Of all Python functions, while it is ``on``."""

    def __init__(self) -> None:
        self.codes: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    @contextmanager
    def on(self) -> Iterator[None]:
        sys.settrace(self._entered)
        try:
            yield
        finally:
            sys.settrace(None)

    def _entered(self, frame: FrameType, event: str, _: object) -> Any:
        name = f"{frame.f_code.co_filename.partition('/src/weft/')[2] or 'elsewhere'}:{frame.f_code.co_qualname}"
        self.calls[name] += 1
        frame.f_trace_opcodes, frame.f_trace_lines = True, False

        def step(inner: FrameType, what: str, value: object) -> Any:
            if what == "opcode":
                self.codes[name] += 1
            return step

        return step


async def least(case: Case, address: str) -> Counting:
    """Of the round that took the least."""
    clients = [await weft.connect(address, insecure=True) for _ in range(case.connections)]
    rounds: list[Counting] = []
    for number in range(WARM_UPS + ROUNDS):
        counting = Counting()
        if number < WARM_UPS:
            await case.work(clients)
            continue
        with counting.on():
            await case.work(clients)
        rounds.append(counting)
    await asyncio.gather(*(client.close() for client in clients))
    return min(rounds, key=lambda each: each.codes.total())


async def measured(top: int) -> list[Figure]:
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as place:
        async with running_node(Path(place) / "node") as node:
            for case in CASES:
                counting = await least(case, node.grpc_address)
                codes, calls = counting.codes.total() / case.count, counting.calls.total() / case.count
                figures.append(Figure(case.name, codes, f"bytecodes/{case.unit}", note=f"{calls:.1f} calls"))
                for name, count in counting.codes.most_common(top):
                    print(f"{case.name}: {count / case.count:8.1f} {name}", file=sys.stderr)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--top", type=int, default=0, help="show so many functions of each case")
    add_formats(parser)
    arguments = parser.parse_args()
    output: Format = arguments.format
    report(uvloop.run(measured(arguments.top)), "Python on the way of an event", output)


if __name__ == "__main__":
    main()
