"""What a link carries for membership: gossip, probes and heartbeats, to and from messages of ``peerlink.proto``.

The readers raise only BadMeshMessage.
"""

from __future__ import annotations

from collections.abc import Set
from typing import assert_never

from google.protobuf.message import DecodeError

from weft import membership
from weft.errors import UsageError
from weft.limits import GOSSIP_DIGESTS_MAX, GOSSIP_STATES_MAX, INCARNATION_MAX, OFFSET_MAX
from weft.membership import Digest, Gossip, Liveness, NodeState, Ping, PingFor, Pong, Signed
from weft.model import Epoch, NodeId, parse_node_id, parse_pattern
from weft.routing import Summary
from weft.wire.mesh import peerlink_pb2 as pb
from weft.wire.mesh.checks import BadMeshMessage, read_signature_untrusted
from weft.wire.mesh.features import Feature

# --- to a peer -------------------------------------------------------------------------------------------------------


def member_message(message: membership.Message, features: Set[Feature] = frozenset()) -> pb.PeerMessage:
    """``features``: those agreed on with the peer that gets the message."""
    match message:
        case Gossip():
            return pb.PeerMessage(gossip=_gossip(message, Feature.SIGNED in features))
        case Ping(sequence):
            return pb.PeerMessage(probe=pb.PeerProbe(sequence=sequence, ping=pb.ProbePing()))
        case Pong(sequence, node_id, incarnation):
            pong = pb.ProbePong(node_id=node_id, incarnation=incarnation)
            return pb.PeerMessage(probe=pb.PeerProbe(sequence=sequence, pong=pong))
        case PingFor(sequence, target):
            indirect = pb.ProbeIndirect(target=target)
            return pb.PeerMessage(probe=pb.PeerProbe(sequence=sequence, indirect=indirect))
        case membership.Heartbeat(timestamp, echo):
            return pb.PeerMessage(heartbeat=pb.Heartbeat(timestamp=timestamp, echo=echo))
        case _:
            assert_never(message)


def _gossip(gossip: Gossip, knows_signatures: bool) -> pb.PeerGossip:
    signed = [state for state in gossip.states if state.signed is not None and knows_signatures]
    plain = gossip.states if not signed else [state for state in gossip.states if state.signed is None]
    return pb.PeerGossip(
        digests=[
            pb.NodeDigest(
                node_id=digest.node_id,
                incarnation=digest.incarnation,
                version=digest.version,
                liveness=_liveness(digest.liveness),
            )
            for digest in gossip.digests
        ],
        states=map(state_message, plain),
        reply=gossip.reply,
        signed=map(_signed, signed),
    )


def _signed(state: NodeState) -> pb.SignedState:
    assert state.signed is not None, "chosen for that"
    (signature, chain), found = state.signed.signature, _liveness(state.liveness)
    return pb.SignedState(state=state.signed.content, signature=signature, chain=chain, found=found)


def state_message(state: NodeState) -> pb.NodeState:
    return pb.NodeState(
        node_id=state.node_id,
        incarnation=state.incarnation,
        version=state.version,
        liveness=_liveness(state.liveness),
        epoch=state.epoch,
        addresses=state.addresses,
        neighbours=state.neighbours,
        interest=state.interest,
        interest_capped=state.interest_capped,
        interest_summary=None if state.interest_summary is None else _summary(state.interest_summary),
        interest_since_us=state.interest_since_us,
        talked=state.talked,
    )


def _summary(summary: Summary) -> pb.InterestSummary:
    return pb.InterestSummary(bits=summary.bits, hashes=summary.hashes, shapes=summary.shapes)


def _liveness(liveness: Liveness) -> str:
    return f"LIVENESS_{liveness.name}"


# --- from a peer -----------------------------------------------------------------------------------------------------


def read_gossip_untrusted(message: pb.PeerGossip) -> Gossip:
    """Read gossip without its signed states, which are checked one by one."""
    _check_count("digests", len(message.digests), GOSSIP_DIGESTS_MAX)
    _check_count("states", len(message.states) + len(message.signed), GOSSIP_STATES_MAX)
    return Gossip(
        tuple(map(_read_digest_untrusted, message.digests)),
        tuple(map(_read_state_untrusted, message.states)),
        message.reply,
    )


def read_probe_untrusted(message: pb.PeerProbe) -> Ping | Pong | PingFor | None:
    """Read a probe; None: a kind that we do not know."""
    match message.WhichOneof("probe"):
        case "ping":
            return Ping(message.sequence)
        case "pong":
            _check_number("incarnation", message.pong.incarnation, INCARNATION_MAX)
            return Pong(message.sequence, _read_node_id_untrusted(message.pong.node_id), message.pong.incarnation)
        case "indirect":
            return PingFor(message.sequence, _read_node_id_untrusted(message.indirect.target))
        case _:
            return None


def read_heartbeat(message: pb.Heartbeat) -> membership.Heartbeat:
    return membership.Heartbeat(message.timestamp, message.echo)


def read_signed_untrusted(message: pb.SignedState) -> tuple[NodeState, Signed]:
    """Read what is said about a node, and the signed text that is said to be the node's. The caller has to check the
    signature before it trusts either."""
    try:
        said = pb.NodeState.FromString(message.state)
    except DecodeError:
        raise BadMeshMessage("a signed state cannot be read", size=len(message.state)) from None
    state, found = _read_state_untrusted(said), _read_liveness_untrusted(message.found)
    if state.liveness not in (Liveness.ALIVE, Liveness.LEFT):
        raise BadMeshMessage("a node says of itself that others found it dead", node=state.node_id)
    if found is not Liveness.LEFT:  # only the node itself can say that
        state = state.found(found)
    return state, Signed(message.state, read_signature_untrusted(message.signature, message.chain))


def _read_digest_untrusted(message: pb.NodeDigest) -> Digest:
    _check_number("incarnation", message.incarnation, INCARNATION_MAX)
    _check_number("version", message.version, OFFSET_MAX)
    node_id = _read_node_id_untrusted(message.node_id)
    return Digest(node_id, message.incarnation, message.version, _read_liveness_untrusted(message.liveness))


def _read_state_untrusted(message: pb.NodeState) -> NodeState:
    try:
        return NodeState(
            parse_node_id(message.node_id),
            message.incarnation,
            message.version,
            Epoch(message.epoch),
            _read_liveness_untrusted(message.liveness),
            tuple(message.addresses),
            tuple(map(parse_node_id, message.neighbours)),
            tuple(map(parse_pattern, message.interest)),
            message.interest_capped,
            _read_summary_untrusted(message.interest_summary) if message.HasField("interest_summary") else None,
            tuple(message.interest_since_us),
            message.talked,
        )
    except UsageError as error:
        raise BadMeshMessage(f"bad state of a node in gossip: {error}") from None


def _read_summary_untrusted(message: pb.InterestSummary) -> Summary:
    """Read a summary. Raise UsageError, like the readers of the other parts of a state."""
    return Summary(message.bits, message.hashes, tuple(message.shapes))


def _read_liveness_untrusted(number: int) -> Liveness:
    try:
        return Liveness(number)
    except ValueError:
        raise BadMeshMessage("no such liveness", liveness=number) from None


def _read_node_id_untrusted(text: str) -> NodeId:
    try:
        return parse_node_id(text)
    except UsageError as error:
        raise BadMeshMessage(str(error)) from None


def _check_count(what: str, count: int, limit: int) -> None:
    if count > limit:
        raise BadMeshMessage(f"too many {what} in gossip", have=count, limit=limit)


def _check_number(what: str, value: int, limit: int) -> None:
    if value > limit:
        raise BadMeshMessage(f"{what} is out of range", value=value, limit=limit)
