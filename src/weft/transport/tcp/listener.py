"""A port for EXMP connections."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from weft.doors import Door, Doorkeeper, DoorLimits, Guest
from weft.doors.accepting import Acceptor, bound_to
from weft.transport.tcp.link import ExmpConnection, LinkUser, ReceivedRequest, Traffic
from weft.wire.exmp import Closed, ErrorCode, Settings

EXMP_GOODBYE_S: Final = 2.0  # for all connections of a port to end when it closes
EXMP_SURPLUS_MAX: Final = 16  # surplus connections that get an answer; further ones are just closed


class Listener:
    """``make_user`` makes the user of each link that comes in. Connections beyond ``connections_max`` are sent away.

    A link counts as a stranger's until its user calls ``ExmpConnection.prove``; the ``door`` may close it until then.
    """

    def __init__(
        self,
        settings: Settings,
        make_user: Callable[[ExmpConnection], LinkUser],
        connections_max: int,
        tls: ssl.SSLContext | None = None,
        door: Door | None = None,
    ) -> None:
        self._settings = settings
        self._make_user = make_user
        self._connections_max = connections_max
        self._tls = tls
        self._door = door or _own_door(connections_max, settings.handshake_timeout_s)
        self._acceptor: Acceptor | None = None
        self._links: set[ExmpConnection] = set()
        self.traffic = Traffic()  # of all links so far
        self.refused = 0  # links beyond the bound

    @property
    def connections(self) -> int:
        return len(self._links)

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port; UsageError if it cannot."""
        listening = bound_to(host, port)
        self._acceptor = Acceptor(listening, self._door, self._connect)
        self._acceptor.start()
        bound: int = listening.getsockname()[1]
        return bound

    async def close(self) -> None:
        """Accept no more, say bye to all, and make sure that they go."""
        if self._acceptor is None:
            return
        acceptor, self._acceptor = self._acceptor, None
        await acceptor.stop()
        for link in list(self._links):
            link.close()
        try:
            async with asyncio.timeout(EXMP_GOODBYE_S):
                for link in list(self._links):
                    await link.gone.wait()
        except TimeoutError:
            for link in list(self._links):
                link.abort()
            for link in list(self._links):
                await link.gone.wait()

    async def _connect(self, connected: socket.socket, guest: Guest, port: int) -> None:
        loop = asyncio.get_running_loop()
        make = partial(ExmpConnection, self._settings, self._welcome, self._links.discard, self.traffic, guest)
        if self._tls is None:
            await loop.connect_accepted_socket(make, connected)
        else:
            await loop.connect_accepted_socket(
                make, connected, ssl=self._tls, ssl_handshake_timeout=self._settings.handshake_timeout_s
            )

    def _welcome(self, link: ExmpConnection) -> LinkUser:
        self._links.add(link)
        if self._acceptor is None:  # a TLS handshake that ended too late
            return _Surplus(link, "closing")
        if len(self._links) > self._connections_max:
            self.refused += 1
            return _Surplus(link, f"too many connections, the limit is {self._connections_max}: try again later")
        return self._make_user(link)


def _own_door(connections_max: int, grace_s: float) -> Door:
    """A door for a port that shares its bounds with no other port: all bounds equal the one on connections."""
    most = connections_max + EXMP_SURPLUS_MAX
    return Doorkeeper().door("exmp", DoorLimits(most, most, most, most, grace_s))


class _Surplus:
    """The user of a link for which there is no room."""

    def __init__(self, link: ExmpConnection, reason: str) -> None:
        asyncio.get_running_loop().call_soon(link.fail, ErrorCode.UNAVAILABLE, reason)

    def opened(self) -> None: ...

    def requested(self, requests: Sequence[ReceivedRequest]) -> None: ...

    def writable(self) -> None: ...

    def closed(self, closed: Closed) -> None: ...
