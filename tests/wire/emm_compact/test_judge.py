"""Which packets get in: every refusal, in the order of its cost, and nothing twice at any time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.emm_compact.world import GROUP_KEY, UNIX_AT_0_S, node_id, notification, ring_of, signer
from tests.wire.emm_compact.packets import datagrams, mutated
from weft.errors import UsageError
from weft.wire.emm_compact import Command, EventType, Field, FieldType, Header, KeyRing, Packet, seal
from weft.wire.emm_compact.judge import Epochs, Judge, Terms, note_own
from weft.wire.recent import Recent
from weft.wire.reject import BadPacket, Reject

RING = KeyRing((GROUP_KEY,))
NOW_S = UNIX_AT_0_S
TERMS = Terms()


def made(made_at_s: float, text: str = "x", tick_s: float = 1.0) -> Packet:
    epoch = int(made_at_s / tick_s) % 65536
    return seal(Header(EventType.NOTIFICATION, 1, epoch, 0), notification(text), signer(1))


def refusal(judge: Judge, data: bytes, now_s: float) -> Reject | None:
    try:
        judge.receive_datagram(data, now_s)
    except BadPacket as bad:
        return bad.reason
    return None


@pytest.mark.req("EMC-13")
@pytest.mark.parametrize(
    ("age_s", "expected"),
    [
        (0, None),
        (300, None),
        (301, Reject.STALE),
        (3600, Reject.STALE),
        (30_000, Reject.STALE),
        (-120, None),
        (-121, Reject.FUTURE),
        (-30_000, Reject.FUTURE),
    ],
)
def test_the_epoch_tells_the_age(age_s: int, expected: Reject | None) -> None:
    assert refusal(Judge(RING), made(NOW_S - age_s).raw, NOW_S) == expected


@pytest.mark.req("EMC-10")
@pytest.mark.parametrize(
    ("age_s", "hint_s", "expected"),
    [
        (0, 0, None),
        (1, 0, Reject.EXPIRED),
        (30, 30, None),
        (31, 30, Reject.EXPIRED),
        (256, 255, Reject.EXPIRED),
        (301, 255, Reject.STALE),
        (-10, 0, None),
    ],
)
def test_an_expiry_hint_makes_it_shorter(age_s: int, hint_s: int, expected: Reject | None) -> None:
    who = node_id(1)
    body = Command("stop", b"", (Field(FieldType.NODE_ID, who.bytes), Field(FieldType.EXPIRY_HINT, bytes((hint_s,)))))
    packet = seal(Header(body.TYPE, 1, int(NOW_S - age_s) % 65536, 0), body, signer(1))
    assert refusal(Judge(ring_of([1])), packet.raw, NOW_S) == expected
    if expected is Reject.EXPIRED:
        assert refusal(Judge(ring_of([1]), Terms(epochs=Epochs.ANY)), packet.raw, NOW_S) is None, "no age is known"


@pytest.mark.req("EMC-13")
@given(st.integers(-120, 300), st.lists(st.integers(0, 200), max_size=20), st.floats(0, 65_535))
def test_a_recorded_packet_gets_in_once_whenever_it_is_replayed(age_s: int, waits_s: list[int], start_s: float) -> None:
    """The cache forgets it no sooner than its epoch makes it stale; that holds across the wrap of epochs too."""
    judge, now_s = Judge(RING, marks=Recent(8)), NOW_S + start_s
    packet = made(int(now_s) - age_s)
    assert refusal(judge, packet.raw, int(now_s)) is None
    for wait_s in waits_s:
        now_s += wait_s
        assert refusal(judge, packet.raw, int(now_s)) in (Reject.REPLAY, Reject.STALE)


@pytest.mark.req("EMC-13")
def test_also_after_the_cache_has_expired() -> None:
    seen: Recent[bytes] = Recent(100)
    judge = Judge(RING, marks=seen)
    recorded = [made(NOW_S, f"event {number}").raw for number in range(10)]
    assert [refusal(judge, data, NOW_S) for data in recorded] == [None] * 10
    assert [refusal(judge, data, NOW_S + 300) for data in recorded] == [Reject.REPLAY] * 10
    later_s = NOW_S + 301
    for number in range(20):  # each addition makes room; then nothing of the recording is left in the cache
        judge.receive_datagram(made(later_s, f"other {number}").raw, later_s)
    assert len(seen) == 20
    assert [refusal(judge, data, later_s) for data in recorded] == [Reject.STALE] * 10


def test_without_a_clock_in_the_epochs_the_cache_alone_remembers() -> None:
    """For nodes that count their epochs from 0: what they make gets in, and so does a recording after five minutes."""
    judge = Judge(RING, replace(TERMS, epochs=Epochs.ANY))
    packet = made(3)
    assert refusal(judge, packet.raw, NOW_S) is None
    assert refusal(judge, packet.raw, NOW_S + 300) is Reject.REPLAY
    assert refusal(judge, packet.raw, NOW_S + 301) is None


def test_longer_ticks_are_a_setting() -> None:
    judge = Judge(RING, replace(TERMS, tick_s=60.0))
    assert refusal(judge, made(NOW_S - 240, tick_s=60.0).raw, NOW_S) is None
    assert refusal(judge, made(NOW_S - 420, tick_s=60.0).raw, NOW_S) is Reject.STALE
    with pytest.raises(UsageError, match="epochs repeat too soon"):
        replace(TERMS, tick_s=0.01)


def test_a_forgery_does_not_keep_the_real_packet_out() -> None:
    seen: Recent[bytes] = Recent(8)
    judge = Judge(RING, marks=seen)
    real = made(NOW_S)
    forged = real.raw[:-1] + b"y"
    assert refusal(judge, forged, NOW_S) is Reject.BAD_HMAC
    assert len(seen) == 0
    assert refusal(judge, real.raw, NOW_S) is None
    assert refusal(judge, forged, NOW_S) is Reject.REPLAY, (
        "known by triple and signature, so nothing is computed for it"
    )


def test_the_cache_is_bounded() -> None:
    seen: Recent[bytes] = Recent(3)
    judge = Judge(RING, marks=seen)
    for number in range(10):
        assert refusal(judge, made(NOW_S, str(number)).raw, NOW_S) is None
    assert (len(seen), seen.evicted) == (3, 7)


def test_own_events_are_seen_already() -> None:
    judge = Judge(RING)
    own = made(NOW_S)
    note_own(judge.marks, own, NOW_S)
    assert refusal(judge, own.raw, NOW_S + 1) is Reject.REPLAY


def test_keys_can_be_replaced() -> None:
    judge = Judge(KeyRing((bytes(32),)))
    assert refusal(judge, made(NOW_S).raw, NOW_S) is Reject.BAD_HMAC
    judge.ring = RING
    assert refusal(judge, made(NOW_S).raw, NOW_S) is None


@given(st.one_of(st.binary(max_size=600), datagrams(), mutated()))
def test_whatever_the_bytes_only_bad_packet_comes_out(data: bytes) -> None:
    judge = Judge(RING, replace(TERMS, epochs=Epochs.ANY))
    assert refusal(judge, data, NOW_S) is not None, "nobody can have guessed the key"
