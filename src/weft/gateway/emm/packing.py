"""Mesh events as datagrams, signed by the node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from weft.errors import UsageError
from weft.gateway.emm.rows import Header
from weft.gateway.emm.settings import Out
from weft.model import Event, Topic
from weft.wire import emm, emm_compact
from weft.wire.datagram import DatagramProtocol
from weft.wire.emm import Rules, SealRule
from weft.wire.emm.fields import DEFAULT_RULES, MESSAGE_ID_BITS
from weft.wire.emm.seal import KeyFinder, no_keys, rule_for
from weft.wire.emm_compact import Format, Notification

US_PER_S = 1_000_000


@dataclass(frozen=True, slots=True)
class Packed:
    """A datagram, and what belongs into the IP header around it."""

    data: bytes
    tos: int
    urgent: bool
    compact: emm_compact.Packet | None = None  # of EMM-C: it goes to neighbours at their own pace


SealCompact = Callable[[Notification, bool, float], emm_compact.Packet]


def no_compact(_body: Notification, _urgent: bool, _unix_s: float) -> emm_compact.Packet:
    raise UsageError("there is no group key to sign EMM-C packets with: weft trust add --group")


class Packer:
    """``chance(n)`` returns n random bits (EMM-02). Keys may be replaced at any time; ``find_key`` has those that
    events are encrypted with, if ``seal`` names them. ``seal_compact`` makes an EMM-C packet, or raises UsageError.
    """

    def __init__(
        self,
        node_id: UUID,
        chance: Callable[[int], int],
        seal_compact: SealCompact = no_compact,
        rules: Rules = DEFAULT_RULES,
        seal: Sequence[SealRule] = (),
        find_key: KeyFinder = no_keys,
    ) -> None:
        self.credentials: emm.Credentials | None = None
        self._rules = rules
        self._seal = seal
        self._find_key = find_key
        self._node_id = node_id
        self._chance = chance
        self._seal_compact = seal_compact

    def pack(self, topic: Topic, event: Event, out: Out, unix_s: float) -> Packed:
        """Raise UsageError if it does not fit a packet, or there is no key to sign it with."""
        match out.protocol:
            case DatagramProtocol.EMM:
                return self._emm(topic, event, out, unix_s)
            case DatagramProtocol.EMM_COMPACT:
                return self._compact(topic, event, out, unix_s)

    def _emm(self, topic: Topic, event: Event, out: Out, unix_s: float) -> Packed:
        """Its name is its topic. It was created when the event was, and is signed now: its freshness is judged by
        that."""
        created_s = min(max(event.timestamp_us // US_PER_S, 0), int(unix_s))
        number = self._chance(MESSAGE_ID_BITS)
        draft = emm.draft_event(number, created_s, topic, event.payload, node_id=self._node_id)
        if out.compress:
            draft = emm.compressed_if_smaller(draft)
        data = emm.build(
            replace(draft, urgent=out.urgent),
            self.credentials,
            seal=emm.seal_for(self._seal, topic, self._find_key, self._chance),
            signed_at_s=int(unix_s),
            rules=self._rules,
        )
        return Packed(data, 0, out.urgent)

    def _compact(self, topic: Topic, event: Event, out: Out, unix_s: float) -> Packed:
        """EMM-C has no names: only the payload is sent."""
        if rule_for(self._seal, topic) is not None:
            raise UsageError(f"events on {topic} must be encrypted, and EMM-C has no encryption")
        packet = self._seal_compact(Notification(out.priority, Format.BINARY, event.payload), out.urgent, unix_s)
        tos = emm_compact.tos(emm_compact.dscp(packet), emm_compact.Ecn.ECT_0)
        return Packed(packet.raw, tos, out.urgent, compact=packet)


def came_as_datagram(event: Event) -> bool:
    """Such events never go out again, or two gateways would send one event back and forth for ever."""
    return event.headers is not None and Header.PROTOCOL in event.headers
