"""Checks frames from a peer and hands them on. A peer that sends a message that was not agreed on loses its link."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from weft.limits import GOSSIP_BYTES_MAX
from weft.membership import Gossip, NodeState
from weft.model import NodeId
from weft.transport.peers.byte_streams import LinkBroken, clipped
from weft.transport.peers.call_messages import read_call_untrusted
from weft.transport.peers.key_messages import read_key_talk_untrusted
from weft.transport.peers.member_messages import (
    read_gossip_untrusted,
    read_heartbeat,
    read_probe_untrusted,
    read_signed_untrusted,
)
from weft.transport.peers.messages import (
    read_acks_untrusted,
    read_begins_untrusted,
    read_copies_untrusted,
    read_past_request_untrusted,
    read_past_untrusted,
    read_plain_ack_untrusted,
    read_plain_untrusted,
    read_resume_untrusted,
)
from weft.transport.peers.signed_states import StateNotary
from weft.transport.peers.watching import LinkInput, LinkListener, LinkObserver
from weft.wire.mesh.checks import BadMeshMessage
from weft.wire.mesh.frames import read_peer_message_untrusted
from weft.wire.mesh.peerlink_pb2 import PeerGossip, PeerMessage, SignedState

STATES_AT_ONCE: Final = 4  # of gossip in one turn of the loop: with new certificates, one millisecond each


class Receiver:
    """Takes the frames of one link. Raises BadMeshMessage for a frame that is not valid, and LinkBroken when the peer
    says goodbye."""

    def __init__(
        self,
        peer: NodeId,
        incarnation: int,
        plain: bool,
        keys: bool,
        past: bool,
        bytes_max: int,
        listener: LinkListener,
        is_over: Callable[[], bool],
        observer: LinkObserver,
        notary: StateNotary,
    ) -> None:
        self._peer = peer
        self._incarnation = incarnation
        self._plain = plain
        self._keys = keys  # both agreed to exchange news about API keys
        self._past = past  # both agreed on copies that begin in the middle
        self._bytes_max = bytes_max
        self._listener = listener
        self._is_over = is_over
        self._observer = observer
        self._notary = notary

    async def take_event_frame(self, frame: bytes) -> None:
        message = read_peer_message_untrusted(frame, self._bytes_max)
        match message.WhichOneof("msg"):
            case None:
                pass  # from a later version
            case "heartbeat":
                self._listener.received_member(self._peer, read_heartbeat(message.heartbeat))
            case "closing":
                if message.closing.leaving:
                    self._listener.peer_leaves(self._peer, self._incarnation)
                raise LinkBroken(f"the peer is closing: {clipped(message.closing.reason)}")
            case kind if self._plain:
                self._take_plain(kind, message)
            case kind:
                await self._take_full(kind, message)

    async def take_control_frame(self, frame: bytes) -> None:
        # The sender estimates the size of gossip, so twice as much is accepted.
        message = read_peer_message_untrusted(frame, 2 * GOSSIP_BYTES_MAX)
        match message.WhichOneof("msg"):
            case None:
                pass  # from a later version
            case "gossip":
                await self._take_gossip(message.gossip)
            case "probe":
                probe = read_probe_untrusted(message.probe)
                if probe is not None:
                    self._listener.received_member(self._peer, probe)
            case "keys" if self._keys:
                self._listener.received_keys(self._peer, read_key_talk_untrusted(message.keys))
            case kind:
                raise BadMeshMessage("a message that does not belong on the control stream", kind=kind)

    async def _take_gossip(self, message: PeerGossip) -> None:
        """Hand on gossip, a few states in each turn of the loop, because each state may change where many streams go.
        The last states are handed on with the rest of the gossip, and that part is answered."""
        gossip = read_gossip_untrusted(message)
        left: list[NodeState | SignedState] = [*gossip.states, *message.signed]
        while len(left) > STATES_AT_ONCE:
            some = tuple(self._genuine(left[:STATES_AT_ONCE]))
            del left[:STATES_AT_ONCE]
            self._listener.received_member(self._peer, Gossip((), some, reply=True))
            await asyncio.sleep(0)
            if self._is_over():
                return
        self._listener.received_member(self._peer, replace(gossip, states=tuple(self._genuine(left))))

    def _genuine(self, states: Iterable[NodeState | SignedState]) -> Iterator[NodeState]:
        """Leave out the states that their own nodes have not signed."""
        for each in states:
            if isinstance(each, NodeState):
                yield each
                continue
            state, signed = read_signed_untrusted(each)
            if not self._notary.signs:
                yield state
            elif self._notary.is_genuine_untrusted(state.node_id, signed):
                yield replace(state, signed=signed)
            else:
                what = f"a state of {state.node_id} that {state.node_id} has not signed"
                self._observer.gossip_refused(self._peer, what)

    def _take_plain(self, kind: str, message: PeerMessage) -> None:
        match kind:
            case "event":
                self._listener.received(read_plain_untrusted(self._peer, message.event))
            case "ack":
                self._listener.received(read_plain_ack_untrusted(self._peer, message.ack))
            case _:
                raise BadMeshMessage("a message that was not agreed on", kind=kind)

    async def _take_full(self, kind: str, message: PeerMessage) -> None:
        match kind:
            case "batches":
                await self._take_portions(read_copies_untrusted(self._peer, message.batches))
            case "acks":
                await self._take_portions(read_acks_untrusted(self._peer, message.acks))
            case "resume":
                await self._take_portions(read_resume_untrusted(self._peer, message.resume))
            case "call":
                self._listener.received(read_call_untrusted(self._peer, message.call))
            case "begins" if self._past:
                await self._take_portions(read_begins_untrusted(self._peer, message.begins))
            case "past_request" if self._past:
                self._listener.received(read_past_request_untrusted(self._peer, message.past_request))
            case "past" if self._past:
                self._listener.received(read_past_untrusted(self._peer, message.past))
            case _:
                raise BadMeshMessage("a message that was not agreed on", kind=kind)

    async def _take_portions(self, portions: Iterator[LinkInput]) -> None:
        for number, portion in enumerate(portions):
            if number:
                await asyncio.sleep(0)  # others have their turn
                if self._is_over():
                    return  # the link has ended, so the rest is ignored
            self._listener.received(portion)
