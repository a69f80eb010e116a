"""Bytes come cut anywhere: what is heard and answered is the same, and the work does not grow with the cuts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.http2.support import (
    PROLOGUE,
    REQUEST,
    RESPONSE,
    SETTINGS_FRAME,
    TRAILERS,
    End,
    Heard,
    a_server,
    block,
    counted_calls,
    data_frame,
    headers_frame,
    message,
    read_frames,
    settings_frame,
    u32,
)
from tests.wire.http2.test_violations import BEGINNINGS, TO_CLIENTS, TO_SERVERS, Case, ids
from weft.wire.http2 import BadHttp2
from weft.wire.http2.frames import (
    CONTINUATION,
    DATA,
    END_STREAM,
    HEADERS,
    PADDED,
    PING,
    PRIORITY,
    RST_STREAM,
    WINDOW_UPDATE,
    Setting,
    frame,
)


class Outcome(NamedTuple):
    heard: dict[int, list[tuple[Any, ...]]]
    answers: list[str]
    error: str


def answer(heard: Heard, event: str) -> None:
    """A server that answers each message at once, and the end."""
    if event == "headers" and len(heard.events) == 1:
        heard.stream.send_headers(RESPONSE)
    elif event == "message":
        heard.stream.send(heard.events[-1][1][::-1])
    elif event == "end":
        heard.stream.end(TRAILERS)


def fed(end: End, pieces: Iterator[bytes]) -> Outcome:
    """What comes of it. Updates of the connection's window are left out: several frames may share one."""
    error = ""
    for piece in pieces:
        try:
            end.receive(piece)
        except BadHttp2 as raised:
            error = str(raised)
            break
    updates = [(each, f"{type(each).__name__} {each.stream_id} {each.flags} {each.body_len}") for each in end.frames()]
    answers = [text for each, text in updates if text[:17] != "WindowUpdateFrame" or each.stream_id]
    return Outcome({number: heard.events for number, heard in end.heard.items()}, answers, error)


def bytewise(data: bytes) -> Iterator[bytes]:
    return (data[at : at + 1] for at in range(len(data)))


@pytest.mark.parametrize("case", BEGINNINGS + TO_SERVERS, ids=ids(BEGINNINGS) + ids(TO_SERVERS))
def test_byte_by_byte_to_servers(case: Case) -> None:
    data = case.data if case in BEGINNINGS else PROLOGUE + case.data
    at_once = fed(End(False, react=answer, is_welcome=False), iter([data]))
    assert fed(End(False, react=answer, is_welcome=False), bytewise(data)) == at_once


@pytest.mark.parametrize("case", TO_CLIENTS, ids=ids(TO_CLIENTS))
def test_byte_by_byte_to_clients(case: Case) -> None:
    ends = []
    for _ in range(2):
        end = End(True)
        end.open().stream.send(b"x")
        ends.append(end)
    data = SETTINGS_FRAME + case.data
    assert fed(ends[0], bytewise(data)) == fed(ends[1], iter([data]))


numbers = st.sampled_from([1, 3, 5])
contents = st.binary(max_size=40) | st.integers(0, 70_000).map(bytes)
flags = st.sampled_from([0, 0, 0, 0, END_STREAM])
frames = st.one_of(
    st.builds(lambda number, fields, ends: headers_frame(number, fields, ends=ends), numbers,
              st.sampled_from([REQUEST, REQUEST, TRAILERS]), st.booleans()),
    st.builds(lambda number, content, flag: frame(DATA, flag, number, message(content)), numbers, contents, flags),
    st.builds(lambda number, content, flag: frame(DATA, flag, number, content), numbers, st.binary(max_size=20), flags),
    st.builds(lambda number, content, padding: frame(DATA, PADDED, number, bytes([padding]) + content + bytes(padding)),
              numbers, contents.map(message), st.integers(0, 255)),
    st.builds(lambda number, cut: frame(HEADERS, 0, number, block(*REQUEST)[:cut])
              + frame(CONTINUATION, 4, number, block(*REQUEST)[cut:]), numbers, st.integers(0, 60)),
    st.builds(lambda payload: frame(PING, 0, 0, payload), st.binary(min_size=8, max_size=8)),
    st.builds(lambda number: frame(RST_STREAM, 0, number, u32(8)), numbers),
    st.builds(lambda number, more: frame(WINDOW_UPDATE, 0, number, u32(more)), numbers | st.just(0), st.integers(0, 9)),
    st.builds(lambda value: settings_frame((Setting.INITIAL_WINDOW_SIZE, value)), st.integers(0, 70_000)),
    st.builds(lambda number: frame(PRIORITY, 0, number, u32(0) + b"x"), numbers),
)  # fmt: skip


@given(st.lists(frames, max_size=30), st.lists(st.integers(0, 1 << 18), max_size=20), st.booleans())
def test_every_split_gives_the_same(sent: list[bytes], cuts: list[int], is_welcome: bool) -> None:
    """Good frames and bad ones, to a server that answers."""
    data = PROLOGUE + headers_frame(1, REQUEST) + b"".join(sent)
    edges = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    pieces = [data[first:last] for first, last in pairwise(edges)]
    at_once = fed(End(False, react=answer, is_welcome=is_welcome), iter([data]))
    assert fed(End(False, react=answer, is_welcome=is_welcome), iter(pieces)) == at_once


def test_frames_in_one_byte_pieces_are_looked_at_few_times() -> None:
    """A long frame that is read whole is not looked at again, or copied, with each byte."""
    server = a_server()
    data = frame(HEADERS, 0, 1, block(*REQUEST, ("a", "b" * 16_000)))
    with counted_calls() as calls:
        for piece in bytewise(data):
            server.receive(piece)
    assert calls.by_name["_receive_frame"] <= 4
    server.receive(frame(CONTINUATION, 4, 1))
    assert server.heard[1].kinds == ["headers"]


def test_a_large_message_in_one_byte_pieces() -> None:
    """Each byte costs some calls, and not more with each byte before it."""
    content = bytes(range(256)) * 64
    data = headers_frame(1, REQUEST) + data_frame(1, message(content), ends=True)
    costs = []
    for size in (len(data) // 2, len(data)):
        server = a_server()
        with counted_calls() as calls:
            for piece in bytewise(data[:size]):
                server.receive(piece)
        costs.append(calls.count)
    assert costs[1] < 2.1 * costs[0]
    assert server.heard[1].messages == [content]


def test_messages_that_are_whole_take_the_short_way() -> None:
    """Few calls for each, when many come in one piece: that is where the speed comes from."""
    server = a_server()
    server.receive(headers_frame(1, REQUEST))
    data = data_frame(1, message(b"x" * 200)) * 1000
    with counted_calls() as calls:
        server.receive(data)
    assert len(server.heard[1].messages) == 1000
    assert calls.count < 2.2 * 1000, "the owner's two, and next to nothing else"


@pytest.mark.parametrize("content", [b"", b"x", bytes(5000)])
@pytest.mark.parametrize("padding", [None, 0, 1, 255])
@pytest.mark.parametrize("cut", range(1, 30, 3))
def test_padding_is_no_content(content: bytes, padding: int | None, cut: int) -> None:
    body = message(content)
    if padding is not None:
        body = bytes([padding]) + body + b"\x07" * padding
    data = frame(DATA, END_STREAM | (0 if padding is None else PADDED), 1, body)
    server = a_server()
    server.receive(headers_frame(1, REQUEST))
    server.receive(data[:cut])
    server.receive(data[cut:-2])
    server.receive(data[-2:] if len(data) - 2 >= cut else data[cut:])
    assert server.heard[1].events[1:] == [("message", content), ("end",)]
    assert server.heard[1].stream.unacked_bytes == len(body), "padding counts against windows"


def test_what_an_owner_ends_is_not_read_on() -> None:
    """It may be told of the loss within a call of its own: nothing of what came in the same piece is taken."""
    server = End(False, react=lambda heard, event: server.http2.lost("enough") if event == "message" else None)
    more = headers_frame(3, REQUEST) + frame(PING, 0, 0, bytes(8))
    server.receive(PROLOGUE + headers_frame(1, REQUEST))
    server.sent()
    server.receive(data_frame(1, message(b"x")) * 2 + more)
    assert server.heard[1].kinds == ["headers", "message", "reset"]
    assert list(server.heard) == [1]
    assert read_frames(server.sent()) == []
