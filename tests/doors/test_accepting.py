"""Sockets behind a door, on both event loops: who is let in, who is cut off, and what happens without descriptors."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.transport.http2.certificates import Certificates
from tests.transport.http2.stories import on_both_loops, until
from weft.doors import Doorkeeper, DoorLimits, Guest, TurnedAway
from weft.doors.accepting import Acceptor, bound_to, listen_on
from weft.errors import UsageError

pytestmark = pytest.mark.req("SEC-04")

HOST = "127.0.0.1"
WIDE = DoorLimits(100, 100, 100, 100, grace_s=0.0)


class Silent(asyncio.Protocol):
    """Keeps a connection until it is closed."""

    def __init__(self, guest: Guest) -> None:
        self.guest = guest

    def connection_lost(self, exc: Exception | None) -> None:
        self.guest.leave()


class Port:
    """A port that only lets in."""

    def __init__(self, limits: DoorLimits, tls: Certificates | None = None) -> None:
        self.told: list[TurnedAway] = []
        self.door = Doorkeeper(tell=self.told.append).door("test", limits)
        self.tls = tls
        listening = listen_on(HOST, 0)
        self.number: int = listening.getsockname()[1]
        self.acceptor = Acceptor(listening, self.door, self.connect)
        self.acceptor.start()

    async def connect(self, connected: socket.socket, guest: Guest, port: int) -> None:
        loop = asyncio.get_running_loop()
        context = None if self.tls is None else self.tls.server()
        await loop.connect_accepted_socket(lambda: Silent(guest), connected, ssl=context)

    def knock(self) -> socket.socket:
        return socket.create_connection((HOST, self.number))


@asynccontextmanager
async def listening(limits: DoorLimits, tls: Certificates | None = None) -> AsyncIterator[Port]:
    port = Port(limits, tls)
    try:
        yield port
    finally:
        await port.acceptor.stop()
        await until(lambda: port.door.connections == 0)


async def end_of(peer: socket.socket) -> None:
    """Wait until the other side has hung up."""
    peer.setblocking(False)
    with suppress(ConnectionError):
        assert await asyncio.get_running_loop().sock_recv(peer, 1) == b""


@on_both_loops
async def test_the_one_that_has_waited_longest_is_hung_up_on() -> None:
    async with listening(DoorLimits(2, 2, 2, 2, grace_s=0.0)) as port:
        with port.knock() as first, port.knock() as second:
            await until(lambda: port.door.connections == 2)
            with port.knock():
                await end_of(first)
                await until(lambda: port.door.connections == 2)
            assert [each.reason for each in port.told] == ["address"]
            second.close()


@on_both_loops
async def test_one_that_has_not_finished_its_tls_handshake_goes_as_well(certificates: Certificates) -> None:
    async with listening(DoorLimits(2, 2, 2, 2, grace_s=0.0), certificates) as port:
        with port.knock() as first, port.knock():
            await until(lambda: port.door.connections == 2)
            loop = asyncio.get_running_loop()
            made, _ = await loop.create_connection(
                asyncio.Protocol, HOST, port.number, ssl=certificates.client(), server_hostname="localhost"
            )
            await end_of(first)
            await until(lambda: port.door.connections == 2)
            made.abort()


@on_both_loops
async def test_who_proves_nothing_in_time_is_hung_up_on() -> None:
    async with listening(DoorLimits(9, 9, 9, 9, grace_s=9.0, stranger_s=0.2)) as port:
        with port.knock() as first, port.knock() as second:
            for each in (first, second):
                await end_of(each)
        assert [each.reason for each in port.told] == ["late"] * 2


@on_both_loops
async def test_a_crowd_that_is_larger_than_the_backlog_is_worked_off() -> None:
    async with listening(DoorLimits(8, 8, 8, 8, grace_s=0.0)) as port:
        with ExitStack() as stack:
            for number in range(300):
                stack.enter_context(port.knock())
                if number % 16 == 0:
                    await asyncio.sleep(0)
            await until(lambda: len(port.told) == 292)
            await until(lambda: port.door.connections == 8)


@on_both_loops
async def test_without_descriptors_it_waits_and_goes_on() -> None:
    async with listening(WIDE) as port:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        with ExitStack() as stack:
            peer = stack.enter_context(socket.socket())
            stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
            highest = max(int(each.name) for each in Path("/proc/self/fd").iterdir())
            while (filler := stack.enter_context(socket.socket())).fileno() <= highest:
                pass  # a number that was free
            resource.setrlimit(resource.RLIMIT_NOFILE, (filler.fileno() + 1, before[1]))
            peer.setblocking(False)
            await asyncio.get_running_loop().sock_connect(peer, (HOST, port.number))
            await until(lambda: len(port.told) >= 2)
            assert {str(each) for each in port.told} == {"cannot accept connections: Too many open files"}
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            await until(lambda: port.door.connections == 1)


def test_a_port_that_is_taken_is_a_mistake_of_the_caller() -> None:
    with listen_on(HOST, 0) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"cannot listen on {HOST} port {number}: Address already in use$"):
            bound_to(HOST, number)
