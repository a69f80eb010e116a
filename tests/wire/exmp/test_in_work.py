"""More than one request in work at a time, for applications that keep to the order themselves (EXM-06)."""

from __future__ import annotations

import pytest

from tests.wire.exmp.transcript import after_handshake, octets, request, response
from weft.errors import UsageError
from weft.wire.exmp import Operation, Request, RequestReceived, Response, Settings, State, Success, encode, frame
from weft.wire.exmp.framing import frame_exchange

A = Operation("a")


@pytest.mark.req("EXM-06")
def test_as_many_are_handed_out_as_may_be_and_answers_stay_in_order() -> None:
    talk = after_handshake(Settings(in_work_max=2, ping_interval_s=None))
    talk.peer("\n".join(map(request, (1, 2, 3))), RequestReceived(1, A), RequestReceived(2, A))
    with pytest.raises(UsageError, match="in the order of requests"):
        talk.connection.send_response(2, Success(), 0.0)
    talk.call(lambda us: us.send_response(1, Success(), 0.0), RequestReceived(3, A))
    talk.call(lambda us: us.send_response(2, Success(), 0.0))
    talk.call(lambda us: us.send_response(3, Success(), 0.0))
    talk.us("\n".join(map(response, (1, 2, 3))))
    with pytest.raises(UsageError, match="no request waits"):
        talk.connection.send_response(3, Success(), 0.0)


@pytest.mark.req("EXM-06")
def test_what_is_in_work_counts_for_the_bound_as_well() -> None:
    talk = after_handshake(Settings(in_work_max=10, pending_max=3, ping_interval_s=None))
    talk.peer("\n".join(map(request, (1, 2, 3))), *(RequestReceived(number, A) for number in (1, 2, 3)))
    assert not talk.connection.is_held
    talk.peer(request(4), RequestReceived(4, A))
    assert talk.connection.is_held
    talk.peer(request(5))  # it is kept, and not looked at
    talk.call(lambda us: us.send_response(1, Success(), 0.0), RequestReceived(5, A))


@pytest.mark.req("EXM-06")
def test_bytes_count_for_all_but_the_first_one_in_work() -> None:
    talk = after_handshake(Settings(in_work_max=10, queue_bytes_max=10, ping_interval_s=None))
    body = '{"op":"a"}'  # ten bytes
    talk.peer(request(1, body), RequestReceived(1, A))
    talk.peer(request(2, body), RequestReceived(2, A))
    assert not talk.connection.is_held
    talk.peer(request(3, body), RequestReceived(3, A))
    assert talk.connection.is_held
    talk.call(lambda us: us.send_response(1, Success(), 0.0))
    assert not talk.connection.is_held


def test_the_limit_can_be_raised_while_the_connection_lasts() -> None:
    talk = after_handshake(Settings(message_bytes_max=1024, ping_interval_s=None))
    assert talk.connection.message_bytes_max == 1024
    talk.connection.message_bytes_max = 1 << 20
    assert len(talk.connection.receive_data(octets(request(1, '{"op":"' + "a" * 5000 + '"}')), 0.0)) == 1
    assert talk.connection.state is State.OPEN


def test_the_quick_way_to_frame_an_exchange_is_the_long_one() -> None:
    for message in (Request(1, b"{}"), Response((1 << 64) - 1, b'{"status":"success"}')):
        assert frame_exchange(message, 1024) == frame(encode(message), 1024)
    with pytest.raises(UsageError, match="too long"):
        frame_exchange(Request(1, b"x" * 20), 31)
