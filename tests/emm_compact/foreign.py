"""Packets that a node of another make could send, for the tests of this folder."""

from __future__ import annotations

from tests.emm_compact.world import World, node_id, signer
from weft.emm_compact import Settings
from weft.wire.emm_compact import (
    Ecn,
    EventDigest,
    Header,
    Heartbeat,
    Join,
    Notification,
    Packet,
    PropagationMap,
    RateSignal,
    SupportedTypes,
    fingerprint,
    seal,
)

INTERVAL_S = Settings().heartbeat_interval_s
ALL_TYPES = SupportedTypes(0b1111)


def made(
    body: Join | Heartbeat | Notification, who: int, world: World, offset: int = 0, urgent: bool = False
) -> Packet:
    return seal(Header(body.TYPE, 7, int(world.at.unix_s) % 65536, offset, urgent), body, signer(who))


def join_of(who: int, interval_s: int = INTERVAL_S, supported: SupportedTypes = ALL_TYPES) -> Join:
    return Join(node_id(who).bytes, supported, 10, interval_s, b"")


def heartbeat_of(who: int, ecn: Ecn = Ecn.ECT_0) -> Heartbeat:
    origin = fingerprint(signer(who).public_key)
    return Heartbeat(node_id(who).bytes, 1, EventDigest(), RateSignal(ecn, 0, 0), PropagationMap(0, 31, origin))
