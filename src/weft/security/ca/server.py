"""The CA's HTTPS service: uvicorn with a certificate of the CA's own, and client certificates for whoever renews."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from weft.errors import UsageError, WeftError
from weft.limits import CA_BODY_BYTES_MAX
from weft.security.authority import Authority
from weft.security.ca.api import PEER_CERTIFICATE, CaApi, Clock
from weft.security.certificates import begin_s, end_s, key_pem, new_key, read_chain_untrusted
from weft.security.files import write_private
from weft.security.issuing import Issuer
from weft.security.renewal import Renewer
from weft.security.urls import parse_url

CA_CONNECTIONS_MAX: Final = 256  # enrolling or renewing at a time; each takes milliseconds
FILE: Final = "server.pem"
STOP_TIMEOUT_S: Final = 1  # answers take milliseconds
KEEP_ALIVE_S: Final = 5  # each caller has one or two things to ask


class CaServer:
    """``start`` listens (``port`` is then the real one), ``stop`` lets answers finish.

    ``clock`` tells Unix time. ``on_failed`` hears what is wrong with the CA itself: a file, or its own certificate.
    """

    def __init__(
        self, authority: Authority, host: str, port: int, clock: Clock, on_failed: Callable[[WeftError], None]
    ) -> None:
        self._authority = authority
        self._file = authority.directory / FILE
        self._host = host
        self._clock = clock
        self._on_failed = on_failed
        self._server: _Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.port = port

    async def start(self) -> None:
        """Raise UsageError if the address cannot be had."""
        assert self._server is None, "a CA server is started once"
        context = _context(self._authority)
        renewer = self._make_certificate()
        context.load_cert_chain(self._file)
        config = _config(CaApi(Issuer(self._authority, self._clock()), self._clock, self._on_failed))
        config.load()
        config.ssl = context
        listener = _listen(self._host, self.port)
        self.port = listener.getsockname()[1]
        self._server = _Server(config)
        self._tasks = [
            asyncio.create_task(self._server.serve(sockets=[listener]), name="weft-ca"),
            asyncio.create_task(self._keep_certificate(context, renewer), name="weft-ca-certificate"),
        ]
        await self._server.listening.wait()

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
        """A new certificate of the service itself, in a file, because that is what TLS contexts take."""
        key = new_key()
        host = parse_url(self._authority.settings.url).host
        chain = self._authority.issue_server(key.public_key(), host, self._clock())
        write_private(self._file, key_pem(key).reveal() + chain)
        leaf = read_chain_untrusted(chain)[0]
        return Renewer(begin_s(leaf), end_s(leaf), chance=0.5)

    async def _keep_certificate(self, context: ssl.SSLContext, renewer: Renewer) -> None:
        while True:
            await asyncio.sleep(max(0.0, renewer.due_s - self._clock()))
            try:
                renewer = await asyncio.to_thread(self._make_certificate)
                context.load_cert_chain(self._file)  # connections from now on see it
            except WeftError as error:
                renewer.failed(self._clock(), chance=0.5)
                self._on_failed(error)


class _Server(uvicorn.Server):
    """Without signal handlers: signals are the node's business."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


class _Protocol(H11Protocol):
    """Hands the client certificate to the application: uvicorn does not."""

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
    context.verify_mode = ssl.CERT_OPTIONAL  # whoever enrols has none yet; one that is given must be good
    context.load_verify_locations(cadata=authority.root_pem.decode())
    return context


def _config(api: CaApi) -> uvicorn.Config:
    return uvicorn.Config(
        api.application(),
        http=_Protocol,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        limit_concurrency=CA_CONNECTIONS_MAX,
        h11_max_incomplete_event_size=CA_BODY_BYTES_MAX,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_TIMEOUT_S,
    )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise UsageError(f"cannot serve the CA on {host} port {port}: {error.strerror}") from None
    listener.setblocking(False)
    return listener
