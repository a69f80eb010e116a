"""One EXMP connection on a socket: it passes bytes and time to the state machine of ``weft.wire.exmp``, and does what
that decides."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeAlias, assert_never, cast

from weft.doors import Guest
from weft.errors import PeerError
from weft.limits import EXMP_LINGER_S
from weft.transport.addresses import Address
from weft.wire.exmp import (
    Closed,
    Connection,
    End,
    ErrorCode,
    Event,
    HandshakeDone,
    InvalidRequestReceived,
    InvalidResponseReceived,
    JsonObject,
    Outcome,
    PongReceived,
    RequestReceived,
    ResponseReceived,
    Settings,
    State,
)

NOWHERE: Final = ("unknown", 0)  # the address of a peer that reset the connection before we looked

ReceivedRequest: TypeAlias = RequestReceived | InvalidRequestReceived


class LinkLost(PeerError):
    """The connection ended before the answer came: the other side may have done what it was asked, or not."""


class BadAnswer(PeerError):
    """The answer came and cannot be read. The connection goes on."""


Answer: TypeAlias = Outcome | LinkLost | BadAnswer


class LinkUser(Protocol):
    """The user of a link. Called on the event loop; it must not raise."""

    def opened(self) -> None:
        """The handshake is done: requests may be sent."""

    def requested(self, requests: Sequence[ReceivedRequest]) -> None:
        """The peer's requests of one read, in order; answer each with ``respond``, in that order."""

    def writable(self) -> None:
        """The peer takes its answers again: ``ExmpConnection.is_congested`` is over."""

    def closed(self, closed: Closed) -> None:
        """It is over, and nothing else is called after this. Unanswered requests stay unanswered."""


@dataclass(slots=True)
class Traffic:
    """Bytes in both directions, without what TLS adds. Mutable: connections add to it."""

    bytes_received: int = 0
    bytes_sent: int = 0


class ExmpConnection(asyncio.Protocol):
    """``make_user`` is called once there is a connection; the ``LinkUser`` that it returns gets what comes in.
    ``on_gone`` is called when the socket is closed. ``traffic`` counts bytes; several connections may share it.
    ``guest`` is the connection as its door knows it, if a door let it in."""

    def __init__(
        self,
        settings: Settings,
        make_user: Callable[[ExmpConnection], LinkUser],
        on_gone: Callable[[ExmpConnection], None] | None = None,
        traffic: Traffic | None = None,
        guest: Guest | None = None,
    ) -> None:
        # All requests of one read are handed over together: the user keeps their order.
        self._settings = replace(settings, in_work_max=settings.pending_max)
        self._make_user = make_user
        self._on_gone = on_gone
        self._traffic = Traffic() if traffic is None else traffic
        self._guest = guest
        self._loop = asyncio.get_running_loop()
        self._user: LinkUser
        self._machine: Connection
        self._transport: asyncio.Transport
        self.peer_address: Address  # kept, like ``tls``, because a transport forgets both when the connection is lost
        self.tls: ssl.SSLObject | None  # None for plain text
        self._asked: deque[Callable[[Answer], None]] = deque()  # for each open request; answers come in order (EXM-06)
        self._events: list[Event] = []  # not reported yet; reporting may cause more
        self._telling = False
        self._flushing = False  # a flush is on its way
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0  # when the timer is due
        self._farewell: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._stalled_bytes = 0
        self._paused = False
        self.is_congested = False  # the peer does not read its answers: the user should wait before it answers more
        self.end: Closed | None = None
        self.gone = asyncio.Event()  # the socket is closed as well

    # --- for the user --------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._machine.state is State.OPEN

    @property
    def requests_out(self) -> int:
        """Our requests without an answer so far."""
        return len(self._asked)

    @property
    def pending_max(self) -> int:
        return self._settings.pending_max

    def allow_message_bytes(self, bytes_max: int) -> None:
        """From now on, messages may be this long."""
        self._machine.message_bytes_max = bytes_max

    def prove(self) -> None:
        """The user knows who the peer is. From now on, the door no longer closes this link to make room for others."""
        if self._guest is not None:
            self._guest.prove()

    def request(self, op: str, data: JsonObject | None, answered: Callable[[Answer], None]) -> None:
        """Send a request; ``answered`` is called once. UsageError if the link is not open, or too many requests are
        pending."""
        self._machine.send_request(op, data)
        self._asked.append(answered)
        self._flush_soon()

    def respond(self, request_id: int, outcome: Outcome) -> None:
        """Answer the oldest unanswered request. UsageError if the answer cannot be written; then give another one.

        Requests for which there is room now are handed over a little later, not inside this call.
        """
        events = self._machine.send_response(request_id, outcome, self._loop.time())
        if events:
            self._events += events
        self._flush_soon()

    def close(self) -> None:
        """Say bye and close. If you want answers, wait for them first."""
        self._take(self._machine.close())
        self._flush_soon()

    def fail(self, code: ErrorCode, description: str) -> None:
        """Say what is wrong and close."""
        self._take(self._machine.fail(code, description))
        self._flush_soon()

    def flush(self) -> None:
        """Write now what was sent so far, instead of at the end of this turn of the loop. After that, ``is_congested``
        is up to date."""
        self._flush()

    def abort(self) -> None:
        """Close without a goodbye, for a peer that does not read anyway."""
        self._transport.abort()

    # --- what the event loop says --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is one in all but name
        self.peer_address = Address(*(transport.get_extra_info("peername") or NOWHERE)[:2])
        self.tls = transport.get_extra_info("ssl_object")
        if self._guest is not None:
            self._guest.turn_out = lambda text: self.abort()
        self._machine = Connection(self._settings, self._loop.time())
        self._user = self._make_user(self)
        self._flush()

    def data_received(self, data: bytes) -> None:
        if self.end is not None:
            return  # lingering: what still comes is dropped
        self._traffic.bytes_received += len(data)
        self._flushing = True  # the flush below sends everything that is answered at once in one write
        self._take(self._machine.receive_data(data, self._loop.time()))
        self._flush()

    def eof_received(self) -> None:
        self._take(self._machine.receive_eof())

    def connection_lost(self, error: Exception | None) -> None:
        self._take(self._machine.receive_eof())
        for handle in (self._timer, self._farewell, self._stall):
            if handle is not None:
                handle.cancel()
        self.gone.set()
        if self._guest is not None:
            self._guest.leave()
        if self._on_gone is not None:
            self._on_gone(self)

    def pause_writing(self) -> None:
        self.is_congested = True
        self._watch_stall()
        self._pace()

    def resume_writing(self) -> None:
        self.is_congested = False
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        if self.end is None:
            self._user.writable()
            self._pace()

    # --- inside --------------------------------------------------------------------------------------------------

    def _take(self, events: list[Event]) -> None:
        """Report events in order, even if reporting causes more."""
        self._events += events
        if self._telling:
            return
        self._telling = True
        try:
            while self._events:
                told, self._events = self._events, []
                self._tell(told)
        finally:
            self._telling = False

    def _tell(self, events: list[Event]) -> None:
        requests: list[ReceivedRequest] = []
        for event in events:
            match event:
                case RequestReceived() | InvalidRequestReceived():
                    requests.append(event)
                case ResponseReceived(_, outcome):
                    self._asked.popleft()(outcome)
                case InvalidResponseReceived(_, reason):
                    self._asked.popleft()(BadAnswer(f"the answer cannot be read: {reason}"))
                case HandshakeDone():
                    self._user.opened()
                case PongReceived():
                    pass
                case Closed():
                    self._hand_over(requests)  # requests before the end count, even if they came in the same read
                    self._end(event)
                    return
                case _:
                    assert_never(event)
        self._hand_over(requests)

    def _hand_over(self, requests: list[ReceivedRequest]) -> None:
        if requests:
            self._user.requested(requests)

    def _end(self, closed: Closed) -> None:
        self.end = closed
        while self._asked:
            self._asked.popleft()(LinkLost(f"the connection ended before the answer came: {words(closed)}"))
        self._user.closed(closed)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self._events:
            self._take([])
        self._flushing = False
        if self._transport.is_closing():
            return
        data = self._machine.data_to_send()
        if data:
            self._traffic.bytes_sent += len(data)
            self._transport.write(data)
        if self.end is not None:
            self._leave()
            return
        self._pace()
        self._arm()

    def _leave(self) -> None:
        """Close the socket in a way that lets our last message arrive. If it were closed at once, with bytes of the
        peer unread, the system could drop that message."""
        if self._farewell is not None:
            return
        self._farewell = self._loop.call_later(EXMP_LINGER_S, self._transport.abort)
        self._pace()
        try:
            if self._transport.can_write_eof():
                self._transport.write_eof()
            else:
                self._transport.close()
        except OSError:  # the other side is gone already
            self._transport.abort()

    def _pace(self) -> None:
        """Read only while there is room for what comes (EXM-06). When we stop, the sender's buffers fill up, so it
        notices."""
        wanted = self.end is None and (self._machine.is_held or self.is_congested)
        if wanted is self._paused or self._transport.is_closing():
            return
        self._paused = wanted
        if wanted:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _arm(self) -> None:
        """Keep one timer running. It is only ever moved to an earlier time."""
        deadline_s = self._machine.get_timer()
        if deadline_s is None or (self._timer is not None and self._timer_s <= deadline_s):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_s = deadline_s  # kept here, because uvloop's handle has no time if it is due at once
        self._timer = self._loop.call_at(deadline_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._take(self._machine.handle_timer(self._loop.time()))
        self._flush()

    def _watch_stall(self) -> None:
        """Abort the connection if the peer takes none of its answers for as long as a pong may take."""
        self._stalled_bytes = self._transport.get_write_buffer_size()
        self._stall = self._loop.call_later(self._settings.pong_timeout_s, self._on_stall)

    def _on_stall(self) -> None:
        self._stall = None
        if self._transport.get_write_buffer_size() >= self._stalled_bytes:
            self._transport.abort()
        else:
            self._watch_stall()


def words(closed: Closed) -> str:
    """A text that says how a connection ended."""
    match closed.end:
        case End.BYE_SENT:
            return "we said bye"
        case End.BYE_RECEIVED:
            return "the other side said bye"
        case End.ERROR_SENT:
            return f"the other side broke the protocol: {closed.description}"
        case End.ERROR_RECEIVED:
            return f"the other side reported error {closed.code}: {closed.description}"
        case End.TIMEOUT | End.EOF | End.TRUNCATED:
            return closed.description
        case _:
            assert_never(closed.end)


class Unreachable(PeerError):
    """Nobody answers at that address, or not correctly. No request was sent."""


async def dial(
    host: str,
    port: int,
    settings: Settings,
    make_user: Callable[[ExmpConnection], LinkUser],
    tls: ssl.SSLContext | None = None,
    server_name: str | None = None,
) -> ExmpConnection:
    """Return a link whose handshake is under way, within ``handshake_timeout_s``; raise only Unreachable.

    ``server_name`` has to be in the certificate of the other side, if not ``host``.
    """
    where = f"{host} port {port}"
    try:
        async with asyncio.timeout(settings.handshake_timeout_s):
            _, link = await asyncio.get_running_loop().create_connection(
                lambda: ExmpConnection(settings, make_user),
                host,
                port,
                ssl=tls,
                server_hostname=None if tls is None else server_name or host,
            )
    except TimeoutError:
        raise Unreachable(f"no answer from {where}", seconds=settings.handshake_timeout_s) from None
    except ssl.SSLCertVerificationError as error:
        raise Unreachable(f"the certificate of {where} is not valid: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise Unreachable(f"no TLS with {where}: {(error.reason or 'no reason given').lower()}") from None
    except OSError as error:
        raise Unreachable(f"cannot connect to {where}: {error.strerror or error}") from None
    return link
