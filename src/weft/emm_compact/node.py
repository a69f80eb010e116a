"""An EMM-C node on a UDP socket, on QUIC, or on both: the session with a clock, chance and asyncio around it."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from weft.datagram_node import Instant
from weft.emm_compact.event import Command, Event, Figures, Neighbour, NeighbourChange, Refusal
from weft.emm_compact.session import CompactSession
from weft.emm_compact.settings import Settings
from weft.errors import PeerError, UsageError
from weft.limits import EMC_PACKET_BYTES_MAX
from weft.transport.open_node import DatagramNode, HostAndPort, OpenNode, Ways
from weft.transport.quic import Shown, show_any
from weft.wire import emm_compact as wire
from weft.wire.emm_compact import Format, Handler, KeyRing, Notification, Priority, Signer
from weft.wire.reject import BadPacket
from weft.wire.udp import Address, Datagram

EMC_JOIN_TIMEOUT_S: Final = 10.0  # four joins, if three are lost


class NoAnswer(PeerError):
    """A node did not answer in time: it does not run, does not know our key, or has no room for us."""


class Node(DatagramNode["_Opened"]):
    """One node of an EMM-C mesh.

    ``async with`` opens and closes it. ``join`` addresses are asked for a relationship from the start, and again
    whenever it is lost. With ``quic`` and ``certificate`` it listens for QUIC, too; with ``listen=None`` it does
    without UDP. ``on_change`` hears of neighbours that come and go, ``on_unhandled`` of commands that nobody
    registered, ``on_refused`` of every datagram that was not taken.
    """

    def __init__(
        self,
        node_id: UUID,
        signer: Signer,
        keys: KeyRing,
        *,
        listen: HostAndPort | None = ("127.0.0.1", 0),
        join: Iterable[HostAndPort] = (),
        quic: HostAndPort | None = None,
        certificate: Shown | None = None,
        settings: Settings | None = None,
        on_change: Callable[[NeighbourChange], None] = lambda _: None,
        on_unhandled: Callable[[Command], None] = lambda _: None,
        on_refused: Callable[[Refusal], None] = lambda _: None,
    ) -> None:
        super().__init__(Ways(listen, quic, certificate), join)
        self.node_id = node_id
        self._signer = signer
        self._keys = keys
        self._settings = Settings() if settings is None else settings
        self._on_change = on_change
        self._on_unhandled = on_unhandled
        self._on_refused = on_refused
        self._handlers: dict[str, Handler] = {}

    async def _start(self) -> _Opened:
        def event_id() -> int:
            return secrets.randbits(16)

        session = CompactSession(
            self.node_id, self._signer, self._keys, self._settings, _now(), event_id, self._on_refused
        )
        opened = _Opened(session, self._handlers, self._on_change, self._on_unhandled)
        await opened.open(self._ways, EMC_PACKET_BYTES_MAX)
        return opened

    # --- neighbours ----------------------------------------------------------------------------------------------

    @property
    def relationships(self) -> tuple[Neighbour, ...]:
        """The neighbours that events are sent to."""
        return tuple(self._open.session.relationships)

    @property
    def known(self) -> tuple[Neighbour, ...]:
        """Neighbours, former neighbours and those for which there was no room, with what it takes to join them
        again."""
        return self._open.session.relationships.known()

    async def join(self, address: HostAndPort, timeout_s: float = EMC_JOIN_TIMEOUT_S) -> Neighbour:
        """Ask for a relationship and wait for it. NoAnswer after ``timeout_s``, but the node keeps asking."""
        return await self._joined(await self._open.resolve(*address), timeout_s)

    async def join_quic(
        self, address: HostAndPort, root_pem: bytes, timeout_s: float = EMC_JOIN_TIMEOUT_S
    ) -> Neighbour:
        """The same over QUIC, with a node that has a certificate for that host from that root; PeerError if there is
        none.

        After the first success, the connection is made again whenever it ends, until the node is closed.
        """
        return await self._joined(await self._open.join_quic(address, root_pem, timeout_s), timeout_s)

    async def _joined(self, target: Address, timeout_s: float) -> Neighbour:
        opened = self._open
        opened.seek(target)
        try:
            return await opened.until(lambda: opened.session.relationships.at(target), timeout_s)
        except TimeoutError:
            raise NoAnswer(f"no answer from {show_any(target)}", timeout_s=timeout_s) from None

    def drop(self, node_id: UUID) -> bool:
        """Part with a neighbour and refuse it for ten minutes; whether it was one."""
        opened = self._open
        dropped = opened.session.drop(node_id, _now())
        opened.work()
        return dropped is not None

    def rate_per_s(self, neighbour: Neighbour) -> float:
        """How many datagrams a second may go to a neighbour: less after congestion (EMC-14)."""
        return self._open.session.rate_per_s(neighbour, _now())

    def use_keys(self, keys: KeyRing, signer: Signer | None = None) -> None:
        """Believe other keys from now on, and sign with others if they are given. Relationships stay (EMC-05)."""
        self._keys = keys
        self._signer = self._signer if signer is None else signer
        if self._opened is not None:
            self._opened.session.ring = keys
            self._opened.session.signer = self._signer

    @property
    def figures(self) -> Figures:
        return self._open.session.figures

    # --- events --------------------------------------------------------------------------------------------------

    async def publish(
        self,
        message: str | bytes,
        *,
        priority: Priority = Priority.INFO,
        message_format: Format | None = None,
        urgent: bool = False,
        ttl: int | None = None,
    ) -> int:
        """Send a notification to all neighbours, who pass it on. Return to how many it was sent. It is not
        acknowledged.

        A str is plain text and bytes are binary, unless ``message_format`` says otherwise. Waits while no neighbour has
        room. UsageError if it does not fit a packet: 219 bytes at most.
        """
        if message_format is None:
            message_format = Format.PLAIN_TEXT if isinstance(message, str) else Format.BINARY
        content = message.encode() if isinstance(message, str) else message
        return await self._send(Notification(priority, message_format, content), urgent, ttl)

    async def events(self) -> AsyncIterator[Event]:
        """Events of other nodes, each once, urgent ones first, until the node is closed.

        There is one queue: two loops over it share the events. What finds it full is lost, and counted as ``unread``.
        """
        opened = self._open
        while not opened.turns.is_closed:
            event = opened.session.next_event()
            if event is None:
                await opened.turns.changed()
            else:
                yield event

    async def _send(self, body: Notification | wire.Command, urgent: bool, ttl: int | None) -> int:
        opened = self._open
        await asyncio.sleep(0)  # or a loop that publishes would leave no time to receive, or to join
        while not opened.session.has_room(body.TYPE, urgent):
            await opened.turns.changed()
            opened.check()
        sent_to = opened.session.publish(body, urgent, ttl, _now())
        opened.work()
        return sent_to

    # --- commands ------------------------------------------------------------------------------------------------

    def on_command(
        self, name: str, check: Callable[[bytes], Any] = bytes
    ) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
        """A decorator: run the function for commands of that name that a known node has signed (EMC-07).

        ``check`` turns the parameters into the function's argument and refuses bad ones with a ValueError, as
        ``msgspec.json.Decoder(Type).decode`` does. Commands nobody registered are sent on, and otherwise ignored.
        """

        def register(run: Callable[[Any], None]) -> Callable[[Any], None]:
            if name in self._handlers:
                raise UsageError("there is a handler for that command already", command=name)
            self._handlers[name] = Handler(check, run)
            return run

        return register

    async def command(
        self,
        name: str,
        parameters: bytes = b"",
        *,
        urgent: bool = False,
        ttl: int | None = None,
        priority: Priority | None = None,
        expiry_s: int | None = None,
        trace_id: UUID | None = None,
        compress: bool = False,
    ) -> int:
        """Send a command to all neighbours, who pass it on. Return to how many it was sent. There is no answer. Nodes
        neither obey it nor pass it on once it is older than ``expiry_s`` whole seconds, 255 at most.
        """
        body = wire.draft_command(
            name,
            parameters,
            self.node_id,
            priority=priority,
            expiry_s=expiry_s,
            trace_id=trace_id,
            compress=compress,
        )
        return await self._send(body, urgent, ttl)


class _Opened(OpenNode):
    """The session on UDP and QUIC."""

    def __init__(
        self,
        session: CompactSession,
        handlers: dict[str, Handler],
        on_change: Callable[[NeighbourChange], None],
        on_unhandled: Callable[[Command], None],
    ) -> None:
        super().__init__()
        self.session = session
        self._handlers = handlers
        self._on_change = on_change
        self._on_unhandled = on_unhandled

    def seek(self, target: Address) -> None:
        self.session.join(target, _now())
        self.work()

    def work(self) -> None:
        """Do what the session wants done, and look again when it says."""
        for each in self.session.datagrams_to_send(_now()):
            self.send(each)
        while (command := self.session.next_command()) is not None:
            self._obey(command)
        while (change := self.session.next_change()) is not None:
            self._tell(change)
        self.turns.happened(self.session.get_timer())

    def on_datagrams(self, datagrams: Sequence[Datagram]) -> None:
        self.session.receive_datagrams(datagrams, _now())
        self.work()

    def on_gone(self, address: Address) -> None:
        self.session.gone(address)
        self.work()

    def on_timer(self) -> None:
        if self.udp is not None:
            self.session.note_overflow(self.udp.overflowed)
        self.session.handle_timer(_now())
        self.work()

    def _obey(self, command: Command) -> None:
        try:
            if not wire.execute_untrusted(command.packet, self.session.ring, self._handlers):
                self._on_unhandled(command)
        except BadPacket as refusal:
            self.session.figures.rejected[refusal.reason] += 1
        except Exception as error:
            self.failed("an EMM-C command's handler failed", error)

    def _tell(self, change: NeighbourChange) -> None:
        try:
            self._on_change(change)
        except Exception as error:
            self.failed("an EMM-C node's on_change failed", error)


def _now() -> Instant:
    return Instant(asyncio.get_running_loop().time(), time.time())
