"""One stream: what it sends within windows, what it does when its owner acts in the middle of a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.wire.http2.support import (
    PROLOGUE,
    REQUEST,
    RESPONSE,
    SERVER,
    TRAILERS,
    End,
    Heard,
    a_client,
    a_server,
    counted_calls,
    data_frame,
    headers_frame,
    message,
    named,
    pair,
    settings_frame,
    talk,
    u32,
)
from weft.wire.http2 import CLIENT_SETTINGS, ErrorCode, Stream
from weft.wire.http2.frames import DATA, END_STREAM, RST_STREAM, WINDOW_UPDATE, Setting, frame
from weft.wire.http2.outgoing import TURN_BYTES


def opened(window_bytes: int = 65_535, **more: Any) -> tuple[End, Heard]:
    """A server with one request, whose client takes so many bytes of an answer."""
    server = a_server(**more)
    server.receive(settings_frame((Setting.INITIAL_WINDOW_SIZE, window_bytes)) + headers_frame(1, REQUEST))
    heard = server.heard[1]
    if heard.stream.is_sending and not heard.events[1:]:
        heard.stream.send_headers(RESPONSE)
    server.sent()
    return server, heard


def grant(size: int, stream: int = 1) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, u32(size))


def data_of(server: End) -> list[tuple[bytes, bool]]:
    return [(each.data, "END_STREAM" in each.flags) for each in named(server.frames(), "DataFrame")]


# --- sending ----------------------------------------------------------------------------------------------------------


def test_a_message_is_one_frame_if_there_is_room() -> None:
    server, heard = opened()
    for content in (b"", b"x", bytes(4091), bytes(4092), bytes(10_000)):
        heard.stream.send(content)
        assert data_of(server) == [(message(content), False)]
    assert heard.kinds == ["headers"], "nothing waited"


def test_a_message_waits_for_its_window() -> None:
    server, heard = opened(7)
    heard.stream.send(b"abcdef")
    heard.stream.send(b"")
    heard.stream.end(TRAILERS)
    assert heard.stream.waiting_bytes == 16
    assert data_of(server) == [(message(b"ab")[:3] + b"\0\x06ab", False)]
    assert heard.stream.waiting_bytes == 9
    server.receive(grant(1))
    assert data_of(server) == [(b"c", False)]
    server.receive(grant(100))
    frames = server.frames()
    assert [each.data for each in named(frames, "DataFrame")] == [b"def" + message(b"")]
    assert "END_STREAM" in frames[1].flags, "trailers come after what waited"
    assert heard.kinds == ["headers", "room", "room", "room"], "and after the last it is over, because the answer is"
    assert heard.stream.closed


def test_the_end_rides_on_the_last_data() -> None:
    client = a_client()
    client.receive(settings_frame((Setting.INITIAL_WINDOW_SIZE, 3)))
    stream = client.open().stream
    stream.send(b"ab")
    stream.end()
    client.sent()
    client.receive(grant(10))
    assert data_of(client) == [(b"\0\x02ab", True)]
    assert stream.ended_by_us


def test_what_follows_the_end_is_ignored() -> None:
    server, heard = opened()
    heard.stream.end(TRAILERS)
    server.sent()
    heard.stream.send(b"x")
    heard.stream.end(TRAILERS)
    heard.stream.send_headers(RESPONSE)
    heard.stream.reset()
    heard.stream.drop_waiting()
    heard.stream.hold()
    heard.stream.release()
    heard.stream.widen()
    assert server.sent() == b""


def test_the_connections_window_is_shared() -> None:
    server, first = opened(1 << 20)
    server.receive(headers_frame(3, REQUEST))
    second = server.heard[3]
    second.stream.send_headers(RESPONSE)
    first.stream.send(bytes(65_000))
    second.stream.send(bytes(1000))
    sizes = [len(data) for data, _ in data_of(server)]
    assert sizes == [65_005, 530] or sum(sizes) == 65_535
    server.receive(grant(1000, 0))
    assert sum(len(data) for data, _ in data_of(server)) == 65_005 + 1005 - 65_535


def test_frames_are_not_longer_than_a_peer_takes() -> None:
    server, heard = opened(1 << 20)
    server.receive(grant(1 << 20, 0))
    heard.stream.send(bytes(40_000))
    assert [len(data) for data, _ in data_of(server)] == [16_384, 16_384, 40_005 - 2 * 16_384]


def test_frames_are_not_longer_than_is_good_for_others() -> None:
    """A peer may take frames of 16 MiB. Other streams would wait for each."""
    server, heard = opened(1 << 30)
    server.receive(settings_frame((Setting.MAX_FRAME_SIZE, (1 << 24) - 1)) + grant(1 << 29, 0))
    heard.stream.send(bytes(5 << 20))
    assert max(len(data) for data, _ in data_of(server)) <= 1 << 20


def test_streams_take_turns() -> None:
    server, _ = opened(1 << 30)
    server.receive(grant(1 << 29, 0) + headers_frame(3, REQUEST) + headers_frame(5, REQUEST))
    streams = [server.heard[number].stream for number in (1, 3, 5)]
    for stream in streams[1:]:
        stream.send_headers(RESPONSE)
    server.sent()
    for stream in streams:
        stream.send(bytes(3 << 20))
    streams[2].send(b"small")
    order = [(each.stream_id, len(each.data)) for each in named(server.frames(), "DataFrame")]
    rounds = TURN_BYTES // 16_384
    assert [number for number, _ in order[: 3 * rounds]] == [1] * rounds + [3] * rounds + [5] * rounds
    assert sum(size for _, size in order) == 9 * (1 << 20) + 4 * 5 + 5


def test_a_full_transport_gets_only_answers() -> None:
    server, heard = opened()
    server.http2.transport_full(True)
    heard.stream.send(b"later")
    server.receive(frame(6, 0, 0, b"12345678"))
    assert [type(each).__name__ for each in server.frames()] == ["PingFrame"]
    server.http2.transport_full(False)
    assert data_of(server) == [(message(b"later"), False)]


# --- giving up what waits ---------------------------------------------------------------------------------------------


def test_an_end_that_waited_comes_when_its_messages_are_dropped() -> None:
    """Otherwise nothing would ever bring it: there is nothing left to wait for a window."""
    server, heard = opened(0)
    heard.stream.send(b"never")
    heard.stream.end(TRAILERS)
    assert server.sent() == b""
    heard.stream.drop_waiting()
    frames = server.frames()
    assert [type(each).__name__ for each in frames] == ["HeadersFrame", "RstStreamFrame"]
    assert server.http2.streams == {}


def test_dropping_leaves_no_turn() -> None:
    server, heard = opened()
    server.http2.transport_full(True)
    heard.stream.send(b"never")
    heard.stream.drop_waiting()
    server.http2.transport_full(False)
    assert server.sent() == b""
    assert heard.kinds == ["headers"], "there was no news"
    heard.stream.end(TRAILERS)
    assert named(server.frames(), "HeadersFrame") != []


def test_nothing_but_the_end_follows_a_message_that_was_cut() -> None:
    server, heard = opened(4)
    heard.stream.send(b"abc")
    assert data_of(server) == [(message(b"abc")[:4], False)]
    heard.stream.drop_waiting()
    server.receive(grant(1000))
    heard.stream.send(b"would be read as the rest of the other")
    assert data_of(server) == []
    heard.stream.end(TRAILERS)
    assert "END_STREAM" in named(server.frames(), "HeadersFrame")[0].flags


@pytest.mark.parametrize("first", [b"", b"abc"])
def test_it_is_known_whether_a_message_is_cut(first: bytes) -> None:
    """Byte by byte: only between two messages nothing of one is out."""
    server, heard = opened(0)
    for content in (first, b"", b"xy"):
        heard.stream.send(content)
    between = {0, 5 + len(first), 10 + len(first)}
    for out in range(17 + len(first)):
        assert heard.stream.has_sent_part is (out not in between)
        server.receive(grant(1))
        server.sent()
    assert heard.stream.waiting_bytes == 0
    assert not heard.stream.has_sent_part


def test_messages_may_follow_if_none_was_dropped() -> None:
    server, heard = opened()
    heard.stream.drop_waiting()
    heard.stream.send(b"x")
    assert data_of(server) == [(message(b"x"), False)]


# --- owners that act within a call ------------------------------------------------------------------------------------

ACTS: dict[str, list[Callable[[Stream], None]]] = {
    "reset": [lambda stream: stream.reset()],
    "end": [lambda stream: stream.end(TRAILERS)],
    "send": [lambda stream: stream.send(b"answer")],
    "send and end": [lambda stream: stream.send(b"answer"), lambda stream: stream.end(TRAILERS)],
    "hold": [lambda stream: stream.hold()],
    "hold and release": [lambda stream: stream.hold(), lambda stream: stream.release()],
    "widen": [lambda stream: stream.widen()],
    "drop": [lambda stream: stream.drop_waiting()],
    "send much": [lambda stream: stream.send(bytes(100_000))],
    "send much and reset": [lambda stream: stream.send(bytes(100_000)), lambda stream: stream.reset()],
}
ENDS = ("reset", "end", "send and end", "send much and reset")


@pytest.mark.parametrize("cut", [None, 40, 100])
@pytest.mark.parametrize("event", ["headers", "message", "end", "room", "reset"])
@pytest.mark.parametrize("act", ACTS)
def test_acting_within_a_call(act: str, event: str, cut: int | None) -> None:
    """Whatever an owner does, and wherever the bytes are cut: frames stay whole, other streams are not touched."""

    def react(heard: Heard, heard_event: str) -> None:
        if heard_event == "headers" and len(heard.events) == 1:
            heard.stream.send_headers(RESPONSE)
        if heard_event == event and heard.stream.id == 1:
            for each in ACTS[act]:
                each(heard.stream)

    server = End(False, react=react, is_welcome=False)
    server.receive(PROLOGUE + settings_frame((Setting.INITIAL_WINDOW_SIZE, 20)))
    data = headers_frame(1, REQUEST) + data_frame(1, message(b"one"))
    data += data_frame(1, message(b"two")) * 2 + grant(5) + headers_frame(3, REQUEST) + data_frame(3, message(b"other"))
    data += frame(RST_STREAM, 0, 1, u32(8)) if event == "reset" else data_frame(1, b"", ends=True)
    data += grant(7) + data_frame(3, b"", ends=True)
    for piece in (data[:cut], data[cut or len(data) :]):
        server.receive(piece)
        server.frames()  # whole, or this raises
    assert server.heard[3].kinds == ["headers", "message", "end"]
    server.heard[3].stream.end(TRAILERS)
    server.receive(grant(200_000) if 1 in server.http2.streams else b"")
    server.frames()
    if act in ENDS and event in ("headers", "message", "end"):
        assert 1 not in server.http2.streams
    if act == "reset" and event == "message":
        assert server.heard[1].messages == [b"one"], "what comes after it is dropped"
    if 1 in server.http2.streams:
        server.heard[1].stream.reset()
        server.frames()
    assert server.http2.streams == {}
    assert server.http2.assembling_bytes == 0
    assert server.http2.out.turns == {}
    assert server.http2.window._held == set()


@pytest.mark.parametrize(
    ("event", "data", "resets"),
    [
        ("headers", headers_frame(1, REQUEST, ends=True), []),
        ("message", headers_frame(1, REQUEST) + data_frame(1, message(b"x"), ends=True), []),
        ("end", headers_frame(1, REQUEST) + data_frame(1, b"", ends=True), []),
        ("headers", headers_frame(1, REQUEST), [ErrorCode.NO_ERROR]),
        ("message", headers_frame(1, REQUEST) + data_frame(1, message(b"x")), [ErrorCode.NO_ERROR]),
    ],
)
def test_an_answer_at_once_resets_only_a_request_that_goes_on(event: str, data: bytes, resets: list[ErrorCode]) -> None:
    def react(heard: Heard, heard_event: str) -> None:
        if heard_event == event:
            heard.stream.send_headers([*RESPONSE, *TRAILERS], end=True)

    server = a_server(react=react)
    server.receive(data)
    assert [each.error_code for each in named(server.frames(), "RstStreamFrame")] == resets
    assert server.http2.streams == {}


def test_an_owner_may_send_whenever_there_is_room() -> None:
    """From within on_room, without end: it takes turns like everybody."""
    left = [5]

    def react(heard: Heard, event: str) -> None:
        if event == "room" and left[0]:
            left[0] -= 1
            heard.stream.send(bytes(30_000))
            heard.stream.send(b"x")

    server, heard = opened(1 << 20, react=react)
    server.receive(grant(1 << 20, 0))
    heard.stream.send(bytes(30_000))
    sizes = [len(data) for data, _ in data_of(server)]
    assert sum(sizes) == 6 * 30_005 + 5 * 6


# --- receiving --------------------------------------------------------------------------------------------------------


def test_held_streams_get_no_window() -> None:
    client, server = pair()
    stream = client.open().stream
    talk(client, server)
    server.heard[1].stream.hold()
    for _ in range(10):
        stream.send(bytes(1 << 20))
    talk(client, server)
    assert len(server.heard[1].messages) == 3, "four MiB, with prefixes"
    server.heard[1].stream.release()
    talk(client, server)
    assert len(server.heard[1].messages) == 10


def test_a_held_stream_that_is_reset_gives_the_connections_window_back() -> None:
    """Or nobody could send any more: there is no DATA that would bring the next look at it."""
    client, server = pair(replace(SERVER, connection_window_bytes=100_000))
    first, second = client.open().stream, client.open().stream
    talk(client, server)
    server.heard[1].stream.hold()
    first.send(bytes(99_990))
    second.send(b"waits")
    talk(client, server)
    assert server.heard[3].messages == []
    server.heard[1].stream.reset()
    talk(client, server)
    assert server.heard[3].messages == [b"waits"]


def test_a_held_stream_that_its_peer_resets_gives_the_connections_window_back() -> None:
    client, server = pair(replace(SERVER, connection_window_bytes=100_000))
    first, second = client.open().stream, client.open().stream
    talk(client, server)
    server.heard[1].stream.hold()
    first.send(bytes(99_990))
    second.send(b"waits")
    talk(client, server)
    first.reset()
    talk(client, server)
    assert server.heard[3].messages == [b"waits"]


def test_only_what_came_while_a_stream_is_held_is_held_back() -> None:
    """Bytes that were given back before do not count again: streams that are held late must not stop the others."""
    client, server = pair(replace(SERVER, connection_window_bytes=1 << 20, stream_window_bytes=1 << 20))
    streams = [client.open().stream for _ in range(4)]
    talk(client, server)
    for stream in streams[:3]:
        stream.send(bytes(450_000))  # less than half a window: not given back to the stream, but to the connection
        talk(client, server)
    for number in (1, 3, 5):
        server.heard[number].stream.hold()
    streams[3].send(bytes(3_000_000))
    talk(client, server)
    assert [len(each) for each in server.heard[7].messages] == [3_000_000]


def test_a_client_that_does_not_read_one_stream_can_read_others() -> None:
    """Answers to a client that waits for one of them must not be stopped by others that it reads later."""
    settings = replace(CLIENT_SETTINGS, first_window_bytes=100_000, connection_window_bytes=100_000)
    client, server = pair(client_settings=settings)
    streams = [client.open() for _ in range(5)]
    talk(client, server)
    for heard in server.heard.values():
        heard.stream.send_headers(RESPONSE)
    for unread in streams[:4]:
        unread.stream.hold()
    for number in (1, 3, 5, 7):
        server.heard[number].stream.send(bytes(500_000))
    talk(client, server)
    server.heard[9].stream.send(b"read me")
    talk(client, server)
    assert streams[4].messages == [b"read me"]
    assert sum(heard.stream.unacked_bytes for heard in streams[:4]) <= 4 * 100_000, "a window each, and no more"
    for unread in streams[:4]:
        unread.stream.release()
    talk(client, server)
    assert [len(unread.messages) for unread in streams[:4]] == [1] * 4


def test_looking_for_windows_to_give_does_not_cost_each_frame() -> None:
    """However many streams are held: what they hold is added up when there can be something to give."""
    server = a_server(replace(SERVER, connection_window_bytes=1 << 20))
    for number in range(1, 1001, 2):
        server.receive(headers_frame(number, REQUEST))
        server.heard[number].stream.hold()
        server.receive(data_frame(number, message(bytes(900))))
    server.heard[1].stream.release()
    with counted_calls() as calls:
        for _ in range(20_000):  # to beyond half of the window, most of which is held
            server.receive(data_frame(1, message(b"x" * 15)))
    assert calls.by_name["held_bytes"] <= 5 * 500
    assert len(server.heard[1].messages) == 20_001


@pytest.mark.parametrize("size", [65_535, 65_535 + 100])
def test_a_request_that_is_welcome_late_goes_on(size: int) -> None:
    """Also if there is no larger window to give: what was used comes back then."""
    settings = replace(SERVER, stream_window_bytes=65_535, connection_window_bytes=size)
    client, server = End(True), End(False, settings, is_welcome=False)
    stream = client.open().stream
    stream.send(bytes(200_000))
    talk(client, server)
    assert server.heard[1].messages == []
    server.heard[1].stream.widen()
    server.heard[1].stream.widen()
    talk(client, server)
    assert [len(each) for each in server.heard[1].messages] == [200_000]


REFUSED = {
    "compressed": b"\x01" + u32(1) + b"x",
    "too large": b"\x00" + u32(SERVER.message_bytes_max + 1),
}


@pytest.mark.parametrize("why", REFUSED)
@pytest.mark.parametrize("flags", [0, END_STREAM])
def test_messages_that_are_not_taken(why: str, flags: int) -> None:
    """The owner may give a status; the stream is over in any case."""

    def react(heard: Heard, event: str) -> None:
        if event == "refused" and heard.stream.id == 1:
            heard.stream.send_headers([*RESPONSE, ("grpc-status", "8")], end=True)

    server = a_server(react=react)
    for number in (1, 3):
        server.receive(headers_frame(number, REQUEST) + frame(DATA, flags, number, REFUSED[why]))
    frames = server.frames()
    assert [each.stream_id for each in named(frames, "HeadersFrame")] == [1]
    resets = [(each.stream_id, each.error_code) for each in named(frames, "RstStreamFrame")]
    assert resets == [*([] if flags else [(1, ErrorCode.NO_ERROR)]), (3, ErrorCode.CANCEL)]
    assert server.http2.streams == {}
    for number in (1, 3):
        assert server.heard[number].kinds == ["headers", "refused"]


def test_the_largest_message_is_taken() -> None:
    server = a_server(replace(SERVER, message_bytes_max=1000))
    server.receive(
        headers_frame(1, REQUEST) + data_frame(1, message(bytes(1000))) + data_frame(1, message(bytes(1001)))
    )
    assert server.heard[1].kinds == ["headers", "message", "refused"]
