"""A few EMM datagrams, judged one after the other. Columns cost a millisecond however few rows they have.

What is taken and what is refused, and what becomes of it, is the same as in ``judge``, which calls this.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from weft.gateway.emm.accepting import US_PER_S, Payload
from weft.gateway.emm.rows import Accepted, Arrived, Header, Judged, Rejected
from weft.gateway.emm.seen import Seen
from weft.gateway.emm.topics import HEARTBEAT_TOPIC, HELLO_TOPIC, Place, TopicMap
from weft.gateway.emm.values import ValueKind, payload_of
from weft.wire import emm
from weft.wire.datagram import DatagramProtocol
from weft.wire.emm import EventType, Field, Packet, Rules, TrustStore, Verdict
from weft.wire.reject import BadPacket, Reject

PLACES: Final = {EventType.HELLO: Place(HELLO_TOPIC, True), EventType.HEARTBEAT: Place(HEARTBEAT_TOPIC, True)}


class _Taken(NamedTuple):
    """A packet that becomes an event."""

    arrived: Arrived
    packet: Packet
    verdict: Verdict


class OneByOne:
    """As ``Judge``, for a handful."""

    def __init__(
        self,
        trust: TrustStore,
        seen: Seen,
        topics: TopicMap,
        payload: Payload,
        rules: Rules,
        unsigned_allowed: bool,
    ) -> None:
        self._trust = trust
        self._seen = seen
        self._topics = topics
        self._payload = payload
        self._rules = rules
        self._unsigned_allowed = unsigned_allowed

    def sort_out(self, arrived: Sequence[Arrived], unix_s: float) -> Judged:
        """What is to be thought of each datagram; raise nothing, whatever the bytes."""
        waiting: list[Arrived] = []

        def settle(each: Arrived, packet: Packet) -> _Taken | None:
            fields = packet.fields
            if Field.SIGNATURE not in fields:
                return self._take(each, packet, unix_s)
            if Field.HMAC in fields:
                self._check_hmac(packet)
            self._look_ahead(each, packet)
            waiting.append(each)
            return None

        judged = self._each(arrived, settle, unix_s)
        return Judged(judged.accepted, judged.rejected, tuple(waiting))

    def verify(self, waiting: Sequence[Arrived], unix_s: float) -> Judged:
        """Check the signatures of what ``sort_out`` left waiting."""
        return self._each(waiting, lambda each, packet: self._take(each, packet, unix_s), unix_s)

    def _each(
        self, arrived: Sequence[Arrived], settle: Callable[[Arrived, Packet], _Taken | None], unix_s: float
    ) -> Judged:
        taken: list[_Taken] = []
        rejected: list[Rejected] = []
        for each in arrived:
            try:
                packet = emm.parse_untrusted(each.data, self._rules)
                if not (self._unsigned_allowed or Field.HMAC in packet.fields or Field.SIGNATURE in packet.fields):
                    raise BadPacket(Reject.UNSIGNED, "packet has neither HMAC nor signature")
                emm.check_fresh(packet.fresh_at_s, unix_s)
                found = settle(each, packet)
            except BadPacket as error:
                rejected.append(Rejected(each.data, each.source, error.reason))
                continue
            if found is not None:
                taken.append(found)
        return Judged(self._accepted(taken, unix_s), tuple(rejected))

    def _take(self, each: Arrived, packet: Packet, unix_s: float) -> _Taken:
        verdict = emm.authenticate(packet, self._trust)
        if self._seen.admit([self._hash(each, packet, verdict)], unix_s):
            raise BadPacket(Reject.REPLAY, "packet was seen before")
        return _Taken(each, emm.unseal_untrusted(packet, rules=self._rules), verdict)

    def _check_hmac(self, packet: Packet) -> None:
        """Of a packet that is signed, too: ``verify`` asks for the signature alone (EMM-15)."""
        secret = self._trust.hmac_key(packet.fields[Field.NODE_ID], packet.fields.get(Field.AUTH_KEY_ID))
        made = hmac.digest(secret, emm.canonical_bytes(packet), "sha256")
        if not hmac.compare_digest(packet.fields[Field.HMAC], made):
            raise BadPacket(Reject.BAD_HMAC, "HMAC does not fit")

    def _look_ahead(self, each: Arrived, packet: Packet) -> None:
        """Refuse what no signature can help: a key that is not trusted, a packet that was seen."""
        node_id, carried = packet.fields[Field.NODE_ID], packet.fields.get(Field.PUBLIC_KEY)
        verdict = Verdict.VERIFIED  # if the signature fits
        if carried is None:
            self._trust.public_key(node_id, packet.fields.get(Field.AUTH_KEY_ID))
        elif not self._trust.judge_carried_key(node_id, carried) and Field.HMAC not in packet.fields:
            verdict = Verdict.UNVERIFIED_IDENTITY
        if self._hash(each, packet, verdict) in self._seen:
            raise BadPacket(Reject.REPLAY, "packet was seen before")

    def _hash(self, each: Arrived, packet: Packet, verdict: Verdict) -> int:
        sender = emm.replay_sender(packet, verdict, each.source.encode())
        hashes = self._seen.hashes(np.frombuffer(sender, np.uint8), np.array([packet.message_id], np.uint64))
        return int(hashes[0])

    # --- rows ----------------------------------------------------------------------------------------------------

    def _accepted(self, taken: list[_Taken], unix_s: float) -> tuple[Accepted, ...]:
        """Events together; hellos and heartbeats apart, as whoever listens for them expects."""
        kinds = (EventType.EVENT, EventType.HELLO, EventType.HEARTBEAT)
        groups = ([each for each in taken if each.packet.event_type == kind] for kind in kinds)
        return tuple(self._rows(group, unix_s) for group in groups if group)

    def _rows(self, taken: list[_Taken], unix_s: float) -> Accepted:
        packets = [each.packet for each in taken]
        places = [self._place(packet) for packet in packets]
        topics = list(dict.fromkeys(place.topic for place in places))
        contents = [self._content(each) for each in taken]
        nodes = [None if packet.node_id is None else str(packet.node_id) for packet in packets]
        columns: dict[Header, list[str | None]] = {
            Header.PROTOCOL: [str(DatagramProtocol.EMM)] * len(taken),
            Header.NODE_ID: nodes,
            Header.KEY_ID: [_hex(packet.fields.get(Field.AUTH_KEY_ID)) for packet in packets],
            Header.MESSAGE_ID: [f"{packet.message_id:08x}" for packet in packets],
            Header.VERDICT: [str(each.verdict) for each in taken],
            Header.SOURCE: [each.arrived.source for each in taken],
            Header.VALUE: [str(kind) for _, kind in contents],
            Header.EVENT: [
                None if place.tells else packet.event_name for place, packet in zip(places, packets, strict=True)
            ],
        }
        created_s = [min(packet.timestamp_s, int(unix_s)) for packet in packets]
        return Accepted(
            topics,
            np.array([topics.index(place.topic) for place in places], np.int32),
            np.array(created_s, np.int64) * US_PER_S,
            pa.array(nodes, pa.string()).cast(pa.binary()),
            pa.array([payload for payload, _ in contents], pa.binary()),
            {name: pa.array(values, pa.string()) for name, values in columns.items()},
        )

    def _place(self, packet: Packet) -> Place:
        place = PLACES.get(packet.kind)
        return self._topics.place(packet.event_name or "") if place is None else place

    def _content(self, each: _Taken) -> tuple[bytes, ValueKind]:
        if each.packet.kind is EventType.EVENT and self._payload is Payload.VALUE:
            return payload_of(each.packet)
        return each.arrived.data, ValueKind.DATAGRAM


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()
