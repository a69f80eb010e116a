"""One end of an EXMP connection, without the socket: bytes and time in, events and bytes out.

    connection = Connection(DEFAULT_SETTINGS, now_s)      # a hello waits in data_to_send()
    for event in connection.receive_data(data, now_s): ...
    request_id = connection.send_request("echo", {"n": 1})
    socket.send(connection.data_to_send())

The protocol has no client and no server: both sides run this same machine. Calls that can make something happen
return the events they caused, and bytes to write gather until ``data_to_send`` takes them. A peer that breaks the
protocol makes nothing raise here: it is sent an ``error``, and ``Closed`` says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from weft.errors import UsageError
from weft.wire.exmp.application import (
    JsonObject,
    Operation,
    Outcome,
    decode_operation_untrusted,
    decode_outcome_untrusted,
    encode_operation,
    encode_outcome,
)
from weft.wire.exmp.codec import ERROR_BYTES_MAX, decode_untrusted, encode
from weft.wire.exmp.events import (
    Closed,
    End,
    Event,
    HandshakeDone,
    InvalidRequestReceived,
    InvalidResponseReceived,
    PongReceived,
    RequestReceived,
    ResponseReceived,
)
from weft.wire.exmp.exchanges import ReceivedRequests, SentRequests
from weft.wire.exmp.framing import FrameReader, frame, frame_exchange
from weft.wire.exmp.messages import (
    REQUEST_ID_MAX,
    VERSION,
    BadMessage,
    Bye,
    Error,
    ErrorCode,
    Hello,
    Message,
    MessageType,
    Ping,
    Pong,
    Request,
    Response,
    UnfitData,
)
from weft.wire.exmp.settings import Settings


class State(StrEnum):
    HANDSHAKE = "handshake"  # our hello is out, the peer's has not come
    OPEN = "open"
    CLOSED = "closed"


CLOSED: Final = State.CLOSED  # looked up once, as in application.py

# Where a received message leads. A pair that is absent breaks the protocol: error 1 (EXM-02, EXM-03).
TRANSITIONS: Final[dict[tuple[State, MessageType], State]] = {
    (State.HANDSHAKE, MessageType.HELLO): State.OPEN,
    (State.HANDSHAKE, MessageType.BYE): State.CLOSED,
    (State.HANDSHAKE, MessageType.ERROR): State.CLOSED,
    (State.OPEN, MessageType.BYE): State.CLOSED,
    (State.OPEN, MessageType.ERROR): State.CLOSED,
    (State.OPEN, MessageType.PING): State.OPEN,
    (State.OPEN, MessageType.PONG): State.OPEN,
    (State.OPEN, MessageType.REQUEST): State.OPEN,
    (State.OPEN, MessageType.RESPONSE): State.OPEN,
}
# The same by the numbers on the wire, for the 100,000 messages a second: enums are slow to look up (Python 3.11).
NEXT_STATES: Final[dict[State, list[State | None]]] = {
    state: [TRANSITIONS.get((state, kind)) for kind in MessageType] for state in State
}


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is waiting, for a transport that slows down in time."""

    requests_in: int  # the peer's, without our response
    requests_out: int  # ours, without the peer's response
    bytes_in: int  # received and not yet read: the beginning of a message, or everything while reading is held
    bytes_out: int  # waiting for data_to_send


class Connection:
    """See the module. ``now_s`` is any clock that does not go backwards; the same one for all calls."""

    def __init__(self, settings: Settings, now_s: float) -> None:
        self._settings = settings
        self._message_bytes_max = settings.message_bytes_max
        self._state = State.HANDSHAKE
        # Before the handshake nothing longer than an error is worth waiting for.
        self._reader = FrameReader(min(ERROR_BYTES_MAX, settings.message_bytes_max))
        self._sent = SentRequests()
        self._received = ReceivedRequests(settings.pending_max, settings.queue_bytes_max, settings.in_work_max)
        self._ping_sent_s: float | None = None  # None: no ping is outstanding
        self._deadline_s: float | None = now_s + settings.handshake_timeout_s
        self._events: list[Event] = []
        self._out: list[bytes] = []
        self._send(Hello(VERSION))  # EXM-02

    @property
    def state(self) -> State:
        return self._state

    @property
    def backlog(self) -> Backlog:
        return Backlog(
            requests_in=len(self._received),
            requests_out=len(self._sent),
            bytes_in=self._reader.buffered_bytes,
            bytes_out=sum(map(len, self._out)),
        )

    @property
    def message_bytes_max(self) -> int:
        """The limit for messages in both directions. A peer that has proved who it is may get a higher one."""
        return self._message_bytes_max

    @message_bytes_max.setter
    def message_bytes_max(self, bytes_max: int) -> None:
        self._message_bytes_max = bytes_max
        if self._state is State.OPEN:
            self._reader.bytes_max = bytes_max

    @property
    def is_held(self) -> bool:
        """Too many requests wait for our responses: the transport should stop reading from the socket.

        What it reads nevertheless is kept, unread, until ``send_response`` has made room.
        """
        return self._received.is_full

    # --- input ---------------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now_s: float) -> list[Event]:
        """Bytes came, any number, cut anywhere. Never raises; what comes after the end is ignored."""
        if self._state is not State.CLOSED:
            self._reader.feed(data)
            self._read_untrusted(now_s)
        return self._take_events()

    def receive_eof(self) -> list[Event]:
        """The peer will send no more. There is no half-open state: unanswered requests stay unanswered (EXM-03)."""
        if self._state is not State.CLOSED:
            left = self._reader.buffered_bytes
            # While reading is held, whole messages may lie in the buffer.
            if left and not self.is_held:
                self._end(End.TRUNCATED, None, f"the stream ended inside a message, {left} bytes after its beginning")
            else:
                self._end(End.EOF, None, "the stream ended without a bye")
        return self._take_events()

    def get_timer(self) -> float | None:
        """When to call ``handle_timer``; it may change with every other call."""
        # While reading is held, the pong may lie unread in our own buffer, so its clock stands still.
        return None if self.is_held else self._deadline_s

    def handle_timer(self, now_s: float) -> list[Event]:
        """Does nothing if it is called early."""
        deadline_s = self.get_timer()
        if deadline_s is not None and now_s >= deadline_s:
            if self._state is State.HANDSHAKE:
                self._end_with_error(End.TIMEOUT, ErrorCode.INTERNAL, "no hello in time")  # EXM-02
            elif self._ping_sent_s is not None:
                self._end_with_error(End.TIMEOUT, ErrorCode.INTERNAL, "no pong in time")  # EXM-04
            else:
                self.send_ping(now_s)
        return self._take_events()

    # --- output --------------------------------------------------------------------------------------------------

    def data_to_send(self) -> bytes:
        """All bytes to write since the last call, in order."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def send_request(self, op: str, data: JsonObject | None = None) -> int:
        """Return its id, which the response will carry. UsageError if EXMP does not allow it now, or too many are
        pending.

        Without data, an empty object is sent: ``data`` is optional, but the reference refuses a request that has none.
        """
        self._check_open("send a request")
        request_id = self._sent.next_id
        if request_id > REQUEST_ID_MAX:
            raise UsageError("request ids are used up; open a new connection")
        if len(self._sent) >= self._settings.pending_max:
            raise UsageError("too many requests wait for a response", limit=self._settings.pending_max)
        operation = Operation(op, {} if data is None else data)
        framed = frame_exchange(Request(request_id, encode_operation(operation)), self._message_bytes_max)
        self._out.append(framed)
        self._sent.add()
        return request_id

    def send_response(self, request_id: int, outcome: Outcome, now_s: float) -> list[Event]:
        """Answer the oldest request that was handed out; the events may contain further ones (EXM-06).

        After the end this does nothing: the peer may leave while its request is being processed.
        """
        if self._state is CLOSED:
            return []
        received = self._received
        was_held = received.is_full
        framed = frame_exchange(Response(request_id, encode_outcome(outcome)), self._message_bytes_max)
        received.settle(request_id)
        self._out.append(framed)
        while received.waiting and (request := received.take()) is not None:
            self._hand_out_untrusted(request)
        if received.verdict is not None and self._end_in_turn():
            return self._take_events()
        if was_held and not received.is_full:
            if self._ping_sent_s is not None:
                self._deadline_s = now_s + self._settings.pong_timeout_s
            self._read_untrusted(now_s)
        return self._take_events()

    def send_ping(self, now_s: float) -> None:
        """Pings are sent by ``handle_timer``, too; one at a time (EXM-04)."""
        self._check_open("send a ping")
        if self._ping_sent_s is not None:
            raise UsageError("the previous ping has no pong yet")
        self._send(Ping())
        self._ping_sent_s = now_s
        self._deadline_s = now_s + self._settings.pong_timeout_s

    def close(self) -> list[Event]:
        """Say bye (EXM-03). At once: a caller that wants its responses waits for them first."""
        if self._state is not State.CLOSED:
            self._send(Bye())
            self._end(End.BYE_SENT, None, "")
        return self._take_events()

    def fail(self, code: ErrorCode, description: str) -> list[Event]:
        """End with an error that cannot be recovered from (EXM-03, EXM-08)."""
        if self._state is not State.CLOSED:
            self._end_with_error(End.ERROR_SENT, code, description)
        return self._take_events()

    # --- inside --------------------------------------------------------------------------------------------------

    def _read_untrusted(self, now_s: float) -> None:
        try:
            while not self._received.is_full and (data := self._reader.next_untrusted()) is not None:
                self._on_message_untrusted(decode_untrusted(data), now_s)
        except BadMessage as bad:
            self._end_with_error(End.ERROR_SENT, bad.code, str(bad))

    def _on_message_untrusted(self, message: Message, now_s: float) -> None:
        state = NEXT_STATES[self._state][message.type]
        if state is None:
            what = f"unexpected {message.type.name.lower()}"
            raise BadMessage(ErrorCode.PROTOCOL, what, state=self._state)
        match message:
            case Request():
                received = self._received
                request = received.accept_untrusted(message)
                if request is not None:
                    self._hand_out_untrusted(request)
                if received.verdict is not None and self._end_in_turn():
                    return
            case Response():
                self._on_response_untrusted(message)
            case Ping(body):
                if not body:  # the reference passes over a ping with a body
                    self._send(Pong())
            case Pong():
                self._on_pong(now_s)
            case Hello():
                self._on_hello_untrusted(message, now_s)
            case Bye():
                self._end(End.BYE_RECEIVED, None, "")
            case Error(code, description):
                self._end(End.ERROR_RECEIVED, code, description)
            case _:
                assert_never(message)
        self._state = state

    def _on_hello_untrusted(self, hello: Hello, now_s: float) -> None:
        # Versions count from 1, so 0 is none that anybody supports.
        if not 1 <= hello.version <= VERSION:
            raise BadMessage(ErrorCode.PROTOCOL, "unsupported version", version=hello.version, highest=VERSION)
        self._reader.bytes_max = self._message_bytes_max
        self._schedule_ping(now_s)
        self._events.append(HandshakeDone(hello.version))

    def _on_pong(self, now_s: float) -> None:
        # A pong that answers nothing does no harm and is ignored.
        if self._ping_sent_s is not None:
            self._events.append(PongReceived(now_s - self._ping_sent_s))
            self._ping_sent_s = None
            self._schedule_ping(now_s)

    def _schedule_ping(self, now_s: float) -> None:
        interval_s = self._settings.ping_interval_s
        self._deadline_s = None if interval_s is None else now_s + interval_s

    def _hand_out_untrusted(self, request: Request) -> None:
        try:
            self._events.append(RequestReceived(request.id, decode_operation_untrusted(request.data)))
        except UnfitData as bad:
            self._events.append(InvalidRequestReceived(request.id, str(bad)))
        except BadMessage as bad:  # EXM-08
            self._received.condemn(bad)

    def _end_in_turn(self) -> bool:
        """A request was found that ends the connection: whether all before it is answered, and it did (EXM-06)."""
        bad = self._received.verdict
        if bad is None or not self._received.is_over:
            return False
        self._end_with_error(End.ERROR_SENT, bad.code, str(bad))
        return True

    def _on_response_untrusted(self, response: Response) -> None:
        self._sent.settle_untrusted(response.id)
        try:
            self._events.append(ResponseReceived(response.id, decode_outcome_untrusted(response.data)))
        except UnfitData as bad:
            self._events.append(InvalidResponseReceived(response.id, str(bad)))

    def _send(self, message: Message) -> None:
        self._out.append(frame(encode(message), self._message_bytes_max))

    def _check_open(self, what: str) -> None:
        if self._state is not State.OPEN:
            raise UsageError(f"cannot {what} now", state=self._state)

    def _end_with_error(self, end: End, code: ErrorCode, description: str) -> None:
        self._send(Error(code, description))
        self._end(end, code, description)

    def _end(self, end: End, code: int | None, description: str) -> None:
        self._state = State.CLOSED
        self._deadline_s = None
        self._ping_sent_s = None
        self._reader.clear()
        self._received.clear()
        self._events.append(Closed(end, code, description))

    def _take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events
