"""Real processes, killed with SIGKILL while they work, and started again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from tests.mesh.processes import NodeProcess, nodes
from tests.node.raw_client import EARLIEST, RawClient, RawPublisher, batch_of, events_of
from weft.wire.mesh import mesh_pb2 as pb

WINDOW = 8
TOPIC = "plant.t"


class Producer:
    """Publishes the numbers from 0 up, one per batch, and sends again what has no receipt when the node is back."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._waiting: dict[int, None] = {}
        self._next = 0
        self.receipts: dict[int, pb.Receipt] = {}

    async def run(self, address: str, until: int, after_50: Callable[[], None] | None = None) -> None:
        """Until so many have receipts, or the connection is lost (grpc.aio.AioRpcError)."""
        async with RawClient(address) as client:
            publisher = await client.publisher()
            for number in self._waiting:
                await self._send(publisher, number)
            while len(self.receipts) < until:
                while len(self._waiting) < WINDOW and self._next < self._total:
                    number, self._next = self._next, self._next + 1
                    self._waiting[number] = None
                    await self._send(publisher, number)
                for number, answer in (await publisher.answers(1)).items():
                    assert isinstance(answer, pb.Receipt), answer
                    self.receipts[number] = answer
                    del self._waiting[number]
                if after_50 is not None and len(self.receipts) >= 50:
                    after_50()  # with more on its way
                    after_50 = None

    async def _send(self, publisher: RawPublisher, number: int) -> None:
        await publisher.send(number, TOPIC, batch_of(b"%d" % number, sequence=number))


class Consumer:
    """Remembers what it has and goes on there, wherever it is connected."""

    def __init__(self) -> None:
        self.events: list[tuple[int, bytes]] = []
        self._stream: pb.StreamRef | None = None

    async def run(self, address: str, until: int) -> None:
        start = EARLIEST
        if self._stream is not None:
            place = pb.StreamPosition(stream=self._stream, next_offset=len(self.events))
            start = pb.Start(positions=pb.Positions(positions=[place]))
        async with RawClient(address) as client:
            subscriber = await client.subscriber("plant.>", start=start)
            assert subscriber.first.HasField("opened"), subscriber.first
            while len(self.events) < until:
                for batch in await subscriber.batches(1):
                    self.events += events_of([batch])
                    self._stream = batch.stream


@pytest.mark.req("NFR-02", "MSH-01", "PL-04")
async def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path) -> None:
    """A takes events, B has the subscriber. Each is killed in mid-stream once; at the end both go politely."""
    total = 400
    producer, consumer = Producer(total), Consumer()

    with nodes(tmp_path, "a", "b") as (a, b):
        a.start()
        b.start(a)
        a.wait_ready()
        b.wait_ready()
        consuming = asyncio.create_task(consumer.run(b.address, until=100))
        with pytest.raises(grpc.aio.AioRpcError):
            await producer.run(a.address, until=total, after_50=a.kill)
        await restart(a)
        producing = asyncio.create_task(producer.run(a.address, until=total))
        await consuming
        b.kill()
        await restart(b, a)
        await asyncio.gather(producing, consumer.run(b.address, until=total))
        assert consumer.events == [(number, b"%d" % number) for number in range(total)]
        assert {number: each.first_offset for number, each in producer.receipts.items()} == {n: n for n in range(total)}
        assert (a.terminate(), b.terminate()) == (0, 0)
        assert a.log[-1]["event"] == "node_stopped"


async def restart(node: NodeProcess, *peers: NodeProcess) -> None:
    node.start(*peers)
    await asyncio.to_thread(node.wait_ready)
