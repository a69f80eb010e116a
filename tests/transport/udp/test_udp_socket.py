"""The socket on loopback: marks of both families, lists of datagrams, and what happens when sending does not work."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Sequence
from typing import Any

import pytest

from tests.transport.udp.plain import LOOPBACK, WAIT_S, plain_socket, see
from weft.errors import UsageError
from weft.transport.udp import UdpSocket
from weft.wire.udp import Address, Datagram


class Arrivals:
    """What a socket handed over, list by list."""

    def __init__(self) -> None:
        self.lists: list[list[Datagram]] = []
        self._changed = asyncio.Event()

    def __call__(self, datagrams: Sequence[Datagram]) -> None:
        self.lists.append(list(datagrams))
        self._changed.set()

    @property
    def all(self) -> list[Datagram]:
        return [datagram for each in self.lists for datagram in each]

    async def wait(self, count: int) -> list[Datagram]:
        async with asyncio.timeout(WAIT_S):
            while len(self.all) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.all


@pytest.mark.req("EMC-12", "EMC-14")
@pytest.mark.parametrize("host", LOOPBACK.values(), ids=LOOPBACK)
async def test_marks_are_set_for_each_datagram(host: str) -> None:
    with plain_socket(host) as plain, await UdpSocket.bind(host, 0, Arrivals()) as udp:
        for ttl, tos in ((1, 0), (64, 0x62), (255, 0xFF), (64, 0x61)):
            assert udp.send(b"x", plain.getsockname(), ttl=ttl, tos=tos)
            seen = see(plain)
            assert (seen.data, seen.ttl, seen.tos, seen.source) == (b"x", ttl, tos, udp.address[:2])


@pytest.mark.req("EMC-12", "EMC-14")
@pytest.mark.parametrize("host", LOOPBACK.values(), ids=LOOPBACK)
async def test_marks_are_read_from_each_datagram(host: str) -> None:
    arrivals = Arrivals()
    with plain_socket(host) as plain, await UdpSocket.bind(host, 0, arrivals) as udp:
        v6 = plain.family == socket.AF_INET6
        level = socket.IPPROTO_IPV6 if v6 else socket.IPPROTO_IP
        wanted = [(1, 0x00), (7, 0xE3), (200, 0x42)]
        for ttl, tos in wanted:
            plain.setsockopt(level, socket.IPV6_UNICAST_HOPS if v6 else socket.IP_TTL, ttl)
            plain.setsockopt(level, socket.IPV6_TCLASS if v6 else socket.IP_TOS, tos)
            plain.sendto(b"y", udp.address)
        got = await arrivals.wait(len(wanted))
        assert [(each.ttl, each.tos) for each in got] == wanted
        assert {each.source for each in got} == {plain.getsockname()}


async def test_many_datagrams_arrive_in_few_lists() -> None:
    arrivals = Arrivals()
    with (
        plain_socket("127.0.0.1") as plain,
        await UdpSocket.bind("127.0.0.1", 0, arrivals, datagrams_at_once=40) as udp,
    ):
        for number in range(100):
            plain.sendto(bytes((number,)), udp.address)
        got = await arrivals.wait(100)
        assert [each.data[0] for each in got] == list(range(100))
        assert [len(each) for each in arrivals.lists] == [40, 40, 20]
        assert udp.figures.received == 100


async def test_an_owner_that_wants_more_gets_several_lists_before_others_have_their_turn() -> None:
    arrivals, turns = Arrivals(), []
    loop = asyncio.get_running_loop()

    def note_turn() -> bool:
        turns.append(len(arrivals.lists))
        return len(arrivals.lists) != 7  # by then it has enough

    with (
        plain_socket("127.0.0.1") as plain,
        await UdpSocket.bind("127.0.0.1", 0, arrivals, wants_more=note_turn, datagrams_at_once=5) as udp,
    ):
        for number in range(37):
            plain.sendto(bytes((number,)), udp.address)
        ends: list[int] = []
        while len(arrivals.all) < 37:
            loop.call_soon(lambda: ends.append(len(arrivals.lists)))
            await asyncio.sleep(0)
        assert [each.data[0] for each in arrivals.all] == list(range(37))
        assert turns == list(range(1, 8))  # the last list was not full
        assert set(ends) <= {0, 4, 7, 8}


async def test_a_datagram_that_is_too_long_stays_too_long() -> None:
    arrivals = Arrivals()
    with (
        plain_socket("127.0.0.1") as plain,
        await UdpSocket.bind("127.0.0.1", 0, arrivals, datagram_bytes_max=100) as udp,
    ):
        for size in (0, 100, 101, 9000):
            plain.sendto(bytes(size), udp.address)
        got = await arrivals.wait(4)
        assert [len(each.data) for each in got] == [0, 100, 101, 101]


async def test_what_finds_no_room_in_the_kernel_is_counted() -> None:
    arrivals = Arrivals()
    with (
        plain_socket("127.0.0.1") as plain,
        await UdpSocket.bind("127.0.0.1", 0, arrivals, receive_buffer_bytes=8192) as udp,
    ):
        assert udp.overflowed == 0
        for _ in range(200):  # nothing is read before the next await
            plain.sendto(bytes(500), udp.address)
        lost = udp.overflowed
        assert 0 < lost < 200
        assert len(await arrivals.wait(200 - lost)) == 200 - lost


async def test_the_buffers_are_as_large_as_asked_for_or_as_the_system_allows() -> None:
    with await UdpSocket.bind("127.0.0.1", 0, Arrivals(), receive_buffer_bytes=64 * 1024) as udp:
        assert udp.receive_buffer_bytes == 2 * 64 * 1024


class Reluctant(socket.socket):
    """Takes no datagram until told to."""

    is_full = True
    without_rights = False

    def sendmsg(self, *arguments: Any) -> int:
        if self.is_full:
            raise BlockingIOError
        return super().sendmsg(*arguments)

    def setsockopt(self, level: int, option: int, *value: Any) -> None:
        if self.without_rights and option in (32, 33):
            raise PermissionError(errno.EPERM, "not for you")
        super().setsockopt(level, option, *value)


async def test_what_waits_is_bounded_and_urgent_first() -> None:
    with plain_socket("127.0.0.1") as plain:
        reluctant = Reluctant(socket.AF_INET, socket.SOCK_DGRAM)
        reluctant.bind(("127.0.0.1", 0))
        reluctant.setblocking(False)
        target: Address = plain.getsockname()
        with UdpSocket(reluctant, Arrivals(), send_queue_max=2) as udp:
            assert [udp.send(data, target) for data in (b"a", b"b", b"c")] == [True, True, False]
            assert [udp.send(data, target, urgent=True) for data in (b"U", b"V", b"W")] == [True, True, False]
            assert (udp.waiting, udp.figures.dropped, udp.figures.sent) == (4, 2, 0)
            reluctant.is_full = False
            seen = [(await asyncio.to_thread(see, plain)).data for _ in range(4)]
            assert seen == [b"U", b"V", b"a", b"b"]
            assert udp.send(b"later", target)
            assert see(plain).data == b"later"
            assert (udp.waiting, udp.figures.sent) == (0, 5)


async def test_closing_drops_what_waits() -> None:
    reluctant = Reluctant(socket.AF_INET, socket.SOCK_DGRAM)
    reluctant.bind(("127.0.0.1", 0))
    reluctant.setblocking(False)
    udp = UdpSocket(reluctant, Arrivals())
    assert udp.send(b"a", udp.address)
    udp.close()
    udp.close()
    assert (udp.is_closed, udp.waiting, udp.figures.dropped) == (True, 0, 1)
    assert not udp.send(b"b", udp.address), "a closed socket sends nothing, and says so"


async def test_without_rights_the_buffer_is_what_the_system_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reluctant, "without_rights", True)
    monkeypatch.setattr("weft.transport.udp.udp_socket.socket.socket", Reluctant)
    with await UdpSocket.bind("127.0.0.1", 0, Arrivals(), receive_buffer_bytes=1 << 30) as udp:
        assert 0 < udp.receive_buffer_bytes < 1 << 30


async def test_a_datagram_that_cannot_be_sent_is_lost_and_counted() -> None:
    with plain_socket("127.0.0.1") as plain, await UdpSocket.bind("127.0.0.1", 0, Arrivals()) as udp:
        assert not udp.send(bytes(70_000), plain.getsockname())
        assert udp.figures.failed == 1
        assert udp.figures.failure == f"127.0.0.1:{plain.getsockname()[1]}: Message too long"
        assert udp.send(b"fine", plain.getsockname())
        assert see(plain).data == b"fine"


async def test_nobody_at_the_other_end_disturbs_nothing() -> None:
    arrivals = Arrivals()
    with await UdpSocket.bind("127.0.0.1", 0, arrivals) as udp:
        with plain_socket("127.0.0.1") as gone:
            nowhere = gone.getsockname()
        assert udp.send(b"into the void", nowhere)
        assert udp.send(b"to myself", udp.address)
        assert [each.data for each in await arrivals.wait(1)] == [b"to myself"]


@pytest.mark.parametrize(("ttl", "tos"), [(0, 0), (256, 0), (64, -1), (64, 256)])
async def test_marks_that_do_not_fit_are_refused(ttl: int, tos: int) -> None:
    with await UdpSocket.bind("127.0.0.1", 0, Arrivals()) as udp, pytest.raises(UsageError, match="out of range"):
        udp.send(b"x", udp.address, ttl=ttl, tos=tos)


async def test_addresses_are_resolved_for_the_family() -> None:
    with await UdpSocket.bind("127.0.0.1", 0, Arrivals()) as udp:
        assert await udp.resolve("127.0.0.2", 7500) == ("127.0.0.2", 7500)
        with pytest.raises(UsageError, match="no IPv4 address for '::1' and port 7500"):
            await udp.resolve("::1", 7500)


async def test_a_port_that_is_taken_is_the_callers_mistake() -> None:
    with await UdpSocket.bind("127.0.0.1", 0, Arrivals()) as udp:
        port = udp.address[1]
        with pytest.raises(UsageError, match=f"cannot listen for datagrams on 127.0.0.1:{port}: Address already"):
            await UdpSocket.bind("127.0.0.1", port, Arrivals())
