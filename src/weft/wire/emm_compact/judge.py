"""What becomes of an EMM-C datagram: the one definition for the library, the gateway and Spark.

The questions come in one order: form, age, expiry, seen before, proof. In a mesh most refused packets are honest ones
that came another way before; they cost a look into the memory. ``sift`` asks all but the signatures of joins and
commands, which ``verify`` checks. Only what was proven is marked, so a forgery keeps nothing out. ``judge_columns``
asks the same of a column of datagrams at once; a property test holds the two against each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from weft.errors import UsageError
from weft.limits import CLOCK_SKEW_S_MAX
from weft.wire.emm_compact.auth import KeyRing, Proof, verify_untrusted
from weft.wire.emm_compact.body import expiry_s_of
from weft.wire.emm_compact.codes import EventType
from weft.wire.emm_compact.numbering import EPOCHS, TICK_S
from weft.wire.emm_compact.packet import SIGNATURE_BYTES, Packet, decode_untrusted
from weft.wire.recent import Recent, ReplayMarks
from weft.wire.reject import BadPacket, Reject

SEEN_S: Final = 300.0  # EMC-13
SEEN_MAX: Final = 1 << 18  # 300 s at 870 events/s, 60 MiB; oldest go first
GROUPED: Final = frozenset({EventType.NOTIFICATION, EventType.HEARTBEAT})  # a group key vouches for them (EMC-05)
# triple:6 zero:2 signature:64, shorter ones filled up with zeros
TRIPLE_AT, TRIPLE_BYTES, SIGNATURE_IN_MARK = 1, 6, 8
MARK_BYTES: Final = SIGNATURE_IN_MARK + max(SIGNATURE_BYTES.values())


class Epochs(Enum):
    """What the epoch of a received packet says about its age."""

    CLOCK = "clock"  # ticks since 1970: what is older than the memory reaches back is refused, so nothing comes twice
    ANY = "any"  # nothing, for nodes that count from their start: what was recorded can be replayed after the memory


@dataclass(frozen=True, slots=True)
class Terms:
    """What a packet must be to be taken."""

    seen_s: float = SEEN_S
    skew_s_max: float = CLOCK_SKEW_S_MAX  # how far ahead of ours another node's clock may be
    tick_s: float = TICK_S  # EMC-04
    epochs: Epochs = Epochs.CLOCK

    def __post_init__(self) -> None:
        if self.epochs is Epochs.CLOCK and self.seen_s + self.skew_s_max >= EPOCHS * self.tick_s / 2:
            raise UsageError(
                "epochs repeat too soon to tell old packets from new ones",
                seen_s=self.seen_s,
                skew_s_max=self.skew_s_max,
                round_s=EPOCHS * self.tick_s,
            )


DEFAULT_TERMS: Final = Terms()


class Admitted(NamedTuple):
    """A packet that may be acted on. ``mark``: what it is recognised by (EMC-13). ``fresh_at_s``: when it was made,
    according to its epoch.
    """

    packet: Packet
    proof: Proof
    mark: bytes
    fresh_at_s: float


class Judge:
    """Takes datagrams, gives packets that may be acted on; everything else is a BadPacket with its reason.

    ``ring`` may be replaced while it works. ``marks`` remembers what was taken; without it, the judge has a memory of
    its own.
    """

    def __init__(self, ring: KeyRing, terms: Terms = DEFAULT_TERMS, *, marks: ReplayMarks | None = None) -> None:
        self.ring = ring
        self.marks: ReplayMarks = Recent(SEEN_MAX) if marks is None else marks
        self._terms = terms

    def receive_datagram(self, data: bytes, now_s: float) -> Admitted:
        """One datagram from outside; raise only BadPacket."""
        return self.admit(decode_untrusted(data), now_s)

    def admit(self, packet: Packet, now_s: float) -> Admitted:
        return self.sift(packet, now_s) or self.verify(packet, now_s)

    def sift(self, packet: Packet, now_s: float) -> Admitted | None:
        """Everything but the signature of a join or a command. None: ``verify`` decides."""
        if packet.header.type in GROUPED:
            return self._proven(packet, now_s)
        self._check(packet, now_s)
        return None

    def verify(self, packet: Packet, now_s: float) -> Admitted:
        """Check the signature of a packet that passed ``sift``, perhaps a while ago: keys may have changed since."""
        return self._proven(packet, now_s)

    def _proven(self, packet: Packet, now_s: float) -> Admitted:
        mark, fresh_at_s = self._check(packet, now_s)
        proof = verify_untrusted(packet, self.ring)
        # As long as the packet would count as fresh, and never shorter than asked for.
        self.marks.add(mark, max(now_s, fresh_at_s) + self._terms.seen_s, now_s)
        return Admitted(packet, proof, mark, fresh_at_s)

    def _check(self, packet: Packet, now_s: float) -> tuple[bytes, float]:
        fresh_at_s = check_fresh(packet.header.epoch, now_s, self._terms)
        check_expiry(expiry_s_of(packet.body), now_s - fresh_at_s)
        mark = replay_mark(packet)
        if self.marks.holds(mark, now_s):
            raise BadPacket(Reject.REPLAY, "packet was seen before", triple=tuple(packet.header.triple))
        return mark, fresh_at_s


def note_own(marks: ReplayMarks, packet: Packet, now_s: float, terms: Terms = DEFAULT_TERMS) -> None:
    """Remember an event of ours, so that it counts as a replay if it comes back in a ring."""
    marks.add(replay_mark(packet), now_s + terms.seen_s, now_s)


def replay_mark(packet: Packet) -> bytes:
    """The triple and the signature: triples of different nodes collide (EMC-13)."""
    triple = packet.raw[TRIPLE_AT : TRIPLE_AT + TRIPLE_BYTES].ljust(SIGNATURE_IN_MARK, b"\0")
    return (triple + packet.signature).ljust(MARK_BYTES, b"\0")


def check_fresh(epoch: int, now_s: float, terms: Terms) -> float:
    """When a packet was made, according to its epoch; raise BadPacket if that is too long ago or in the future.

    Without this a recorded packet could be sent again as soon as the memory has forgotten it. The epoch repeats every
    65,536 ticks, so that is still possible for some minutes every 18 hours: do not use a group key for so long. If the
    time of arrival is unknown (NaN), the age is not checked.
    """
    if terms.epochs is Epochs.ANY or math.isnan(now_s):
        return now_s
    age_s = age_by_epoch_s(epoch, now_s, terms)
    if age_s > terms.seen_s:
        raise BadPacket(Reject.STALE, "packet is too old", age_s=age_s, limit_s=terms.seen_s)
    if -age_s > terms.skew_s_max:
        raise BadPacket(Reject.FUTURE, "packet is from the future", ahead_s=-age_s, limit_s=terms.skew_s_max)
    return now_s - age_s


def age_by_epoch_s(epoch: int, now_s: float, terms: Terms) -> float:
    """The epoch wraps around: the nearest one counts, half of them ahead of now, half behind."""
    if terms.epochs is Epochs.ANY:
        return 0.0
    age_ticks = (math.floor(now_s / terms.tick_s) - epoch + EPOCHS // 2) % EPOCHS - EPOCHS // 2
    return age_ticks * terms.tick_s


def check_expiry(expiry_s: int | None, age_s: float) -> None:
    """Raise BadPacket if a packet is older than its sender allows (0xAC). If its age is unknown (``Epochs.ANY``, or no
    time of arrival), it does not expire.
    """
    if expiry_s is not None and age_s > expiry_s:
        raise BadPacket(Reject.EXPIRED, "packet has expired", age_s=age_s, limit_s=expiry_s)
