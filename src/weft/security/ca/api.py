"""The CA's HTTP calls, as in step-ca: ``sign``, ``renew``, ``root``, ``health`` (SEC-01).

Each exists with and without ``/1.0``, because step's own tools use both. The body of ``sign`` is ``{"csr", "ott"}``,
and the answer of ``sign`` and ``renew`` is 201 with ``{"crt", "ca", "certChain"}``; refusals are ``{"status",
"message"}``. Unknown fields are ignored.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from weft.errors import PeerError, StorageError, WeftError
from weft.limits import CA_BODY_BYTES_MAX
from weft.security.ca.messages import ErrorResponse, RootResponse, SignRequest, SignResponse
from weft.security.certificates import read_certificate_untrusted, read_chain_untrusted, to_pem
from weft.security.errors import CertificateRefused, RequestRefused, TokenRefused
from weft.security.issuing import Issuer
from weft.security.rates import FailureLimiter, source_of

Clock = Callable[[], float]
Handler = Callable[[Request], Awaitable[Response]]

# Where the protocol puts what TLS has verified; see ``server``.
PEER_CERTIFICATE: Final = "weft.peer_certificate"

JSON: Final = "application/json"


class _Problem(PeerError):
    """A call that cannot be answered, with its HTTP status."""

    def __init__(self, status: int, what: str, **facts: object) -> None:
        super().__init__(what, **facts)
        self.status = status


class CaApi:
    """``clock`` returns Unix time; ``on_failed`` gets faults of the CA itself, which callers do not get to see."""

    def __init__(self, issuer: Issuer, clock: Clock, on_failed: Callable[[WeftError], None]) -> None:
        self._issuer = issuer
        self._clock = clock
        self._on_failed = on_failed
        self._limiter = FailureLimiter()

    def application(self) -> Starlette:
        routes = [
            Route("/health", self._guarded(self._health)),
            Route("/root/{fingerprint}", self._guarded(self._root)),
            Route("/sign", self._guarded(self._sign), methods=["POST"]),
            Route("/renew", self._guarded(self._renew), methods=["POST"]),
        ]
        return Starlette(routes=[Mount("/1.0", routes=routes), *routes])

    async def _health(self, _: Request) -> Response:
        return _answer(200, {"status": "ok"})

    async def _root(self, request: Request) -> Response:
        wanted = request.path_params["fingerprint"].replace("-", "").lower()
        if wanted != self._issuer.authority.fingerprint:
            raise _Problem(404, "this CA has no root with that fingerprint")
        return _answer(200, RootResponse(self._issuer.authority.root_pem.decode()))

    async def _sign(self, request: Request) -> Response:
        """A caller with wrong tokens is told to wait. A valid one is accepted all the same: signatures cannot be
        guessed, and somebody else may be behind the same address."""
        source = source_of(request.client.host) if request.client else ""
        try:
            return await self._sign_once(request)
        except PeerError:
            wait_s = self._limiter.wait_s(source, self._clock())
            self._limiter.failed(source, self._clock())
            if wait_s:
                problem = "too many failed attempts from this address"
                raise _Problem(429, problem, wait_s=round(wait_s + 0.5)) from None
            raise

    async def _sign_once(self, request: Request) -> Response:
        try:
            asked = msgspec.json.decode(await _body(request), type=SignRequest)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise _Problem(400, 'the body is not {"csr": PEM, "ott": TOKEN}') from None
        # In a thread: a spent token is synced to the disk before the certificate is made.
        chain = await run_in_threadpool(
            self._issuer.sign_untrusted, asked.csr.encode("utf-8", "replace"), asked.ott, self._clock()
        )
        return _signed(chain)

    async def _renew(self, request: Request) -> Response:
        der = request.scope.get(PEER_CERTIFICATE)
        if der is None:
            raise _Problem(400, "renewing needs the current certificate as client certificate of the connection")
        certificate = read_certificate_untrusted(der)
        return _signed(await run_in_threadpool(self._issuer.renew_untrusted, certificate, self._clock()))

    def _guarded(self, handle: Handler) -> Handler:
        """Refusals in step-ca's form."""

        async def handle_guarded(request: Request) -> Response:
            try:
                return await handle(request)
            except StorageError as error:
                self._on_failed(error)
                return _refusal(500, "the CA itself has a problem, which its log names")
            except WeftError as error:
                return _refusal(_status(error), str(error))

        return handle_guarded


def _status(error: WeftError) -> int:
    match error:
        case _Problem():
            return error.status
        case TokenRefused() | CertificateRefused():
            return 401
        case RequestRefused():
            return 403
        case _:
            return 400


async def _body(request: Request) -> bytes:
    data = bytearray()
    try:
        async for piece in request.stream():
            data += piece
            if len(data) > CA_BODY_BYTES_MAX:
                raise _Problem(413, "the body is too large", limit=CA_BODY_BYTES_MAX)
    except ClientDisconnect:
        raise _Problem(400, "the body ended early") from None
    return bytes(data)


def _signed(chain_pem: bytes) -> Response:
    chain = [to_pem([each]).decode() for each in read_chain_untrusted(chain_pem)]
    return _answer(201, SignResponse(chain[0], chain[1], chain))


def _refusal(status: int, message: str) -> Response:
    return _answer(status, ErrorResponse(status, message))


def _answer(status: int, document: Any) -> Response:
    return Response(msgspec.json.encode(document), status, media_type=JSON)
