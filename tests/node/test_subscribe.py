"""The Subscribe stream of a running node: starts, credit, groups, ends."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from tests.node.raw_client import EARLIEST, RawClient, RawSubscriber, batch_of, events_of
from tests.node.running import running_node
from weft.node.runtime import Node
from weft.wire.mesh import mesh_pb2 as pb

LATEST = pb.Start(edge=pb.Start.EDGE_LATEST)


def position(node: Node, topic: str, offset: int, partition: int = 0, epoch: int | None = None) -> pb.StreamPosition:
    ref = pb.StreamRef(topic=topic, origin=node.node_id, epoch=epoch or node.log.epoch, partition=partition)
    return pb.StreamPosition(stream=ref, next_offset=offset)


@pytest.mark.req("MSH-01")
async def test_every_way_to_start(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        publisher = await client.publisher()
        for number in range(4):
            await publisher.send(number, "plant.t", batch_of(b"%d" % number, timestamp_us=number * 1000))
        await publisher.answers(4)
        from_time = await client.subscriber("plant.*", start=pb.Start(timestamp_us=1500))
        at = pb.Start(positions=pb.Positions(positions=[position(node, "plant.t", 1)]))
        from_position = await client.subscriber("plant.t", start=at)
        earliest = await client.subscriber(">", start=EARLIEST)
        latest = await client.subscriber("plant.>", start=LATEST)
        without = await client.subscriber("plant.>", start=None)
        assert earliest.first.opened.node_id == "a"
        assert earliest.first.opened.addresses == [node.grpc_address]
        assert earliest.first.opened.positions.positions == [position(node, "plant.t", 0)]
        await publisher.publish("plant.t", b"new")
        assert await earliest.payloads(5) == [b"0", b"1", b"2", b"3", b"new"]
        assert await from_position.payloads(4) == [b"1", b"2", b"3", b"new"]
        assert await from_time.payloads(3) == [b"2", b"3", b"new"]
        assert await latest.payloads(1) == [b"new"]
        assert await without.payloads(1) == [b"new"]


@pytest.mark.parametrize(
    ("open_", "code"),
    [
        ({"pattern": ""}, pb.ERROR_BAD_REQUEST),
        ({"pattern": "plant.>.t"}, pb.ERROR_BAD_REQUEST),
        ({"group": "no spaces"}, pb.ERROR_BAD_REQUEST),
        ({"start": pb.Start(edge=9)}, pb.ERROR_BAD_REQUEST),  # type: ignore[arg-type]
    ],
)
async def test_what_cannot_be_meant_is_refused(tmp_path: Path, open_: dict[str, object], code: int) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        subscriber = await client.subscriber(**{"pattern": "plant.>", **open_})  # type: ignore[arg-type]
        assert subscriber.first.error.code == code
        assert subscriber.first.error.message
        assert await subscriber.read() is grpc.aio.EOF
        assert node.clients.subscriptions == 0


async def test_a_position_that_is_not_there_says_what_is(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        await (await client.publisher()).publish("plant.t", b"0", b"1")
        ahead = pb.Start(positions=pb.Positions(positions=[position(node, "plant.t", 9)]))
        error = (await client.subscriber("plant.t", start=ahead)).first.error
        assert error.code == pb.ERROR_POSITION_UNKNOWN
        assert (error.facts["earliest"], error.facts["latest"]) == ("0", "2")


async def test_what_goes_out_is_bounded_by_credit(tmp_path: Path) -> None:
    """A subscriber that gives none back gets one batch more than it paid for, at most, and holds up nobody."""

    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        publisher = await client.publisher()
        size = len(batch_of(bytes(1000)).data)
        slow = await client.subscriber("plant.t", credit_bytes=2 * size)
        quick = await client.subscriber("plant.t")
        for _ in range(10):
            await publisher.publish("plant.t", bytes(1000))
        assert len(await quick.payloads(10)) == 10
        taken: list[pb.StreamBatch] = []
        while len(taken) < 2:
            taken += (await slow.read()).delivery.batches
        assert len(taken) == 2
        for number in range(2, 10):  # byte by byte, exactly as much as is given
            await slow.say(pb.SubscribeRequest(credit=pb.Credit(bytes=size)))
            (batch,) = (await slow.read()).delivery.batches
            assert [offset for offset, _ in events_of([batch])] == [number]


async def test_credit_beyond_the_bound_is_not_given(tmp_path: Path) -> None:
    async with (
        running_node(tmp_path, limits__credit_bytes_max=64 << 10) as node,
        RawClient(node.grpc_address) as client,
    ):
        publisher = await client.publisher()
        subscriber = await client.subscriber("plant.t", credit_bytes=1 << 60)
        await subscriber.say(pb.SubscribeRequest(credit=pb.Credit(bytes=1 << 60)))
        for _ in range(4):
            await publisher.publish("plant.t", bytes(40 << 10))
        have = 0
        while have < 2:
            have += len((await subscriber.read()).delivery.batches)
        assert have == 2  # the second began within the bound
        await subscriber.say(pb.SubscribeRequest(credit=pb.Credit(bytes=1 << 60)))
        while have < 4:
            have += len((await subscriber.read()).delivery.batches)


async def test_small_batches_that_wait_go_out_together(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        publisher = await client.publisher()
        for number in range(200):
            await publisher.send(number, "plant.t", batch_of(b"x"))
        await publisher.answers(200)
        subscriber = await client.subscriber("plant.t")
        frames = batches = 0
        while batches < 200:
            batches += len((await subscriber.read()).delivery.batches)
            frames += 1
        assert frames < 20


async def test_who_goes_away_is_unsubscribed_at_once(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        ways = [await client.subscriber("plant.>") for _ in range(3)]
        assert node.clients.subscriptions == 3
        assert await ways[0].end() == []
        ways[1].raw.cancel()
        async with RawClient(node.grpc_address) as other:
            await other.subscriber("plant.>")
        publisher = await client.publisher()
        while node.clients.subscriptions > 1:
            await publisher.publish("plant.t", b"until they are gone")
        assert [each.pattern for each in node.broker.subscriptions] == ["plant.>"]


async def test_a_stream_that_breaks_the_protocol_ends_with_words(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        subscriber = RawSubscriber(client.stream("Subscribe", pb.SubscribeReply))
        await subscriber.say(pb.SubscribeRequest(credit=pb.Credit(bytes=1)))
        assert "begins with open" in (await subscriber.read()).error.message
        subscriber = await client.subscriber("plant.>")
        await subscriber.say(pb.SubscribeRequest(open=pb.SubscribeOpen(pattern=">")))
        assert "credit, handled and settled" in (await subscriber.read()).error.message
        assert await subscriber.read() is grpc.aio.EOF


# --- groups ----------------------------------------------------------------------------------------------------------


async def assignment(subscriber: RawSubscriber) -> pb.Assignment:
    reply = await subscriber.read()
    assert reply.HasField("assignment"), reply
    given: pb.Assignment = reply.assignment
    return given


async def test_a_group_goes_on_where_it_stood(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        publisher = await client.publisher()
        await publisher.publish("plant.t", b"0", b"1", b"2")
        member = await client.subscriber("plant.>", group="billing", member="m1")
        assert member.first.HasField("opened")
        given = await assignment(member)
        assert given.streams == [position(node, "plant.t", 0)]
        assert await member.payloads(3) == [b"0", b"1", b"2"]
        await member.handled([position(node, "plant.t", 2)], given.generation)
        await member.end()
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        member = await client.subscriber("plant.>", group="billing", member="m2", start=LATEST)
        assert (await assignment(member)).streams == [position(node, "plant.t", 2)]
        assert events_of(await member.batches(1)) == [(2, b"2")]


async def test_members_share_streams_and_take_over(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        publisher = await client.publisher()
        for partition in range(8):
            await publisher.publish("plant.t", b"x", partition=partition)
        one = await client.subscriber("plant.>", group="billing", member="m1")
        everything = await assignment(one)
        assert len(everything.streams) == 8
        await one.batches(8)
        two = await client.subscriber("plant.>", group="billing", member="m2")
        left = await assignment(one)
        await one.handled([], left.generation)
        theirs = await assignment(two)
        while len(left.streams) + len(theirs.streams) < 8:
            theirs = await assignment(two)
        keys = {str(each.stream) for each in (*left.streams, *theirs.streams)}
        assert len(keys) == 8
        assert left.streams
        one.raw.cancel()
        while len(theirs.streams) < 8:
            reply = await two.read()
            theirs = reply.assignment if reply.HasField("assignment") else theirs
