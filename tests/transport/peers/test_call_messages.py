"""Frames of requests and replies between nodes: the same when they arrive, and refused if they cannot be meant."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.call_messages import (
    CALL_PAYLOAD_BYTES_MAX,
    CALL_TIMEOUT_S_MAX,
    CallBody,
    CallFault,
    CallFrame,
    Cancel,
    Question,
    ReceivedCall,
    Refusal,
    Reply,
    SendCall,
    Took,
)
from weft.limits import EVENT_HEADERS_MAX
from weft.model import NodeId, Topic
from weft.transport.peers.call_messages import call_message, read_call_untrusted
from weft.transport.peers.outbox import LINK_CALL_BYTES_MAX, PeerOutbox
from weft.transport.peers.settings import LinkSettings
from weft.wire.mesh import BadMeshMessage
from weft.wire.mesh.peerlink_pb2 import PeerCall

pytestmark = pytest.mark.req("CON-04")
A, B = NodeId("a"), NodeId("b")
BODIES: list[CallBody] = [
    Question(Topic("ask.it"), b"\x00?", {"h": "1"}, 2.5, durable=True),
    Reply(b"yes", {"h": "2"}, last=False),
    Reply(b"no", failed=True, event="weft.inbox.x@b/0"),
    *(Refusal(fault, "why") for fault in CallFault if fault is not CallFault.TIMED_OUT),
    Cancel(),
    Took(3),
]


@pytest.mark.parametrize("body", BODIES, ids=repr)
def test_a_frame_arrives_as_it_was_sent(body: CallBody) -> None:
    index = 7 if isinstance(body, Reply) else 0
    frame = CallFrame(A, B, 1 << 63, body, hops=2, slots=5, index=index)
    sent = PeerCall.FromString(call_message(frame).SerializeToString())
    assert read_call_untrusted(A, sent) == ReceivedCall(A, frame)


def question(**changes: Any) -> PeerCall:
    message = call_message(CallFrame(A, B, 1, BODIES[0]))
    for name, value in changes.items():
        setattr(message.question, name, value)
    return message


@pytest.mark.parametrize(
    "message",
    [
        PeerCall(source="a", target="b", number=1),
        PeerCall(source="", target="b", cancel=PeerCall.Cancel()),
        PeerCall(source="a", target="b b", cancel=PeerCall.Cancel()),
        question(topic="ask.*"),
        question(topic="weft.groups.x"),
        question(timeout_s=0.0),
        question(timeout_s=math.nan),
        question(timeout_s=2 * CALL_TIMEOUT_S_MAX),
        question(payload=b"x" * (CALL_PAYLOAD_BYTES_MAX + 1)),
        PeerCall(source="a", target="b", reply=PeerCall.Reply(payload=b"x" * (CALL_PAYLOAD_BYTES_MAX + 1))),
        PeerCall(
            source="a",
            target="b",
            reply=PeerCall.Reply(headers={str(number): "" for number in range(EVENT_HEADERS_MAX + 1)}),
        ),
    ],
    ids=range(11),
)
def test_what_cannot_be_meant_is_refused(message: PeerCall) -> None:
    with pytest.raises(BadMeshMessage):
        read_call_untrusted(A, message)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    message = PeerCall()
    try:
        message.ParseFromString(data)
    except Exception:  # protobuf's own, which frames.py translates
        return
    try:
        frame = read_call_untrusted(A, message).frame
    except BadMeshMessage:
        return
    assert read_call_untrusted(A, call_message(frame)).frame == frame


def test_the_outbox_sends_calls_before_data_and_drops_the_newest_when_it_is_full() -> None:
    outbox = PeerOutbox(B, LinkSettings())
    large = CallFrame(A, B, 1, Question(Topic("t"), b"x" * CALL_PAYLOAD_BYTES_MAX, {}, 1.0))
    for _ in range(2 * LINK_CALL_BYTES_MAX // CALL_PAYLOAD_BYTES_MAX):
        outbox.put(SendCall(B, large), 0.0)
    kept = len(outbox)
    assert 0 < kept * CALL_PAYLOAD_BYTES_MAX <= LINK_CALL_BYTES_MAX
    assert outbox.calls_dropped == 2 * LINK_CALL_BYTES_MAX // CALL_PAYLOAD_BYTES_MAX - kept
    for _ in range(kept):
        portion = outbox.take()
        assert portion is not None and portion.what == SendCall(B, large)
    assert outbox.take() is None
    outbox.put(SendCall(B, large), 0.0)
    assert len(outbox) == 1, "there is room again"
