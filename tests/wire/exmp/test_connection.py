"""The connection as a machine: hostile bytes, splits, holding back, timers, and what it tells a transport."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.wire.exmp.strategies import messages
from tests.wire.exmp.transcript import Transcript, after_handshake, error, octets, request, response
from weft.errors import UsageError
from weft.wire.exmp import (
    DEFAULT_SETTINGS,
    Backlog,
    Bye,
    Closed,
    Connection,
    End,
    ErrorCode,
    Event,
    Hello,
    InvalidRequestReceived,
    Message,
    MessageType,
    Operation,
    Ping,
    Pong,
    PongReceived,
    Request,
    RequestReceived,
    Response,
    Settings,
    State,
    Success,
    encode,
    frame,
)
from weft.wire.exmp.connection import TRANSITIONS

A = Operation("a")
HELLO = frame(encode(Hello(1)), 100)


def opened(connection_settings: Settings = DEFAULT_SETTINGS) -> Connection:
    connection = Connection(connection_settings, 0.0)
    connection.receive_data(HELLO, 0.0)
    connection.data_to_send()
    return connection


def framed(sent: list[Message]) -> bytes:
    return b"".join(frame(encode(message), 1000) for message in sent)


# Often right, so that a conversation gets somewhere before it goes wrong.
usual: st.SearchStrategy[Message] = st.sampled_from(
    [
        *[Request(request_id, b'{"op":"a"}') for request_id in range(1, 6)],
        *[Response(request_id, b'{"status":"success"}') for request_id in (1, 2)],
        Request(6, b"{}"),
        Ping(),
        Pong(),
        Bye(),
    ]
)
streams = st.one_of(
    st.binary(max_size=60),
    st.lists(usual, max_size=8).map(lambda sent: HELLO + framed(sent)),
    st.lists(messages, max_size=6).map(framed),
    st.builds(lambda sent, rest: HELLO + framed(sent) + rest, st.lists(messages, max_size=6), st.binary(max_size=20)),
)


def feed(stream: bytes, cuts: list[int]) -> tuple[list[Event], bytes, Connection]:
    """A connection with two requests under way is fed the stream in pieces; nobody answers anything."""
    connection = Connection(Settings(pending_max=3), 0.0)
    if stream.startswith(HELLO):
        connection.receive_data(HELLO, 0.0)
        connection.send_request("a")
        connection.send_request("b")
        stream = stream[len(HELLO) :]
    events: list[Event] = []
    cuts = sorted(min(cut, len(stream)) for cut in cuts)
    for first, last in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        events += connection.receive_data(stream[first:last], 1.0)
    return events, connection.data_to_send(), connection


@settings(max_examples=300)
@given(streams)
@example(b"GET / HTTP/1.1\r\n\r\n")
@example(b"\x16\x03\x01\x02\x00\x01\x00")  # somebody speaks TLS
def test_any_bytes_end_in_closed_or_wait(stream: bytes) -> None:
    events, sent, connection = feed(stream, [])
    closed = [event for event in events if isinstance(event, Closed)]
    if connection.state is not State.CLOSED:
        assert closed == []
        return
    assert closed == events[-1:], "Closed comes once, and last"
    if closed[0].end is End.ERROR_SENT:
        assert closed[0].code in (ErrorCode.PROTOCOL, ErrorCode.INVALID_REQUEST_ID, ErrorCode.INVALID_REQUEST)
        assert sent.endswith(octets(error(closed[0].code, closed[0].description)))
    assert connection.receive_data(stream, 2.0) == []
    assert connection.data_to_send() == b""


@settings(max_examples=300)
@given(streams, st.lists(st.integers(0, 150), max_size=8))
def test_every_split_gives_the_same_events_and_the_same_bytes(stream: bytes, cuts: list[int]) -> None:
    assert feed(stream, cuts)[:2] == feed(stream, [])[:2]


def test_byte_by_byte_is_the_same_as_at_once() -> None:
    stream = HELLO + octets("\n".join([request(1), "00000004 02000000", request(2), "00000004 01000000"]))
    assert feed(stream, list(range(len(stream))))[:2] == feed(stream, [])[:2]


@pytest.mark.req("EXM-02", "EXM-03")
def test_the_table_of_transitions_is_complete() -> None:
    """Checked against the rules as the document words them, pair by pair."""
    for kind in MessageType:
        during = TRANSITIONS.get((State.HANDSHAKE, kind))
        match kind:
            case MessageType.HELLO:
                assert during is State.OPEN
            case MessageType.BYE | MessageType.ERROR:
                assert during is State.CLOSED
            case _:
                assert during is None
        afterwards = TRANSITIONS.get((State.OPEN, kind))
        match kind:
            case MessageType.HELLO:
                assert afterwards is None
            case MessageType.BYE | MessageType.ERROR:
                assert afterwards is State.CLOSED
            case _:
                assert afterwards is State.OPEN
        assert (State.CLOSED, kind) not in TRANSITIONS


# --- too many requests -----------------------------------------------------------------------------------------------


@pytest.mark.req("EXM-06")
def test_a_peer_that_keeps_to_the_limit_is_never_held() -> None:
    talk = after_handshake(Settings(pending_max=2))
    talk.peer(request(1) + "\n" + request(2), RequestReceived(1, A))
    assert not talk.connection.is_held
    talk.peer("00000004 02000000   ; ping")
    talk.us("00000004 03000000     ; pong")


@pytest.mark.req("EXM-06")
def test_reading_is_held_when_too_many_requests_wait_and_goes_on_when_one_is_answered() -> None:
    talk = after_handshake(Settings(pending_max=2))
    talk.peer("\n".join([request(1), request(2), request(3), "00000004 02000000"]), RequestReceived(1, A))
    assert talk.connection.is_held
    assert talk.connection.backlog == Backlog(requests_in=3, requests_out=0, bytes_in=8, bytes_out=0)
    talk.us("")  # the ping lies unread behind the requests
    talk.call(lambda us: us.send_response(1, Success(), 0.0), RequestReceived(2, A))
    assert not talk.connection.is_held
    talk.us(response(1) + "\n" + "00000004 03000000")


@pytest.mark.req("EXM-06")
def test_what_lay_unread_may_end_the_connection_when_it_is_read() -> None:
    talk = after_handshake(Settings(pending_max=1))
    talk.peer("\n".join([request(1), request(2), "00000004 07000000"]), RequestReceived(1, A))
    reason = "unknown message type (at 0, type 7)"
    talk.call(lambda us: us.send_response(1, Success(), 0.0), RequestReceived(2, A), Closed(End.ERROR_SENT, 1, reason))
    talk.us(response(1) + "\n" + error(1, reason))


def test_many_bytes_hold_reading_as_well_as_many_requests() -> None:
    connection = opened(Settings(queue_bytes_max=100))
    text = '{"op":"%s"}' % ("x" * 82)
    connection.receive_data(octets(request(1, text)), 0.0)  # being processed: does not count as waiting
    connection.receive_data(octets(request(2, text)), 0.0)
    assert not connection.is_held
    connection.receive_data(octets(request(3, text)), 0.0)
    assert connection.is_held
    connection.send_response(1, Success(), 0.0)
    assert not connection.is_held


@pytest.mark.req("EXM-04")
def test_while_reading_is_held_nobody_waits_for_a_pong_that_may_lie_unread() -> None:
    talk = after_handshake(Settings(pending_max=1))
    talk.until(10.0)  # our ping goes out
    talk.peer("\n".join([request(1), request(2), "00000004 03000000"]), RequestReceived(1, A))
    assert talk.connection.get_timer() is None
    talk.call(lambda us: us.handle_timer(1000.0))
    talk.call(lambda us: us.send_response(1, Success(), 1000.0), RequestReceived(2, A), PongReceived(990.0))
    assert talk.connection.get_timer() == 1010.0


@pytest.mark.req("EXM-04")
def test_after_holding_the_peer_gets_the_whole_timeout_again() -> None:
    talk = after_handshake(Settings(pending_max=1))
    talk.until(10.0)
    talk.peer(request(1) + "\n" + request(2), RequestReceived(1, A))
    talk.call(lambda us: us.send_response(1, Success(), 1000.0), RequestReceived(2, A))
    assert talk.connection.get_timer() == 1030.0


def test_the_end_of_the_stream_while_reading_is_held_is_not_called_a_cut_message() -> None:
    talk = after_handshake(Settings(pending_max=1))
    talk.peer("\n".join([request(1), request(2), request(3)]), RequestReceived(1, A))
    talk.eof(Closed(End.EOF, None, "the stream ended without a bye"))
    assert not talk.connection.is_held


# --- for transports --------------------------------------------------------------------------------------------------


def test_the_backlog() -> None:
    connection = Connection(DEFAULT_SETTINGS, 0.0)
    assert connection.backlog == Backlog(requests_in=0, requests_out=0, bytes_in=0, bytes_out=12)
    connection.receive_data(HELLO, 0.0)
    connection.send_request("a")
    connection.send_request("a")
    connection.receive_data(octets(request(1) + "\n" + request(2)) + b"\0\0", 0.0)
    assert connection.backlog == Backlog(requests_in=2, requests_out=2, bytes_in=2, bytes_out=12 + 2 * 36)
    connection.receive_data(b"\0\x20" + octets(response(1))[4:], 0.0)
    connection.send_response(1, Success(), 0.0)
    connection.data_to_send()
    assert connection.backlog == Backlog(requests_in=1, requests_out=1, bytes_in=0, bytes_out=0)


def test_a_timer_that_goes_off_early_does_nothing() -> None:
    talk = Transcript()
    assert talk.connection.get_timer() == 5.0
    talk.call(lambda us: us.handle_timer(4.999))
    assert talk.connection.state is State.HANDSHAKE


def test_a_clock_that_starts_below_zero_is_as_good_as_any() -> None:
    connection = Connection(DEFAULT_SETTINGS, -100.0)
    assert connection.get_timer() == -95.0
    connection.receive_data(HELLO, -99.0)
    assert connection.get_timer() == -89.0


def test_close_during_the_handshake() -> None:
    talk = Transcript()
    talk.call(lambda us: us.close(), Closed(End.BYE_SENT))
    talk.us("00000008 00000000 01000000\n00000004 01000000")


def test_a_description_that_does_not_fit_is_the_callers_mistake_and_ends_nothing() -> None:
    connection = opened()
    with pytest.raises(UsageError, match="description is too long"):
        connection.fail(ErrorCode.INTERNAL, "x" * 70_000)
    assert connection.state is State.OPEN


def test_a_long_reason_for_an_invalid_request_is_cut() -> None:
    connection = opened()
    [event] = connection.receive_data(octets(request(1, '{"op":"a","data":"%s"}' % ("x" * 10_000))), 0.0)
    assert isinstance(event, InvalidRequestReceived)
    assert len(event.reason) < 300


@pytest.mark.req("EXM-04")
def test_a_ping_with_a_body_is_passed_over_as_the_reference_does() -> None:
    talk = after_handshake()
    talk.peer("00000007 02000000 616263")
    talk.us("")
    talk.peer("00000004 02000000   ; ping")
    talk.us("00000004 03000000     ; pong")
    reason = "ping has leftover bytes (need 65545, have 16777216)"
    talk.peer("01000000 02", Closed(End.ERROR_SENT, 1, reason))


def test_the_smallest_limit_has_room_for_every_error_that_we_send() -> None:
    talk = after_handshake(Settings(message_bytes_max=1024))
    reason = f"this request id was used before (id {2**64 - 1})"
    talk.peer(request(2**64 - 1), RequestReceived(2**64 - 1, A))
    talk.call(lambda us: us.send_response(2**64 - 1, Success(), 0.0))
    talk.peer(request(2**64 - 1), Closed(End.ERROR_SENT, 3, reason))
    talk.us(response(2**64 - 1) + "\n" + error(3, reason))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"message_bytes_max": 1023}, "message_bytes_max is out of range"),
        ({"message_bytes_max": 1 << 32}, "message_bytes_max is out of range"),
        ({"pending_max": 0}, "pending_max must be positive"),
        ({"queue_bytes_max": -1}, "queue_bytes_max must be positive"),
        ({"handshake_timeout_s": 0.0}, "handshake_timeout_s must be positive"),
        ({"pong_timeout_s": float("nan")}, "pong_timeout_s must be positive"),
        ({"ping_interval_s": 0}, "ping_interval_s must be positive"),
    ],
)
def test_settings_that_make_no_sense(bad: dict[str, int], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        Settings(**bad)
