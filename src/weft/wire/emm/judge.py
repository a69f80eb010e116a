"""What becomes of a datagram: the one definition for the library, the gateway and Spark.

The questions come in one order, cheap ones first, so that a flood of forgeries costs little:

    form, any proof at all, age             ``sift``
    HMAC, signer known and trusted, seen?   ``sift``, which marks what has no signature
    age again, signature, seen?             ``verify``, which marks what has one
    seal, if it has one and if it must      ``open``

Marks are made only of what is proved (``replay.replay_sender``), so a forgery keeps nothing out. A packet that cannot
be opened has been seen all the same. ``judge_columns`` asks the same of a column of datagrams at once; a property test
holds the two against each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from weft.limits import CLOCK_SKEW_S_MAX, REPLAY_WINDOW_S
from weft.wire.emm.auth import Verdict, check_hmac, check_signature, promised_verdict
from weft.wire.emm.fields import DEFAULT_RULES, Field, Rules
from weft.wire.emm.packet import Packet
from weft.wire.emm.parse import parse_untrusted
from weft.wire.emm.replay import REPLAY_CACHE_MAX, check_fresh, replay_mark, replay_sender
from weft.wire.emm.seal import KeyFinder, SealRule, no_keys, rule_for, unseal_untrusted
from weft.wire.emm.trust import TrustStore
from weft.wire.recent import Recent, ReplayMarks
from weft.wire.reject import BadPacket, Reject

# A plain number: an enum's member costs three times as much, and this is done for every packet.
SIGNATURE: Final = int(Field.SIGNATURE)
UNKNOWN_S: Final = math.nan  # when a packet arrived, if nobody wrote it down: its age is not asked


@dataclass(frozen=True, slots=True)
class Terms:
    """What a packet must fulfil to be accepted. Unsigned packets are refused unless ``unsigned_allowed``: a mesh
    without keys must be configured.
    """

    rules: Rules = DEFAULT_RULES
    unsigned_allowed: bool = False
    sealed: tuple[SealRule, ...] = ()  # events that must be encrypted
    window_s: float = REPLAY_WINDOW_S
    skew_s_max: float = CLOCK_SKEW_S_MAX


DEFAULT_TERMS: Final = Terms()


class Admitted(NamedTuple):
    """An authentic, fresh and new packet, which may still be sealed. ``mark``: what it is recognised by (EMM-19)."""

    packet: Packet
    verdict: Verdict
    mark: bytes


class ReceivedPacket(NamedTuple):
    """A packet that may be acted on, and what is known of its sender."""

    packet: Packet
    verdict: Verdict


class Judge:
    """Takes datagrams and returns packets that may be acted on; everything else is a BadPacket with its reason.
    ``marks`` remembers accepted packets; without it, the judge makes its own memory.
    """

    def __init__(
        self,
        trust: TrustStore,
        terms: Terms = DEFAULT_TERMS,
        *,
        marks: ReplayMarks | None = None,
        find_key: KeyFinder = no_keys,
    ) -> None:
        self._trust = trust
        self._terms = terms
        self.marks: ReplayMarks = Recent(REPLAY_CACHE_MAX) if marks is None else marks
        self._find_key = find_key

    def receive_datagram(self, data: bytes, source: bytes, now_s: float) -> ReceivedPacket:
        """One datagram from outside; raise only BadPacket. ``source`` is its address, by which replays of unsigned
        packets are recognised (EMM-19).
        """
        return self.open(self.admit(self.parse(data), source, now_s))

    def parse(self, data: bytes) -> Packet:
        return parse_untrusted(data, self._terms.rules)

    def admit(self, packet: Packet, source: bytes, now_s: float) -> Admitted:
        return self.sift(packet, source, now_s) or self.verify(packet, source, now_s)

    def sift(self, packet: Packet, source: bytes, now_s: float) -> Admitted | None:
        """Everything but the signature, which costs fifty times as much as all the rest. None: ``verify`` decides."""
        terms, trust = self._terms, self._trust
        fields = packet.fields
        if not (terms.unsigned_allowed or SIGNATURE in fields or Field.HMAC in fields):
            raise BadPacket(Reject.UNSIGNED, "packet has neither HMAC nor signature")
        check_fresh(packet.fresh_at_s, now_s, terms.window_s, terms.skew_s_max)
        check_hmac(packet, trust)
        admitted = self._named(packet, source)
        if SIGNATURE not in fields:
            self._take(admitted, now_s)
            return admitted
        self._check_new(admitted, now_s)  # a packet that was seen needs no look at its signature
        return None

    def verify(self, packet: Packet, source: bytes, now_s: float) -> Admitted:
        """Check the signature of a packet that passed ``sift``, perhaps a while ago: keys may have changed since."""
        check_fresh(packet.fresh_at_s, now_s, self._terms.window_s, self._terms.skew_s_max)
        admitted = self._named(packet, source)
        check_signature(packet, self._trust)
        self._take(admitted, now_s)
        return admitted

    def open(self, admitted: Admitted) -> ReceivedPacket:
        """The packet with its data readable."""
        return ReceivedPacket(open_untrusted(admitted.packet, self._terms, self._find_key), admitted.verdict)

    def note_own(self, node_id: bytes, message_id: int, now_s: float) -> None:
        """Remember a packet of ours, so that it counts as a replay if others send it back."""
        self.marks.add(replay_mark(node_id, message_id), now_s + self._terms.window_s, now_s)

    def _named(self, packet: Packet, source: bytes) -> Admitted:
        verdict = promised_verdict(packet, self._trust)
        return Admitted(packet, verdict, replay_mark(replay_sender(packet, verdict, source), packet.message_id))

    def _take(self, admitted: Admitted, now_s: float) -> None:
        """Mark it. An entry lives for the window, and at least as long as its packet would count as fresh: a packet
        dated ahead of our clock cannot be replayed once its entry is gone."""
        self._check_new(admitted, now_s)
        until_s = max(now_s, admitted.packet.fresh_at_s) + self._terms.window_s
        self.marks.add(admitted.mark, until_s, now_s)

    def _check_new(self, admitted: Admitted, now_s: float) -> None:
        if self.marks.holds(admitted.mark, now_s):
            message_id = f"{admitted.packet.message_id:08x}"
            raise BadPacket(Reject.REPLAY, "packet was seen before", message_id=message_id)


def open_untrusted(packet: Packet, terms: Terms, find_key: KeyFinder) -> Packet:
    """The packet with its data readable; raise only BadPacket, also if it should have been encrypted and was not."""
    opened = unseal_untrusted(packet, find_key, terms.rules)
    if terms.sealed and not packet.encrypted:
        name = opened.event_name  # which is known for certain only now
        if name is not None and rule_for(terms.sealed, name) is not None:
            raise BadPacket(Reject.UNSEALED, "an event of that name must be encrypted", name=name)
    return opened
