"""Frames of the liveliness protocol: vectors in both directions, captures, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.coaty.samples import AGENT, PEER, json_values, uuid, vectors
from weft.errors import UsageError
from weft.limits import COATY_WILLS_MAX
from weft.wire.coaty import (
    AnnounceDead,
    AnnounceLastWill,
    BadCoatyMessage,
    Deadvertise,
    LastWill,
    LivelinessMessage,
    Message,
    PingAlive,
    PingAliveAck,
    decode_liveliness_untrusted,
    encode_liveliness,
)
from weft.wire.coaty.liveliness_messages import (
    COATY_ANNOUNCE_BYTES_MAX,
    COATY_LIVELINESS_BYTES_MAX,
    COATY_VISITED_MAX,
    COATY_WILL_IDS_MAX,
    announcements,
)

WIRE = vectors("wire.json")


def meaning(vector: dict[str, Any]) -> LivelinessMessage:
    visited = tuple(vector.get("visited", ()))
    match vector["type"]:
        case "AnnounceLastWill":
            wills = tuple(LastWill(peer, agent, tuple(others)) for peer, agent, *others in vector["last_wills"])
            return AnnounceLastWill(wills, visited)
        case "AnnounceDead":
            return AnnounceDead(visited)
        case "PingAlive":
            return PingAlive()
        case _:
            return PingAliveAck()


@pytest.mark.req("COA-10")
@pytest.mark.parametrize("vector", WIRE["liveliness"], ids=lambda vector: vector["type"])
def test_vectors_both_ways(vector: dict[str, Any]) -> None:
    frame = bytes.fromhex(vector["hex"])
    assert frame == vector["text"].encode()
    assert decode_liveliness_untrusted(frame) == meaning(vector)
    assert encode_liveliness(meaning(vector)) == frame
    assert type(meaning(vector)).__name__ == vector["type"]


@pytest.mark.req("COA-10")
@pytest.mark.parametrize("vector", vectors("js_capture.json")["liveliness"], ids=lambda vector: vector["operation"])
def test_frames_of_the_reference(vector: dict[str, Any]) -> None:
    frame = bytes.fromhex(vector["payload"])
    message = decode_liveliness_untrusted(frame)
    assert type(message).__name__ == vector["operation"]
    assert encode_liveliness(message) == frame


def frame(**members: Any) -> bytes:
    return json.dumps(members).encode()


@pytest.mark.req("COA-10")
@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b'{"op":2}{"op":3}', "is not JSON"),
        (b'\x08{"op":2}', "is not JSON"),
        (frame(), "operation is unknown"),
        (frame(op=4), "operation is unknown"),
        (frame(op=-1), "operation is unknown"),
        (frame(op="2"), "operation is unknown"),
        (frame(op=True), "operation is unknown"),
        (frame(op=None), "operation is unknown"),
        (frame(op=1), "propagatedPeerIds is no list"),
        (frame(op=1, propagatedPeerIds=[]), "no peer visited"),
        (frame(op=1, propagatedPeerIds=[5]), "not a peer id in base58"),
        (frame(op=1, propagatedPeerIds=["0OIl"]), "not a peer id in base58"),
        (frame(op=1, propagatedPeerIds=["1" * 129]), "not a peer id in base58"),
        (frame(op=1, propagatedPeerIds=[PEER] * COATY_VISITED_MAX), "visited too many peers"),
        (frame(op=0, propagatedPeerIds=[PEER]), "lastWills is no list"),
        (frame(op=0, propagatedPeerIds=[PEER], lastWills={}), "lastWills is no list"),
        (frame(op=0, lastWills=[]), "propagatedPeerIds is no list"),
        (frame(op=0, propagatedPeerIds=[PEER], lastWills=[[]] * (COATY_WILLS_MAX + 1)), "too many last wills"),
        (b" " * (COATY_LIVELINESS_BYTES_MAX + 1), "too long"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(BadCoatyMessage, match=complaint):
        decode_liveliness_untrusted(data)


@pytest.mark.req("COA-10")
def test_one_odd_will_does_not_silence_the_others() -> None:
    sound = LastWill(PEER, AGENT, (uuid(1),))
    odd: list[Any] = [
        [],
        [PEER],
        [PEER, "no uuid"],
        [PEER, AGENT, "no uuid"],
        ["no peer id!", AGENT],
        "text",
        None,
        [PEER, *[AGENT] * (COATY_WILL_IDS_MAX + 1)],
    ]
    data = frame(op=0, lastWills=[*odd, [PEER, AGENT, uuid(1)]], propagatedPeerIds=[PEER])
    assert decode_liveliness_untrusted(data) == AnnounceLastWill((sound,), (PEER,))


@pytest.mark.parametrize(
    "build",
    [
        lambda: LastWill("", AGENT),
        lambda: LastWill(PEER, "x"),
        lambda: LastWill(PEER, AGENT, ("x",)),
        lambda: LastWill(PEER, AGENT, (AGENT,) * COATY_WILL_IDS_MAX),
        lambda: AnnounceDead(()),
        lambda: AnnounceDead((PEER,) * (COATY_VISITED_MAX + 1)),
        lambda: AnnounceLastWill((), ()),
        lambda: AnnounceLastWill((LastWill(PEER, AGENT),) * (COATY_WILLS_MAX + 1), (PEER,)),
    ],
)
def test_mistakes_of_our_caller(build: Any) -> None:
    with pytest.raises(UsageError):
        build()


@pytest.mark.req("COA-10")
def test_a_will_becomes_a_deadvertise_event() -> None:
    will = LastWill(PEER, AGENT, (uuid(1), uuid(2)))
    assert will.to_event() == Message(AGENT, Deadvertise([AGENT, uuid(1), uuid(2)]))


@pytest.mark.req("COA-10")
def test_many_wills_go_out_in_several_frames() -> None:
    wills = [LastWill(PEER[:-4] + f"{n:04}".replace("0", "z"), AGENT, (uuid(n),) * (n % 200)) for n in range(1000)]
    parts = announcements(wills, (PEER,))
    assert len(parts) > 1
    assert [will for part in parts for will in part.last_wills] == wills
    assert all(len(encode_liveliness(part)) <= COATY_ANNOUNCE_BYTES_MAX + 200 for part in parts)
    assert announcements([], (PEER,)) == []


peer_ids = st.text("123ABCabc", min_size=1, max_size=60)
uuids = st.integers(0, 10**12 - 1).map(uuid)
visited = st.lists(peer_ids, min_size=1, max_size=4).map(tuple)
wills = st.builds(LastWill, peer_ids, uuids, st.lists(uuids, max_size=3).map(tuple))
messages = (
    st.builds(AnnounceLastWill, st.lists(wills, max_size=4).map(tuple), visited)
    | st.builds(AnnounceDead, visited)
    | st.just(PingAlive())
    | st.just(PingAliveAck())
)


@pytest.mark.req("COA-10")
@given(messages)
def test_round_trip_in_ascii(message: LivelinessMessage) -> None:
    data = encode_liveliness(message)
    assert data.isascii()
    assert decode_liveliness_untrusted(data) == message


@pytest.mark.req("COA-10")
@settings(max_examples=200)
@given(
    st.binary(max_size=40)
    | st.fixed_dictionaries(
        {"op": st.integers(-1, 5) | json_values},
        optional={"lastWills": json_values, "propagatedPeerIds": st.lists(peer_ids | json_values)},
    ).map(lambda members: json.dumps(members).encode())
)
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    try:
        message = decode_liveliness_untrusted(data)
    except BadCoatyMessage:
        return
    assert decode_liveliness_untrusted(encode_liveliness(message)) == message
