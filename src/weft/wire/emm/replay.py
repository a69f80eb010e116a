"""Freshness, and how a packet is recognised when it comes again (EMM-19, EMM-20)."""

from __future__ import annotations

import hashlib
from typing import Final, assert_never

from weft.limits import CLOCK_SKEW_S_MAX, REPLAY_WINDOW_S
from weft.wire.emm.auth import Verdict
from weft.wire.emm.fields import SIZES, Field
from weft.wire.emm.packet import Packet
from weft.wire.reject import BadPacket, Reject

REPLAY_CACHE_MAX: Final = 1 << 20  # 300 s at 3,500 packets/s; oldest go first
SENDER_BYTES: Final = SIZES[Field.NODE_ID]
NUMBER_BYTES: Final = 4
MARK_BYTES: Final = SENDER_BYTES + NUMBER_BYTES


def replay_sender(packet: Packet, verdict: Verdict, source: bytes) -> bytes:
    """The sender under which the message id of a packet is remembered: only as much of it as is proven (EMM-19).

    An unauthenticated node id is only a claim. If a forgery were remembered under it, the real packet would be refused.
    """
    match verdict:
        case Verdict.VERIFIED:
            return packet.fields[Field.NODE_ID]
        case Verdict.UNVERIFIED_IDENTITY:
            return stand_in(packet.fields[Field.PUBLIC_KEY])
        case Verdict.UNSIGNED:
            return stand_in(source)
        case _:
            assert_never(verdict)


def stand_in(known: bytes) -> bytes:
    """A substitute for a node id, of the same size: for a public key, or for a source address."""
    return hashlib.blake2b(known, digest_size=SENDER_BYTES).digest()


def replay_mark(sender: bytes, message_id: int) -> bytes:
    """What a packet is recognised by. sender:16 message_id:u32, little-endian, as the columns of numpy have it."""
    return sender + message_id.to_bytes(NUMBER_BYTES, "little")


def check_fresh(
    fresh_at_s: int, now_s: float, window_s: float = REPLAY_WINDOW_S, skew_s_max: float = CLOCK_SKEW_S_MAX
) -> None:
    """Raise BadPacket for a packet that is older than the window or further ahead than clocks may differ."""
    age_s = now_s - fresh_at_s
    if age_s > window_s:
        raise BadPacket(Reject.STALE, "packet is too old", age_s=round(age_s, 3), limit_s=window_s)
    if -age_s > skew_s_max:
        raise BadPacket(Reject.FUTURE, "packet is from the future", ahead_s=round(-age_s, 3), limit_s=skew_s_max)
