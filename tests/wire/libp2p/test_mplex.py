from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.wire.libp2p.support import cases, split_at
from weft.errors import UsageError
from weft.limits import MPLEX_MESSAGE_BYTES_MAX
from weft.wire.libp2p import varint
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.mplex import (
    MPLEX_MESSAGES_AT_ONCE,
    MPLEX_STREAM_NUMBER_MAX,
    MPLEX_STREAMS_MAX,
    Event,
    Flag,
    Mplex,
    StreamClosed,
    StreamData,
    StreamId,
    StreamOpened,
    StreamRefused,
    StreamReset,
)

THEIRS = StreamId(0, ours=False)
OURS = StreamId(0, ours=True)


def message(number: int, flag: int, data: bytes = b"") -> bytes:
    return varint.encode(number << 3 | flag) + varint.prefixed(data)


# --- the reference's bytes --------------------------------------------------------------------------------------------


def meaning(frame: dict[str, Any]) -> Event:
    """The event that a message of the reference must give."""
    stream = StreamId(frame["number"], ours=frame["flag"] % 2 == 1)
    data = bytes.fromhex(frame["data"])
    if frame["flag"] == Flag.NEW:
        return StreamOpened(stream)
    if frame["flag"] in (Flag.MESSAGE_RECEIVER, Flag.MESSAGE_INITIATOR):
        return StreamData(stream, data)
    if frame["flag"] in (Flag.CLOSE_RECEIVER, Flag.CLOSE_INITIATOR):
        return StreamClosed(stream)
    return StreamReset(stream)


def with_own_streams(frames: list[dict[str, Any]]) -> Mplex:
    """A multiplexer that has opened the streams on which the reference answers in ``frames``."""
    mux = Mplex()
    for _ in range(1 + max((frame["number"] for frame in frames if frame["flag"] % 2), default=-1)):
        mux.open_stream()
    return mux


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("case", cases("mplex"))
def test_reference_messages_are_read(case: dict[str, Any]) -> None:
    mux = with_own_streams(case["meaning"])
    assert mux.receive_data(bytes.fromhex(case["bytes"])) == [meaning(frame) for frame in case["meaning"]]


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("case", cases("mplex"))
def test_reference_messages_are_written(case: dict[str, Any]) -> None:
    """The same conversation from the reference's side of the connection."""
    mux, written = Mplex(), b""
    for number in range(1 + max(frame["number"] for frame in case["meaning"] if frame["flag"] % 2)):
        mux.receive_data(message(number, Flag.NEW))
    for frame in case["meaning"]:
        stream = StreamId(frame["number"], ours=frame["flag"] % 2 == 0)
        if frame["flag"] == Flag.NEW:
            assert bytes.fromhex(frame["data"]) == str(stream.number).encode()
            opened, data = mux.open_stream()
            assert opened == stream
        elif frame["flag"] in (Flag.MESSAGE_INITIATOR, Flag.MESSAGE_RECEIVER):
            data = mux.send(stream, bytes.fromhex(frame["data"]))
        elif frame["flag"] in (Flag.CLOSE_INITIATOR, Flag.CLOSE_RECEIVER):
            data = mux.close(stream)
        else:
            data = mux.reset(stream)
        written += data
    assert written.hex() == case["bytes"]


@given(case=st.sampled_from(cases("mplex")), cuts=st.lists(st.integers(0, 5000), max_size=20))
def test_any_split_gives_the_same_events(case: dict[str, Any], cuts: list[int]) -> None:
    mux = with_own_streams(case["meaning"])
    events = [event for piece in split_at(bytes.fromhex(case["bytes"]), cuts) for event in mux.receive_data(piece)]
    assert events == [meaning(frame) for frame in case["meaning"]]


# --- by hand: 0x00 0x01 "0" is stream 0, new, named "0" ---------------------------------------------------------------


def test_known_bytes() -> None:
    mux = Mplex()
    stream, opening = mux.open_stream()
    assert opening.hex() == "000130"
    assert mux.send(stream, b"hi").hex() == "02026869"
    assert mux.close(stream).hex() == "0400"
    assert mux.receive_data(bytes.fromhex("010268690300")) == [StreamData(OURS, b"hi"), StreamClosed(OURS)]
    second, opening = mux.open_stream()
    assert (second, opening.hex()) == (StreamId(1, ours=True), "080131")
    assert mux.reset(second).hex() == "0e00"

    assert mux.receive_data(bytes.fromhex("000130")) == [StreamOpened(THEIRS)]
    assert mux.send(THEIRS, b"hi").hex() == "01026869"
    assert mux.close(THEIRS).hex() == "0300"
    assert mux.receive_data(bytes.fromhex("0801310e00")) == [
        StreamOpened(StreamId(1, ours=False)),
        StreamReset(StreamId(1, ours=False)),
    ]


@pytest.mark.req("COA-01")
def test_message_boundaries_are_kept() -> None:
    mux = Mplex()
    wire = message(0, Flag.NEW) + b"".join(message(0, Flag.MESSAGE_INITIATOR, data) for data in (b'{"op":2}', b"{}"))
    assert mux.receive_data(wire)[1:] == [StreamData(THEIRS, b'{"op":2}'), StreamData(THEIRS, b"{}")]


def test_long_data_goes_out_in_several_messages() -> None:
    mux = Mplex()
    stream, opening = mux.open_stream()
    wire = opening + mux.send(stream, bytes(MPLEX_MESSAGE_BYTES_MAX + 1))
    other = Mplex()
    sizes = [len(event.data) for event in other.receive_data(wire) if isinstance(event, StreamData)]
    assert sizes == [MPLEX_MESSAGE_BYTES_MAX, 1]


def test_both_sides_number_their_own_streams() -> None:
    mux = Mplex()
    ours, _ = mux.open_stream()
    mux.receive_data(message(0, Flag.NEW))
    assert mux.streams == {ours, THEIRS} == {OURS, THEIRS}
    assert mux.receive_data(message(0, Flag.MESSAGE_RECEIVER, b"a")) == [StreamData(OURS, b"a")]
    assert mux.receive_data(message(0, Flag.MESSAGE_INITIATOR, b"b")) == [StreamData(THEIRS, b"b")]


def test_empty_messages_say_nothing() -> None:
    mux = Mplex()
    assert mux.receive_data(message(0, Flag.NEW) + message(0, Flag.MESSAGE_INITIATOR)) == [StreamOpened(THEIRS)]
    assert mux.send(THEIRS, b"") == b""


# --- half-open, unknown, used and too many ----------------------------------------------------------------------------


def test_a_stream_that_the_peer_closed_can_still_be_written() -> None:
    mux = Mplex()
    mux.receive_data(message(0, Flag.NEW) + message(0, Flag.CLOSE_INITIATOR))
    assert mux.send(THEIRS, b"answer") == message(0, Flag.MESSAGE_RECEIVER, b"answer")
    assert mux.close(THEIRS) == message(0, Flag.CLOSE_RECEIVER)
    assert not mux.streams


def test_a_stream_that_we_closed_can_still_be_read() -> None:
    mux = Mplex()
    stream, _ = mux.open_stream()
    mux.close(stream)
    with pytest.raises(UsageError, match="not open for sending"):
        mux.send(stream, b"x")
    assert mux.receive_data(message(0, Flag.MESSAGE_RECEIVER, b"x") + message(0, Flag.CLOSE_RECEIVER)) == [
        StreamData(OURS, b"x"),
        StreamClosed(OURS),
    ]
    assert not mux.streams


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("flag", [flag for flag in Flag if flag != Flag.NEW])
def test_messages_for_unknown_streams_are_late_and_ignored(flag: Flag) -> None:
    mux = Mplex()
    assert mux.receive_data(message(5, flag, b"late")) == []
    assert mux.data_to_send() == b""


@pytest.mark.req("COA-01")
def test_what_arrives_after_our_reset_is_ignored() -> None:
    mux = Mplex()
    stream, _ = mux.open_stream()
    mux.reset(stream)
    assert mux.receive_data(message(0, Flag.MESSAGE_RECEIVER, b"late") + message(0, Flag.CLOSE_RECEIVER)) == []


@pytest.mark.req("COA-01")
def test_a_stream_is_opened_twice() -> None:
    mux = Mplex()
    with pytest.raises(BadFrame, match="opens a stream that is open"):
        mux.receive_data(message(0, Flag.NEW) + message(0, Flag.NEW))


@pytest.mark.parametrize("ending", [Flag.RESET_INITIATOR, Flag.CLOSE_INITIATOR])
@pytest.mark.req("COA-01")
def test_a_number_may_come_again_when_its_stream_is_gone(ending: Flag) -> None:
    mux = Mplex()
    mux.receive_data(message(0, Flag.NEW) + message(0, ending))
    mux.close(THEIRS)
    assert mux.receive_data(message(0, Flag.NEW)) == [StreamOpened(THEIRS)]


@pytest.mark.parametrize("flag", [Flag.MESSAGE_INITIATOR, Flag.CLOSE_INITIATOR])
@pytest.mark.req("COA-01")
def test_the_peer_goes_on_after_closing(flag: Flag) -> None:
    mux = Mplex()
    with pytest.raises(BadFrame, match="after closing"):
        mux.receive_data(message(0, Flag.NEW) + message(0, Flag.CLOSE_INITIATOR) + message(0, flag, b"x"))


def test_the_peer_resets_after_closing() -> None:
    mux = Mplex()
    wire = message(0, Flag.NEW) + message(0, Flag.CLOSE_INITIATOR) + message(0, Flag.RESET_INITIATOR)
    assert mux.receive_data(wire)[-1] == StreamReset(THEIRS)
    assert not mux.streams


@pytest.mark.req("COA-01")
def test_one_stream_too_many_is_reset_at_once() -> None:
    mux = Mplex()
    mux.receive_data(b"".join(message(number, Flag.NEW) for number in range(MPLEX_STREAMS_MAX)))
    surplus = StreamId(MPLEX_STREAMS_MAX, ours=False)
    assert mux.receive_data(message(surplus.number, Flag.NEW)) == [StreamRefused(surplus)]
    assert mux.data_to_send() == message(surplus.number, Flag.RESET_RECEIVER)
    assert mux.receive_data(message(surplus.number, Flag.MESSAGE_INITIATOR, b"x")) == []
    with pytest.raises(UsageError, match="too many"):
        mux.open_stream()


def test_stream_numbers_run_out() -> None:
    mux = Mplex()
    mux._next_number = MPLEX_STREAM_NUMBER_MAX
    mux.open_stream()
    with pytest.raises(UsageError, match="used up"):
        mux.open_stream()


def test_ending_twice_says_nothing() -> None:
    mux = Mplex()
    stream, _ = mux.open_stream()
    mux.close(stream)
    assert mux.close(stream) == b""
    mux.reset(stream)
    assert mux.reset(stream) == mux.close(stream) == b""


@pytest.mark.req("COA-01")
@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        (varint.encode(2) + varint.encode(MPLEX_MESSAGE_BYTES_MAX + 1), "too long"),
        (b"\x02" + b"\xff" * 9 + b"\x01", "too long"),
        (b"\x02" + b"\xff" * 10, "does not end"),
        (b"\xff" * 10, "does not end"),
        (message(0, 7), "unknown kind"),
    ],
)
def test_oversize_and_impossible_messages(wire: bytes, reason: str) -> None:
    with pytest.raises(BadFrame, match=reason):
        Mplex().receive_data(wire)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 7), st.binary(max_size=5)), max_size=20),
    st.binary(max_size=20),
)
def test_any_bytes_give_events_or_are_refused(messages: list[tuple[int, int, bytes]], tail: bytes) -> None:
    mux = Mplex()
    mux.open_stream()
    with contextlib.suppress(BadFrame):
        mux.receive_data(b"".join(message(*parts) for parts in messages) + tail)
    mux.data_to_send()


class TwoEnds(RuleBasedStateMachine):
    """Two multiplexers that do whatever they like: what one says is what the other hears, and neither leaks streams."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = (Mplex(), Mplex())
        self.said: tuple[list[Event], list[Event]] = ([], [])
        self.heard: tuple[list[Event], list[Event]] = ([], [])

    def _pick(self, end: int, choice: int) -> StreamId | None:
        streams = sorted(self.ends[end].streams)
        return streams[choice % len(streams)] if streams else None

    def _carry(self, end: int, data: bytes) -> None:
        self.heard[1 - end].extend(self.ends[1 - end].receive_data(data))

    @rule(end=st.integers(0, 1))
    def opens(self, end: int) -> None:
        stream, data = self.ends[end].open_stream()
        self.said[end].append(StreamOpened(StreamId(stream.number, ours=False)))
        self._carry(end, data)

    @rule(end=st.integers(0, 1), choice=st.integers(0, 99), data=st.binary(min_size=1, max_size=10))
    def sends(self, end: int, choice: int, data: bytes) -> None:
        stream = self._pick(end, choice)
        if stream is None:
            return
        try:
            wire = self.ends[end].send(stream, data)
        except UsageError:
            return
        self.said[end].append(StreamData(StreamId(stream.number, ours=not stream.ours), data))
        self._carry(end, wire)

    @rule(end=st.integers(0, 1), choice=st.integers(0, 99), resets=st.booleans())
    def ends_a_stream(self, end: int, choice: int, resets: bool) -> None:
        stream = self._pick(end, choice)
        if stream is None:
            return
        wire = self.ends[end].reset(stream) if resets else self.ends[end].close(stream)
        if wire:
            mirrored = StreamId(stream.number, ours=not stream.ours)
            self.said[end].append(StreamReset(mirrored) if resets else StreamClosed(mirrored))
        self._carry(end, wire)

    @invariant()
    def agree(self) -> None:
        assert self.said[0] == self.heard[1]
        assert self.said[1] == self.heard[0]
        mirrored = {StreamId(stream.number, ours=not stream.ours) for stream in self.ends[0].streams}
        assert mirrored == self.ends[1].streams


TwoEnds.TestCase.settings = settings(max_examples=30, stateful_step_count=30)
TestTwoEnds = TwoEnds.TestCase


def test_messages_that_come_together_are_bounded() -> None:
    late = message(5, Flag.MESSAGE_INITIATOR)
    assert Mplex().receive_data(late * MPLEX_MESSAGES_AT_ONCE) == []
    with pytest.raises(BadFrame, match="too many messages at once"):
        Mplex().receive_data(late * (MPLEX_MESSAGES_AT_ONCE + 1))
