"""What concerns a connection as a whole: its beginning, its end, streams that are over, what the peer allows."""

from __future__ import annotations

import pytest

from tests.wire.http2.oracle import Oracle
from tests.wire.http2.support import (
    REQUEST,
    RESPONSE,
    TRAILERS,
    End,
    Heard,
    a_client,
    a_server,
    data_frame,
    decoded,
    headers_frame,
    message,
    named,
    pair,
    settings_frame,
    talk,
    u32,
)
from weft.wire.http2 import BadHttp2, ErrorCode, Stream
from weft.wire.http2.frames import GOAWAY, NUMBER_MAX, PING, RST_STREAM, Setting, frame
from weft.wire.http2.settings import CLOSED_STREAMS_KEPT


def goaway(last: int, code: int = 0, reason: bytes = b"") -> bytes:
    return frame(GOAWAY, 0, 0, u32(last) + u32(code) + reason)


# --- beginnings -------------------------------------------------------------------------------------------------------


def test_what_each_side_says_first() -> None:
    (settings, window) = End(True).frames()
    assert settings.settings == {2: 0, 4: 4 << 20, 5: 1 << 20, 6: 32 << 10}
    assert (window.stream_id, window.window_increment) == (0, (16 << 20) - 65_535)
    (settings,) = End(False).frames()
    assert settings.settings == {3: 1024, 4: 65_535, 5: 1 << 20, 6: 32 << 10}


def test_a_call_from_the_first_byte_to_the_last() -> None:
    client, server = pair()
    call = client.open([*REQUEST, ("authorization", "Bearer key")])
    call.stream.send(b"request")
    call.stream.end()
    talk(client, server)
    heard = server.heard[1]
    assert heard.events[0] == ("headers", (*REQUEST, ("authorization", "Bearer key")), False)
    assert heard.events[1:] == [("message", b"request"), ("end",)]
    heard.stream.send_headers(RESPONSE)
    heard.stream.send(b"answer")
    heard.stream.end(TRAILERS)
    talk(client, server)
    assert call.events == [
        ("headers", RESPONSE, False),
        ("message", b"answer"),
        ("headers", TRAILERS, True),
        ("end",),
    ]
    assert client.http2.streams == server.http2.streams == {}


def test_pings() -> None:
    client, server = pair()
    client.http2.ping(b"01234567")
    talk(client, server)
    assert client.pongs == [b"01234567"]


# --- headers that we send ---------------------------------------------------------------------------------------------


def test_a_peer_that_shrinks_its_table_hears_that_we_use_none() -> None:
    """RFC 9113, 4.3.1: it may end the connection otherwise, and hpack does."""
    they = Oracle(False, {})
    we = End(True)
    they.receive(we.sent())
    we.receive(they.sent())
    they.h2.update_settings({Setting.HEADER_TABLE_SIZE: 0})
    we.receive(they.sent())
    we.open()
    we.open()
    they.receive(we.sent())
    assert they.heads == {1: [[*REQUEST]], 3: [[*REQUEST]]}
    we.receive(settings_frame((Setting.HEADER_TABLE_SIZE, 100)))
    call = we.open()
    blocks = [each.data for each in named(we.frames(), "HeadersFrame")]
    assert blocks[0][0] == 0x20
    call.stream.end([("a", "b")])
    assert named(we.frames(), "HeadersFrame")[0].data[0] != 0x20, "once is enough"


def test_headers_that_need_more_than_a_frame() -> None:
    we = a_client()
    fields = [*REQUEST, *((f"name-{n}", "v" * 1000) for n in range(40))]
    we.open(fields)
    frames = we.frames()
    assert [type(each).__name__ for each in frames] == ["HeadersFrame", "ContinuationFrame", "ContinuationFrame"]
    assert [len(each.data) <= 16_384 for each in frames] == [True] * 3
    assert "END_HEADERS" in frames[-1].flags
    frames[0].data += frames[1].data + frames[2].data
    assert decoded(frames) == fields


def test_headers_that_cannot_be_sent_leave_no_stream() -> None:
    client = a_client()
    with pytest.raises(UnicodeEncodeError):
        client.open([*REQUEST, ("a", "\u20ac")])
    assert client.http2.streams == {}
    assert client.sent() == b""
    assert client.open().stream.id == 1


# --- what the peer allows ---------------------------------------------------------------------------------------------


def test_streams_of_a_peer_have_a_limit() -> None:
    client = a_client()
    assert client.http2.peer_streams_max == NUMBER_MAX
    client.receive(settings_frame((Setting.MAX_CONCURRENT_STREAMS, 7)))
    assert client.http2.peer_streams_max == 7
    assert client.settled == 2


def test_numbers_of_streams_come_to_an_end() -> None:
    """After a day at 12,000 calls a second: then it takes a new connection."""
    client = a_client()
    client.http2._next_id = NUMBER_MAX
    assert client.http2.has_numbers
    assert client.open().stream.id == NUMBER_MAX
    assert not client.http2.has_numbers
    with pytest.raises(AssertionError):
        client.open()


# --- endings ----------------------------------------------------------------------------------------------------------


def test_a_server_that_goes_away_in_order() -> None:
    client, server = pair()
    first = client.open()
    talk(client, server)
    server.http2.announce_end()
    second = client.open()  # on its way when the server said so
    talk(client, server)
    assert client.http2.gone_away is not None
    assert client.http2.gone_away.last == NUMBER_MAX
    server.http2.refuse_streams(reason="maintenance")
    third = client.open()
    talk(client, server)
    assert [gone.last for gone in client.gone] == [NUMBER_MAX, second.stream.id]
    assert client.gone[-1].reason == "maintenance"
    assert third.was_reset == ErrorCode.REFUSED_STREAM
    server.heard[1].stream.send_headers(RESPONSE, end=True)
    talk(client, server)
    assert first.kinds == ["headers", "end"], "what runs goes on"


def test_the_last_stream_of_a_goaway_never_grows() -> None:
    """6.8: streams that were refused after the first do not count, and there is no way back."""
    server = a_server()
    server.receive(headers_frame(1, REQUEST))
    server.http2.refuse_streams()
    server.receive(headers_frame(3, REQUEST))
    server.http2.announce_end()
    with pytest.raises(BadHttp2):
        server.receive(frame(PING, 0, 5, bytes(8)))
    assert [each.last_stream_id for each in named(server.frames(), "GoAwayFrame")] == [1, 1]


def test_what_a_goaway_refused_stays_refused() -> None:
    client = a_client()
    calls = [client.open() for _ in range(3)]
    client.receive(goaway(3))
    client.receive(goaway(NUMBER_MAX))
    assert [call.was_reset for call in calls] == [None, None, ErrorCode.REFUSED_STREAM]
    assert client.http2.gone_away is not None and client.http2.gone_away.last == 3
    client.receive(goaway(1, ErrorCode.ENHANCE_YOUR_CALM, b"\xff" + b"x" * 1000))
    assert [call.was_reset for call in calls] == [None, ErrorCode.REFUSED_STREAM, ErrorCode.REFUSED_STREAM]
    assert [gone.last for gone in client.gone] == [3, 3, 1]
    assert len(client.gone[-1].reason) == 256


def test_owners_that_act_when_streams_are_refused() -> None:
    """One resets the stream of another, which hears nothing more; one opens a new one, which is not touched."""

    def react(heard: Heard, event: str) -> None:
        if event == "reset" and heard.stream.id == 3:
            client.heard[5].stream.reset()
            client.open()

    client = a_client(react=react)
    for _ in range(3):
        client.open()
    client.receive(goaway(1))
    assert client.heard[3].kinds == ["reset"]
    assert client.heard[5].kinds == []
    assert list(client.http2.streams) == [1, 7]


def test_a_lost_connection_ends_every_stream_once() -> None:
    def react(heard: Heard, event: str) -> None:
        if event == "reset":
            for other in server.heard.values():
                other.stream.reset()

    server = a_server(react=react)
    for number in (1, 3, 5):
        server.receive(headers_frame(number, REQUEST))
        server.heard[number].stream.hold()
    server.http2.lost("pulled the plug")
    assert server.heard[1].events[1:] == [("reset", ErrorCode.CONNECT_ERROR, "pulled the plug")]
    assert [len(server.heard[number].events) for number in (3, 5)] == [1, 1], "their owner reset them itself"
    assert server.http2.streams == {}
    server.http2.lost("again")
    server.receive(headers_frame(7, REQUEST))
    assert 7 not in server.heard


def test_nothing_follows_the_goaway_of_an_error() -> None:
    """What waited for a window does not go out after it."""
    server = a_server()
    server.receive(headers_frame(1, REQUEST))
    stream = server.heard[1].stream
    stream.send_headers(RESPONSE)
    stream.send(bytes(100_000))
    with pytest.raises(BadHttp2):
        server.receive(frame(PING, 0, 1, bytes(8)))
    frames = server.frames()
    assert type(frames[-1]).__name__ == "GoAwayFrame"
    assert named(frames, "DataFrame") == []


# --- streams that are over --------------------------------------------------------------------------------------------


def test_a_client_that_gives_up_many_calls_at_once_hears_their_answers_in_peace() -> None:
    """Deadlines of thousands may pass together, while answers to them are on their way."""
    client, server = pair()
    calls = [client.open() for _ in range(CLOSED_STREAMS_KEPT)]
    talk(client, server)
    for heard in server.heard.values():
        heard.stream.send_headers(RESPONSE)
        heard.stream.send(b"late")
        heard.stream.end(TRAILERS)
    late = server.sent()
    for call in calls:
        call.stream.reset()
    for _ in range(CLOSED_STREAMS_KEPT):  # so that the first are forgotten
        client.open().stream.reset()
    client.sent()
    client.receive(late)
    client.receive(frame(PING, 0, 0, bytes(8)))
    assert [type(each).__name__ for each in client.frames()] == ["PingFrame"]


def test_few_streams_that_are_over_are_remembered() -> None:
    server = a_server()
    for number in range(1, 3 * 2 * CLOSED_STREAMS_KEPT, 2):
        server.now_s += 1.0
        server.receive(headers_frame(number, REQUEST) + frame(RST_STREAM, 0, number, u32(8)))
    assert len(server.http2._closed) == CLOSED_STREAMS_KEPT
    server.receive(data_frame(1, message(b"x")))
    (reset,) = named(server.frames(), "RstStreamFrame")
    assert reset.error_code == ErrorCode.STREAM_CLOSED
    with pytest.raises(BadHttp2):
        server.receive(headers_frame(1, REQUEST))


def test_a_client_ends_what_its_server_has_answered() -> None:
    """RFC 9113, 8.1: the server may answer early, and wants nothing more then."""
    client, server = pair()
    call = client.open()
    talk(client, server)
    server.heard[1].stream.send_headers([*RESPONSE, *TRAILERS], end=True)
    resets = named(server.frames(), "RstStreamFrame")
    assert [each.error_code for each in resets] == [ErrorCode.NO_ERROR]
    client.receive(headers_frame(1, [*RESPONSE, *TRAILERS], ends=True))
    assert call.kinds == ["headers", "end"]
    assert [each.error_code for each in named(client.frames(), "RstStreamFrame")] == [ErrorCode.NO_ERROR]
    assert client.http2.streams == {}


def test_an_owner_may_turn_a_stream_away_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it hears nothing of it."""
    server = a_server()
    take = server.on_stream

    def turn_away(stream: Stream) -> Heard:
        heard = take(stream)
        stream.reset(ErrorCode.REFUSED_STREAM)
        return heard

    monkeypatch.setattr(server, "on_stream", turn_away)
    server.receive(headers_frame(1, REQUEST, ends=True))
    assert server.heard[1].events == []
    assert server.http2.streams == {}
