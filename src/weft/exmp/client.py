"""A client's connection, which is dialled again when it breaks (EXM-10)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from random import SystemRandom
from types import TracebackType
from typing import Final, Self

from weft.errors import PeerError, UsageError, WeftError
from weft.exmp.peer import LOG, Handler, NotSent, Peer
from weft.membership import Chance
from weft.transport.addresses import Address, parse_address_or_host
from weft.transport.backoff import Backoff
from weft.transport.tcp import ExmpConnection, LinkLost, dial
from weft.wire.exmp import DEFAULT_PORT, DEFAULT_SETTINGS, DEFAULT_TLS_PORT, JsonObject, Settings

EXMP_BACKOFF_S_MIN: Final = 0.1  # as the SDK's: a restarted server is there again after a second or two
EXMP_BACKOFF_S_MAX: Final = 10.0  # after a long outage, nobody waits longer than this
EXMP_CONNECT_TIMEOUT_S: Final = 10.0  # for the first connection; a program that starts beside its server gets it
CHANCE: Final = SystemRandom()
ALL_CHANCE: Final = 1.0  # a thousand clients lose one server at the same moment, and must not come back at one
OnConnected = Callable[[Peer], Awaitable[None]]


class Client:
    """Made by ``connect``; ``async with`` opens and closes it."""

    def __init__(
        self,
        address: Address,
        tls: ssl.SSLContext | None,
        server_name: str | None,
        handlers: Mapping[str, Handler],
        on_connected: OnConnected | None,
        settings: Settings,
        connect_timeout_s: float,
        chance: Chance,
    ) -> None:
        self.address = address
        self._tls = tls
        self._server_name = server_name
        self._handlers = handlers
        self._on_connected = on_connected
        self._settings = settings
        self._connect_timeout_s = connect_timeout_s
        self._backoff = Backoff(EXMP_BACKOFF_S_MIN, EXMP_BACKOFF_S_MAX, ALL_CHANCE, chance)
        self._peer: Peer | None = None
        self._changed = asyncio.Condition()
        self._keeper: asyncio.Task[None] | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect; raise what the last try failed with once ``connect_timeout_s`` are over."""
        if self._keeper is not None or self._is_closed:
            raise UsageError("a client is opened once")
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._connect_timeout_s
        while True:
            try:
                peer = await self._dial()
                break
            except PeerError:
                if loop.time() >= deadline_s:
                    raise
            await asyncio.sleep(min(self._backoff.next_s(), max(deadline_s - loop.time(), 0.0)))
        self._peer = peer
        self._keeper = asyncio.create_task(self._keep(peer), name="weft exmp connection")

    async def call(
        self, op: str, data: JsonObject | None = None, *, retry: bool = False, timeout_s: float | None = None
    ) -> JsonObject | None:
        """The answer's data. Raise Failure if the answer says no, TimeoutError after ``timeout_s``.

        While there is no connection it waits for one. When the connection breaks behind the request, the other side may
        have done it or not: LinkLost says so, unless ``retry`` allows to do it twice. Then it is sent again.
        """
        async with asyncio.timeout(timeout_s):
            while True:
                peer = await self._connected()
                try:
                    return await peer.call(op, data)
                except NotSent:
                    pass  # no harm done
                except LinkLost:
                    if not retry or self._is_closed:
                        raise
                await self._forget(peer)

    async def close(self) -> None:
        """Say bye. Calls without an answer end with LinkLost: wait for them first."""
        self._is_closed = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        peer = self._peer
        await self._forget(peer)
        if peer is not None:
            await peer.close()

    @property
    def peer(self) -> Peer | None:
        """The connection of now, if there is one."""
        return self._peer

    async def _connected(self) -> Peer:
        async with self._changed:
            await self._changed.wait_for(lambda: self._peer is not None or self._is_closed)
            if self._peer is None or self._is_closed:
                raise UsageError("the client is closed")
            return self._peer

    async def _forget(self, peer: Peer | None) -> None:
        if self._peer is peer:
            self._peer = None
        await self._tell_waiting()

    async def _tell_waiting(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _keep(self, peer: Peer) -> None:
        """Dial again whenever the connection is gone, with pauses that grow."""
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            await peer.wait_closed()
            await self._forget(peer)
            self._backoff.on_lived(loop.time() - began_s)
            peer = self._peer = await self._dial_again()
            await self._tell_waiting()

    async def _dial_again(self) -> Peer:
        while True:
            await asyncio.sleep(self._backoff.next_s())
            try:
                return await self._dial()
            except WeftError as error:
                LOG.warning("no connection to %s: %s; trying again", self.address, error)
            except Exception:
                LOG.exception("on_connected has failed; trying again")

    async def _dial(self) -> Peer:
        made: list[Peer] = []

        def make_peer(link: ExmpConnection) -> Peer:
            made.append(Peer(link, self._handlers))
            return made[0]

        link = await dial(*self.address, self._settings, make_peer, self._tls, self._server_name)
        (peer,) = made
        try:
            await peer.wait_opened()
            if self._on_connected is not None:
                await self._on_connected(peer)
        except BaseException:
            link.abort()
            await peer.wait_closed()
            raise
        return peer


def connect(
    address: str,
    *,
    tls: ssl.SSLContext | None = None,
    server_name: str | None = None,
    handlers: Mapping[str, Handler] | None = None,
    on_connected: OnConnected | None = None,
    settings: Settings = DEFAULT_SETTINGS,
    connect_timeout_s: float = EXMP_CONNECT_TIMEOUT_S,
    chance: Chance = CHANCE,
) -> Client:
    """A client for ``async with``. ``address`` is HOST:PORT, or HOST for port 5040, with TLS 5041.

    ``on_connected`` is awaited after every handshake, the first and those after a break, before other calls go out: the
    place to authenticate and to subscribe. If it raises, the connection is given up and dialled again; the first time,
    the error is the caller's.
    """
    place = parse_address_or_host(address, DEFAULT_PORT if tls is None else DEFAULT_TLS_PORT)
    known = dict(handlers or {})
    return Client(place, tls, server_name, known, on_connected, settings, connect_timeout_s, chance)
