"""The part of ``make demo`` with nodes: three real ones in a chain, one of them killed in mid-stream, nothing lost."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.rule import Rule

import weft

EVENTS = 2_000
WAIT_S = 60.0  # for anything; a machine that is busy with something else is no failure


class DemoNode:
    """A node in a process of its own."""

    def __init__(
        self, place: Path, name: str, peers: Sequence[DemoNode] = (), settings: Mapping[str, str] | None = None
    ) -> None:
        """``settings`` are variables, as docs/configuration.md names them."""
        self.name = name
        self._variables = os.environ | dict(settings or {})
        self.address = _free_address()
        self._errors = place / f"{name}.err"
        self._command = [
            *(str(Path(sys.executable).parent / "weft"), "up", "--insecure", "--log-level", "error"),
            *("--data", str(place / name), "--node-id", name, "--listen", self.address, "--admin", _free_address()),
            *(argument for peer in peers for argument in ("--peer", peer.address)),
        ]
        self.start()

    def start(self) -> None:
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=errors, text=True, env=self._variables
            )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise SystemExit(f"node {self.name} did not start: {self._errors.read_text()}")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(number)
        self._process.wait(WAIT_S)
        if self._process.stdout is not None:
            self._process.stdout.close()


def _free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def show_mesh(console: Console, say: Callable[[str], None]) -> None:
    console.print(Rule("Three nodes in a chain: a, b, c"))
    with tempfile.TemporaryDirectory() as place, ExitStack() as running:
        chain: list[DemoNode] = []
        for name in "abc":
            chain.append(DemoNode(Path(place), name, chain[-1:]))
            running.callback(chain[-1].stop)
        asyncio.run(_tour(console, say, *chain))


async def _tour(console: Console, say: Callable[[str], None], a: DemoNode, b: DemoNode, c: DemoNode) -> None:
    async with (
        asyncio.timeout(WAIT_S),
        weft.connect(a.address, insecure=True) as near,
        weft.connect(c.address, insecure=True) as far,
        far.subscribe("plant.*.temp", start="earliest") as events,
    ):
        await events.opened()
        receipt = await near.publish("plant.line1.temp", "21.5", key="pump-1", headers={"unit": "C"})
        say("Published at a. The receipt came after the sync:")
        console.print(f"  {receipt}")
        first = await anext(aiter(events))
        say("Delivered at c, two hops away, to a subscriber of plant.*.temp:")
        console.print(
            f"  {first.payload.decode()} {dict(first.headers or {})} from {first.origin}, offset {first.offset}"
        )
        publishing = asyncio.create_task(_publish(near))
        say(f"{EVENTS:,} more. In the middle of it, b is killed (SIGKILL) and started again:")
        seen: list[bytes] = []
        async for event in events:
            seen.append(event.payload)
            if len(seen) == EVENTS // 10:
                b.stop(signal.SIGKILL)
                await asyncio.to_thread(b.start)
            if len(seen) == EVENTS:
                break
        await publishing
        in_order = seen == [str(number).encode() for number in range(EVENTS)]
        console.print(
            f"  c has {len(seen):,} of {EVENTS:,}, {'each once and in order' if in_order else 'NOT in order'}"
        )


async def _publish(client: weft.Client) -> None:
    for number in range(EVENTS):
        client.publish_nowait("plant.line1.temp", str(number))
        if number % 100 == 0:
            await client.flush()
    await client.flush()
