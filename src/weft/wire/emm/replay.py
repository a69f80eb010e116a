"""Nothing twice, nothing stale: freshness and the replay cache (EMM-19, EMM-20)."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final, assert_never

from weft.limits import CLOCK_SKEW_S_MAX, REPLAY_WINDOW_S
from weft.wire.emm.auth import Verdict
from weft.wire.emm.fields import SIZES, Field
from weft.wire.emm.packet import Packet
from weft.wire.reject import BadPacket, Reject

REPLAY_CACHE_MAX: Final = 1 << 20  # 300 s at 3,500 packets/s; oldest go first
SENDER_BYTES: Final = SIZES[Field.NODE_ID]


def replay_sender(packet: Packet, verdict: Verdict, source: bytes) -> bytes:
    """Whom the message id of a packet belongs to: as much of its sender as is proven (EMM-19).

    A node id that nobody vouches for is only a claim: filed under it, a forgery would keep out the real packet.
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
    """What takes the place of a node id, in as many bytes: for a public key, or for a source address."""
    return hashlib.blake2b(known, digest_size=SENDER_BYTES).digest()


def check_fresh(
    fresh_at_s: int, now_s: float, window_s: float = REPLAY_WINDOW_S, skew_s_max: float = CLOCK_SKEW_S_MAX
) -> None:
    """Raise BadPacket for a packet that is older than the window or further ahead than clocks may differ."""
    age_s = now_s - fresh_at_s
    if age_s > window_s:
        raise BadPacket(Reject.STALE, "packet is too old", age_s=round(age_s, 3), limit_s=window_s)
    if -age_s > skew_s_max:
        raise BadPacket(Reject.FUTURE, "packet is from the future", ahead_s=round(-age_s, 3), limit_s=skew_s_max)


class ReplayCache:
    """Which (sender, message id) pairs were seen lately.

    An entry lives for the window, and at least as long as its packet would count as fresh: a packet dated ahead of our
    clock cannot be replayed once its entry is gone. The sender is what ``replay_sender`` says. When the cache is full
    the oldest entry goes, and ``evicted`` counts it: those could be replayed.
    """

    def __init__(self, entries_max: int = REPLAY_CACHE_MAX, window_s: float = REPLAY_WINDOW_S) -> None:
        assert entries_max > 0, "a cache without room would accept every replay"
        self.evicted = 0
        self._entries_max = entries_max
        self.window_s = window_s
        # Oldest first. A plain dict would look for its oldest behind everything deleted before it: when the cache is
        # full, that is a hundred microseconds a packet.
        self._expires_at_s: OrderedDict[tuple[bytes, int], float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._expires_at_s)

    def admit(self, sender: bytes, message_id: int, fresh_at_s: int, now_s: float) -> None:
        """Remember the pair, or raise BadPacket if it is known. Call it for authenticated packets only: a forgery must
        not keep the real packet out."""
        key = (sender, message_id)
        entries = self._expires_at_s
        expires_at_s = entries.get(key)
        if expires_at_s is not None:
            if now_s <= expires_at_s:
                raise BadPacket(Reject.REPLAY, "packet was seen before", message_id=f"{message_id:08x}")
            del entries[key]  # so that it goes to the end again
        self._make_room(now_s)
        entries[key] = max(now_s, fresh_at_s) + self.window_s

    def _make_room(self, now_s: float) -> None:
        """Drop expired entries from the old end, at most two a call, so that the cost is flat and the cache shrinks."""
        entries = self._expires_at_s
        for _ in range(2):
            if not entries:
                return
            oldest = next(iter(entries))
            expired = entries[oldest] < now_s
            if not expired and len(entries) < self._entries_max:
                return
            self.evicted += not expired
            del entries[oldest]
