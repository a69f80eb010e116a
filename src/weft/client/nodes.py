"""The nodes a client knows, a channel to each that is in use, and calls that go to the next node when one fails."""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import IO, Any, Final, TypeVar

from google.protobuf.message import Message

from weft.client.backoff import AddressBook, Backoff, Draw
from weft.client.errors import RETRYABLE, Unavailable, error_of_call, parsed_untrusted
from weft.client.hooks import LOG, Hooks, notify
from weft.client.options import ClientTls, Options, TlsFiles
from weft.client.tracing import Tracing
from weft.errors import UsageError, WeftError
from weft.limits import BATCH_BYTES_MAX
from weft.transport.addresses import parse_address
from weft.transport.grpc.calls import ClientCall
from weft.transport.grpc.channel import Channel, ChannelSettings, ChannelTls, Unreachable
from weft.transport.http2.endpoint import EndpointSettings
from weft.transport.http2.tls import for_http2
from weft.wire.http2 import CLIENT_SETTINGS
from weft.wire.rpc import Metadata, RpcError

CLIENT_FRAME_BYTES_MAX: Final = 2 * BATCH_BYTES_MAX  # a delivery gathers batches, and the last one may have any size
R = TypeVar("R", bound=Message)


class NoNodeAnswers(Unavailable):
    """No node answers in time. ``troubles``: what is wrong with each node that was tried, by address."""

    def __init__(self, what: str, troubles: Mapping[str, str] | None = None, **facts: object) -> None:
        super().__init__(what, **facts)
        self.troubles: Final = troubles or {}


class Nodes:
    """Which nodes to use. After losing a node, ask ``attempts`` for the next one to try."""

    def __init__(
        self,
        given: Sequence[str],
        *,
        tls: ClientTls | TlsFiles | None,
        token: str | None,
        name: str,
        options: Options,
        hooks: Hooks,
        chance: Draw,
        learns: bool = True,
    ) -> None:
        self.book: Final = AddressBook(given, learns=learns)
        self.options: Final = options
        self.hooks: Final = hooks
        self.tracing: Final = Tracing.if_configured()
        self.metadata: Final[Metadata] = (("authorization", f"Bearer {token}"),) if token else ()
        self.last_good: str | None = None  # the node that last served something is asked first again
        self._tls = tls
        self._chance = chance
        self._channels: dict[str, Channel] = {}
        self._settings = ChannelSettings(
            EndpointSettings(
                replace(CLIENT_SETTINGS, message_bytes_max=CLIENT_FRAME_BYTES_MAX),
                keepalive_s=options.keepalive_s,
                keepalive_timeout_s=options.keepalive_s / 2,
            ),
            connect_timeout_s=options.open_timeout_s,
            user_agent=user_agent(name),
        )

    def channel(self, address: str) -> Channel:
        """Return the channel to a node. It connects when it is first used, and again after a loss. Each time it uses
        the certificates that are current then."""
        channel = self._channels.get(address)
        if channel is None:
            host, port = parse_address(address)
            tls = None if self._tls is None else lambda: self._channel_tls(host)
            channel = self._channels[address] = Channel(host, port, self._settings, tls)
        return channel

    def _channel_tls(self, host: str) -> ChannelTls:
        tls = self._tls.read() if isinstance(self._tls, TlsFiles) else self._tls
        assert tls is not None, "asked for TLS only"
        return ChannelTls(client_context(tls), host)

    async def open(self, address: str, method: str) -> ClientCall:
        """Begin a call to this node; raise what is wrong with the node."""
        try:
            return await self.channel(address).call(method, self.metadata)
        except RpcError as error:
            raise error_of_call(error, node=address) from None

    async def open_standing(self, address: str, method: str) -> ClientCall:
        """Do the same for a call that stays open, as subscriptions do. UsageError if the connection has too many of
        them."""
        try:
            return await self.channel(address).stream(method, self.metadata)
        except RpcError as error:
            raise error_of_call(error, node=address) from None

    def backoff(self) -> Backoff:
        return Backoff(self.options.backoff_s_min, self.options.backoff_s_max, self._chance)

    def attempts(
        self, purpose: str, backoff: Backoff, preferred: str | None = None, avoided: str | None = None
    ) -> Attempts:
        return Attempts(self, purpose, backoff, preferred, avoided)

    async def connect(self) -> str:
        """Return the address of the first node that answers. Raise Unavailable if none answers in time, or if waiting
        cannot help."""
        troubles: dict[str, str] = {}
        waits = {asyncio.create_task(self._ready(address, troubles)) for address in self.book.all()}
        try:
            async with asyncio.timeout(self.options.connect_timeout_s):
                for first in asyncio.as_completed(waits):
                    if (answered := await first) is not None:
                        self.last_good = answered
                        return answered
        except TimeoutError:
            pass
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        reasons = "; ".join(f"{address}: {trouble}" for address, trouble in troubles.items())
        raise NoNodeAnswers(
            f"no node answers ({reasons})" if reasons else "no node answers",
            troubles,
            nodes=", ".join(self.book.all()),
            waited_s=self.options.connect_timeout_s,
        )

    async def _ready(self, address: str, troubles: dict[str, str]) -> str | None:
        """Return the address once the node answers. Return None if its certificate is not valid: waiting cannot change
        that."""
        backoff = self.backoff()
        while True:
            try:
                await self.channel(address).connect()
                return address
            except Unreachable as error:
                troubles[address] = error.what
                if "verify_code" in error.facts:
                    return None
            backoff.failed()
            await asyncio.sleep(backoff.delay_s())

    async def call(self, method: str, request: Any, reply_type: Any, check: Callable[[Any], None] | None = None) -> Any:
        """Ask for one answer to one request, from any node; ``check`` raises the refusal in a reply."""
        backoff = self.backoff()
        attempts = self.attempts(method.rpartition("/")[2].lower(), backoff, self.last_good)
        last: WeftError | None = None
        try:
            async with asyncio.timeout(self.options.call_timeout_s):
                while True:
                    address = await attempts.next(last)
                    try:
                        reply = await self.call_one(address, method, request, reply_type)
                        if check is not None:
                            check(reply)
                    except RETRYABLE as error:
                        last = error
                        continue
                    self.last_good = address
                    return reply
        except TimeoutError:
            if last is not None and not isinstance(last, Unavailable):
                raise last from None
            raise Unavailable(
                f"no node answered {method}", waited_s=self.options.call_timeout_s, last=last or "no answer"
            ) from None

    async def close(self) -> None:
        channels = list(self._channels.values())
        self._channels.clear()
        for channel in channels:
            channel.close()
        for channel in channels:
            await channel.wait_closed()

    async def call_one(
        self, address: str, method: str, request: Message, reply_type: type[R], timeout_s: float | None = None
    ) -> R:
        """Ask this node, and raise what is wrong with it. ``timeout_s`` None: as long as opening a stream may take."""
        try:
            data = await self.channel(address).unary(
                method,
                request.SerializeToString(),
                self.metadata,
                self.options.open_timeout_s if timeout_s is None else timeout_s,
            )
        except RpcError as error:
            raise error_of_call(error, node=address) from None
        return parsed_untrusted(reply_type, data, address)


def user_agent(name: str) -> str:
    """What nodes see as the client's name. Characters that HTTP cannot carry become question marks."""
    return f"weft {name}".strip().encode("ascii", "replace").decode()[:256]


def client_context(tls: ClientTls) -> ssl.SSLContext:
    """Raise UsageError if the certificates cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=tls.root.decode())
    except (ssl.SSLError, ValueError) as error:
        raise UsageError(f"no certificates to trust: {error}") from None
    if tls.certificate is not None and tls.key is not None:
        _load_identity(context, tls.certificate, tls.key)
    return for_http2(context)


def _load_identity(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Python's ssl loads certificates from files only, so this uses a file in memory, or one that is deleted at
    once."""
    with ExitStack() as opened:
        if hasattr(os, "memfd_create"):
            file: IO[bytes] = opened.enter_context(os.fdopen(os.memfd_create("weft"), "wb"))
            path = f"/proc/self/fd/{file.fileno()}"
        else:
            file = opened.enter_context(tempfile.NamedTemporaryFile())
            path = file.name
        file.write(key + b"\n" + certificate)
        file.flush()
        try:
            context.load_cert_chain(path)
        except ssl.SSLError as error:
            raise UsageError(f"the client certificate and its key cannot be used: {error}") from None


class Attempts:
    """Addresses to try: all known ones one after the other, then, after a wait, all of them again, and so on for
    ever."""

    def __init__(
        self, nodes: Nodes, purpose: str, backoff: Backoff, preferred: str | None, avoided: str | None
    ) -> None:
        self._nodes = nodes
        self._purpose = purpose
        self._backoff = backoff
        self._preferred = preferred
        self._avoided = avoided
        self._round: list[str] = []
        self._begun = False

    async def next(self, reason: object) -> str:
        """The next address. ``reason``, for logs and hooks, says why it is needed."""
        if not self._round:
            if self._begun:
                self._backoff.failed()
            self._begun = True
            delay_s = self._backoff.delay_s()
            if self._backoff.failures:
                LOG.info("%s: trying again in %.2f s: %s", self._purpose, delay_s, reason)
                notify(self._nodes.hooks.on_retry, self._purpose, delay_s, str(reason))
                await asyncio.sleep(delay_s)
            self._round = self._nodes.book.round(self._preferred, self._avoided)
        return self._round.pop(0)
