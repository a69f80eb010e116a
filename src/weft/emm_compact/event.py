"""What applications see: events, neighbours, and counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID

from weft.datagram_node import Change, Relationship
from weft.wire import emm_compact as wire
from weft.wire.emm_compact import (
    EventType,
    FieldType,
    Format,
    Heartbeat,
    Join,
    Packet,
    Priority,
    TopologyHint,
    Triple,
    content_untrusted,
    find,
    node_id_of,
)
from weft.wire.reject import BadPacket, Reject
from weft.wire.udp import Address


@dataclass(frozen=True, slots=True)
class Event:
    """A notification that some member of the mesh made. A group key vouches for it: for membership, not for a name."""

    message: bytes
    format: Format
    priority: Priority
    urgent: bool
    triple: Triple
    source: Address  # the neighbour it came from, which need not be where it was made
    ttl: int  # what was left of it on arrival

    @property
    def text(self) -> str:
        """The message as UTF-8, with marks where it is not valid."""
        return self.message.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Command:
    """A command that its sender signed, on its way to the handler with its name."""

    packet: Packet = field(repr=False)
    source: Address
    ttl: int  # as of an event

    @property
    def body(self) -> wire.Command:
        assert isinstance(self.packet.body, wire.Command), "a command"
        return self.packet.body

    @property
    def sender(self) -> UUID | None:
        """The node that signed it; None if the packet names only the fingerprint of its key."""
        return _uuid(node_id_of(self.body))

    @property
    def trace_id(self) -> UUID | None:
        """What belongs to it elsewhere (0xAE)."""
        return _uuid(find(self.body.more, FieldType.TRACE_ID))


@dataclass(frozen=True, slots=True)
class Refusal:
    """A datagram that was not taken, and why."""

    data: bytes = field(repr=False)
    source: Address
    error: BadPacket


@dataclass(frozen=True, slots=True)
class About:
    """What a neighbour said about itself: how it joined, if it did, and its last heartbeat, if there was one."""

    join: Join | None = None
    heartbeat: Heartbeat | None = None

    def takes(self, kind: EventType) -> bool:
        """Whether it wants packets of that type (0xB0). A neighbour that has not said so gets them all."""
        return self.join is None or bool(self.join.supported & 1 << kind)

    @property
    def status(self) -> bytes:
        """What its join says for applications, decompressed and as UTF-8; as it came if that cannot be read."""
        if self.join is None:
            return b""
        try:
            return content_untrusted(self.join.status, self.join.more)
        except BadPacket:
            return self.join.status

    @property
    def topology(self) -> TopologyHint | None:
        """Where it stands, as it said last (0xAD)."""
        value = self._told(FieldType.TOPOLOGY_HINT)
        return None if value is None else TopologyHint.decode_untrusted(value, 0, len(value), len(value))

    @property
    def vendor(self) -> UUID | None:
        """Who made it (0xAF)."""
        return _uuid(self._told(FieldType.VENDOR_ID))

    def _told(self, field_type: FieldType) -> bytes | None:
        said = (find(body.more, field_type) for body in (self.heartbeat, self.join) if body is not None)
        return next((value for value in said if value is not None), None)


Neighbour = Relationship[About]
NeighbourChange = Change[About]


@dataclass(slots=True)
class Figures:
    """Counts since the start; changed in place."""

    received: int = 0  # datagrams
    published: int = 0  # own events
    delivered: int = 0  # events put up for the application
    relayed: int = 0  # events sent on to neighbours
    ended: int = 0  # events whose TTL was used up here
    unsent: int = 0  # datagrams without room in the outbox
    expired: int = 0  # datagrams whose time was over before they could leave
    unread: int = 0  # events without room in the application's queue
    forgotten: int = 0  # seen events that the cache had no room for, as of the last heartbeat: they could come twice
    rejected: Counter[Reject] = field(default_factory=Counter)  # ``replay`` counts what came another way before, too
    slowed: int = 0  # times that the rate to a neighbour was halved, because of congestion


def _uuid(value: bytes | None) -> UUID | None:
    return None if value is None else UUID(bytes=value)
