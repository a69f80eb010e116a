"""The CA's HTTPS service: uvicorn with a certificate of the CA's own, and client certificates for renewals."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final

from weft.doors import Door, Doorkeeper
from weft.doors.accepting import listen_on, why_not
from weft.doors.descriptors import CA_CONNECTIONS_MAX
from weft.doors.http import GuardedProtocol, HttpServer, http_config, http_limits
from weft.errors import UsageError, WeftError
from weft.limits import CA_BODY_BYTES_MAX
from weft.security.authority import Authority
from weft.security.ca.api import PEER_CERTIFICATE, CaApi, Clock
from weft.security.certificates import begin_s, end_s, key_pem, new_key, read_chain_untrusted
from weft.security.files import write_private
from weft.security.issuing import Issuer
from weft.security.rotation import Renewer, sleep_until
from weft.security.urls import parse_url

PORT: Final = "ca"  # the name of its door
FILE: Final = "server.pem"
STOP_TIMEOUT_S: Final = 1  # answers take milliseconds
KEEP_ALIVE_S: Final = 5  # each caller has one or two things to ask


class CaServer:
    """``start`` listens (``port`` is then the real one), ``stop`` lets answers finish.

    ``clock`` returns Unix time. ``on_failed`` is told what is wrong with the CA itself: a file, or its own certificate.
    ``door`` says how many connections there may be: when there are too many, the one that has been idle longest is
    closed.
    """

    def __init__(
        self,
        authority: Authority,
        host: str,
        port: int,
        clock: Clock,
        on_failed: Callable[[WeftError], None],
        door: Door | None = None,
    ) -> None:
        self._authority = authority
        self._file = authority.directory / FILE
        self._host = host
        self._clock = clock
        self._on_failed = on_failed
        self._door = door or Doorkeeper().door(PORT, http_limits(CA_CONNECTIONS_MAX), apart=True)
        self._server: HttpServer | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.port = port

    async def start(self) -> None:
        """Raise UsageError if the address is not available."""
        assert self._server is None, "a CA server is started once"
        context = _context(self._authority)
        renewer = self._make_certificate()
        context.load_cert_chain(self._file)
        api = CaApi(Issuer(self._authority, self._clock()), self._clock, self._on_failed)
        config = http_config(
            api.application(),
            _Protocol,
            KEEP_ALIVE_S,
            STOP_TIMEOUT_S,
            h11_max_incomplete_event_size=CA_BODY_BYTES_MAX,
        )
        config.load()
        config.ssl = context
        try:
            listening = listen_on(self._host, self.port)
        except OSError as error:
            raise UsageError(f"cannot serve the CA on {self._host} port {self.port}: {why_not(error)}") from None
        self.port = listening.getsockname()[1]
        self._server = HttpServer(config, listening, self._door)
        self._tasks = [
            asyncio.create_task(self._server.serve(), name="weft-ca"),
            asyncio.create_task(self._keep_certificate(context, renewer), name="weft-ca-certificate"),
        ]
        await self._server.settled.wait()

    async def stop(self) -> None:
        if self._server is None or not self._tasks:
            return
        self._server.should_exit = True
        serving, keeping = self._tasks
        self._tasks = []
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await serving

    def _make_certificate(self) -> Renewer:
        """A new certificate for the service itself, in a file, because TLS contexts need one."""
        key = new_key()
        host = parse_url(self._authority.settings.url).host
        chain = self._authority.issue_server(key.public_key(), host, self._clock())
        write_private(self._file, key_pem(key).reveal() + chain)
        leaf = read_chain_untrusted(chain)[0]
        return Renewer(begin_s(leaf), end_s(leaf), chance=0.5)

    async def _keep_certificate(self, context: ssl.SSLContext, renewer: Renewer) -> None:
        while True:
            await sleep_until(renewer.due_s, self._clock)
            try:
                renewer = await asyncio.to_thread(self._make_certificate)
                context.load_cert_chain(self._file)  # connections from now on see it
            except WeftError as error:
                renewer.failed(self._clock(), chance=0.5)
                self._on_failed(error)


class _Protocol(GuardedProtocol):
    """Gives the client certificate to the application, which uvicorn does not."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        self.app = _with_certificate(self.app, tls.getpeercert(binary_form=True))


def _with_certificate(app: Any, der: bytes | None) -> Callable[[Any, Any, Any], Awaitable[None]]:
    async def call(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, PEER_CERTIFICATE: der}, receive, send)

    return call


def _context(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL  # a caller that enrols has none yet; one that is shown must be valid
    context.load_verify_locations(cadata=authority.root_pem.decode())
    return context
