from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.libp2p.support import cases, identity
from weft.wire.libp2p import floodsub, protobuf
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.floodsub import Message, Rpc, Subscription

PEER = identity("Ed25519").peer


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("case", cases("floodsub"))
def test_reference_rpcs_both_ways(case: dict[str, Any]) -> None:
    body, meaning = bytes.fromhex(case["bytes"]), case["meaning"]
    rpc = floodsub.decode_untrusted(body)
    assert [{"wanted": s.wanted, "topic": s.topic} for s in rpc.subscriptions] == meaning["subscriptions"]
    found = [
        {
            "origin": str(message.origin),
            "data": message.data.hex(),
            "seqno": message.seqno.hex(),
            "topics": list(message.topics),
            "signature": (message.signature or b"").hex(),
            "key": (message.key or b"").hex(),
        }
        for message in rpc.messages
    ]
    assert found == meaning["messages"]
    assert rpc.encode() == body


def test_every_kind_of_rpc_was_recorded() -> None:
    kinds = {
        (case["key_type"], bool(meaning["messages"]), tuple(s["wanted"] for s in meaning["subscriptions"]))
        for case in cases("floodsub")
        for meaning in [case["meaning"]]
    }
    for key_type in ("RSA", "Ed25519", "secp256k1"):
        assert {(key_type, True, ()), (key_type, False, (True,)), (key_type, False, (False,))} <= kinds


def test_message_id_is_origin_and_number() -> None:
    assert Message(PEER, b"", b"\0\1", ("t",), None, None).id == PEER.multihash + b"\0\1"


messages = st.builds(
    Message,
    st.just(PEER),
    st.binary(max_size=50),
    st.binary(min_size=1, max_size=32),
    st.lists(st.text(min_size=1, max_size=10), min_size=1, max_size=16).map(tuple),
    st.none() | st.binary(max_size=80),
    st.none() | st.binary(max_size=40),
)
subscriptions = st.builds(Subscription, st.text(min_size=1, max_size=20), st.booleans())


@given(st.lists(subscriptions, max_size=4).map(tuple), st.lists(messages, max_size=4).map(tuple))
def test_round_trip(subs: tuple[Subscription, ...], msgs: tuple[Message, ...]) -> None:
    assert floodsub.decode_untrusted(Rpc(subs, msgs).encode()) == Rpc(subs, msgs)


TOO_MANY_TOPICS = protobuf.encode([(1, PEER.multihash), (2, b""), (3, b"n"), *[(4, "t")] * 17])


def message(**changes: Any) -> bytes:
    fields: dict[str, Any] = {"origin": PEER.multihash, "data": b"d", "seqno": b"n", "topic": "t"} | changes
    numbers = {"origin": 1, "data": 2, "seqno": 3, "topic": 4, "signature": 5, "key": 6}
    return protobuf.encode([(2, protobuf.encode([(numbers[name], value) for name, value in fields.items()]))])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (bytes((4 << 20) + 1), "too long"),
        (message(origin=None), "missing"),
        (message(origin=b"\x12\x20short"), "wrong length"),
        (message(data=None), "missing"),
        (message(seqno=None), "missing"),
        (message(seqno=b""), "sequence number"),
        (message(seqno=b"n" * 33), "too long"),
        (message(topic=None), "without a topic"),
        (message(topic=""), "without a topic"),
        (message(topic="t" * 4097), "too long"),
        (message(topic=b"\xff"), "not UTF-8"),
        (message(topic=7), "should be bytes"),
        (message(signature=bytes(1025)), "too long"),
        (message(key=bytes(2049)), "too long"),
        (message(data=b"x" * 20)[:-5], "overruns"),
        (message() * 65, "too often"),
        (protobuf.encode([(1, protobuf.encode([(1, True), (2, f"{n}")])) for n in range(4097)]), "too often"),
        (protobuf.encode([(1, protobuf.encode([(1, True)]))]), "missing"),
        (protobuf.encode([(1, protobuf.encode([(1, True), (2, "")]))]), "no topic"),
        (protobuf.encode([(1, protobuf.encode([(1, b"x"), (2, "t")]))]), "should be a number"),
        (protobuf.encode([(2, TOO_MANY_TOPICS)]), "too often"),
    ],
)
@pytest.mark.req("COA-01")
def test_refused_rpcs(body: bytes, reason: str) -> None:
    with pytest.raises(BadFrame, match=reason):
        floodsub.decode_untrusted(body)


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    for wrapped in (body, protobuf.encode([(1, body)]), protobuf.encode([(2, body)])):
        with contextlib.suppress(BadFrame):
            rpc = floodsub.decode_untrusted(wrapped)
            assert floodsub.decode_untrusted(rpc.encode()) == rpc
