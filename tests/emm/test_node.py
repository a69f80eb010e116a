"""EMM nodes on real sockets, on loopback."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from uuid import UUID

import pytest

from tests.emm.world import KEY_ID, node_id, secret, trust_of
from tests.security import pki
from weft import emm
from weft.errors import PeerError, UsageError
from weft.limits import EMM_PACKET_BYTES_MAX
from weft.security import Credentials as Certificate
from weft.transport.quic import QuicLinks
from weft.transport.udp.marks import IP_RECVTTL
from weft.wire import emm as wire
from weft.wire.reject import Reject
from weft.wire.udp import Datagram

WAIT_S = 60.0


def node(number: int, nodes: int = 3, **more: object) -> emm.Node:
    credentials = emm.Credentials(KEY_ID, hmac_key=secret(number))
    return emm.Node(node_id(number), credentials, trust_of(nodes), **more)  # type: ignore[arg-type]


async def first(of: emm.Node) -> emm.Event:
    async with asyncio.timeout(WAIT_S):
        async for event in of.events():
            return event
    raise AssertionError("the node was closed")


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.req("EMM-27")
async def test_join_publish_forward_and_receive() -> None:
    rules = emm.Settings(forward=(emm.Forward("plant.>"),))
    changes: list[emm.Change[bytes]] = []
    async with (
        node(0) as one,
        node(1, settings=rules, on_change=changes.append) as middle,
        node(2, join=[middle.address]) as far,
    ):
        neighbour = await one.join(middle.address, timeout_s=WAIT_S)
        assert neighbour.node_id == middle.node_id.bytes
        await until(lambda: len(middle.neighbours) == 2)
        assert {change.kind for change in changes} == {emm.ChangeKind.JOINED}
        assert await one.publish("plant.temp", 21.5, {"line": 1}) == 1
        event = await first(far)
        assert (event.name, event.values, event.node_id) == ("plant.temp", (21.5, {"line": 1}), one.node_id)
        assert event.ttl == 63
        assert event.source == middle.address


@pytest.mark.req("EMM-27")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_the_ttl_is_in_the_ip_header_and_one_less_behind_each_node(host: str) -> None:
    """Seen by plain sockets beside the nodes."""

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
        else:
            probe.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
        probe.bind((host, 0))
        probe.setblocking(False)
        settings = emm.Settings(forward=(emm.Forward(">"),), ttl=5)
        async with (
            node(0, settings=settings, listen=(host, 0)) as one,
            node(1, settings=settings, listen=(host, 0)) as relay,
        ):
            await one.join(relay.address, timeout_s=WAIT_S)
            probe.sendto(hello_of(2), relay.address)  # the probe poses as node 2
            await until(lambda: len(relay.neighbours) == 2)
            await one.publish("n")
            ttls = {}
            while "n" not in ttls:
                await until(lambda: readable(probe))
                data, controls, _, _ = probe.recvmsg(2048, 128)
                packet = wire.parse_untrusted(data)
                ttls[packet.event_name or str(packet.kind.name)] = int.from_bytes(controls[0][2][:4], "little")
            assert ttls == {"HELLO": 5, "n": 4}


def readable(probe: socket.socket) -> bool:
    try:
        probe.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    return True


def hello_of(number: int) -> bytes:
    draft = wire.draft_hello(4711, int(time.time()), node_id(number), b"probe")
    return wire.build(draft, wire.Credentials(KEY_ID, hmac_key=secret(number)))


async def test_events_with_a_handler_run_it_if_their_sender_is_verified() -> None:
    ran: list[emm.Event] = []
    settings = emm.Settings(unsigned_allowed=True)
    async with node(0) as one, node(1, settings=settings) as other:
        other.on_event("restart")(ran.append)

        @other.on_event("broken")
        def broken(event: emm.Event) -> None:
            raise ValueError("as handlers do")

        with pytest.raises(UsageError, match="already"):
            other.on_event("restart")(ran.append)
        problems: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context["message"]))
        await one.join(other.address, timeout_s=WAIT_S)
        await one.publish("restart", "now")
        await one.publish("broken")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.sendto(unsigned("restart"), other.address)
        event = await first(other)
        assert (event.name, event.verdict) == ("restart", emm.Verdict.UNSIGNED)  # told, and not obeyed
        await until(lambda: ran and problems)
        assert [event.values for event in ran] == [("now",)]
        assert problems == ["an EMM event's handler failed"]


def unsigned(name: str) -> bytes:
    return wire.build(wire.draft_event(815, int(time.time()), name))


async def test_what_is_not_taken_is_told() -> None:
    refusals: list[emm.Refusal] = []
    async with node(0, on_refused=refusals.append) as one:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.sendto(b"\x01junk", one.address)
            stranger.sendto(b"x" * (EMM_PACKET_BYTES_MAX + 100), one.address)
        await until(lambda: len(refusals) == 2)
        assert one.figures.rejected == {Reject.TRUNCATED: 1, Reject.VERSION: 1}


async def test_nobody_answers() -> None:
    async with node(0) as one:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind(("127.0.0.1", 0))
            with pytest.raises(emm.NoAnswer, match="no answer from 127"):
                await one.join(silent.getsockname(), timeout_s=0.05)


async def test_misuse_is_named() -> None:
    one = node(0)
    with pytest.raises(UsageError, match="async with"):
        await one.publish("n")
    async with one:
        with pytest.raises(UsageError, match="open already"):
            await one.__aenter__()
        with pytest.raises(UsageError, match="too large"):
            await one.publish("n", b"x" * 600)
        with pytest.raises(UsageError, match="does not listen for QUIC"):
            _ = one.quic_address
        with pytest.raises(UsageError, match="cannot listen"):
            async with node(1, listen=one.address):
                pass
    with pytest.raises(UsageError, match="both or neither"):
        node(0, quic=("127.0.0.1", 0))


async def test_closing_ends_the_loop_over_events() -> None:
    one = node(0)
    await one.__aenter__()

    async def collect() -> list[emm.Event]:
        return [event async for event in one.events()]

    reading = asyncio.create_task(collect())
    await asyncio.sleep(0)
    await one.__aexit__(None, None, None)
    async with asyncio.timeout(WAIT_S):
        assert await reading == []


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return pki.issued(pki.authority(tmp_path_factory.mktemp("ca"), now_s=pki.wall()), now_s=pki.wall())


@pytest.mark.req("EMM-28")
async def test_the_same_packets_over_quic(certificate: Certificate) -> None:
    async with (
        node(0) as one,
        node(1, quic=("127.0.0.1", 0), certificate=certificate) as server,
    ):
        neighbour = await one.join_quic(server.quic_address, certificate.root_pem, timeout_s=WAIT_S)
        assert UUID(bytes=neighbour.node_id) == server.node_id
        await one.publish("secret.temp", 1)
        assert (await first(server)).name == "secret.temp"
        await server.publish("secret.answer")
        event = await first(one)
        assert (event.name, event.source) == ("secret.answer", neighbour.address)


@pytest.mark.req("EMM-28")
async def test_a_node_that_joined_by_quic_finds_the_other_again(certificate: Certificate) -> None:
    changes: list[emm.ChangeKind] = []
    async with node(0, listen=None, on_change=lambda change: changes.append(change.kind)) as one:
        async with node(1, listen=None, quic=("127.0.0.1", 0), certificate=certificate) as server:
            address = server.quic_address
            await one.join_quic(address, certificate.root_pem, timeout_s=WAIT_S)
        await until(lambda: not one.neighbours)
        assert await one.publish("to.nobody") == 0
        async with node(1, listen=None, quic=address, certificate=certificate) as server:
            await until(lambda: one.neighbours)
            await one.publish("again")
            assert (await first(server)).name == "again"
    joined, lost = emm.ChangeKind.JOINED, emm.ChangeKind.LOST
    assert changes == [joined, lost, joined, lost][: len(changes)]
    assert len(changes) >= 3


@pytest.mark.req("EMM-28")
async def test_a_node_without_udp_says_so(certificate: Certificate) -> None:
    async with node(0, listen=None) as one, node(1) as other:
        with pytest.raises(UsageError, match="does not listen for UDP"):
            _ = one.address
        with pytest.raises(UsageError, match="does not use UDP"):
            await one.join(other.address)
        with pytest.raises(PeerError, match="over QUIC"):
            await one.join_quic(("127.0.0.1", 9), certificate.root_pem, timeout_s=0.2)


@pytest.mark.req("EMM-28")
async def test_a_neighbour_by_quic_is_not_moved_to_udp(certificate: Certificate) -> None:
    """It says Hello by UDP, too, and events for it go on by QUIC alone."""

    async with (
        node(0) as one,
        node(1, quic=("127.0.0.1", 0), certificate=certificate) as server,
    ):
        by_quic = (await one.join_quic(server.quic_address, certificate.root_pem, timeout_s=WAIT_S)).address
        with pytest.raises(emm.NoAnswer):
            await one.join(server.address, timeout_s=0.3)
        assert [each.address for each in one.neighbours] == [by_quic]
        await one.publish("secret")
        assert (await first(server)).source[0].startswith("quic/")


@pytest.mark.req("EMM-02", "EMM-28")
async def test_message_ids_over_quic_come_from_secrets(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of events, hellos and heartbeats."""
    drawn: set[int] = set()

    def randbits(bits: int) -> int:
        drawn.add(number := really(bits))
        return number

    really = secrets.randbits

    monkeypatch.setattr("weft.emm.node.secrets.randbits", randbits)
    told: dict[wire.EventType, int] = {}

    def look(datagrams: Sequence[Datagram]) -> None:
        for each in datagrams:
            packet = wire.parse_untrusted(each.data)
            told[packet.kind] = packet.message_id
            if packet.kind is wire.EventType.HELLO:
                server.send(hello_of(1), each.source)

    server = QuicLinks(look)
    address = await server.listen("127.0.0.1", 0, certificate)
    settings = emm.Settings(heartbeat_interval_s=0.2)
    async with node(0, listen=None, settings=settings) as one:
        await one.join_quic((address[0], address[1]), certificate.root_pem, timeout_s=WAIT_S)
        await one.publish("n")
        await until(lambda: len(told) == 3)
        assert set(told.values()) <= drawn
    server.close()
