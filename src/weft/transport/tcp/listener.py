"""A port that EXMP connections come in by."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import Final

from weft.errors import UsageError
from weft.transport.tcp.link import ExmpConnection, LinkUser, ReceivedRequest, Traffic
from weft.wire.exmp import Closed, ErrorCode, Settings

EXMP_GOODBYE_S: Final = 2.0  # for all connections of a port to end when it closes


class Listener:
    """``make_user`` says who works with a link that came in. One more than ``connections_max`` is sent away."""

    def __init__(
        self,
        settings: Settings,
        make_user: Callable[[ExmpConnection], LinkUser],
        connections_max: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._settings = settings
        self._make_user = make_user
        self._connections_max = connections_max
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._links: set[ExmpConnection] = set()
        self.traffic = Traffic()  # of all links so far
        self.refused = 0  # links that were one too many

    @property
    def connections(self) -> int:
        return len(self._links)

    async def start(self, host: str, port: int) -> int:
        """The port it listens on; UsageError if it cannot."""
        loop = asyncio.get_running_loop()
        handshake_s = None if self._tls is None else self._settings.handshake_timeout_s
        try:
            self._server = await loop.create_server(
                self._make_link, host, port, ssl=self._tls, ssl_handshake_timeout=handshake_s
            )
        except OSError as error:
            raise UsageError(f"cannot listen on {host} port {port}: {error.strerror or error}") from None
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Take no more, say bye to all, and see that they go."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
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

    def _make_link(self) -> ExmpConnection:
        return ExmpConnection(self._settings, self._welcome, self._links.discard, self.traffic)

    def _welcome(self, link: ExmpConnection) -> LinkUser:
        self._links.add(link)
        if self._server is None:  # a TLS handshake that ended too late
            return _Surplus(link, "closing")
        if len(self._links) > self._connections_max:
            self.refused += 1
            return _Surplus(link, f"too many connections, the limit is {self._connections_max}: try again later")
        return self._make_user(link)


class _Surplus:
    """The user of a link that there is no room for."""

    def __init__(self, link: ExmpConnection, reason: str) -> None:
        asyncio.get_running_loop().call_soon(link.fail, ErrorCode.UNAVAILABLE, reason)

    def opened(self) -> None: ...

    def requested(self, requests: Sequence[ReceivedRequest]) -> None: ...

    def writable(self) -> None: ...

    def closed(self, closed: Closed) -> None: ...
