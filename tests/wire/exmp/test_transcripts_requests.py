"""Requests and responses (EXM-05 to EXM-09): bytes from the peer, bytes from us, what the application hears."""

from __future__ import annotations

import pytest

from tests.wire.exmp.transcript import after_handshake, error, request, response
from weft.errors import UsageError
from weft.wire.exmp import (
    REQUEST_ID_MAX,
    Closed,
    End,
    ErrorCode,
    Failure,
    InvalidRequestReceived,
    InvalidResponseReceived,
    Operation,
    RequestReceived,
    ResponseReceived,
    Settings,
    Success,
)

A = Operation("a")


@pytest.mark.req("EXM-05")
def test_our_ids_count_from_1() -> None:
    talk = after_handshake()
    assert [talk.connection.send_request("a") for _ in range(3)] == [1, 2, 3]
    talk.us(request(1) + "\n" + request(2) + "\n" + request(3))


@pytest.mark.req("EXM-05")
def test_an_operation_that_cannot_be_sent_takes_no_id() -> None:
    talk = after_handshake()
    with pytest.raises(UsageError, match="cannot be written as JSON"):
        talk.connection.send_request("a", {"x": object()})
    assert talk.connection.send_request("a") == 1
    talk.us(request(1))


@pytest.mark.req("EXM-05")
def test_ids_are_never_used_twice_not_even_after_the_last_one() -> None:
    talk = after_handshake()
    talk.connection._sent._sent_last = talk.connection._sent._answered_last = REQUEST_ID_MAX - 1
    assert talk.connection.send_request("a") == REQUEST_ID_MAX
    with pytest.raises(UsageError, match="ids are used up"):
        talk.connection.send_request("a")


@pytest.mark.req("EXM-05")
@pytest.mark.parametrize("kind", ["request", "response"])
def test_id_zero_is_error_3(kind: str) -> None:
    talk = after_handshake()
    reason = f"the id of a {kind} is zero (at 4)"
    message = request(0) if kind == "request" else response(0)
    talk.peer(message, Closed(End.ERROR_SENT, ErrorCode.INVALID_REQUEST_ID, reason))
    talk.us(error(3, reason))


@pytest.mark.req("EXM-05")
@pytest.mark.parametrize("repeated", [5, 4])
def test_ids_of_the_peer_must_rise(repeated: int) -> None:
    talk = after_handshake()
    talk.peer(request(5), RequestReceived(5, A))  # gaps are allowed
    reason = f"request ids must rise (id {repeated}, previous 5)"
    talk.peer(request(repeated), Closed(End.ERROR_SENT, ErrorCode.INVALID_REQUEST_ID, reason))
    talk.us(error(3, reason))


@pytest.mark.req("EXM-05", "EXM-09")
def test_a_request_with_a_byte_order_mark_is_invalid() -> None:
    talk = after_handshake()
    talk.peer(
        """
        00000019 05000000 0000000000000001
        efbbbf               ; the mark
        '{"op":"a"}'
        """,
        InvalidRequestReceived(1, "JSON begins with a byte-order mark (at 0)"),
    )


@pytest.mark.req("EXM-06")
def test_pipelined_requests_are_handed_out_one_by_one_and_answered_in_order() -> None:
    talk = after_handshake()
    talk.peer(request(1) + "\n" + request(2, '{"op":"b"}') + "\n" + request(3), RequestReceived(1, A))
    talk.us("")
    talk.call(lambda us: us.send_response(1, Success(), 0.0), RequestReceived(2, Operation("b")))
    talk.us(response(1))
    talk.call(lambda us: us.send_response(2, Failure("no"), 0.0), RequestReceived(3, A))
    talk.us(
        """
        00000033 06000000 0000000000000002
        '{"status":"failure","description":"no"}'
        """
    )
    talk.call(lambda us: us.send_response(3, Success(), 0.0))
    talk.us(response(3))


@pytest.mark.req("EXM-06")
def test_we_cannot_answer_out_of_order_twice_or_unasked() -> None:
    talk = after_handshake()
    talk.peer(request(1) + "\n" + request(2), RequestReceived(1, A))
    with pytest.raises(UsageError, match=r"in the order of requests \(id 2, expected 1\)"):
        talk.connection.send_response(2, Success(), 0.0)
    talk.call(lambda us: us.send_response(1, Success(), 0.0), RequestReceived(2, A))
    with pytest.raises(UsageError, match=r"in the order of requests \(id 1, expected 2\)"):
        talk.connection.send_response(1, Success(), 0.0)
    talk.call(lambda us: us.send_response(2, Success(), 0.0))
    with pytest.raises(UsageError, match="no request waits"):
        talk.connection.send_response(2, Success(), 0.0)
    talk.us(response(1) + "\n" + response(2))


@pytest.mark.req("EXM-06")
def test_a_response_that_cannot_be_sent_may_be_replaced() -> None:
    talk = after_handshake(Settings(message_bytes_max=1024))
    talk.peer(request(1), RequestReceived(1, A))
    with pytest.raises(UsageError, match="message is too long"):
        talk.connection.send_response(1, Success({"x": "y" * 1024}), 0.0)
    talk.call(lambda us: us.send_response(1, Failure("no"), 0.0))
    talk.us(response(1, '{"status":"failure","description":"no"}'))


@pytest.mark.req("EXM-06")
def test_a_response_of_the_peer_out_of_order_is_error_1() -> None:
    talk = after_handshake()
    talk.connection.send_request("a")
    talk.connection.send_request("a")
    talk.us(request(1) + "\n" + request(2))
    reason = "response out of order (id 2, expected 1)"
    talk.peer(response(2), Closed(End.ERROR_SENT, ErrorCode.PROTOCOL, reason))
    talk.us(error(1, reason))


@pytest.mark.req("EXM-06")
def test_our_own_pipelining_is_bounded() -> None:
    talk = after_handshake(Settings(pending_max=2))
    talk.connection.send_request("a")
    talk.connection.send_request("a")
    with pytest.raises(UsageError, match=r"too many requests wait for a response \(limit 2\)"):
        talk.connection.send_request("a")
    talk.peer(response(1), ResponseReceived(1, Success()))
    assert talk.connection.send_request("a") == 3


@pytest.mark.req("EXM-07")
@pytest.mark.parametrize("answered", [False, True])
def test_a_response_that_no_request_waits_for_is_error_3(answered: bool) -> None:
    talk = after_handshake()
    if answered:
        talk.connection.send_request("a")
        talk.us(request(1))
        talk.peer(response(1), ResponseReceived(1, Success()))
    reason = "no request waits for this response (id 1)"
    talk.peer(response(1), Closed(End.ERROR_SENT, ErrorCode.INVALID_REQUEST_ID, reason))
    talk.us(error(3, reason))


@pytest.mark.req("EXM-08")
def test_the_codes() -> None:
    assert {code.name: code.value for code in ErrorCode} == {
        "INTERNAL": 0,
        "PROTOCOL": 1,
        "UNAVAILABLE": 2,
        "INVALID_REQUEST_ID": 3,
        "INVALID_REQUEST": 4,
    }


@pytest.mark.req("EXM-08")
def test_a_code_that_we_do_not_know_ends_it_like_any_other() -> None:
    talk = after_handshake()
    talk.peer(error(99, "?"), Closed(End.ERROR_RECEIVED, 99, "?"))


@pytest.mark.req("EXM-09")
def test_an_unreadable_request_is_answered_in_its_turn_and_the_connection_lives() -> None:
    talk = after_handshake()
    talk.peer(request(1) + "\n" + request(2, '{"data":{}}') + "\n" + request(3), RequestReceived(1, A))
    talk.call(
        lambda us: us.send_response(1, Success(), 0.0),
        InvalidRequestReceived(2, "Object missing required field `op`"),
    )
    talk.call(lambda us: us.send_response(2, Failure("no op", "invalid_request"), 0.0), RequestReceived(3, A))
    talk.us(response(1) + "\n" + response(2, '{"status":"failure","code":"invalid_request","description":"no op"}'))


@pytest.mark.req("EXM-09")
def test_an_unreadable_response_spoils_only_its_request() -> None:
    talk = after_handshake()
    talk.connection.send_request("a")
    talk.connection.send_request("a")
    talk.peer(
        response(1, '{"status":"failure"}') + "\n" + response(2),
        InvalidResponseReceived(1, "a failure without a description"),
        ResponseReceived(2, Success()),
    )
