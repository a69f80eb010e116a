"""Requests and responses (EXM-05 to EXM-09): bytes from the peer, bytes from us, what the application hears."""

from __future__ import annotations

import pytest

from tests.wire.exmp.transcript import after_handshake, error, octets, ours, request, response
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
    talk.us(ours(1) + "\n" + ours(2) + "\n" + ours(3))


@pytest.mark.req("EXM-05")
def test_an_operation_that_cannot_be_sent_takes_no_id() -> None:
    talk = after_handshake()
    with pytest.raises(UsageError, match="cannot be written as JSON"):
        talk.connection.send_request("a", {"x": object()})
    assert talk.connection.send_request("a") == 1
    talk.us(ours(1))


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
def test_ids_of_the_peer_need_not_rise() -> None:
    talk = after_handshake()
    for request_id in (10, 7, 8, 9, REQUEST_ID_MAX, 1):
        talk.peer(request(request_id), RequestReceived(request_id, A))
        talk.call(lambda us, answered=request_id: us.send_response(answered, Success(), 0.0))  # type: ignore[misc]
        talk.us(response(request_id))


@pytest.mark.req("EXM-05", "EXM-06")
def test_an_id_that_is_pending_is_error_3_after_the_answers_to_all_before_it() -> None:
    talk = after_handshake()
    talk.peer("\n".join([request(5), request(3), request(5), request(6)]), RequestReceived(5, A))
    talk.us("")
    talk.call(lambda us: us.send_response(5, Success(), 0.0), RequestReceived(3, A))
    reason = "this request id was used before (id 5)"
    talk.call(lambda us: us.send_response(3, Success(), 0.0), Closed(End.ERROR_SENT, 3, reason))
    talk.us("\n".join([response(5), response(3), error(3, reason)]))


@pytest.mark.req("EXM-05")
def test_an_id_that_was_answered_is_error_3() -> None:
    talk = after_handshake()
    talk.peer(request(7), RequestReceived(7, A))
    talk.call(lambda us: us.send_response(7, Success(), 0.0))
    reason = "this request id was used before (id 7)"
    talk.peer(request(7), Closed(End.ERROR_SENT, ErrorCode.INVALID_REQUEST_ID, reason))
    talk.us(response(7) + "\n" + error(3, reason))


@pytest.mark.req("EXM-05")
def test_an_id_is_new_again_after_65_536_others_were_answered() -> None:
    talk = after_handshake()

    def exchange(request_id: int) -> None:
        talk.peer(request(request_id), RequestReceived(request_id, A))
        assert talk.connection.send_response(request_id, Success(), 0.0) == []
        talk.connection.data_to_send()

    for request_id in (5, *range(1000, 1000 + 65_536)):
        exchange(request_id)
    exchange(5)
    exchange(1000)
    assert [event.code for event in talk.connection.receive_data(octets(request(1002)), 0.0)] == [3]  # type: ignore[union-attr]


@pytest.mark.req("EXM-05", "EXM-08")
def test_a_request_with_a_byte_order_mark_is_error_1() -> None:
    talk = after_handshake()
    reason = "JSON begins with a byte-order mark (at 0)"
    talk.peer(
        """
        00000019 05000000 0000000000000001
        efbbbf               ; the mark
        '{"op":"a"}'
        """,
        Closed(End.ERROR_SENT, ErrorCode.PROTOCOL, reason),
    )
    talk.us(error(1, reason))


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
    talk.us(ours(1) + "\n" + ours(2))
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
        talk.us(ours(1))
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


@pytest.mark.req("EXM-08", "EXM-06")
@pytest.mark.parametrize("in_work_max", [1, 10])
@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        ("op", 1, "JSON is malformed: invalid character (byte 0)"),
        ("[]", 4, "Expected `object`, got `array`"),
        ('{"data":{}}', 4, "Object missing required field `op`"),
        ('{"op":1}', 4, "Expected `str`, got `int` - at `$.op`"),
    ],
)
def test_what_is_no_request_ends_the_connection_in_its_turn(
    in_work_max: int, text: str, code: int, reason: str
) -> None:
    """However many are handed out at a time: those before it are answered, and those behind it are not handed out."""
    talk = after_handshake(Settings(in_work_max=in_work_max))
    first = [RequestReceived(1, A), RequestReceived(2, A)][:in_work_max]
    talk.peer("\n".join([request(1), request(2), request(3, text), request(4)]), *first)
    talk.peer(request(5))
    talk.peer("00000004 02000000   ; ping")
    talk.us("00000004 03000000     ; pong")
    talk.call(lambda us: us.send_response(1, Success(), 0.0), *[RequestReceived(2, A)][: in_work_max == 1])
    talk.us(response(1))
    talk.call(lambda us: us.send_response(2, Success(), 0.0), Closed(End.ERROR_SENT, code, reason))
    talk.us(response(2) + "\n" + error(code, reason))


@pytest.mark.req("EXM-06")
def test_an_answer_of_the_peer_is_heard_behind_a_request_that_will_end_the_connection() -> None:
    """Whoever works on a request may wait for it."""
    talk = after_handshake()
    talk.connection.send_request("a")
    talk.us(ours(1))
    talk.peer("\n".join([request(1), request(2, "[]")]), RequestReceived(1, A))
    talk.peer(response(1), ResponseReceived(1, Success()))
    talk.call(
        lambda us: us.send_response(1, Success(), 0.0), Closed(End.ERROR_SENT, 4, "Expected `object`, got `array`")
    )


@pytest.mark.req("EXM-08")
def test_data_that_does_not_fit_is_answered_in_its_turn_and_the_connection_lives() -> None:
    talk = after_handshake()
    talk.peer(request(1) + "\n" + request(2, '{"op":"a","data":1}') + "\n" + request(3), RequestReceived(1, A))
    talk.call(
        lambda us: us.send_response(1, Success(), 0.0),
        InvalidRequestReceived(2, "Expected `object`, got `int` - at `$.data`"),
    )
    talk.call(lambda us: us.send_response(2, Failure("no", "invalid_request"), 0.0), RequestReceived(3, A))
    talk.us(response(1) + "\n" + response(2, '{"status":"failure","code":"invalid_request","description":"no"}'))


@pytest.mark.req("EXM-08")
def test_a_response_that_is_no_json_is_error_1() -> None:
    talk = after_handshake()
    talk.connection.send_request("a")
    talk.us(ours(1))
    reason = "JSON is malformed: invalid character (byte 0)"
    talk.peer(response(1, "yes"), Closed(End.ERROR_SENT, ErrorCode.PROTOCOL, reason))
    talk.us(error(1, reason))


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
