"""What a publisher with a good key can send that no SDK would: it is refused, or does not hold up others."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.security.attacks.hostile import opened
from tests.up import RunningNode, up
from weft.client import Client
from weft.limits import KIB, MIB
from weft.model import Batch, Event
from weft.model import batch as batch_module
from weft.transport.grpc.calls import ClientCall
from weft.wire.mesh import mesh_pb2 as pb


async def begun(client: Client, node: RunningNode) -> ClientCall:
    call = await opened(client, node, "Publish", pb.PublishRequest(open=pb.PublishOpen()).SerializeToString())
    assert pb.PublishReply.FromString(await call.read() or b"").WhichOneof("msg") == "opened"
    return call


def several(batch: Batch, count: int) -> bytes:
    batches = [pb.PublishBatch(request=number, topic="plant.t", batch=batch.data) for number in range(1, count + 1)]
    message: bytes = pb.PublishRequest(batches=pb.PublishBatches(batches=batches)).SerializeToString()
    return message


@pytest.mark.req("SEC-05")
async def test_small_bytes_that_become_large_do_not_hold_up_others(tmp_path: Path) -> None:
    """Many batches of 15 MB in one small message stopped the loop for more than a second. Now others publish,
    time and again, before half of them are answered."""
    count = 60

    with up(tmp_path / "node") as node:
        bomb = Batch.from_columns([bytes(1 * MIB)] * 15, 1, compression="lz4")
        assert len(bomb.data) < 64 * KIB
        async with node.client() as client, node.client() as other:
            await other.publish("plant.other", b"connected")
            call = await begun(client, node)
            call.write_nowait(several(bomb, count))
            answers, between = 0, 0
            while answers < count:
                reading = asyncio.create_task(call.read())
                while not reading.done():
                    await other.publish("plant.other", b"x")
                    between += answers < count // 2
                reply = pb.PublishReply.FromString(reading.result() or b"")
                assert reply.WhichOneof("msg") == "receipts", reply
                answers += len(reply.receipts.receipts)
            assert between >= 5
            call.cancel()
        node.end_quietly()


@pytest.mark.req("SEC-05")
async def test_times_that_no_calendar_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_module, "check_times_us", lambda least, greatest: None)  # as an SDK of before

    with up(tmp_path / "node") as node:
        async with node.client() as client:
            call = await begun(client, node)
            for request, timestamp_us in enumerate((-(1 << 63), (1 << 63) - 1), 1):
                batch = Batch.from_events([Event(b"x", timestamp_us)])
                wanted = pb.PublishBatch(request=request, topic="plant.t", batch=batch.data)
                call.write_nowait(pb.PublishRequest(batch=wanted).SerializeToString())
                refused = pb.PublishReply.FromString(await call.read() or b"").refused
                assert refused.request == request and refused.error.code == pb.ERROR_BAD_REQUEST
                assert "the years 1 to 9999 are possible" in refused.error.message
                assert refused.error.facts["timestamp_us"] == str(timestamp_us)
            call.cancel()
        node.end_quietly()
