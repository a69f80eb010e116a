"""What may be acted on: packets that are fresh, new, well formed and vouched for. Cheap questions first (EMC-13)."""

from __future__ import annotations

import math

from weft.datagram_node import Recent
from weft.emm_compact.settings import Epochs, Settings
from weft.wire.emm_compact import KeyRing, Packet, decode_untrusted, verify_untrusted
from weft.wire.emm_compact import header as headers
from weft.wire.emm_compact.numbering import EPOCHS
from weft.wire.emm_compact.packet import SIGNATURE_AT, body_at
from weft.wire.reject import BadPacket, Reject


class Gate:
    """The receiving side of one node. ``ring`` may be replaced while it works."""

    def __init__(self, ring: KeyRing, settings: Settings) -> None:
        self.ring = ring
        self.seen: Recent[bytes] = Recent(settings.seen_max)
        self._settings = settings

    def admit_untrusted(self, data: bytes, unix_s: float) -> Packet:
        """One datagram from outside; raise only BadPacket.

        In a mesh most refused packets are honest ones that came another way before. They cost a look into the cache,
        and forgeries of old packets cost a subtraction; only what is left is parsed and verified. Only what was
        verified is remembered, so that a forgery cannot keep the real packet out.
        """
        header = headers.decode_untrusted(data)
        fresh_at_s = self._fresh_at_s(header.epoch, unix_s)
        key = seen_key(data, header)
        if self.seen.holds(key, unix_s):
            raise BadPacket(Reject.REPLAY, "packet was seen before", triple=tuple(header.triple))
        packet = decode_untrusted(data)
        verify_untrusted(packet, self.ring)
        # As long as the packet would count as fresh, and never shorter than asked for.
        self.seen.add(key, max(unix_s, fresh_at_s) + self._settings.seen_s, unix_s)
        return packet

    def note_own(self, packet: Packet, unix_s: float) -> None:
        """An event of ours, which will come back in a ring."""
        self.seen.add(seen_key(packet.raw, packet.header), unix_s + self._settings.seen_s, unix_s)

    def _fresh_at_s(self, epoch: int, unix_s: float) -> float:
        """When a packet was made, as far as its epoch tells; raise BadPacket if that is too long ago or to come.

        Without this a recorded packet could be sent again as soon as the cache has forgotten it. The epoch comes round
        every 65,536 ticks, so it still can for some minutes every 18 hours: a group key should not serve so long.
        """
        tick_s = self._settings.tick_s
        match self._settings.epochs:
            case Epochs.ANY:
                return unix_s
            case Epochs.CLOCK:
                age_ticks = (math.floor(unix_s / tick_s) - epoch + EPOCHS // 2) % EPOCHS - EPOCHS // 2
        age_s = age_ticks * tick_s
        if age_s > self._settings.seen_s:
            raise BadPacket(Reject.STALE, "packet is too old", age_s=age_s, limit_s=self._settings.seen_s)
        if -age_s > self._settings.skew_s_max:
            raise BadPacket(
                Reject.FUTURE, "packet is from the future", ahead_s=-age_s, limit_s=self._settings.skew_s_max
            )
        return unix_s - age_s


def seen_key(data: bytes, header: headers.Header) -> bytes:
    """The triple and the signature: triples of different nodes collide (EMC-13)."""
    return data[1:7] + data[SIGNATURE_AT : body_at(header.type)]
