"""An EMM packet that has been read: header, data values, security fields, and the bytes it came from."""

from __future__ import annotations

import struct
from typing import NamedTuple
from uuid import UUID

from weft.wire.emm.fields import EventType, Field, Flags, Value
from weft.wire.tlv import HEAD_BYTES, Tlv

TIMESTAMP = struct.Struct("!Q")


class Packet(NamedTuple):
    """A well-formed packet. Its sender is not authenticated yet: see ``auth`` and ``judge``.

    A tuple rather than a dataclass, because a frozen dataclass costs a third of the parse.
    ``values`` are the data fields in wire order, split ones joined; a sealed packet has one binary value until
    ``seal.unseal_untrusted`` replaces it by what is inside. ``fields`` are the security fields by type.
    """

    raw: bytes
    message_id: int
    flags: int
    event_type: int
    timestamp_s: int
    values: tuple[tuple[int, Value], ...]
    fields: dict[int, bytes]
    offsets: list[int]  # where each field begins in ``raw``
    sorts: bool  # a field over 0x18 is among them, whose canonical place is not its place on the wire

    @property
    def kind(self) -> EventType:
        return EventType(self.event_type)

    @property
    def urgent(self) -> bool:
        return bool(self.flags & Flags.URGENT)

    @property
    def encrypted(self) -> bool:
        return bool(self.flags & Flags.ENCRYPTED)

    @property
    def compressed(self) -> bool:
        return bool(self.flags & Flags.COMPRESSED)

    @property
    def event_name(self) -> str | None:
        """The first string field (3.3 of the document)."""
        return next((str(value) for kind, value in self.values if kind == Field.STRING), None)

    @property
    def node_id(self) -> UUID | None:
        value = self.fields.get(Field.NODE_ID)
        return None if value is None else UUID(bytes=value)

    @property
    def signed_at_s(self) -> int | None:
        value = self.fields.get(Field.TIMESTAMP)
        return None if value is None else int(TIMESTAMP.unpack(value)[0])

    @property
    def fresh_at_s(self) -> int:
        """The time that freshness is judged by: 0x15 when present, else the header's (EMM-20)."""
        signed_at_s = self.signed_at_s
        return self.timestamp_s if signed_at_s is None else signed_at_s

    def tlvs(self) -> list[Tlv]:
        """Every field as it stands on the wire, unknown ones included."""
        raw = self.raw
        return [Tlv(raw[at], raw[at + HEAD_BYTES : at + HEAD_BYTES + raw[at + 1]], at) for at in self.offsets]
