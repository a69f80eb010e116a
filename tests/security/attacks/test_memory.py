"""Callers that ask for much and take nothing: what a node holds for them is bounded, and others do not notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.security.attacks.hostile import fill, memory_bytes, metric, opened, until
from tests.up import up
from weft.limits import MIB
from weft.wire.mesh import mesh_pb2 as pb

SHARE = 32 * MIB  # of one caller and use, as nodes are set by default
SLACK = 120 * MIB  # what the process takes besides: buffers of RocksDB, TLS and the allocator


@pytest.mark.req("SEC-05")
async def test_fetches_that_nobody_reads(tmp_path: Path) -> None:
    """200 of them took 3.4 GB. Their caller can still publish, ask, and fetch once it reads."""

    with up(tmp_path / "node") as node:
        async with node.client() as client:
            stream = await fill(client, "plant.large", 4)
            before = memory_bytes(node)
            request = pb.FetchRequest(stream=stream, bytes_max=16 * MIB).SerializeToString()
            calls = [await opened(client, node, "Fetch", request) for _ in range(200)]
            for call in calls:
                call.end()
            await until(lambda: metric(node, "weft_held_bytes") >= SHARE)
            await client.publish("plant.small", b"x")
            assert await client.topics()
            assert metric(node, "weft_held_bytes") <= SHARE + 10 * MIB
            assert memory_bytes(node) - before < 2 * SHARE + SLACK
            for call in calls:
                call.cancel()
            await until(lambda: metric(node, "weft_held_bytes") == 0)
        node.end_quietly()


@pytest.mark.req("SEC-05")
async def test_subscribers_that_never_read(tmp_path: Path) -> None:
    """Ten of them, on batches of 9 MB, took 540 MB. One that reads gets everything meanwhile."""

    with up(tmp_path / "node") as node:
        async with node.client() as stuck, node.client() as client:
            await fill(client, "plant.large", 6)
            before = memory_bytes(node)
            start = pb.Start(edge=pb.Start.EDGE_EARLIEST)
            wanted = pb.SubscribeOpen(pattern="plant.>", start=start, credit_bytes=64 * MIB)
            request = pb.SubscribeRequest(open=wanted).SerializeToString()
            calls = [await opened(stuck, node, "Subscribe", request) for _ in range(10)]
            await until(lambda: metric(node, "weft_held_bytes") >= SHARE)
            await client.publish("plant.small", b"x")
            assert metric(node, "weft_held_bytes") <= SHARE + 10 * MIB
            assert memory_bytes(node) - before < SHARE + SLACK
            for call in calls:
                call.cancel()
            async with client.subscribe("plant.>", start="earliest") as events:
                sizes = sorted([len((await anext(events)).payload) for _ in range(7)])
            assert sizes == [1] + 6 * [9 * MIB]
        node.end_quietly()
