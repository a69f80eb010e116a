from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.groups.talk import ALL, A, B, T, member, state, stream
from weft.core.groups import BadGroupEvent
from weft.core.groups.events import (
    GROUP_HELD_MAX,
    GROUP_MEMBERS_MAX,
    GROUP_STATE_BYTES_MAX,
    DropSaid,
    GroupSubject,
    MemberState,
    NodeSaid,
    Place,
    PlaceSaid,
    WithdrawalSaid,
    drop_event,
    node_event,
    place_event,
    read_untrusted,
    withdrawal,
)
from weft.limits import OFFSET_MAX, TOPIC_BYTES_MAX
from weft.model import Epoch, Event, NodeId, Pattern, Stream, Topic
from weft.routing import finished

KEYS = st.builds(
    lambda topic, origin, partition, epoch: (Stream(Topic(topic), NodeId(origin), partition), Epoch(epoch)),
    st.sampled_from(["plant.t", 'a"b', "a@b/0:e1", "日本.温度"]),
    st.sampled_from(["a", "node-b", "x" * 64]),
    st.integers(0, 65535),
    st.integers(1, OFFSET_MAX),
)
MEMBERS = st.builds(
    MemberState,
    st.sampled_from([Pattern("plant.>"), Pattern("*.t")]),
    st.integers(1, OFFSET_MAX),
    st.frozensets(KEYS, max_size=4),
    st.sampled_from(["", "0123456789abcdef"]),
)
JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["m", "pattern", "turn", "held"]), inner)
    ),
    max_leaves=8,
)
NAMES = st.sampled_from(["billing-1", "b.c", "node-b#12"])


@given(st.dictionaries(NAMES, MEMBERS), st.integers(0, OFFSET_MAX))
def test_a_state_that_was_said_is_what_is_heard(members: dict[str, MemberState], era: int) -> None:
    event = finished(node_event(B, members, era))
    assert read_untrusted(event) == NodeSaid(B, members, era if members else 0)
    assert event.payload, "a tombstone would go before everybody has heard it"


@given(KEYS, st.integers(0, OFFSET_MAX), st.integers(0, OFFSET_MAX), st.integers(0, OFFSET_MAX))
def test_a_position_that_was_said_is_what_is_heard(
    key: tuple[Stream, Epoch], version: int, offset: int, era: int
) -> None:
    place = Place(version, offset)
    assert read_untrusted(place_event(key, place, era)) == PlaceSaid(key, place, era)
    assert read_untrusted(withdrawal(key)) == WithdrawalSaid(key)


def test_a_drop_and_what_is_withdrawn_are_heard() -> None:
    assert read_untrusted(drop_event(OFFSET_MAX)) == DropSaid(OFFSET_MAX)
    assert read_untrusted(withdrawal(B)) == WithdrawalSaid(B)
    for what in GroupSubject:
        assert read_untrusted(withdrawal(what)) == WithdrawalSaid(what)


def test_what_is_said_looks_as_documented() -> None:
    key = stream("plant.t", B, Epoch(7))
    event = state(A, **{"billing-1": member(key)})
    assert event.key == b"n:a"
    assert json.loads(event.payload) == {"billing-1": {"pattern": "plant.>", "turn": 1, "held": ["plant.t@b/0:e7"]}}
    event = place_event(key, Place(2, 1234))
    assert (event.key, event.payload) == (b"p:plant.t@b/0:e7", b"2:1234")


MEMBER = {"pattern": "plant.>", "turn": 1, "held": []}


def wire(**changes: object) -> bytes:
    return json.dumps({"m": {**MEMBER, **changes}}).encode()


STREAM = "plant.t@a/0:e1"
REFUSED: dict[str, tuple[bytes | None, bytes]] = {
    "no key": (None, b""),
    "empty key": (b"", b""),
    "unknown kind": (b"x:a", b""),
    "node without a name": (b"n:", b""),
    "node with a bad name": (b"n:a/b", b""),
    "node that is not UTF-8": (b"n:\xff", b""),
    "not JSON": (b"n:a", b"\xff"),
    "not an object": (b"n:a", b"[]"),
    "deep": (b"n:a", b"[" * 100_000),
    "no pattern": (b"n:a", b'{"m": {"turn": 1, "held": []}}'),
    "bad pattern": (b"n:a", wire(pattern="a..b")),
    "lone surrogate": (b"n:a", b'{"m": {"pattern": "\\ud800", "turn": 1, "held": []}}'),
    "turn 0": (b"n:a", wire(turn=0)),
    "turn too high": (b"n:a", wire(turn=OFFSET_MAX + 1)),
    "turn beyond any integer": (b"n:a", b'{"m": {"pattern": "a", "turn": 1' + b"0" * 5000 + b', "held": []}}'),
    "turn as text": (b"n:a", wire(turn="1")),
    "bad member": (b"n:a", b'{"a b": {"pattern": "a", "turn": 1, "held": []}}'),
    "bad stream": (b"n:a", wire(held=["plant.t"])),
    "epoch 0": (b"n:a", wire(held=["plant.t@a/0:e0"])),
    "long stream": (b"n:a", wire(held=["x" * 10_000])),
    "too many members": (b"n:a", json.dumps({f"m{n}": MEMBER for n in range(GROUP_MEMBERS_MAX + 1)}).encode()),
    "too many streams": (b"n:a", wire(held=[STREAM] * (GROUP_HELD_MAX + 1))),
    "too large": (b"n:a", b" " * GROUP_STATE_BYTES_MAX + b"{}"),
    "position of nothing": (b"p:", b"0:0"),
    "position without an epoch": (b"p:plant.t@a/0", b"0:0"),
    "position that is not UTF-8": (b"p:\xff@a/0:e1", b"0:0"),
    "eras of many kinds": (b"n:a", json.dumps({"m": {**MEMBER, "era": 1}, "n": MEMBER}).encode()),
    "negative era": (b"n:a", wire(era=-1)),
    "era too high": (b"n:a", wire(era=OFFSET_MAX + 1)),
    "owner that is none": (b"n:a", wire(owner="me")),
    "era of a position too high": (b"p:plant.t@a/0:e1", b"0:0:%d" % (OFFSET_MAX + 1)),
    "drop without a number": (b"d:", b"x"),
    "drop into the first era": (b"d:", b"0"),
    "drop too far": (b"d:", b"%d" % (OFFSET_MAX + 1)),
    "long drop": (b"d:", b"1" * 100_000),
    "drop of something": (b"d:g", b"1"),
    "no version": (b"p:plant.t@a/0:e1", b"12"),
    "negative": (b"p:plant.t@a/0:e1", b"0:-1"),
    "leading zero": (b"p:plant.t@a/0:e1", b"0:01"),
    "offset too high": (b"p:plant.t@a/0:e1", b"0:%d" % (OFFSET_MAX + 1)),
    "version too high": (b"p:plant.t@a/0:e1", b"%d:0" % (OFFSET_MAX + 1)),
    "long position": (b"p:plant.t@a/0:e1", b"1" * 100_000),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_node_says_is_refused(case: str) -> None:
    key, payload = REFUSED[case]
    with pytest.raises(BadGroupEvent) as caught:
        read_untrusted(Event(payload, 0, key))
    assert len(str(caught.value)) < 400


@given(st.sampled_from([b"n:a", b"p:plant.t@a/0:e1", b"p:", b"d:", b""]), st.binary(max_size=8), st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(kind: bytes, rest: bytes, payload: bytes) -> None:
    try:
        read_untrusted(Event(payload, 0, kind + rest))
    except BadGroupEvent:
        return


@given(JSON)
def test_any_json_is_read_or_refused(value: object) -> None:
    try:
        read_untrusted(Event(json.dumps(value).encode(), 0, b"n:a"))
    except BadGroupEvent:
        return


def test_the_largest_state_that_a_node_can_have_fits() -> None:
    """With names of members and streams as long as they can be, and topics that JSON makes twice as long."""
    topics = ('"' * (TOPIC_BYTES_MAX - 6) + f".{number:05}" for number in range(GROUP_HELD_MAX))
    held = [(Stream(Topic(topic), NodeId("n" * 64), 65535), Epoch(OFFSET_MAX)) for topic in topics]
    pattern = Pattern('"' * TOPIC_BYTES_MAX)
    share = GROUP_HELD_MAX // GROUP_MEMBERS_MAX
    members = {
        f"{'n' * 64}#{10**18 + n}": MemberState(pattern, OFFSET_MAX, frozenset(held[n * share : (n + 1) * share]))
        for n in range(GROUP_MEMBERS_MAX)
    }
    event = finished(node_event(A, members))
    assert len(event.payload) <= GROUP_STATE_BYTES_MAX
    assert read_untrusted(event) == NodeSaid(A, members)


def test_more_fields_are_no_harm() -> None:
    """A later release may say more."""
    heard = read_untrusted(Event(wire(since=5, held=[STREAM]), 0, b"n:a"))
    assert heard == NodeSaid(A, {"m": MemberState(ALL, 1, frozenset({T}))})
