"""Frames of requests and replies, to and from ``peerlink.proto``. Everything from a peer is checked."""

from __future__ import annotations

from typing import assert_never

from weft.core.call_messages import (
    CALL_HOPS_MAX,
    CALL_PAYLOAD_BYTES_MAX,
    CALL_SLOTS_MAX,
    CALL_TIMEOUT_S_MAX,
    CallBody,
    CallFault,
    CallFrame,
    Cancel,
    Question,
    ReceivedCall,
    Refusal,
    Reply,
    Took,
)
from weft.core.topics import is_own
from weft.errors import UsageError
from weft.limits import ERROR_TEXT_CHARS_MAX
from weft.model import NodeId, parse_node_id, parse_topic
from weft.wire.mesh.checks import BadMeshMessage, check_headers
from weft.wire.mesh.peerlink_pb2 import PeerCall

SLOTS_TOLD_MAX = 1 << 20  # of all servers of a node; a greater number would only get the node a larger share
FAULTS = {
    CallFault.NO_SERVER: PeerCall.FAULT_NO_SERVER,
    CallFault.BUSY: PeerCall.FAULT_BUSY,
    CallFault.UNREACHABLE: PeerCall.FAULT_UNREACHABLE,
    CallFault.LOST: PeerCall.FAULT_LOST,
    CallFault.TIMED_OUT: PeerCall.FAULT_LOST,
}
FAULTS_READ = {number: fault for fault, number in reversed(FAULTS.items())}
EVENT_CHARS_MAX = 512  # of the place where a reply is kept: a topic, a node and numbers


def call_message(frame: CallFrame) -> PeerCall:
    message = PeerCall(
        source=frame.source,
        target=frame.target,
        number=frame.number,
        hops=frame.hops,
        slots=min(frame.slots, SLOTS_TOLD_MAX),
    )
    match frame.body:
        case Question(topic, payload, headers, timeout_s, durable):
            message.question.topic, message.question.payload = topic, payload
            message.question.headers.update(headers)
            message.question.timeout_s, message.question.durable = timeout_s, durable
        case Reply(payload, headers, last, failed, event):
            message.reply.payload, message.reply.last, message.reply.failed = payload, last, failed
            message.reply.headers.update(headers)
            message.reply.event, message.reply.index = event, frame.index
        case Refusal(fault, detail):
            message.refusal.fault, message.refusal.detail = FAULTS[fault], detail[:ERROR_TEXT_CHARS_MAX]
        case Cancel():
            message.cancel.SetInParent()
        case Took(count):
            message.took.count = count
        case _:
            assert_never(frame.body)
    return message


def read_call_untrusted(peer: NodeId, message: PeerCall) -> ReceivedCall:
    """Read a frame; raise only BadMeshMessage."""
    try:
        source, target = parse_node_id(message.source), parse_node_id(message.target)
        body = _read_body_untrusted(message)
    except UsageError as error:
        raise BadMeshMessage(str(error)) from None
    hops = min(message.hops, CALL_HOPS_MAX)
    slots, index = min(message.slots, SLOTS_TOLD_MAX), message.reply.index if isinstance(body, Reply) else 0
    frame = CallFrame(source, target, message.number, body, hops, slots, index)
    return ReceivedCall(peer, frame)


def _read_body_untrusted(message: PeerCall) -> CallBody:
    match message.WhichOneof("body"):
        case "question":
            question = message.question
            topic = parse_topic(question.topic)
            if is_own(topic):
                raise BadMeshMessage("requests cannot be sent on internal topics of the mesh", topic=topic)
            if not 0 < question.timeout_s <= CALL_TIMEOUT_S_MAX:  # also refuses NaN
                raise BadMeshMessage("the time for a call is out of range", limit=CALL_TIMEOUT_S_MAX)
            _check_payload(question.payload)
            headers = dict(question.headers)
            check_headers(headers)
            return Question(topic, question.payload, headers, question.timeout_s, question.durable)
        case "reply":
            reply = message.reply
            _check_payload(reply.payload)
            headers = dict(reply.headers)
            check_headers(headers)
            return Reply(reply.payload, headers, reply.last, reply.failed, reply.event[:EVENT_CHARS_MAX])
        case "refusal":
            fault = FAULTS_READ.get(message.refusal.fault, CallFault.LOST)
            return Refusal(fault, message.refusal.detail[:ERROR_TEXT_CHARS_MAX])
        case "cancel":
            return Cancel()
        case "took":
            return Took(min(message.took.count, CALL_SLOTS_MAX))
        case other:
            raise BadMeshMessage("a call without anything that is known", body=str(other))


def _check_payload(payload: bytes) -> None:
    if len(payload) > CALL_PAYLOAD_BYTES_MAX:
        raise BadMeshMessage("payload of a call is too large", size=len(payload), limit=CALL_PAYLOAD_BYTES_MAX)
