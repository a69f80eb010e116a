"""The EMM nodes with which a gateway is in touch: those that said Hello. Pure. (EMM-C's are in ``compact_node``.)

A gateway answers them and sends heartbeats, so that devices find it, and so that events can go out to all neighbours.
It does not pass EMM events from one device to another: they go through the mesh.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never

from weft.datagram_node import Instant
from weft.emm.neighbours import Call, Due, Neighbours
from weft.gateway.emm.identity import Identity
from weft.security import Trust
from weft.wire import emm
from weft.wire.emm import EventType, Field, Rules
from weft.wire.emm.fields import DEFAULT_RULES, MESSAGE_ID_BITS
from weft.wire.udp import Address, Outgoing

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
        self._node_id = identity.node_id
        self._chance = chance
        self._credentials: emm.Credentials | None = None
        self._neighbours = Neighbours(identity.node_id, at.steady_s, heartbeat_interval_s=heartbeat_interval_s)

    def sign_with(self, identity: Identity, trust: Trust) -> None:
        """The keys of the node or the trust store have changed."""
        self._credentials = identity.credentials(trust)

    def seek(self, address: Address, at: Instant) -> None:
        """Say Hello there until an EMM node answers."""
        self._neighbours.seek(address, at.steady_s)

    def heard(self, data: bytes, source: Address, at: Instant) -> None:
        """A Hello or a heartbeat that was verified."""
        packet = emm.parse_untrusted(data, self._rules)
        node_id = packet.fields[Field.NODE_ID]
        if packet.event_type == EventType.HELLO:
            told = next((value for kind, value in packet.values if kind == Field.BINARY), b"")
            assert isinstance(told, bytes), "a binary field holds bytes"
            self._neighbours.hello(node_id, source, told, at.steady_s)
        else:
            self._neighbours.heartbeat(node_id, source, at.steady_s)

    def gone(self, address: Address) -> None:
        """A QUIC connection ended, so that address is out of reach."""
        self._neighbours.gone(address)

    def targets(self) -> list[Address]:
        """All neighbours."""
        return self._neighbours.others(None)

    def datagrams_to_send(self, at: Instant) -> list[Outgoing]:
        """Hellos and heartbeats that are due."""
        return [Outgoing(self._called(each, at), each.address) for each in self._neighbours.due(at.steady_s)]

    def _called(self, due: Due, at: Instant) -> bytes:
        number = self._chance(MESSAGE_ID_BITS)
        match due.call:
            case Call.HELLO:
                draft = emm.draft_hello(number, int(at.unix_s), self._node_id, CAPABILITIES)
            case Call.HEARTBEAT:
                draft = emm.draft_heartbeat(number, int(at.unix_s), self._node_id)
            case _:
                assert_never(due.call)
        return emm.build(draft, self._credentials, rules=self._rules)
