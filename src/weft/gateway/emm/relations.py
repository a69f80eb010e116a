"""The devices that a gateway is in touch with: EMM nodes that said Hello, EMM-C nodes that joined. Pure.

A gateway answers both and keeps up its heartbeats, so that devices find it, and so that events can go out to whoever is
there. It sends nothing on from one device to another: that way leads through the mesh.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never

from weft.datagram_node import Instant
from weft.emm.neighbours import Call, Due, Neighbours
from weft.emm_compact.session import CompactSession as CompactSession
from weft.emm_compact.settings import Settings as CompactSettings
from weft.gateway.emm.identity import Identity
from weft.security import Trust
from weft.wire import emm
from weft.wire.datagram import DatagramProtocol
from weft.wire.emm import EventType, Field, Rules
from weft.wire.emm.fields import DEFAULT_RULES, MESSAGE_ID_BITS
from weft.wire.udp import TTL_DEFAULT, Address, Datagram, Outgoing

CAPABILITIES: Final = b"weft-gateway"


class Relations:
    """``chance`` gives so many random bits."""

    def __init__(
        self,
        identity: Identity,
        heartbeat_interval_s: float,
        chance: Callable[[int], int],
        at: Instant,
        rules: Rules = DEFAULT_RULES,
    ) -> None:
        self._rules = rules
        self._identity = identity
        self._interval_s = heartbeat_interval_s
        self._chance = chance
        self._credentials: emm.Credentials | None = None
        self._neighbours = Neighbours(identity.node_id, at.steady_s, heartbeat_interval_s=heartbeat_interval_s)
        self._compact: CompactSession | None = None  # as soon as there is a group key
        self._group_key = b""

    def trust_changed(self, trust: Trust, at: Instant) -> None:
        self._credentials = self._identity.credentials(trust)
        signer = self._identity.signer(trust)
        if signer is None:
            self._compact = None
        elif self._compact is None or signer.group_key != self._group_key:
            settings = CompactSettings(heartbeat_interval_s=max(int(self._interval_s), 1))
            node_id = self._identity.node_id
            self._compact = CompactSession(node_id, signer, trust.key_ring(), settings, at, lambda: self._chance(16))
            self._group_key = signer.group_key
        else:
            self._compact.ring = trust.key_ring()

    def seek(self, address: Address, at: Instant) -> None:
        """Say Hello there until an EMM node answers. (EMM-C nodes join us: theirs is the first word.)"""
        self._neighbours.seek(address, at.steady_s)

    def heard(self, protocol: DatagramProtocol, data: bytes, source: Address, at: Instant) -> None:
        """A Hello, a join or a heartbeat that was verified."""
        match protocol:
            case DatagramProtocol.EMM:
                packet = emm.parse_untrusted(data, self._rules)
                node_id = packet.fields[Field.NODE_ID]
                if packet.event_type == EventType.HELLO:
                    told = next((value for kind, value in packet.values if kind == Field.BINARY), b"")
                    assert isinstance(told, bytes), "a binary field holds bytes"
                    self._neighbours.hello(node_id, source, told, at.steady_s)
                else:
                    self._neighbours.heartbeat(node_id, source, at.steady_s)
            case DatagramProtocol.EMM_COMPACT:
                if self._compact is not None:
                    self._compact.receive_datagram(Datagram(data, source, TTL_DEFAULT, 0), at)
            case _:
                assert_never(protocol)

    def targets(self, protocol: DatagramProtocol) -> list[Address]:
        """Everybody who speaks it."""
        match protocol:
            case DatagramProtocol.EMM:
                return self._neighbours.others(None)
            case DatagramProtocol.EMM_COMPACT:
                return [] if self._compact is None else self._compact.relationships.others(None)
            case _:
                assert_never(protocol)

    def datagrams_to_send(self, at: Instant) -> list[Outgoing]:
        """Hellos, joins and heartbeats that are due."""
        due = [Outgoing(self._called(each, at), each.address) for each in self._neighbours.due(at.steady_s)]
        if self._compact is not None:
            self._compact.handle_timer(at)
            due += self._compact.datagrams_to_send(at)
        return due

    def _called(self, due: Due, at: Instant) -> bytes:
        number, node_id = self._chance(MESSAGE_ID_BITS), self._identity.node_id
        match due.call:
            case Call.HELLO:
                draft = emm.draft_hello(number, int(at.unix_s), node_id, CAPABILITIES)
            case Call.HEARTBEAT:
                draft = emm.draft_heartbeat(number, int(at.unix_s), node_id)
            case _:
                assert_never(due.call)
        return emm.build(draft, self._credentials, rules=self._rules)
