"""What an application in Python gets: ``python -m bench.by_python [--only PATTERN] [--rounds N] [--scale S]``.

``bench.mesh`` drives peers by their bare sockets, so that no client is their limit. Here everybody is driven by the
client that a Python team would use: Weft by its SDK, Redis by redis-py, NATS by nats-py. Two more columns are limits:
``bench.bare_node``, which is as little Python as a synced log takes, and Redis without a client.
"""

from __future__ import annotations

import asyncio
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import nats
import redis.asyncio
from bench.bare_node import LENGTH_BYTES, whole
from bench.mesh import Row, Start, cpu, latencies, rate, run_rows
from bench.mesh_work import Weft
from bench.peers.nats import nats_server
from bench.peers.process import Server, answers, found, free_port, running
from bench.peers.raw import RawConnection
from bench.peers.redis import Redis, redis_server
from bench.systems import PAYLOAD, Sample, System

ROOT = Path(__file__).resolve().parent.parent
WORK_S = 1.5  # of each system, row and round
WORKERS = 64  # that publish one event after the other, over one client

Publish = Callable[[], Awaitable[object]]


class ByClient(System, ABC):
    """A server that is driven by somebody's client for asyncio."""

    def __init__(self, server: Server) -> None:
        self.pid, self.ready_s = server.pid, server.ready_s
        self._port = server.port
        self._topics = 0
        self._clients: list[Any] = []

    @staticmethod
    @abstractmethod
    def serve(place: Path) -> AbstractContextManager[Server]:
        """Start its server, and stop it at the end."""

    @classmethod
    @asynccontextmanager
    async def started(cls, place: Path) -> AsyncIterator[System]:
        with cls.serve(place) as server:
            system = cls(server)
            yield system
            await system.close()

    def _fresh(self) -> str:
        self._topics += 1
        return f"s{self._topics}"

    @abstractmethod
    async def _publishers(self, connections: int, workers: int) -> list[Publish]:
        """Each publishes one event to the same topic and returns when it is acknowledged."""

    async def lone(self, seconds: float) -> Sample:
        return await self.waiting(seconds, 1)

    async def waiting(self, seconds: float, connections: int) -> Sample:
        return await repeated(await self._publishers(connections, connections), seconds)

    async def shared(self, seconds: float) -> Sample:
        """One client, and many coroutines that use it."""
        return await repeated(await self._publishers(1, WORKERS), seconds)


async def repeated(publishers: list[Publish], seconds: float) -> Sample:
    """Each publishes, waits, and publishes the next."""
    times: list[float] = []

    async def work(publish: Publish) -> None:
        while (sent := time.perf_counter()) < end:
            await publish()
            times.append(time.perf_counter() - sent)

    begin = time.perf_counter()
    end = begin + seconds
    await asyncio.gather(*map(work, publishers))
    return Sample(len(times), time.perf_counter() - begin, {"receipt": times})


class WeftBySdk(Weft):
    async def shared(self, seconds: float) -> Sample:
        (client,), topic = await self._connect(1), self._fresh()
        return await repeated([partial(client.publish, topic, PAYLOAD)] * WORKERS, seconds)


class RedisByPython(ByClient):
    """XADD. A client has a pool of connections, one for each command under way."""

    serve = staticmethod(redis_server)

    async def _publishers(self, connections: int, workers: int) -> list[Publish]:
        made = [redis.asyncio.Redis(port=self._port) for _ in range(connections)]
        self._clients += made
        stream = self._fresh()
        return [partial(made[number % connections].xadd, stream, {"p": PAYLOAD}) for number in range(workers)]

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()
        self._clients.clear()


class NatsByPython(ByClient):
    """Publishes to JetStream."""

    serve = staticmethod(nats_server)

    async def _publishers(self, connections: int, workers: int) -> list[Publish]:
        made = [await nats.connect(f"nats://127.0.0.1:{self._port}") for _ in range(connections)]
        self._clients += made
        streams, name = [client.jetstream() for client in made], self._fresh()
        await streams[0].add_stream(name=name, subjects=[f"{name}.>"])
        return [partial(streams[number % connections].publish, f"{name}.0", PAYLOAD) for number in range(workers)]

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        self._clients.clear()


class BareClient(RawConnection):
    """Answers come in the order of the requests."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[asyncio.Future[None]] = []
        self._rest = b""
        self._request = len(PAYLOAD).to_bytes(LENGTH_BYTES, "big") + PAYLOAD

    def count(self, data: bytes) -> int:
        data = self._rest + data
        messages, at = whole(data)
        self._rest = data[at:]
        answered, self._waiting = self._waiting[:messages], self._waiting[messages:]
        for future in answered:
            future.set_result(None)
        return messages

    async def publish(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self.write(self._request)
        await future


class BarePython(ByClient):
    @staticmethod
    @contextmanager
    def serve(place: Path) -> Iterator[Server]:
        port = free_port()
        words = [sys.executable, "-m", "bench.bare_node", str(place / "log"), str(port)]
        with running(words, lambda: answers(port, bytes(LENGTH_BYTES), bytes(8))) as (pid, ready_s):
            yield Server(pid, port, ready_s)

    async def _publishers(self, connections: int, workers: int) -> list[Publish]:
        loop = asyncio.get_running_loop()
        made = [(await loop.create_connection(BareClient, "127.0.0.1", self._port))[1] for _ in range(connections)]
        self._clients += made
        return [made[number % connections].publish for number in range(workers)]

    async def close(self) -> None:
        for client in self._clients:
            client.close()
        self._clients.clear()


async def shared(system: System, seconds: float) -> Sample:
    assert isinstance(system, ByClient | WeftBySdk), "the other one is left out of this row"
    return await system.shared(seconds)


def systems() -> dict[str, Start]:
    """Those that can be started here."""
    known: dict[str, Start] = {"Weft": WeftBySdk.started, "bare Python": BarePython.started}
    if found("redis-server"):
        known |= {"Redis, no client": Redis.started, "Redis, redis-py": RedisByPython.started}
    if found("nats-server"):
        known["NATS, nats-py"] = NatsByPython.started
    return known


LIMITS = ("bare Python", "Redis, no client")
OURS = ("Weft", *LIMITS)  # their ratios, too, are to the best of the others


ROWS = [
    Row(
        "one event at a time",
        lambda system, scale: system.lone(WORK_S * scale),
        [*latencies("receipt", ours=OURS), cpu("per event", ours=OURS)],
    ),
    Row(
        "256 connections, each waiting",
        lambda system, scale: system.waiting(WORK_S * scale, 256),
        [rate(ours=OURS), *latencies("receipt", ours=OURS), cpu("per event", ours=OURS)],
    ),
    Row(
        f"{WORKERS} coroutines that share a client",
        lambda system, scale: shared(system, WORK_S * scale),
        [rate(ours=OURS), *latencies("receipt", ours=OURS), cpu("per event", ours=OURS)],
        systems=("Weft", "bare Python", "Redis, redis-py", "NATS, nats-py"),
    ),
]


if __name__ == "__main__":
    run_rows(ROWS, systems(), __doc__ or "")
