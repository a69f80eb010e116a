"""Request and reply, one after the other: Weft with and without its log, the bare transport, and NATS.

The node, whoever answers and whoever asks are a process each. "The bare round trip" is one message there and back
between two of them, over the same gRPC with TLS: a request needs two of those, one to the node and one to the server.
NATS is driven by its socket, at both ends, and without TLS.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import uvloop
from bench.figures import Figure
from bench.peers.nats import NatsConnection, message, nats_server
from bench.peers.raw import wait_until
from bench.systems import PAYLOAD
from bench.transport import conversation, server
from bench.transport_kinds import Certificates

import weft
from tests.up import RunningNode
from weft.client import NoServer, Request

TOPIC = "bench.consumers_asking"
GOAL_QUICK = 2.0  # times the bare round trip
WARM = 300

Ask = Callable[[], Awaitable[object]]


# --- who answers -----------------------------------------------------------------------------------------------------


async def answer_weft(wanted: dict[str, Any]) -> None:
    def echo(request: Request) -> bytes:
        return request.payload

    tls = weft.TlsFiles(*map(Path, wanted["tls"]))
    async with weft.connect(wanted["nodes"], tls=tls, token=wanted["token"]) as client:
        await client.serve(TOPIC, echo).wait()


async def answer_nats(wanted: dict[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    connection = (await loop.create_connection(Answering, "127.0.0.1", wanted["port"]))[1]
    connection.subscribe(TOPIC)
    await asyncio.Event().wait()


class Answering(NatsConnection):
    def _take(self, words: list[bytes], payload: bytes) -> None:
        if len(words) == 5:  # MSG subject sid reply size
            self.write(b"PUB %s %d\r\n%s\r\n" % (words[3], len(payload), payload))


@contextmanager
def answering(kind: str, wanted: dict[str, Any]) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-m", "bench.consumers_asking", kind, json.dumps(wanted)])
    try:
        yield
    finally:
        process.kill()
        process.wait()


# --- who asks --------------------------------------------------------------------------------------------------------


async def asking(node: RunningNode, rounds: int, asks: int) -> list[Figure]:
    """Medians of rounds, in which all take their turn."""
    context = node.context
    tls = [context.tls_root, context.tls_certificate, context.tls_key]
    wanted = {"nodes": list(context.nodes), "token": context.token, "tls": tls}
    async with AsyncExitStack() as opened:
        place = opened.enter_context(tempfile.TemporaryDirectory())
        Certificates.make(Path(place), time.time())
        bare = opened.enter_context(server("weft", place))
        talk = await opened.enter_async_context(conversation("weft", bare.port, place))
        opened.enter_context(answering("weft", wanted))
        client = await opened.enter_async_context(node.client())
        nats = opened.enter_context(nats_server(Path(place)))
        opened.enter_context(answering("nats", {"port": nats.port}))
        asks_of: dict[str, Ask] = {
            "bare round trip": lambda: talk.ask(PAYLOAD),
            "durable=False": lambda: client.request(TOPIC, PAYLOAD, durable=False),
            "durable": lambda: client.request(TOPIC, PAYLOAD),
            "NATS": await nats_asker(nats.port),
        }
        await served(asks_of["durable=False"])
        times: dict[str, list[float]] = {name: [] for name in asks_of}
        for _ in range(rounds):
            for name, ask in asks_of.items():
                times[name].append(await p50_us(ask, asks))
    medians = {name: sorted(values)[len(values) // 2] for name, values in times.items()}
    base = medians["bare round trip"]
    return [
        *(Figure(f"request and reply, p50: {name}", value, "us") for name, value in medians.items()),
        Figure("durable=False, in bare round trips", medians["durable=False"] / base, "x", GOAL_QUICK, ceiling=True),
        Figure("durable=False, beside NATS", medians["durable=False"] / medians["NATS"], "x", ceiling=True),
    ]


async def served(ask: Ask) -> None:
    while True:
        try:
            await ask()
            return
        except NoServer:
            await asyncio.sleep(0.05)


async def nats_asker(port: int) -> Ask:
    loop = asyncio.get_running_loop()
    connection = (await loop.create_connection(NatsConnection, "127.0.0.1", port))[1]
    waiting: list[asyncio.Future[None]] = []

    def answered(_: bytes, payload: bytes) -> None:
        if waiting and not waiting[0].done():
            waiting[0].set_result(None)

    async def ask() -> None:
        waiting[:] = [loop.create_future()]
        connection.write(question)
        await waiting[0]

    question = message(TOPIC, PAYLOAD, f"{connection.inbox}.0")
    connection.on_answer = answered
    refused = True
    while refused:  # until whoever answers is there
        try:
            await asyncio.wait_for(ask(), 0.5)
            refused = False
        except TimeoutError:
            connection.failure = None
            connection = (await loop.create_connection(NatsConnection, "127.0.0.1", port))[1]
            connection.on_answer = answered
            question = message(TOPIC, PAYLOAD, f"{connection.inbox}.0")
    await wait_until(lambda: True, [connection])
    return ask


async def p50_us(ask: Ask, asks: int) -> float:
    for _ in range(min(WARM, asks)):
        await ask()
    times = []
    for _ in range(asks):
        begin = time.perf_counter()
        await ask()
        times.append(time.perf_counter() - begin)
    times.sort()
    return times[len(times) // 2] * 1e6


if __name__ == "__main__":
    uvloop.run({"weft": answer_weft, "nats": answer_nats}[sys.argv[1]](json.loads(sys.argv[2])))
