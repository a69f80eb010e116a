"""Freshness and replay, with the clock as an argument."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.wire.emm import ReplayCache, check_fresh
from weft.wire.reject import BadPacket, Reject

NOW = 1_700_000_000


def admitted(
    cache: ReplayCache, now_s: float, message_id: int = 1, sender: bytes = b"a", sent_s: int | None = None
) -> bool:
    try:
        cache.admit(sender, message_id, int(now_s) if sent_s is None else sent_s, now_s)
    except BadPacket as error:
        assert error.reason is Reject.REPLAY
        return False
    return True


@pytest.mark.req("EMM-20")
@pytest.mark.parametrize(
    ("sent_s", "reason"),
    [(NOW - 300, None), (NOW - 301, Reject.STALE), (NOW + 120, None), (NOW + 121, Reject.FUTURE), (0, Reject.STALE),
     (2**64 - 1, Reject.FUTURE)],
)  # fmt: skip
def test_freshness(sent_s: int, reason: Reject | None) -> None:
    if reason is None:
        check_fresh(sent_s, NOW)
        return
    with pytest.raises(BadPacket) as caught:
        check_fresh(sent_s, NOW)
    assert caught.value.reason is reason


@pytest.mark.req("EMM-19")
def test_a_pair_is_taken_once_within_the_window() -> None:
    cache = ReplayCache()
    assert admitted(cache, NOW)
    assert not admitted(cache, NOW)
    assert not admitted(cache, NOW + 300)
    assert admitted(cache, NOW, message_id=2)
    assert admitted(cache, NOW, sender=b"b")
    assert admitted(cache, NOW + 301)


@pytest.mark.req("EMM-20")
@given(st.integers(-300, 120), st.integers(0, 600))
def test_a_packet_is_never_fresh_and_forgotten(age_s: int, later_s: int) -> None:
    """Whatever its date, once taken it is either in the cache or stale."""
    cache = ReplayCache()
    sent_s = NOW + age_s
    cache.admit(b"a", 1, sent_s, NOW)
    with pytest.raises(BadPacket):
        check_fresh(sent_s, NOW + later_s)
        cache.admit(b"a", 1, sent_s, NOW + later_s)


@pytest.mark.req("EMM-19")
def test_the_cache_is_capped_and_evicts_the_oldest() -> None:
    cache = ReplayCache(entries_max=3)
    for message_id in range(4):
        assert admitted(cache, NOW + message_id, message_id)
    assert len(cache) == 3
    assert cache.evicted == 1
    assert not admitted(cache, NOW + 4, 1)
    assert admitted(cache, NOW + 4, 0)


@pytest.mark.req("EMM-19")
def test_expired_entries_make_room_without_counting_as_evicted() -> None:
    cache = ReplayCache()
    for message_id in range(100):
        admitted(cache, NOW, message_id)
    for message_id in range(100, 200):
        admitted(cache, NOW + 1000, message_id)
    assert len(cache) == 100
    assert cache.evicted == 0
