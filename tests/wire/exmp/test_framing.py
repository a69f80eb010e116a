"""Lengths before messages: any split gives the same messages, and the work stays linear."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.exmp.strategies import messages
from weft.errors import UsageError
from weft.wire.exmp import BadMessage, FrameReader, Message, Ping, Request, encode, frame, messages_untrusted


def read_all(reader: FrameReader) -> list[bytes]:
    read = []
    while (data := reader.next_untrusted()) is not None:
        read.append(data)
    return read


@pytest.mark.req("EXM-01")
@given(st.lists(messages, max_size=6), st.data())
def test_every_split_gives_the_same_messages(sent: list[Message], data: st.DataObject) -> None:
    stream = b"".join(frame(encode(message), 1000) for message in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = FrameReader(1000)
    received: list[bytes] = []
    for first, last in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        reader.feed(stream[first:last])
        received += read_all(reader)
    assert received == [encode(message) for message in sent]
    assert reader.buffered_bytes == 0


@pytest.mark.req("EXM-01")
def test_byte_by_byte() -> None:
    reader = FrameReader(100)
    for byte in bytes.fromhex("00000004 02 0000"):
        reader.feed(bytes([byte]))
        assert reader.next_untrusted() is None
    assert reader.buffered_bytes == 7
    reader.feed(b"\0")
    assert reader.next_untrusted() == bytes.fromhex("02000000")
    assert reader.next_untrusted() is None


def test_reading_only_part_of_what_was_fed_keeps_the_rest() -> None:
    reader = FrameReader(100)
    ping = frame(encode(Ping()), 100)
    for _ in range(3):
        reader.feed(ping * 2)
        assert reader.next_untrusted() == ping[4:]
    assert reader.buffered_bytes == 3 * len(ping)
    assert read_all(reader) == [ping[4:]] * 3


def test_a_long_message_in_small_pieces() -> None:
    """Would take hours if each piece moved what came before it. What was read is let go."""
    message = encode(Request(1, bytes((16 << 20) - 12)))
    stream = frame(message, 16 << 20)
    reader = FrameReader(16 << 20)
    read = []
    for at in range(0, len(stream), 200):
        reader.feed(stream[at : at + 200])
        read += read_all(reader)
    assert read == [message]
    assert len(reader._buffer) == 0


@pytest.mark.req("EXM-01")
@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        ("00000003", "length is shorter than a header"),
        ("00000065", "message is too long"),
        ("00000064 07", "unknown message type"),
        ("00000064 00", "hello has leftover bytes"),
        ("0000000b 05", "request is cut off"),
    ],
)
def test_refused_as_early_as_can_be(stream: str, reason: str) -> None:
    data = bytes.fromhex(stream)
    reader = FrameReader(100)
    reader.feed(data[:-1])
    assert reader.next_untrusted() is None
    reader.feed(data[-1:])
    with pytest.raises(BadMessage, match=reason) as caught:
        reader.next_untrusted()
    assert caught.value.code == 1


def test_a_message_over_the_limit_is_not_written() -> None:
    assert len(frame(bytes(100), 100)) == 104
    with pytest.raises(UsageError, match=r"message is too long \(bytes 101, limit 100\)"):
        frame(bytes(101), 100)


@given(st.lists(messages, max_size=5))
def test_a_capture_is_read_with_offsets(sent: list[Message]) -> None:
    frames = [frame(encode(message), 1000) for message in sent]
    found = list(messages_untrusted(b"".join(frames), 1000))
    assert [message for _, _, message in found] == sent
    assert [b"".join(frames)[at:end] for at, end, _ in found] == frames


@pytest.mark.parametrize(
    ("rest", "reason", "at"),
    [
        ("0000", "length is cut off", 8),
        ("00000001", "length is shorter than a header", 8),
        ("00000004 0200", "message is cut off", 8),
        ("00000004 09000000", "unknown message type", 12),
        ("0000000c 05000000 0000000000000000", "the id of a request is zero", 16),
        ("0000000b 04000000 00000000 0001 ff", "description is not UTF-8", 22),
    ],
)
def test_errors_in_a_capture_name_the_offset_in_the_capture(rest: str, reason: str, at: int) -> None:
    data = frame(encode(Ping()), 100) + bytes.fromhex(rest)
    with pytest.raises(BadMessage, match=reason) as caught:
        list(messages_untrusted(data, 100))
    assert caught.value.facts["at"] == at


def test_a_capture_ends_with_its_last_message() -> None:
    data = frame(encode(Request(1, b"{}")), 100)
    for size in range(1, len(data)):
        with pytest.raises(BadMessage, match="is cut off"):
            list(messages_untrusted(data[:size], 100))
