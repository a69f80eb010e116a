"""A port at which operations are served."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Self
from weakref import WeakSet

from weft.errors import WeftError
from weft.exmp.peer import LOG, Handler, OnRequest, Peer
from weft.limits import EXMP_CONNECTIONS_MAX
from weft.transport.addresses import Address
from weft.transport.tcp import ExmpConnection, Listener
from weft.wire.exmp import DEFAULT_PORT, DEFAULT_SETTINGS, Settings

OnConnected = Callable[[Peer], Awaitable[None]]


class Server:
    """Made by ``serve``; ``async with`` opens and closes it."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        address: Address,
        tls: ssl.SSLContext | None,
        on_connected: OnConnected | None,
        on_request: OnRequest | None,
        settings: Settings,
        connections_max: int,
    ) -> None:
        self.address = address
        self._handlers = handlers
        self._on_connected = on_connected
        self._on_request = on_request
        self._listener = Listener(settings, self._welcome, connections_max, tls)
        self._greetings: dict[asyncio.Task[None], None] = {}
        self._peers: WeakSet[Peer] = WeakSet()  # all whose handlers may be running
        self._closed = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def connections(self) -> int:
        return self._listener.connections

    async def open(self) -> None:
        """Listen; UsageError if that cannot be. ``address`` has the port from then on."""
        port = await self._listener.start(*self.address)
        self.address = self.address._replace(port=port)

    async def close(self) -> None:
        """Say bye to everybody."""
        for task in list(self._greetings):
            task.cancel()
        await asyncio.gather(*self._greetings, return_exceptions=True)
        await self._listener.close()
        await asyncio.gather(*(peer.wait_closed() for peer in self._peers))
        self._closed.set()

    async def wait_closed(self) -> None:
        await self._closed.wait()

    def _welcome(self, link: ExmpConnection) -> Peer:
        peer = Peer(link, self._handlers, self._on_request)
        self._peers.add(peer)
        if self._on_connected is not None:
            task = asyncio.get_running_loop().create_task(self._greet(peer, self._on_connected))
            self._greetings[task] = None
            task.add_done_callback(lambda done: self._greetings.pop(done, None))
        return peer

    async def _greet(self, peer: Peer, on_connected: OnConnected) -> None:
        try:
            await peer.wait_opened()
            await on_connected(peer)
        except WeftError as error:
            LOG.warning("connection of %s: %s", peer.address, error)
        except Exception:
            LOG.exception("on_connected has failed")


def serve(
    handlers: Mapping[str, Handler],
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    *,
    tls: ssl.SSLContext | None = None,
    on_connected: OnConnected | None = None,
    on_request: OnRequest | None = None,
    settings: Settings = DEFAULT_SETTINGS,
    connections_max: int = EXMP_CONNECTIONS_MAX,
) -> Server:
    """A server for ``async with``. Port 0 takes a free port; ``address`` says which.

    ``on_connected`` runs beside the handlers for every client that has said hello: a server may call its clients, too.
    ``on_request`` is called with every request before its handler, for logging.
    """
    place = Address(host, port)
    return Server(dict(handlers), place, tls, on_connected, on_request, settings, connections_max)
