"""Connections that are kept: made again after their end, later each time, and noticed to be dead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import SystemRandom

import pytest
import uvloop

from tests.security import pki
from tests.transport.quic.test_links import HOST, Side
from weft.errors import PeerError, UsageError, WeftError
from weft.security import Credentials
from weft.transport.quic import KeptConnection
from weft.transport.quic.dialling import QUIC_BACKOFF_S_MAX
from weft.wire.udp import Address


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return pki.issued(pki.authority(tmp_path_factory.mktemp("own"), now_s=pki.wall()), now_s=pki.wall())


class Kept:
    """A side that wants one connection, and what it heard of it."""

    def __init__(self, side: Side, port: int, root: bytes | UsageError) -> None:
        self.ups: list[Address] = []
        self.failures: list[tuple[str, float]] = []
        self._root = root
        self.connection = KeptConnection(
            side.links, (HOST, port), self._roots, self.ups.append, self._on_failed, SystemRandom()
        )

    def _roots(self) -> bytes:
        if isinstance(self._root, UsageError):
            raise self._root
        return self._root

    def _on_failed(self, error: WeftError, pause_s: float) -> None:
        self.failures.append((str(error), pause_s))


@asynccontextmanager
async def running(kept: Kept) -> AsyncIterator[None]:
    task = kept.connection.start()
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.req("EMM-28")
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_server_that_comes_back_is_connected_again(own: Credentials, run: object) -> None:
    async def story() -> None:
        first, client = Side(), Side()
        port = await first.listen(own)
        kept = Kept(client, port, own.root_pem)
        async with running(kept):
            await client.until(lambda: kept.connection.address is not None)
            first.links.close()
            await client.until(lambda: client.gone == kept.ups[:1])
            assert kept.connection.address is None
            second = Side()
            await second.links.listen(HOST, port, own)
            await client.until(lambda: len(kept.ups) == 2)
            assert kept.ups[0] == kept.ups[1]
            assert client.links.send(b"again", kept.ups[1])
            assert await second.data(1) == [b"again"]
            second.links.close()
        client.links.close()

    run(story())  # type: ignore[operator]


@pytest.mark.req("EMM-28")
async def test_a_server_that_vanishes_without_a_word_is_noticed(own: Credentials) -> None:
    """Its socket is closed, as the system does it for a process that was killed: no goodbye is sent."""

    server, client = Side(), Side(kept_timeout_s=0.5)
    port = await server.listen(own)
    kept = Kept(client, port, own.root_pem)
    async with running(kept):
        await client.until(lambda: kept.connection.address is not None)
        assert server.links._server is not None and server.links._server._transport is not None
        server.links._server._transport.abort()
        await client.until(lambda: client.gone)
        again = Side()
        await again.links.listen(HOST, port, own)
        await client.until(lambda: len(kept.ups) >= 2)
        again.links.close()
    client.links.close()


async def test_a_silent_connection_is_kept_alive(own: Credentials) -> None:
    """By pings of the side that wants it; without them it is over after the idle time."""

    server, client = Side(), Side(kept_timeout_s=2.0)
    port = await server.listen(own)
    kept, idle = Kept(client, port, own.root_pem), Side(kept_timeout_s=2.0)
    async with running(kept):
        await client.until(lambda: kept.connection.address is not None)
        await idle.links.connect(HOST, port, own.root_pem)
        await idle.until(lambda: idle.gone)
        assert len(kept.ups) == 1
        assert client.gone == []
    for side in (client, idle, server):
        side.links.close()


async def test_pauses_grow_and_failures_are_told() -> None:
    client = Side()
    kept = Kept(client, 9, UsageError("there is no file root.pem"))
    async with running(kept):
        await client.until(lambda: len(kept.failures) >= 3)
    told, pauses = zip(*kept.failures, strict=True)
    assert set(told) == {"there is no file root.pem"}
    assert pauses[0] <= 0.1 < 0.2 <= pauses[2] <= QUIC_BACKOFF_S_MAX
    client.links.close()


async def test_one_dial_by_itself(own: Credentials) -> None:
    server, client = Side(), Side()
    port = await server.listen(own)
    kept = Kept(client, port, own.root_pem)
    assert await kept.connection.dial() == kept.ups[0]
    await client.links.acknowledged(kept.ups[0])
    client.links.drop(kept.ups[0])
    assert client.gone == kept.ups
    with pytest.raises(PeerError, match="over"):
        await client.links.acknowledged(kept.ups[0])
    await server.until(lambda: server.gone)
    server.links.close()
    with pytest.raises(PeerError):
        await client.links.connect(HOST, port, own.root_pem, timeout_s=0.2)
    client.links.close()


@pytest.mark.req("EMM-28")
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_links_can_be_closed_while_a_socket_is_made_for_a_dial(
    own: Credentials, run: Callable[..., None], is_cancelled: bool
) -> None:
    async def story() -> None:
        client = Side()
        dialling = asyncio.create_task(client.links.connect(HOST, 9, own.root_pem))
        while not client.links._all:
            await asyncio.sleep(0)
        if is_cancelled:
            dialling.cancel()
            await asyncio.gather(dialling, return_exceptions=True)
            assert not client.links._all
        client.links.close()
        with pytest.raises((PeerError, asyncio.CancelledError)):
            await dialling

    run(story())
