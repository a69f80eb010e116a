"""Meshes of several nodes over gRPC on loopback, all in this process; links that can be cut go over a proxy."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.mesh.watching import neighbours, recipients, topics_at, until
from tests.node.raw_client import EARLIEST, RawClient, RawSubscriber, batch_of, events_of
from tests.node.running import running_node
from weft.testing.wires import Wire
from weft.wire.mesh import mesh_pb2 as pb

QUICK: dict[str, Any] = {"link__backoff_s_min": 0.01, "link__backoff_s_max": 0.1}


@asynccontextmanager
async def _wire_to(target: str) -> AsyncIterator[Wire]:
    wire = Wire()
    wire.target = target
    await wire.start()
    try:
        yield wire
    finally:
        await wire.stop()


@pytest.mark.req("MSH-01", "MSH-02", "MSH-03", "MSH-05")
async def test_three_in_a_row(tmp_path: Path) -> None:
    """Events go over a node that does not want them to who does, and nowhere else."""

    async with (
        running_node(tmp_path / "a", "a") as a,
        running_node(tmp_path / "b", "b", peers=[a.grpc_address]) as b,
        running_node(tmp_path / "c", "c", peers=[b.grpc_address]) as c,
        RawClient(a.grpc_address) as at_a,
        RawClient(b.grpc_address) as at_b,
        RawClient(c.grpc_address) as at_c,
    ):
        publisher = await at_a.publisher()
        await publisher.publish("plant.line1.temp", b"before anybody wanted it")
        subscriber = await at_c.subscriber("plant.*.temp", start=EARLIEST)
        assert await subscriber.payloads(1) == [b"before anybody wanted it"]
        for number in range(20):
            await publisher.send(number, "plant.line1.temp", batch_of(b"%d" % number))
            await publisher.send(100 + number, "plant.line1.noise", batch_of(b"noise"))
        await publisher.answers(40)
        got = events_of(await subscriber.batches(20))
        assert got == [(number + 1, b"%d" % number) for number in range(20)]
        assert topics_at(b) == topics_at(c) == {"plant.line1.temp"}
        assert recipients(a, "plant.line1.temp") == {"c": ("a", "b", "c")}
        late = await at_b.subscriber("plant.>", start=EARLIEST)
        assert len(await late.payloads(41)) == 41
        assert topics_at(c) == {"plant.line1.temp"}
        await until(lambda: set(recipients(a, "plant.line1.temp")) == {"b", "c"})
        assert set((await at_a.publisher()).opened.addresses) == {each.grpc_address for each in (a, b, c)}


@pytest.mark.req("MSH-02", "PL-01")
async def test_a_ring_with_a_cut(tmp_path: Path) -> None:
    """Each event comes once although there are two ways; when one is cut, the rest comes over the other."""

    async with (
        running_node(tmp_path / "a", "a", **QUICK) as a,
        _wire_to(a.grpc_address) as wire,
        running_node(tmp_path / "b", "b", peers=[a.grpc_address], **QUICK) as b,
        running_node(tmp_path / "c", "c", peers=[b.grpc_address, wire.address], **QUICK) as c,
        RawClient(a.grpc_address) as at_a,
        RawClient(c.grpc_address) as at_c,
    ):
        publisher = await at_a.publisher()
        subscriber = await at_c.subscriber("plant.>")
        await until(lambda: recipients(a, "plant.t") == {"c": ("a", "c")})
        for number in range(10):
            await publisher.publish("plant.t", b"%d" % number)
        wire.cut()
        for number in range(10, 20):
            await publisher.publish("plant.t", b"%d" % number)
        await until(lambda: recipients(a, "plant.t") == {"c": ("a", "b", "c")})
        for number in range(20, 30):
            await publisher.publish("plant.t", b"%d" % number)
        assert events_of(await subscriber.batches(30)) == [(n, b"%d" % n) for n in range(30)]
        wire.heal()
        await until(lambda: recipients(a, "plant.t") == {"c": ("a", "c")})
        await publisher.publish("plant.t", b"30")
        assert events_of(await subscriber.batches(1)) == [(30, b"30")]
        assert neighbours(b) == {"a", "c"}


@pytest.mark.req("PL-01")
async def test_when_both_dial_one_link_stays(tmp_path: Path) -> None:
    async with (
        running_node(tmp_path / "b", "b", **QUICK) as b,
        running_node(tmp_path / "a", "a", peers=[b.grpc_address], **QUICK) as a,
        RawClient(a.grpc_address) as at_a,
        RawClient(b.grpc_address) as at_b,
    ):
        b.links.dial(a.grpc_address)
        publisher = await at_a.publisher()
        subscriber = await at_b.subscriber("plant.>")
        for number in range(50):
            await publisher.publish("plant.t", b"%d" % number)
        assert events_of(await subscriber.batches(50)) == [(n, b"%d" % n) for n in range(50)]
        # The one that the higher id dialled.
        await until(lambda: [each.dialled_by_us for each in b.links.links() if each.connected] == [True])
        await until(lambda: [each.dialled_by_us for each in a.links.links() if each.connected] == [False])


async def test_a_slow_subscriber_elsewhere_holds_up_nobody(tmp_path: Path) -> None:
    async with (
        running_node(tmp_path / "a", "a") as a,
        running_node(tmp_path / "b", "b", peers=[a.grpc_address]) as b,
        RawClient(a.grpc_address) as at_a,
        RawClient(b.grpc_address) as at_b,
    ):
        publisher = await at_a.publisher()
        slow = await at_b.subscriber("plant.>", credit_bytes=1)
        quick = await at_b.subscriber("plant.>")
        payload = bytes(50_000)
        for _ in range(100):  # five times the credit of the quick one, which gives it back
            await publisher.publish("plant.t", payload)
        assert len(await quick.payloads(100)) == 100
        assert [offset for offset, _ in events_of((await slow.read()).delivery.batches)] == [0]
        await slow.say(pb.SubscribeRequest(credit=pb.Credit(bytes=1 << 30)))
        assert [offset for offset, _ in events_of(await slow.batches(99))] == list(range(1, 100))


async def test_a_node_that_lost_its_disk_comes_back_with_a_new_epoch(tmp_path: Path) -> None:
    """What it published before is still on the other node, under its old epoch, and is not mixed with the new."""

    async with running_node(tmp_path / "b", "b", **QUICK) as b, RawClient(b.grpc_address) as at_b:
        subscriber = await at_b.subscriber("plant.>", start=EARLIEST)
        async with running_node(tmp_path / "a", "a", peers=[b.grpc_address]) as a:
            async with RawClient(a.grpc_address) as at_a:
                await (await at_a.publisher()).publish("plant.t", b"old 0", b"old 1")
            first = (await subscriber.batches(2))[0]
        shutil.rmtree(tmp_path / "a")
        async with running_node(tmp_path / "a", "a", peers=[b.grpc_address]) as a:
            async with RawClient(a.grpc_address) as at_a:
                await (await at_a.publisher()).publish("plant.t", b"new 0")
            (second,) = await subscriber.batches(1)
            assert second.stream.epoch == a.log.epoch > first.stream.epoch
            assert events_of([second]) == [(0, b"new 0")]
            everything = await at_b.subscriber("plant.>", start=EARLIEST)
            found = {(each.stream.epoch, *pair) for each in await everything.batches(3) for pair in events_of([each])}
            assert found == {
                (first.stream.epoch, 0, b"old 0"),
                (first.stream.epoch, 1, b"old 1"),
                (second.stream.epoch, 0, b"new 0"),
            }


async def test_copies_hold_the_receipt_until_others_have_it(tmp_path: Path) -> None:
    async with running_node(tmp_path / "a", "a", **QUICK) as a, RawClient(a.grpc_address) as at_a:
        publisher = await at_a.publisher()
        await publisher.send(1, "plant.t", batch_of(b"x"), copies=2)
        async with running_node(tmp_path / "b", "b", peers=[a.grpc_address], **QUICK) as b:
            receipt = (await publisher.answers(1))[1]
            assert isinstance(receipt, pb.Receipt)
            assert receipt.copies == 2
            assert [info.end for info in b.log.streams() if info.stream.topic == "plant.t"] == [1]


async def test_a_group_spans_nodes(tmp_path: Path) -> None:
    """Members at two nodes share the streams; when one node goes, the other member gets all of them."""

    async with running_node(tmp_path / "a", "a", **QUICK) as a, RawClient(a.grpc_address) as at_a:
        publisher = await at_a.publisher()
        for partition in range(16):
            await publisher.publish("plant.t", b"%d" % partition, partition=partition)
        one = Member(await at_a.subscriber("plant.>", group="billing", member="m1"))
        async with (
            running_node(tmp_path / "b", "b", peers=[a.grpc_address], **QUICK) as b,
            RawClient(b.grpc_address) as at_b,
        ):
            two = Member(await at_b.subscriber("plant.>", group="billing", member="m2"))
            await until(lambda: bool(one.has and two.has) and sorted([*one.has, *two.has]) == list(range(16)))
        await until(lambda: one.has == set(range(16)))
        await asyncio.gather(one.stop(), two.stop())


class Member:
    """Lets go of what it loses; what it is sent is taken."""

    def __init__(self, subscriber: RawSubscriber) -> None:
        self._subscriber = subscriber
        self._reading = asyncio.create_task(self._read())
        self.has: set[int] = set()

    async def stop(self) -> None:
        self._reading.cancel()
        await asyncio.wait([self._reading])

    async def _read(self) -> None:
        while (reply := await self._subscriber.read()) is not grpc.aio.EOF:
            if reply.HasField("assignment"):
                await self._subscriber.handled([], reply.assignment.generation)
                self.has = {each.stream.partition for each in reply.assignment.streams}
