"""Meshes of several nodes over gRPC on loopback, all in this process; links that can be cut go over a proxy."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.mesh.proxy import wire_to
import tests.mesh.watching as w; w.WAIT_S=15
from tests.mesh.watching import neighbours, recipients, topics_at, until
from tests.node.raw_client import EARLIEST, RawClient, RawSubscriber, batch_of, events_of
from tests.node.running import running_node
from weft.wire.mesh import mesh_pb2 as pb

QUICK: dict[str, Any] = {"link__backoff_s_min": 0.01, "link__backoff_s_max": 0.1}


@pytest.mark.parametrize("n", range(40))
def test_a_group_spans_nodes(tmp_path: Path, n: int) -> None:
    """Members at two nodes share the streams; when one node goes, the other member gets all of them."""

    async def story() -> None:
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
                try:
                    await until(lambda: bool(one.has and two.has) and sorted([*one.has, *two.has]) == list(range(16)))
                except TimeoutError:
                    print("ONE", one.has, one._reading, "TWO", two.has, two._reading)
                    for n in (a, b):
                        g = n.broker.group_work.groups
                        print(n.node_id, g.members("billing"), {str(k[0]): g.holder("billing", k) for k in n.broker._known}, g.get_timer(), asyncio.get_running_loop().time(), n.broker.get_timer(), n._engine._alarm_at_s, n._engine._alarm)
                        print([(str(i.stream), i.end) for i in n.log.streams()])
                        print(n.members.states)
                    raise
            await until(lambda: one.has == set(range(16)))
            await asyncio.gather(one.stop(), two.stop())

    asyncio.run(story())


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
