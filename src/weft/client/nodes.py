"""The nodes a client knows, a channel to each that is in use, and calls that go to the next node when one fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc

from weft.client.background import begin
from weft.client.backoff import AddressBook, Backoff, Chance
from weft.client.errors import RETRYABLE, Unavailable, error_of_status
from weft.client.hooks import LOG, Hooks, notify
from weft.client.options import ClientTls, Options, TlsFiles
from weft.client.tracing import Tracing
from weft.errors import WeftError
from weft.limits import CLIENT_FRAME_BYTES_MAX

RETIRED_S: Final = 30 * 24 * 3600.0  # what was open on a channel with an old certificate may go on for a month

Metadata = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class _Dialled:
    channel: grpc.aio.Channel
    tls: ClientTls | None


class Nodes:
    """Where to go. Who lost a node asks ``attempts`` for the next one to try."""

    def __init__(
        self,
        given: Sequence[str],
        *,
        tls: ClientTls | TlsFiles | None,
        token: str | None,
        name: str,
        options: Options,
        hooks: Hooks,
        chance: Chance,
        learns: bool = True,
    ) -> None:
        self.book: Final = AddressBook(given, learns=learns)
        self.options: Final = options
        self.hooks: Final = hooks
        self.tracing: Final = Tracing.if_configured()
        self.metadata: Final[Metadata] = (("authorization", f"Bearer {token}"),) if token else ()
        self.last_good: str | None = None  # the node that served something last is the first to be asked again
        self._tls = tls
        self._name = name
        self._chance = chance
        self._channels: dict[str, _Dialled] = {}
        self._retired: dict[asyncio.Task[None], grpc.aio.Channel] = {}  # they serve what was open, and nothing new

    def channel(self, address: str) -> grpc.aio.Channel:
        """With the certificates of now: gRPC cannot change those of a channel."""
        tls = self._tls.read() if isinstance(self._tls, TlsFiles) else self._tls
        dialled = self._channels.get(address)
        if dialled is None or dialled.tls != tls:
            if dialled is not None:
                self._retire(dialled.channel)
            dialled = self._channels[address] = _Dialled(self._dial(address, tls), tls)
        return dialled.channel

    def _retire(self, channel: grpc.aio.Channel) -> None:
        task = begin(asyncio.get_running_loop(), channel.close(RETIRED_S))
        self._retired[task] = channel
        task.add_done_callback(lambda _: self._retired.pop(task, None))

    def backoff(self) -> Backoff:
        return Backoff(self.options.backoff_s_min, self.options.backoff_s_max, self._chance)

    def attempts(
        self, purpose: str, backoff: Backoff, preferred: str | None = None, avoided: str | None = None
    ) -> Attempts:
        return Attempts(self, purpose, backoff, preferred, avoided)

    async def connect(self) -> str:
        """The first node that answers, or Unavailable after the time for that."""
        waits = {asyncio.create_task(self._ready(address)) for address in self.book.all()}
        try:
            done, _ = await asyncio.wait(
                waits, timeout=self.options.connect_timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        if not done:
            raise Unavailable(
                f"no node answers{self._certificate_fault()}",
                nodes=", ".join(self.book.all()),
                waited_s=self.options.connect_timeout_s,
            )
        self.last_good = done.pop().result()
        return self.last_good

    async def call(self, method: str, request: Any, reply_type: Any, check: Callable[[Any], None] | None = None) -> Any:
        """One answer to one request, from whichever node gives it; ``check`` raises what a reply refuses."""
        backoff = self.backoff()
        attempts = self.attempts(method.rpartition("/")[2].lower(), backoff, self.last_good)
        last: WeftError | None = None
        try:
            async with asyncio.timeout(self.options.call_timeout_s):
                while True:
                    address = await attempts.next(last)
                    try:
                        reply = await self._call_once(address, method, request, reply_type)
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
        for dialled in self._channels.values():
            await dialled.channel.close()
        self._channels.clear()
        for task, channel in list(self._retired.items()):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await channel.close()

    def _certificate_fault(self) -> str:
        """gRPC does not say why a node refuses a certificate: the usual reason is looked for here."""
        tls = self._tls.read() if isinstance(self._tls, TlsFiles) else self._tls
        if tls is None:
            return ""
        if tls.certificate is None:
            return ": nodes want a client certificate, and there is none"
        from weft.security.certificates import read_chain_untrusted  # loads a good deal, for those in trouble only
        from weft.security.verification import check_time

        try:
            check_time(read_chain_untrusted(tls.certificate)[0], time.time())
        except WeftError as error:
            return f": {error}"
        return ""

    async def _call_once(self, address: str, method: str, request: Any, reply_type: Any) -> Any:
        call = self.channel(address).unary_unary(
            method, request_serializer=type(request).SerializeToString, response_deserializer=reply_type.FromString
        )
        try:
            return await call(request, metadata=self.metadata, timeout=self.options.open_timeout_s)
        except grpc.aio.AioRpcError as error:
            raise status_error(error, address) from None

    async def _ready(self, address: str) -> str:
        await self.channel(address).channel_ready()
        return address

    def _dial(self, address: str, tls: ClientTls | None) -> grpc.aio.Channel:
        options = [
            ("grpc.max_send_message_length", CLIENT_FRAME_BYTES_MAX),
            ("grpc.max_receive_message_length", CLIENT_FRAME_BYTES_MAX),
            # We wait ourselves, with jitter; gRPC's own second of waiting would come on top of that.
            ("grpc.initial_reconnect_backoff_ms", 50),
            ("grpc.min_reconnect_backoff_ms", 1000),  # also the time a connection attempt may take
            ("grpc.max_reconnect_backoff_ms", 1000),
            ("grpc.use_local_subchannel_pool", 1),  # another client's failures are not ours
            ("grpc.keepalive_time_ms", int(self.options.keepalive_s * 1000)),
            ("grpc.keepalive_timeout_ms", int(self.options.keepalive_s * 500)),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.primary_user_agent", f"weft {self._name}".strip()),
        ]
        if tls is None:
            return grpc.aio.insecure_channel(address, options=options)
        credentials = grpc.ssl_channel_credentials(tls.root, tls.key, tls.certificate)
        return grpc.aio.secure_channel(address, credentials, options=options)


def status_error(error: grpc.aio.AioRpcError, address: str) -> WeftError:
    return error_of_status(error.code(), str(error.details() or ""), error.trailing_metadata(), node=address)


class Attempts:
    """Addresses to try, one after the other: every known one at once, then again after a wait, without end."""

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
        """The next address; ``reason`` is why there is a next one, for logs and hooks."""
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
