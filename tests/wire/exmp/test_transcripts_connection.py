"""Handshake, end and ping-pong (EXM-01 to EXM-04): bytes from the peer, bytes from us, what the application hears."""

from __future__ import annotations

import pytest

from tests.wire.exmp.transcript import HELLO, Transcript, after_handshake, error, request, response
from weft.errors import UsageError
from weft.wire.exmp import (
    DEFAULT_PORT,
    DEFAULT_SETTINGS,
    Closed,
    End,
    ErrorCode,
    HandshakeDone,
    Operation,
    PongReceived,
    RequestReceived,
    ResponseReceived,
    Settings,
    State,
    Success,
)

PING = "00000004 02 000000"
PONG = "00000004 03 000000"
BYE = "00000004 01 000000"
A = Operation("a")


@pytest.mark.req("EXM-01", "EXM-03")
def test_a_whole_conversation_byte_for_byte() -> None:
    talk = Transcript()
    talk.us(
        """
        00000008             ; length, not counting itself
        00 000000            ; type 0, hello; unused
        01 000000            ; version 1; unused
        """
    )
    talk.peer("00000008 00 000000 01 000000", HandshakeDone(version=1))
    assert talk.connection.send_request("$echo", {"n": 1}) == 1
    talk.us(
        """
        00000029             ; 4 + 8 + 29
        05 000000            ; request
        00000000 00000001    ; id 1
        '{"op":"$echo","data":{"n":1}}'
        """
    )
    talk.peer(
        """
        0000002f             ; 4 + 8 + 35
        06 000000            ; response
        00000000 00000001    ; to request 1
        '{"status":"success","data":{"n":1}}'
        """,
        ResponseReceived(1, Success({"n": 1})),
    )
    talk.call(lambda us: us.close(), Closed(End.BYE_SENT))
    talk.us("00000004 01 000000  ; bye")


@pytest.mark.req("EXM-01")
def test_unused_bytes_are_ignored() -> None:
    talk = Transcript()
    talk.peer("00000008 00 aabbcc 01 ddeeff", HandshakeDone(version=1))
    talk.us(HELLO)
    talk.peer("00000004 02 ffffff")
    talk.us(PONG)


@pytest.mark.req("EXM-01")
def test_a_length_over_the_limit_is_refused_before_the_message_comes() -> None:
    talk = after_handshake()
    talk.peer(
        "01000001             ; 16 MiB and one byte, and not a byte more is sent",
        Closed(End.ERROR_SENT, 1, "message is too long (length 16777217, limit 16777216)"),
    )
    talk.us(
        """
        0000003f             ; 4 + 4 + 2 + 53
        04 000000            ; error
        01 000000            ; protocol error
        0035                 ; 53 bytes of description
        'message is too long (length 16777217, limit 16777216)'
        """
    )


@pytest.mark.req("EXM-01")
def test_the_longest_message_allowed_is_waited_for() -> None:
    talk = after_handshake()
    talk.peer("01000000 05")
    assert talk.connection.state is State.OPEN


@pytest.mark.req("EXM-01")
def test_the_limit_is_a_setting() -> None:
    talk = after_handshake(Settings(message_bytes_max=2000))
    talk.peer("000007d1", Closed(End.ERROR_SENT, 1, "message is too long (length 2001, limit 2000)"))


@pytest.mark.req("EXM-01")
@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_length_without_room_for_a_header_is_refused(length: int) -> None:
    talk = after_handshake()
    reason = f"length is shorter than a header (length {length}, need 4)"
    talk.peer(f"{length:08x}", Closed(End.ERROR_SENT, 1, reason))
    talk.us(error(1, reason))


@pytest.mark.req("EXM-01")
def test_a_type_that_cannot_have_this_length_is_refused_before_the_body_comes() -> None:
    talk = after_handshake()
    reason = "pong has leftover bytes (need 4, have 16777216)"
    talk.peer("01000000 03       ; a pong of 16 MiB", Closed(End.ERROR_SENT, 1, reason))


@pytest.mark.req("EXM-01")
def test_the_default_port() -> None:
    assert DEFAULT_PORT == 5040


@pytest.mark.req("EXM-02")
def test_nothing_but_hello_is_sent_before_the_handshake_ends() -> None:
    talk = Transcript()
    with pytest.raises(UsageError, match="cannot send a request now"):
        talk.connection.send_request("a")
    with pytest.raises(UsageError, match="cannot send a ping now"):
        talk.connection.send_ping(0.0)
    with pytest.raises(UsageError, match="no request waits"):
        talk.connection.send_response(1, Success(), 0.0)
    talk.us(HELLO)


@pytest.mark.req("EXM-02")
@pytest.mark.parametrize("version", [0, 2, 255])
def test_a_version_that_we_do_not_speak_is_answered_with_error_1(version: int) -> None:
    talk = Transcript()
    reason = f"unsupported version (version {version}, highest 1)"
    talk.peer(f"00000008 00000000 {version:02x} 000000", Closed(End.ERROR_SENT, 1, reason))
    talk.us(HELLO + "\n" + error(1, reason))


@pytest.mark.req("EXM-02")
def test_bye_instead_of_hello_ends_it() -> None:
    talk = Transcript()
    talk.peer(BYE, Closed(End.BYE_RECEIVED))
    talk.us(HELLO)


@pytest.mark.req("EXM-02", "EXM-08")
def test_error_instead_of_hello_ends_it() -> None:
    talk = Transcript()
    talk.peer(error(2, "full"), Closed(End.ERROR_RECEIVED, ErrorCode.UNAVAILABLE, "full"))
    talk.us(HELLO)


@pytest.mark.req("EXM-02")
@pytest.mark.parametrize(
    ("name", "message"), [("ping", PING), ("pong", PONG), ("request", request(1)), ("response", response(1))]
)
def test_anything_else_instead_of_hello_ends_it(name: str, message: str) -> None:
    talk = Transcript()
    reason = f"unexpected {name} (state handshake)"
    talk.peer(message, Closed(End.ERROR_SENT, 1, reason))
    talk.us(HELLO + "\n" + error(1, reason))


@pytest.mark.req("EXM-02")
def test_before_hello_nothing_longer_than_an_error_is_waited_for() -> None:
    Transcript().peer("00010009 04          ; 65,545 bytes: the longest error")
    reason = "message is too long (length 65546, limit 65545)"
    Transcript().peer("0001000a", Closed(End.ERROR_SENT, 1, reason))


@pytest.mark.req("EXM-02")
def test_no_hello_within_the_timeout_ends_it() -> None:
    talk = Transcript()
    talk.us(HELLO)
    talk.until(4.9)
    talk.peer("00000008 00       ; not quite a hello")
    talk.until(5.0, Closed(End.TIMEOUT, ErrorCode.INTERNAL, "no hello in time"))
    talk.us(error(0, "no hello in time"))


@pytest.mark.req("EXM-02")
def test_a_second_hello_breaks_the_protocol() -> None:
    talk = after_handshake()
    talk.peer(HELLO, Closed(End.ERROR_SENT, 1, "unexpected hello (state open)"))
    talk.us(error(1, "unexpected hello (state open)"))


@pytest.mark.req("EXM-03")
def test_bye_from_the_peer_ends_it_and_is_not_answered() -> None:
    talk = after_handshake()
    talk.peer(BYE, Closed(End.BYE_RECEIVED))
    talk.us("")
    assert talk.connection.state is State.CLOSED


@pytest.mark.req("EXM-03")
def test_error_from_the_peer_ends_it_and_is_not_answered() -> None:
    talk = after_handshake()
    talk.peer(error(0, "disk on fire"), Closed(End.ERROR_RECEIVED, 0, "disk on fire"))
    talk.us("")


@pytest.mark.req("EXM-03")
def test_after_the_end_nothing_is_heard_said_or_timed() -> None:
    talk = after_handshake()
    talk.peer(BYE + "\n" + request(1) + "\n" + PING, Closed(End.BYE_RECEIVED))
    talk.peer(HELLO)
    talk.peer("ffffffff")
    talk.eof()
    talk.call(lambda us: us.close())
    talk.call(lambda us: us.fail(ErrorCode.INTERNAL, "late"))
    talk.call(lambda us: us.handle_timer(1e9))
    assert talk.connection.get_timer() is None
    talk.us("")
    with pytest.raises(UsageError, match="cannot send a request now"):
        talk.connection.send_request("a")


@pytest.mark.req("EXM-03")
def test_the_peer_may_leave_while_its_request_is_processed() -> None:
    talk = after_handshake()
    talk.peer(request(1) + "\n" + BYE, RequestReceived(1, A), Closed(End.BYE_RECEIVED))
    talk.call(lambda us: us.send_response(1, Success(), 0.0))
    talk.us("")


@pytest.mark.req("EXM-03", "EXM-08")
@pytest.mark.parametrize("code", list(ErrorCode))
def test_an_application_that_gives_up_sends_an_error(code: ErrorCode) -> None:
    talk = after_handshake()
    talk.call(lambda us: us.fail(code, "enough"), Closed(End.ERROR_SENT, code, "enough"))
    talk.us(error(code, "enough"))


@pytest.mark.req("EXM-03")
def test_end_of_the_stream_between_messages() -> None:
    talk = after_handshake()
    talk.eof(Closed(End.EOF, None, "the stream ended without a bye"))


@pytest.mark.req("EXM-03")
def test_end_of_the_stream_inside_a_message() -> None:
    talk = after_handshake()
    talk.peer("00000004 02 00       ; two bytes of ping are missing")
    talk.eof(Closed(End.TRUNCATED, None, "the stream ended inside a message, 6 bytes after its beginning"))


@pytest.mark.req("EXM-04")
def test_ping_is_answered_by_pong_at_once_even_while_a_request_is_processed() -> None:
    talk = after_handshake()
    talk.peer(request(1), RequestReceived(1, A))
    talk.peer(request(2) + "\n" + PING)
    talk.us(PONG)


@pytest.mark.req("EXM-04")
def test_pings_go_out_every_ten_seconds() -> None:
    talk = after_handshake()
    talk.until(9.9)
    talk.us("")
    talk.until(10.0)
    talk.us(PING)
    talk.until(10.25)
    talk.peer(PONG, PongReceived(round_trip_s=0.25))
    talk.until(20.2)
    talk.us("")
    talk.until(20.25)
    talk.us(PING)


@pytest.mark.req("EXM-04")
def test_one_ping_at_a_time() -> None:
    talk = after_handshake()
    talk.connection.send_ping(0.0)
    with pytest.raises(UsageError, match="no pong yet"):
        talk.connection.send_ping(1.0)
    talk.until(29.0)
    talk.us(PING)
    talk.peer(request(1), RequestReceived(1, A))  # other messages are handled meanwhile
    talk.peer(PONG, PongReceived(round_trip_s=29.0))
    talk.connection.send_ping(29.0)
    talk.us(PING)


@pytest.mark.req("EXM-04")
def test_no_pong_within_the_timeout_ends_it() -> None:
    talk = after_handshake()
    talk.until(10.0)
    talk.us(PING)
    talk.peer(request(1), RequestReceived(1, A))  # other traffic is no pong
    talk.until(39.9)
    talk.until(40.0, Closed(End.TIMEOUT, ErrorCode.INTERNAL, "no pong in time"))
    talk.us(error(0, "no pong in time"))


@pytest.mark.req("EXM-04")
def test_a_pong_that_nobody_asked_for_is_ignored() -> None:
    talk = after_handshake()
    talk.peer(PONG)
    talk.us("")
    assert talk.connection.state is State.OPEN


@pytest.mark.req("EXM-04")
def test_pings_can_be_turned_off() -> None:
    talk = after_handshake(Settings(ping_interval_s=None))
    assert talk.connection.get_timer() is None
    talk.connection.send_ping(0.0)
    assert talk.connection.get_timer() == 30.0
    talk.until(1.0)
    talk.peer(PONG, PongReceived(round_trip_s=1.0))
    assert talk.connection.get_timer() is None


def test_the_default_settings_are_those_of_the_ledger() -> None:
    assert DEFAULT_SETTINGS.message_bytes_max == 16 * 1024 * 1024
    assert DEFAULT_SETTINGS.ping_interval_s == 10.0
