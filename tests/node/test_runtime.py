"""A node's life: starting, restarting, draining, failing, and what it tells about itself meanwhile."""

from __future__ import annotations

import asyncio
import shutil
import socket
from pathlib import Path

import grpc
import httpx
import pytest

from tests.node.raw_client import EARLIEST, WAIT_S, RawClient, batch_of
from tests.node.running import config_of, running_node
from weft.errors import StorageError, UsageError
from weft.log.errors import DiskFull, LogDamaged, LogInUse
from weft.node.runtime import Node
from weft.wire.mesh import mesh_pb2 as pb


async def get(node: Node, page: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=WAIT_S) as web:
        return await web.get(f"http://{node.admin_address}/{page}")


async def test_what_was_published_is_there_after_a_restart_and_the_life_is_a_later_one(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        await (await client.publisher()).publish("plant.t", b"kept")
        first = node.members.own
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        assert await (await client.subscriber("plant.t", start=EARLIEST)).payloads(1) == [b"kept"]
        assert node.members.own.incarnation > first.incarnation
        assert node.members.own.epoch == first.epoch


async def test_draining_gives_what_is_owed_and_sends_everybody_elsewhere(tmp_path: Path) -> None:
    """What was not answered when the stream ends was not taken: a client may send it to another node."""

    async with running_node(tmp_path / "other", "other") as other:
        node = Node(config_of(tmp_path / "a", "a", peers=[other.grpc_address]))
        await node.start()
        client = RawClient(node.grpc_address)
        publisher = await client.publisher()
        subscriber = await client.subscriber("plant.>")
        for request in range(100):
            await publisher.send(request, "plant.t", batch_of(b"%d" % request))
        while not node.log.appended:
            await asyncio.sleep(0)
        stopping = asyncio.create_task(node.stop())
        receipts = refused = 0
        with pytest.raises(grpc.aio.AioRpcError, match="shutting down") as caught:
            while True:
                reply = await publisher.read()
                receipts += len(reply.receipts.receipts)
                if reply.HasField("refused"):
                    assert reply.refused.error.code == pb.ERROR_SHUTTING_DOWN
                    refused += 1
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        while not (reply := await subscriber.read()).HasField("error"):
            pass
        assert reply.error.code == pb.ERROR_SHUTTING_DOWN
        await stopping
        await client.channel.close()
        async with running_node(tmp_path / "a", "a") as again:
            (info,) = [each for each in again.log.streams() if each.stream.topic == "plant.t"]
            assert info.end == receipts
            assert receipts + refused <= 100


async def test_readiness_metrics_and_status(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        publisher = await client.publisher()
        await publisher.publish("plant.t", b"one", b"two")
        subscriber = await client.subscriber("plant.t", group="billing", start=EARLIEST)
        assert (await subscriber.read()).HasField("assignment")
        await subscriber.batches(2)
        await publisher.send(1, "plant..t", batch_of(b"x"))
        await publisher.answers(1)
        assert (await get(node, "healthz")).status_code == 200
        assert (await get(node, "readyz")).json() == {"ready": True, "reasons": []}
        metrics = (await get(node, "metrics")).text
        for line in (
            "weft_published_events_total 2.0",
            "weft_delivered_events_total 2.0",
            'weft_refused_total{code="ERROR_BAD_REQUEST"}',
            'weft_members{liveness="alive"} 1.0',
            "weft_subscriptions 1.0",
            "weft_clients 2.0",
            'weft_group_lag_events{group="billing"} 2.0',
        ):
            assert line in metrics, line
        assert "<title>Weft</title>" in (await get(node, "")).text, "the console"
        status = await client.call("Status", pb.StatusRequest(), pb.StatusReply, "Admin")
        assert (status.node_id, status.nodes_known, status.draining) == ("a", 1, False)
        assert status.events >= 2
        assert status.listeners == [f"grpc {node.grpc_address}", f"admin {node.admin_address}"]


async def test_groups_tell_positions_lag_and_holders(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        await (await client.publisher()).publish("plant.t", b"0", b"1", b"2")
        member = await client.subscriber("plant.t", group="billing", member="m1", start=EARLIEST)
        given = (await member.read()).assignment
        await member.batches(3)
        place = pb.StreamPosition(stream=given.streams[0].stream, next_offset=2)
        await member.handled([place], given.generation)
        while True:
            reply = await client.call("Groups", pb.GroupsRequest(group="billing"), pb.GroupsReply, "Admin")
            (group,) = reply.groups
            if group.streams and group.streams[0].position.next_offset == 2:
                break
        (stream,) = group.streams
        assert (group.group, list(group.members), stream.member) == ("billing", ["m1"], "m1")
        assert (stream.earliest_offset, stream.latest_offset) == (0, 3)
        assert stream.lag_us > 1_000_000  # the event says it is from 1970
        everything = await client.call("Groups", pb.GroupsRequest(), pb.GroupsReply, "Admin")
        assert [each.group for each in everything.groups] == ["billing"]
        with pytest.raises(grpc.aio.AioRpcError, match="not a name"):
            await client.call("Groups", pb.GroupsRequest(group="no spaces"), pb.GroupsReply, "Admin")


# --- what can go wrong at the start ----------------------------------------------------------------------------------


async def test_a_port_in_use_is_said_plainly_and_nothing_is_left_open(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageError, match="cannot listen"):
            await Node(config_of(tmp_path, listen__grpc=address)).start()
        with pytest.raises(UsageError, match="admin"):
            await Node(config_of(tmp_path, listen__admin=address)).start()
    async with running_node(tmp_path):
        pass  # the log is free again


async def test_a_start_that_fails_at_its_last_door_leaves_nothing_running(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as peer:
        address, dialled = (f"127.0.0.1:{each.getsockname()[1]}" for each in (taken, peer))
        with pytest.raises(UsageError, match="cannot listen"):
            await Node(config_of(tmp_path, gateway__exmp__tcp=address, peers=[dialled])).start()
        for _ in range(10):  # what was cancelled ends
            await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert [task.get_coro() for task in left] == [], "it would go on dialling its peers"


async def test_a_log_that_is_open_elsewhere(tmp_path: Path) -> None:
    async with running_node(tmp_path):
        with pytest.raises(LogInUse):
            await Node(config_of(tmp_path)).start()


async def test_a_damaged_log_is_shown_as_it_is(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        await (await client.publisher()).publish("plant.t", b"promised")
    shutil.rmtree(tmp_path / "db")
    with pytest.raises(LogDamaged, match=r"plant\.t@a/0"):
        await Node(config_of(tmp_path)).start()


async def test_who_is_told_to_stop_while_starting_leaves_nothing_open(tmp_path: Path) -> None:
    node = Node(config_of(tmp_path))
    starting = asyncio.create_task(node.start())
    while not node.admin_address:
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await node.stop()
    async with running_node(tmp_path):
        pass


# --- what can go wrong later -----------------------------------------------------------------------------------------


async def test_a_full_disk_refuses_publishes_and_serves_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        publisher = await client.publisher()
        await publisher.publish("plant.t", b"there was room")
        free_bytes = node.log.store.free_bytes
        monkeypatch.setattr(node.log.store, "free_bytes", lambda: 0)
        large = batch_of(bytes(8 << 20))
        answer: pb.Receipt | pb.Error = pb.Receipt()
        for request in range(1, 100):  # the space is looked at now and then
            await publisher.send(request, "plant.t", large)
            answer = (await publisher.answers(1))[request]
            if isinstance(answer, pb.Error):
                break
        assert isinstance(answer, pb.Error)
        assert (answer.code, "disk is full" in answer.message) == (pb.ERROR_DISK_FULL, True)
        assert await (await client.subscriber("plant.t", start=EARLIEST)).payloads(1) == [b"there was room"]
        monkeypatch.setattr(node.log.store, "free_bytes", free_bytes)
        await publisher.publish("plant.t", b"there is room again")


async def test_a_disk_that_is_full_when_syncing_shows_in_readiness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        sync = node.log.store.sync

        def full() -> None:
            raise DiskFull("no room to sync")

        monkeypatch.setattr(node.log.store, "sync", full)
        publisher = await client.publisher()
        await publisher.send(1, "plant.t", batch_of(b"waits for room"))
        while (await get(node, "readyz")).status_code == 200:
            pass
        assert "no room to sync" in (await get(node, "readyz")).text
        monkeypatch.setattr(node.log.store, "sync", sync)
        assert isinstance((await publisher.answers(1))[1], pb.Receipt)
        assert (await get(node, "readyz")).status_code == 200


@pytest.mark.parametrize("where", ["in the syncing thread", "in a step"])
async def test_a_log_that_fails_ends_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Whoever waits is told, nobody gets a receipt, and the node says why it ended."""

    def fail(*_: object) -> None:
        raise StorageError("the disk is on fire") if where == "in the syncing thread" else ZeroDivisionError("a bug")

    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        publisher = await client.publisher()
        subscriber = await client.subscriber("plant.>")
        if where == "in a step":
            monkeypatch.setattr(node.broker, "step", fail)
        else:
            monkeypatch.setattr(node.log.store, "sync", fail)
        await publisher.send(1, "plant.t", batch_of(b"never safe"))
        error = (await publisher.answers(1))[1]
        assert isinstance(error, pb.Error)
        assert error.code == pb.ERROR_SHUTTING_DOWN
        assert (await subscriber.read()).error.code == pb.ERROR_SHUTTING_DOWN
        failure = await asyncio.wait_for(node.wait_failed(), WAIT_S)
        assert ("on fire" if where == "in the syncing thread" else "ZeroDivisionError: a bug") in str(failure)
        assert (await get(node, "readyz")).status_code == 503
        monkeypatch.undo()
