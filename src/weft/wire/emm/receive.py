"""The receiving side, in the order of the document: parse, authenticate, freshness, replay, unseal."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from weft.limits import CLOCK_SKEW_S_MAX, EMM_INTAKE_MAX
from weft.wire.emm.auth import Verdict, authenticate
from weft.wire.emm.fields import DEFAULT_RULES, Flags, Rules
from weft.wire.emm.packet import Packet
from weft.wire.emm.parse import parse_untrusted
from weft.wire.emm.replay import ReplayCache, check_fresh, replay_sender
from weft.wire.emm.seal import KeyFinder, no_keys, unseal_untrusted
from weft.wire.emm.trust import TrustStore
from weft.wire.reject import BadPacket, Reject

FLAGS_AT = 5  # the header's byte with the flags


@dataclass(frozen=True, slots=True)
class Received:
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

    def receive_datagram(self, data: bytes, source: bytes, now_s: float) -> Received:
        """One datagram from outside; raise only BadPacket. ``source`` is its address: replays of unsigned packets are
        told by it (EMM-19)."""
        packet = parse_untrusted(data, self.rules)
        verdict = authenticate(packet, self.trust)
        if verdict is Verdict.UNSIGNED and not self._unsigned_allowed:
            raise BadPacket(Reject.UNSIGNED, "packet has neither HMAC nor signature")
        fresh_at_s = packet.fresh_at_s
        check_fresh(fresh_at_s, now_s, self.replay.window_s, self._skew_s_max)
        self.replay.admit(replay_sender(packet, verdict, source), packet.message_id, fresh_at_s, now_s)
        return Received(unseal_untrusted(packet, self._find_key, self.rules), verdict)


class Intake:
    """Datagrams waiting for their turn, urgent ones first (EMM-29).

    The flag is read before anybody vouched for it, so it may only change the order: when the intake is full, what
    came last is dropped, urgent or not, and counted.
    """

    def __init__(self, datagrams_max: int = EMM_INTAKE_MAX) -> None:
        self.dropped = 0
        self._datagrams_max = datagrams_max
        self._urgent: deque[tuple[bytes, bytes]] = deque()
        self._normal: deque[tuple[bytes, bytes]] = deque()

    def __len__(self) -> int:
        return len(self._urgent) + len(self._normal)

    def put(self, data: bytes, source: bytes) -> None:
        if len(self) >= self._datagrams_max:
            self.dropped += 1
            return
        urgent = len(data) > FLAGS_AT and data[FLAGS_AT] & Flags.URGENT
        (self._urgent if urgent else self._normal).append((data, source))

    def drain(self) -> Iterator[tuple[bytes, bytes]]:
        """(datagram, source) pairs until nothing is left; an urgent one that arrives meanwhile is next."""
        while self._urgent or self._normal:
            yield (self._urgent or self._normal).popleft()
