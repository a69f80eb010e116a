"""Freshness and replay, with the clock as an argument."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.wire.emm import Credentials, Judge, TrustStore, build, check_fresh, draft_event
from weft.wire.recent import Recent
from weft.wire.reject import BadPacket, Reject

NOW = 1_700_000_000
A, B = UUID(int=1), UUID(int=2)
SIGNER = Credentials(b"key1", hmac_key=b"s" * 32)


def judge(marks: Recent[bytes]) -> Judge:
    trust = TrustStore()
    for node in (A, B):
        trust.add_hmac_key(node, b"key1", b"s" * 32)
    return Judge(trust, marks=marks)


def admitted(judge: Judge, now_s: float, message_id: int = 1, sender: UUID = A, sent_s: int | None = None) -> bool:
    packet = build(draft_event(message_id, int(now_s) if sent_s is None else sent_s, "n", node_id=sender), SIGNER)
    try:
        judge.receive_datagram(packet, b"here", now_s)
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
    node = judge(Recent(10))
    assert admitted(node, NOW)
    assert not admitted(node, NOW)
    assert not admitted(node, NOW + 300)
    assert admitted(node, NOW, message_id=2)
    assert admitted(node, NOW, sender=B)
    assert admitted(node, NOW + 301)


@pytest.mark.req("EMM-20")
@given(st.integers(-300, 120), st.integers(0, 600))
def test_a_packet_is_never_fresh_and_forgotten(age_s: int, later_s: int) -> None:
    """Whatever its date, once taken it is either remembered or stale."""
    node, sent_s = judge(Recent(10)), NOW + age_s
    assert admitted(node, NOW, sent_s=sent_s)
    packet = build(draft_event(1, sent_s, "n", node_id=A), SIGNER)
    with pytest.raises(BadPacket) as caught:
        node.receive_datagram(packet, b"here", NOW + later_s)
    assert caught.value.reason in (Reject.REPLAY, Reject.STALE)


@pytest.mark.req("EMM-19")
def test_the_memory_is_capped_and_forgets_the_oldest() -> None:
    marks: Recent[bytes] = Recent(3)
    node = judge(marks)
    for message_id in range(4):
        assert admitted(node, NOW + message_id, message_id)
    assert len(marks) == 3
    assert marks.evicted == 1
    assert not admitted(node, NOW + 4, 1)
    assert admitted(node, NOW + 4, 0)
