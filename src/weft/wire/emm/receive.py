"""The receiving side, in the order of the document: parse, authenticate, freshness, replay, unseal."""

from __future__ import annotations

from dataclasses import dataclass

from weft.limits import CLOCK_SKEW_S_MAX
from weft.wire.emm.auth import Verdict, authenticate
from weft.wire.emm.fields import DEFAULT_RULES, Rules
from weft.wire.emm.packet import Packet
from weft.wire.emm.parse import parse_untrusted
from weft.wire.emm.replay import ReplayCache, check_fresh, replay_sender
from weft.wire.emm.seal import KeyFinder, no_keys, unseal_untrusted
from weft.wire.emm.trust import TrustStore
from weft.wire.reject import BadPacket, Reject

FLAGS_AT = 5  # the header's byte with the flags


@dataclass(frozen=True, slots=True)
class ReceivedPacket:
    """A packet that may be acted on, and what is known of its sender."""

    packet: Packet
    verdict: Verdict


class Receiver:
    """Takes datagrams, gives packets that may be acted on; everything else is a BadPacket with its reason.

    Unsigned packets are refused unless ``unsigned_allowed``: a mesh without keys has to be asked for.
    """

    def __init__(
        self,
        trust: TrustStore,
        *,
        replay: ReplayCache | None = None,
        find_key: KeyFinder = no_keys,
        rules: Rules = DEFAULT_RULES,
        unsigned_allowed: bool = False,
        skew_s_max: float = CLOCK_SKEW_S_MAX,
    ) -> None:
        self.trust = trust
        self.replay = ReplayCache() if replay is None else replay
        self.rules = rules
        self._find_key = find_key
        self._unsigned_allowed = unsigned_allowed
        self._skew_s_max = skew_s_max

    def receive_datagram(self, data: bytes, source: bytes, now_s: float) -> ReceivedPacket:
        """One datagram from outside; raise only BadPacket. ``source`` is its address: replays of unsigned packets are
        told by it (EMM-19)."""
        packet = parse_untrusted(data, self.rules)
        verdict = authenticate(packet, self.trust)
        if verdict is Verdict.UNSIGNED and not self._unsigned_allowed:
            raise BadPacket(Reject.UNSIGNED, "packet has neither HMAC nor signature")
        fresh_at_s = packet.fresh_at_s
        check_fresh(fresh_at_s, now_s, self.replay.window_s, self._skew_s_max)
        self.replay.admit(replay_sender(packet, verdict, source), packet.message_id, fresh_at_s, now_s)
        return ReceivedPacket(unseal_untrusted(packet, self._find_key, self.rules), verdict)
