"""How much a peer may send on a connection."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.wire.http2 import BadHttp2, ErrorCode
from weft.wire.http2.window import ReceiveWindow


class Stream:
    held_bytes = 0


def test_a_stranger_has_one_window() -> None:
    window = ReceiveWindow()
    window.count(65_535)
    assert window.take_due() == 0
    with pytest.raises(BadHttp2) as caught:
        window.count(1)
    assert caught.value.code is ErrorCode.FLOW_CONTROL_ERROR


def test_a_stranger_gets_back_what_was_dropped() -> None:
    """Or a client whose calls are refused would hang, instead of being told again."""
    window = ReceiveWindow()
    window.count(60_000)
    assert window.drop(30_000) == 0
    assert window.drop(3000) == 33_000
    assert window.room_bytes == 65_535 - 27_000
    assert window.drop(27_000) == 0
    assert window.widen(100_000) == 34_465
    assert window.drop(1) == 0, "from now on all is given back in time"
    window.count(23_000)
    assert window.take_due() == 50_000
    assert window.room_bytes == 100_000


def test_who_is_welcome_gets_back_what_it_used() -> None:
    window = ReceiveWindow()
    window.count(60_000)
    assert window.widen(100_000) == 34_465
    assert window.widen(100_000) == 0
    assert window.take_due() == 60_000, "more than half"
    window.count(49_999)
    assert window.take_due() == 0
    window.count(1)
    assert window.take_due() == 50_000
    assert window.room_bytes == 100_000


def test_what_is_held_back_is_given_when_it_is_released() -> None:
    window, stream = ReceiveWindow(), Stream()
    window.widen(100_000)
    window.hold(stream)
    window.count(90_000)
    stream.held_bytes = 90_000
    assert window.take_due() == 0
    window.count(9_000)
    assert window.take_due() == 0
    window.release(stream)
    assert window.take_due() == 99_000
    window.release(stream)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 40_000)), max_size=60))
def test_it_is_as_if_all_were_added_up_each_time(steps: list[tuple[int, int, int]]) -> None:
    """The next look is put off, but never too long."""
    window = ReceiveWindow()
    window.widen(100_000)
    streams = [Stream() for _ in range(4)]
    held: set[int] = set()
    used = 0  # not given back
    for step, which, size in steps:
        if step == 0 and which not in held:
            held.add(which)
            streams[which].held_bytes = 0
            window.hold(streams[which])
        elif step == 1:
            held.discard(which)
            window.release(streams[which])
        elif size <= window.room_bytes:
            if which in held:
                streams[which].held_bytes += size
            window.count(size)
            used += size
        ready = used - sum(streams[each].held_bytes for each in held)
        expected = ready if ready >= 50_000 else 0
        assert window.take_due() == expected
        used -= expected
        assert window.room_bytes == 100_000 - used
