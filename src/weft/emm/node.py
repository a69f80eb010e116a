"""An EMM node on a UDP socket, on QUIC, or on both: the session with a clock, chance and asyncio around it."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from weft.datagram_node import Change, Instant
from weft.emm.event import Event, Figures, Refusal
from weft.emm.neighbours import Neighbour
from weft.emm.session import EmmSession
from weft.emm.settings import Settings
from weft.errors import PeerError, UsageError
from weft.transport.open_node import DatagramNode, HostAndPort, OpenNode, Ways
from weft.transport.quic import Shown, show_any
from weft.wire.emm import Credentials, TrustStore, Verdict
from weft.wire.emm.fields import Value
from weft.wire.udp import Address, Datagram

EMM_JOIN_TIMEOUT_S: Final = 5.0  # for the answer to a Hello: three of them can be lost


Handler = Callable[[Event], None]


class NoAnswer(PeerError):
    """Nobody answered a Hello. The node keeps saying Hello; only this call stops waiting."""


class Node(DatagramNode["_Opened"]):
    """One node that speaks EMM.

    ``async with`` opens and closes it. ``join`` addresses are greeted from the start, and again whenever nobody is
    there. ``credentials`` sign what it sends; ``trust`` has the keys of others; ``seal_keys``, by ids of 16 bytes, are
    what payloads are encrypted with (``Settings.seal`` says which). With ``quic`` and ``certificate`` it listens for
    QUIC, too; with ``listen=None`` it does without UDP. ``on_change`` hears of neighbours that come and go,
    ``on_refused`` of every datagram that is not taken.
    """

    def __init__(
        self,
        node_id: UUID,
        credentials: Credentials | None,
        trust: TrustStore,
        *,
        listen: HostAndPort | None = ("127.0.0.1", 0),
        join: Iterable[HostAndPort] = (),
        quic: HostAndPort | None = None,
        certificate: Shown | None = None,
        settings: Settings | None = None,
        seal_keys: Mapping[bytes, bytes] | None = None,
        on_change: Callable[[Change[bytes]], None] = lambda _: None,
        on_refused: Callable[[Refusal], None] = lambda _: None,
    ) -> None:
        super().__init__(Ways(listen, quic, certificate), join)
        self.node_id = node_id
        self._credentials = credentials
        self._trust = trust
        self._settings = Settings() if settings is None else settings
        self._seal_keys = dict(seal_keys or {})
        self._on_change = on_change
        self._on_refused = on_refused
        self._handlers: dict[str, Handler] = {}

    async def _start(self) -> _Opened:
        session = EmmSession(
            self.node_id,
            self._credentials,
            self._trust,
            self._settings,
            _now(),
            secrets.randbits,
            self._on_refused,
            self._seal_keys.get,
        )
        opened = _Opened(session, self._handlers, self._on_change)
        await opened.open(self._ways, self._settings.rules.packet_bytes_max)
        return opened

    # --- neighbours ----------------------------------------------------------------------------------------------

    @property
    def neighbours(self) -> tuple[Neighbour, ...]:
        """The nodes that events are sent to."""
        return tuple(self._open.session.neighbours)

    async def join(self, address: HostAndPort, timeout_s: float = EMM_JOIN_TIMEOUT_S) -> Neighbour:
        """Greet the node at this address and wait for its answer. NoAnswer after ``timeout_s``, but this node keeps
        trying.
        """
        return await self._greeted(await self._open.resolve(*address), timeout_s)

    async def join_quic(
        self, address: HostAndPort, root_pem: bytes, timeout_s: float = EMM_JOIN_TIMEOUT_S
    ) -> Neighbour:
        """The same over QUIC, with a node that has a certificate for that host from that root; PeerError if there is
        none.

        After the first success, the connection is made again whenever it ends, until the node is closed.
        """
        return await self._greeted(await self._open.join_quic(address, root_pem, timeout_s), timeout_s)

    async def _greeted(self, target: Address, timeout_s: float) -> Neighbour:
        opened = self._open
        opened.seek(target)  # does nothing if we asked a moment ago
        neighbours = opened.session.neighbours
        try:
            return await opened.until(
                lambda: next((each for each in neighbours if each.address == target), None), timeout_s
            )
        except TimeoutError:
            raise NoAnswer(f"no answer from {show_any(target)}", timeout_s=timeout_s) from None

    @property
    def figures(self) -> Figures:
        return self._open.session.figures

    # --- events --------------------------------------------------------------------------------------------------

    async def publish(self, name: str, *values: Value, urgent: bool = False) -> int:
        """Send an event to all neighbours; to how many. Nobody acknowledges it.

        Values are str, int (32 bits), float (32 bits), bytes or dict. Waits while no more may be sent. UsageError if
        it does not fit a packet (548 bytes unless ``Settings.rules`` has more), or its encryption key is not there.
        """
        opened = self._open
        while not opened.session.has_room(urgent):
            await opened.turns.changed()
            opened.check()
        sent_to = opened.session.publish(name, values, urgent, _now())
        opened.work()
        return sent_to

    async def events(self) -> AsyncIterator[Event]:
        """Events of other nodes, each once, urgent ones first, until the node is closed.

        There is one queue: two loops over it share the events. What finds it full is lost, and counted as ``unread``.
        """
        opened = self._open
        while not opened.turns.is_closed:
            event = opened.session.next_event()
            if event is None:
                await opened.turns.changed()
            elif not opened.obeyed(event):
                yield event

    def on_event(self, name: str) -> Callable[[Handler], Handler]:
        """A decorator: run the function for events of that name instead of giving them to ``events``.

        This is how commands are carried out, and the only way: by name, and only for verified senders. The event of
        anybody else goes to ``events``, for what it is.
        """

        def register(run: Handler) -> Handler:
            if name in self._handlers:
                raise UsageError("there is a handler for that event already", event=name)
            self._handlers[name] = run
            return run

        return register


class _Opened(OpenNode):
    """The session on UDP and QUIC."""

    def __init__(
        self, session: EmmSession, handlers: dict[str, Handler], on_change: Callable[[Change[bytes]], None]
    ) -> None:
        super().__init__()
        self.session = session
        self._handlers = handlers
        self._on_change = on_change

    def seek(self, target: Address) -> None:
        self.session.seek(target, _now())
        self.work()

    def work(self) -> None:
        """Do what the session wants done, and look again when it says."""
        for each in self.session.datagrams_to_send(_now()):
            self.session.figures.unsent += not self.send(each)
        for change in self.session.neighbours.changes():
            self._on_change(change)
        self.turns.happened(self.session.get_timer())

    def obeyed(self, event: Event) -> bool:
        """Whether a handler had it."""
        run = self._handlers.get(event.name)
        if run is None or event.verdict is not Verdict.VERIFIED:
            return False
        try:
            run(event)
        except Exception as error:
            self.failed("an EMM event's handler failed", error)
        return True

    def on_datagrams(self, datagrams: Sequence[Datagram]) -> None:
        self.session.receive_datagrams(datagrams, _now())
        self.work()

    def on_gone(self, address: Address) -> None:
        self.session.gone(address)
        self.work()

    def on_timer(self) -> None:
        self.session.handle_timer(_now())
        self.work()


def _now() -> Instant:
    return Instant(asyncio.get_running_loop().time(), time.time())
