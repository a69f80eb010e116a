"""Mesh events as datagrams, signed by the node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from uuid import UUID

from weft.errors import UsageError
from weft.gateway.emm.rows import Header
from weft.gateway.emm.settings import Out
from weft.model import Event, Topic
from weft.wire import emm, emm_compact
from weft.wire.datagram import DatagramProtocol
from weft.wire.emm_compact import Format, Notification, Numbering

US_PER_S = 1_000_000


@dataclass(frozen=True, slots=True)
class Packed:
    """A datagram and what belongs into the IP header around it."""

    data: bytes
    tos: int
    urgent: bool


class Packer:
    """``chance`` gives so many random bits (EMM-02). Keys may be replaced at any time."""

    def __init__(self, node_id: UUID, chance: Callable[[int], int], unix_s: float) -> None:
        self.credentials: emm.Credentials | None = None
        self.signer: emm_compact.Signer | None = None
        self._node_id = node_id
        self._chance = chance
        self._numbering = Numbering.starting(unix_s)

    def pack(self, topic: Topic, event: Event, out: Out, unix_s: float) -> Packed:
        """UsageError if it does not fit a packet, or there is no key to sign it with."""
        match out.protocol:
            case DatagramProtocol.EMM:
                return self._emm(topic, event, out, unix_s)
            case DatagramProtocol.EMM_COMPACT:
                return self._compact(event, out, unix_s)

    def _emm(self, topic: Topic, event: Event, out: Out, unix_s: float) -> Packed:
        """Named as its topic. Created when the event was, signed now: that is what its freshness is judged by."""
        created_s = min(max(event.timestamp_us // US_PER_S, 0), int(unix_s))
        draft = emm.draft_event(self._chance(32), created_s, topic, event.payload, node_id=self._node_id)
        data = emm.build(replace(draft, urgent=out.urgent), self.credentials, signed_at_s=int(unix_s))
        return Packed(data, 0, out.urgent)

    def _compact(self, event: Event, out: Out, unix_s: float) -> Packed:
        """EMM-C has no names: the payload is all that goes."""
        if self.signer is None:
            raise UsageError("there is no group key to sign EMM-C packets with: weft trust add --group")
        triple, self._numbering = self._numbering.take(unix_s, self._chance(16))
        body = Notification(out.priority, Format.BINARY, event.payload)
        packet = emm_compact.seal(emm_compact.Header(body.TYPE, *triple, out.urgent), body, self.signer)
        tos = emm_compact.tos(emm_compact.dscp(packet), emm_compact.Ecn.ECT_0)
        return Packed(packet.raw, tos, out.urgent)


def came_as_datagram(event: Event) -> bool:
    """Those never go out again, or two gateways would send one event back and forth for ever."""
    return event.headers is not None and Header.PROTOCOL in event.headers
