"""How a node's connections are protected: plain text on loopback, or certificates and keys, which are kept up to
date."""

from __future__ import annotations

import asyncio
import secrets
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Any, Final

from structlog.stdlib import BoundLogger

from weft.doors import Door
from weft.errors import UsageError, WeftError
from weft.limits import SECURITY_RELOAD_INTERVAL_S
from weft.model import NodeId
from weft.node.config import NodeConfig
from weft.node.enrolling import Settled, settle_client, settle_credentials
from weft.node.first_key import FirstKey
from weft.node.key_sharing import KeySharing, KeySurroundings, SharingSettings
from weft.node.refusals import Refusals
from weft.node.wiring import link_settings
from weft.port.access import KeyAccess, OpenAccess
from weft.security import (
    SALT_BYTES,
    SECRET_BYTES,
    Authenticator,
    Authority,
    Credentials,
    KeyStore,
    Rotation,
    Secret,
)
from weft.security.authority import ROOT_KEY_ADVICE
from weft.security.ca.server import CaServer
from weft.security.key_statements import Verifier
from weft.security.notary import CertificateNotary, NoNotary
from weft.transport.http2.tls import for_http2
from weft.transport.peers.gate import PlainGate, TlsGate
from weft.transport.tcp.tls import server_context

CACHE_KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class ClientFiles:
    """What a client on this machine needs, for a context. The key is there until somebody says that it was stored."""

    root: Path
    identity: Path  # certificate and private key
    key: Secret[str] | None
    first_key: FirstKey


class Plain:
    """No protection at all."""

    def look(self) -> None:
        """Do nothing: without keys, no caller can lose its rights."""

    def __init__(self, config: NodeConfig) -> None:
        self.gate = PlainGate(link_settings(config))
        self.notary = NoNotary()
        self.access = OpenAccess()
        self.keys: KeySharing | None = None
        self.client: ClientFiles | None = None
        self.ca_address = ""
        self.renewals = self.renewal_failures = 0

    grpc_context = None  # TLS for gRPC: none

    def web_context(self) -> ssl.SSLContext:
        raise AssertionError("without certificates there is no TLS")

    async def start(self, renewed: Callable[[], None], ca_door: Door) -> None:
        pass

    async def stop(self) -> None:
        pass

    def expires_in_s(self) -> float | None:
        return None


class Secured:
    """TLS with certificates on both sides, API keys for clients."""

    def __init__(
        self,
        config: NodeConfig,
        settled: Settled,
        client: _Client | None,
        keys: KeyStore,
        refusals: Refusals,
        logger: BoundLogger,
    ) -> None:
        self.client = None if client is None else client.files
        self.ca_address = ""
        self.renewals = 0
        self.renewal_failures = 0
        self._config = config
        self._authority = settled.authority
        self._logger = logger
        self._renewed: Callable[[], None]
        self._keys = keys
        self._key_problem: str | None = None
        self._parts = AsyncExitStack()
        self._identity_file = settled.store.identity_file
        self._made: _Contexts | None = None
        self._rotation = self._rotation_of(settled, self._on_renewed)
        self._client_rotation = None if client is None else self._rotation_of(client.settled, _nothing_to_do)
        expected = {str(peer.address): peer.node_id for peer in config.peers if peer.node_id is not None}
        self.gate = TlsGate(link_settings(config), config.node.mesh, self.certificate, self._identity_file, expected)
        self.notary = CertificateNotary(config.node.mesh, self.certificate, time.time)
        authenticator = Authenticator(
            self._keys, secrets.token_bytes(CACHE_KEY_BYTES), clock=time.monotonic, wall_clock=time.time
        )
        self.keys: KeySharing | None = self._share_keys(refusals)
        required = config.security.client_certificates == "required"
        self.access = KeyAccess(authenticator, config.node.mesh, refusals.call, required)

    def _share_keys(self, refusals: Refusals) -> KeySharing:
        config = self._config
        makers = frozenset(config.keys.makers) or None
        verifier = Verifier(config.node.mesh, lambda: self.certificate().root_pem, makers)
        settings = SharingSettings(config.keys.unheard_s_max, bool(config.peers))
        around = KeySurroundings(time.monotonic, time.time, SystemRandom(), self._logger)
        return KeySharing(self._keys, config.node.data, self.certificate, verifier, settings, around)

    @classmethod
    async def prepare(
        cls, config: NodeConfig, node_id: NodeId, token: Secret[str] | None, refusals: Refusals, logger: BoundLogger
    ) -> Secured:
        """Put everything on disk that the node needs for this; raise WeftError, which says what somebody has to do."""
        settled = await asyncio.to_thread(settle_credentials, config, node_id, token, time.time())
        client = None
        if settled.authority is not None:
            client = await asyncio.to_thread(_prepare_client, config.node.data, settled.authority)
            _ask_for_root_key(settled.authority, logger)
        keys = await asyncio.to_thread(KeyStore, config.node.data)
        return cls(config, settled, client, keys, refusals, logger)

    def server_context(self) -> ssl.SSLContext:
        """TLS for protocols other than gRPC, with the current certificate; clients may show theirs."""
        return self._contexts.plain

    def grpc_context(self) -> ssl.SSLContext:
        """The same for gRPC. A renewed certificate counts from the next connection on; existing connections stay."""
        return self._contexts.http2

    def web_context(self) -> ssl.SSLContext:
        """The same for browsers, which are not asked for a certificate."""
        return self._contexts.web

    @property
    def _contexts(self) -> _Contexts:
        current = self._rotation.current
        if self._made is None or self._made.of is not current:
            make = partial(server_context, self._identity_file, current.root_pem)
            http2 = for_http2(make())
            if self._config.security.client_certificates == "required":
                http2.verify_mode = ssl.CERT_REQUIRED
            self._made = _Contexts(current, make(), http2, server_context(self._identity_file))
        return self._made

    def certificate(self) -> Credentials:
        """This node's own, current credentials."""
        return self._rotation.current

    # --- while the node runs -------------------------------------------------------------------------------------

    async def start(self, renewed: Callable[[], None], ca_door: Door) -> None:
        """``renewed`` is called when this node has a new certificate."""
        self._renewed = renewed
        self._run(self._rotation.run())
        assert self.keys is not None, "made with the node"
        self._parts.push_async_callback(self.keys.close)
        self._run(self.keys.keep())
        self._run(self.keys.listen())
        self._run(self._look_after_keys())
        if self._client_rotation is not None:
            self._run(self._client_rotation.run())
        if self._config.listen.ca is not None:
            await self._serve_authority(ca_door)

    async def stop(self) -> None:
        await self._parts.aclose()

    def expires_in_s(self) -> float | None:
        return self._rotation.expires_in_s()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(_tell_defect)
        self._parts.push_async_callback(_ended, task)

    def look(self) -> None:
        """End the streams of callers whose keys are no longer valid."""
        self.access.look()

    async def _look_after_keys(self) -> None:
        while True:
            await asyncio.sleep(SECURITY_RELOAD_INTERVAL_S)
            self.look()
            if self._keys.problem not in (None, self._key_problem):
                self._logger.error("keys_unreadable", reason=self._keys.problem)
            self._key_problem = self._keys.problem

    async def _serve_authority(self, door: Door) -> None:
        wanted = self._config.listen.ca
        assert wanted is not None, "asked for"
        if self._authority is None:
            raise UsageError(f"there is no CA in {self._config.node.data} to serve on {wanted} (listen.ca)")
        server = CaServer(self._authority, wanted.host, wanted.port, time.time, self._ca_failed, door)
        await server.start()
        self._parts.push_async_callback(server.stop)
        self.ca_address = str(wanted._replace(port=server.port))

    def _ca_failed(self, error: WeftError) -> None:
        self._logger.error("ca_problem", reason=str(error))

    # --- renewal -------------------------------------------------------------------------------------------------

    def _rotation_of(self, settled: Settled, on_renewed: Callable[[Credentials], Awaitable[None]]) -> Rotation:
        return Rotation(
            settled.store,
            settled.source,
            settled.current,
            clock=time.time,
            chance=SystemRandom().random,
            on_renewed=on_renewed,
            on_failed=self._on_failed,
        )

    async def _on_renewed(self, fresh: Credentials) -> None:
        self.renewals += 1
        self._logger.info("certificate_renewed", expires_in_s=round(fresh.end_s - time.time()))
        self._renewed()

    def _on_failed(self, error: WeftError) -> None:
        self.renewal_failures += 1
        self._logger.warning(
            "certificate_renewal_failed", reason=str(error), expires_in_s=round(self._rotation.expires_in_s())
        )


Protection = Plain | Secured


@dataclass(frozen=True, slots=True)
class _Contexts:
    """TLS with one certificate, for each kind of listener."""

    of: Credentials
    plain: ssl.SSLContext
    http2: ssl.SSLContext
    web: ssl.SSLContext


@dataclass(frozen=True, slots=True)
class _Client:
    settled: Settled
    files: ClientFiles


def _prepare_client(data: Path, authority: Authority) -> _Client:
    client = settle_client(data, authority, time.time())
    first_key = FirstKey(data, client.store.directory)
    key = first_key.settle(secrets.token_bytes(SECRET_BYTES + SALT_BYTES), time.time())
    return _Client(client, ClientFiles(client.store.root_file, client.store.identity_file, key, first_key))


def _ask_for_root_key(authority: Authority, logger: BoundLogger) -> None:
    file = authority.root_key_file
    if file.exists():
        logger.info("root_key_here", advice=ROOT_KEY_ADVICE.format(file=file))


async def _nothing_to_do(fresh: Credentials) -> None:
    """Clients read the file when they next connect."""


def _tell_defect(task: asyncio.Task[None]) -> None:
    """Report the error of a task, if it has one. Faults of a CA or a disk are WeftErrors and were handled, so this is a
    bug and must not go unnoticed."""
    if not task.cancelled() and (error := task.exception()) is not None:
        task.get_loop().call_exception_handler({"message": "security", "exception": error, "task": task})


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
