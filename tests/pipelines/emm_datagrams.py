"""Hellos and heartbeats of devices as datagrams, for tests."""

from __future__ import annotations

from uuid import UUID

from weft.wire import emm, emm_compact
from weft.wire.emm_compact import Ecn, EventDigest, PropagationMap, RateSignal, SupportedTypes

DEVICE = UUID("22222222-2222-4222-8222-222222222222")
SIGNER = emm_compact.Signer(b"k" * 16, b"s" * 32)


def emm_heartbeat(message_id: int, at_s: int, device: UUID = DEVICE) -> bytes:
    return emm.build(emm.draft_heartbeat(message_id, at_s, device))


def emm_hello(message_id: int, at_s: int, device: UUID = DEVICE) -> bytes:
    return emm.build(emm.draft_hello(message_id, at_s, device, b"\x01"))


def emm_event(message_id: int, at_s: int, device: UUID = DEVICE) -> bytes:
    return emm.build(emm.draft_event(message_id, at_s, "plant.temp", 7, node_id=device))


def compact_heartbeat(number: int, uptime_s: int, hops: int = 0, device: UUID = DEVICE) -> bytes:
    rate, propagation = RateSignal(Ecn.NOT_ECT, 1, 2), PropagationMap(hops, 20, b"abcd")
    body = emm_compact.Heartbeat(device.bytes, uptime_s, EventDigest(), rate, propagation)
    return emm_compact.seal(emm_compact.Header(body.TYPE, number, 7, 0), body, SIGNER).raw


def compact_join(number: int, interval_s: int, device: UUID = DEVICE) -> bytes:
    body = emm_compact.Join(device.bytes, SupportedTypes.HEARTBEAT, 10, interval_s, b"up")
    return emm_compact.seal(emm_compact.Header(body.TYPE, number, 7, 0), body, SIGNER).raw


def compact_notification(number: int) -> bytes:
    body = emm_compact.Notification(emm_compact.Priority.INFO, emm_compact.Format.PLAIN_TEXT, b"hi")
    return emm_compact.seal(emm_compact.Header(body.TYPE, number, 7, 0), body, SIGNER).raw
