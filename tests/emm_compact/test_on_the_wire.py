"""What nodes put on the wire and take from it, seen by a plain socket that reads IP headers by itself."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests.emm_compact.nodes import WAIT_S, epoch_now, mesh, node, take, until
from tests.emm_compact.world import node_id, notification, signer
from tests.transport.udp.plain import LOOPBACK, Seen, plain_socket, see
from weft.emm_compact import Node, Priority, Settings
from weft.wire.emm_compact import (
    EventType,
    Header,
    Heartbeat,
    Join,
    SupportedTypes,
    decode_untrusted,
    seal,
)
from weft.wire.reject import Reject


async def join_by_hand(plain: socket.socket, target: Node, number: int) -> None:
    """Make a plain socket a neighbour, with a join that is put together here."""
    body = Join(node_id(number).bytes, SupportedTypes(0b1111), 10, 30, b"")
    packet = seal(Header(EventType.JOIN, 1, epoch_now(), 1), body, signer(number))
    plain.sendto(packet.raw, target.address)
    await until(lambda: any(each.node_id == node_id(number).bytes for each in target.relationships))


async def next_of(plain: socket.socket, event_type: EventType) -> Seen:
    """The next datagram of that type which a plain socket gets."""
    while True:
        seen = await asyncio.to_thread(see, plain)
        if decode_untrusted(seen.data).header.type is event_type:
            return seen


async def congested_heartbeat(plain: socket.socket) -> Seen:
    """The first one that tells of congestion; on a busy machine, others may come before it."""
    async with asyncio.timeout(WAIT_S):
        while True:
            seen = await next_of(plain, EventType.HEARTBEAT)
            body = decode_untrusted(seen.data).body
            if isinstance(body, Heartbeat) and body.rate.ecn == 0b11:
                return seen


@pytest.mark.req("EMC-12")
async def test_ttl_1_stops_after_one_hop() -> None:
    """0 - 1 - 2, with a plain socket as another neighbour of 1 that sees what 1 sends on."""
    with plain_socket("127.0.0.1") as plain:
        async with mesh([(0, 1), (1, 2)]) as (first, middle, last):
            await join_by_hand(plain, middle, 9)
            await first.publish("one hop", ttl=1)
            await first.publish("two hops", ttl=2)
            await first.publish("far", ttl=64)
            assert [(event.text, event.ttl) for event in await take(middle, 3)] == [
                ("one hop", 1),
                ("two hops", 2),
                ("far", 64),
            ]
            assert [(event.text, event.ttl) for event in await take(last, 2)] == [("two hops", 1), ("far", 63)]
            seen = [await next_of(plain, EventType.NOTIFICATION) for _ in range(2)]
            assert [each.ttl for each in seen] == [1, 63]
            assert [decode_untrusted(each.data).body for each in seen] == [
                notification("two hops"),
                notification("far"),
            ]
            assert middle.figures.ended == 1


@pytest.mark.req("EMC-14")
@pytest.mark.parametrize("host", LOOPBACK.values(), ids=LOOPBACK)
async def test_dscp_and_ecn_are_on_the_wire(host: str) -> None:
    """The table of section 4.1, read from the IP header; the numbers stand here again, shifted by hand."""
    ect_0 = 0b10
    with plain_socket(host) as plain:
        async with node(0, host=host) as who:
            await join_by_hand(plain, who, 9)
            seen = await next_of(plain, EventType.JOIN)
            assert (seen.tos, seen.ttl) == (0x20 << 2 | ect_0, 64)
            table = [0x08, 0x10, 0x18, 0x20, 0x28, 0x30, 0x38]
            for priority, dscp in zip(Priority, table, strict=True):
                await who.publish("x", priority=priority)
                assert (await next_of(plain, EventType.NOTIFICATION)).tos == dscp << 2 | ect_0
            await who.command("reboot")
            assert (await next_of(plain, EventType.COMMAND)).tos == 0x20 << 2 | ect_0
            await who.command("reboot", urgent=True)
            assert (await next_of(plain, EventType.COMMAND)).tos == 0x38 << 2 | ect_0


@pytest.mark.req("EMC-14")
async def test_congestion_on_the_wire_is_answered() -> None:
    """A packet that arrives with CE: the next heartbeat says so, on its own low-priority DSCP."""
    with plain_socket("127.0.0.1") as plain:
        async with node(0, settings=Settings(heartbeat_interval_s=1)) as who:
            await join_by_hand(plain, who, 9)
            plain.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0b11)
            packet = seal(Header(EventType.NOTIFICATION, 2, epoch_now(), 2), notification("x"), signer(9))
            plain.sendto(packet.raw, who.address)
            assert (await take(who, 1))[0].text == "x"
            (neighbour,) = who.relationships
            assert who.rate_per_s(neighbour) < Settings().rate_per_s_max
            seen = await congested_heartbeat(plain)
            assert seen.tos == 0x10 << 2 | 0b10, "we are not congested ourselves"


@pytest.mark.req("EMC-14")
async def test_a_node_that_is_overrun_marks_what_it_sends() -> None:
    with plain_socket("127.0.0.1") as plain, plain_socket("127.0.0.1") as flood:
        async with node(0, settings=Settings(heartbeat_interval_s=1)) as who:
            await join_by_hand(plain, who, 9)
            for _ in range(30_000):  # the node reads none of them before this is over: its buffer is too small
                flood.sendto(b"x", who.address)
            assert (await congested_heartbeat(plain)).tos == 0x10 << 2 | 0b11
            assert who.figures.rejected[Reject.TRUNCATED] < 30_000


@pytest.mark.req("EMC-12")
async def test_a_mesh_on_ipv6() -> None:
    async with mesh([(0, 1), (1, 2)], host="::1") as (first, _, last):
        await first.publish("over six", ttl=9)
        (event,) = await take(last, 1)
        assert (event.text, event.ttl, event.source[0]) == ("over six", 8, "::1")


@pytest.mark.req("EMC-13")
async def test_a_recording_is_refused() -> None:
    """What a plain neighbour recorded is sent again, to another node and to the one that made it."""
    with plain_socket("127.0.0.1") as plain:
        async with mesh([(0, 1)]) as (first, second):
            await join_by_hand(plain, first, 9)
            for number in range(10):
                await first.publish(f"event {number}")
            recording = [(await next_of(plain, EventType.NOTIFICATION)).data for _ in range(10)]
            assert len(await take(second, 10)) == 10
            for each in (first, second):
                before = each.figures.rejected[Reject.REPLAY]
                for data in recording:
                    plain.sendto(data, each.address)
                await until(lambda each=each, before=before: each.figures.rejected[Reject.REPLAY] == before + 10)  # type: ignore[misc]
            old = Header(EventType.NOTIFICATION, 1, (epoch_now() - 400) % 65536, 0)  # no cache remembers it
            plain.sendto(seal(old, notification("x"), signer(0)).raw, second.address)
            await until(lambda: second.figures.rejected[Reject.STALE] == 1)
            assert second.figures.delivered == 10
