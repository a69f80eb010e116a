"""Devices that a gateway is in touch with, without sockets."""

from __future__ import annotations

from uuid import UUID

from tests.gateway.emm.devices import NOW, Device
from weft.datagram_node import Instant
from weft.gateway.emm.identity import Identity
from weft.gateway.emm.relations import Relations
from weft.security import Secret, Trust
from weft.wire import emm
from weft.wire.datagram import DatagramProtocol

ME = Identity(UUID(int=5), Secret(b"e" * 32))
SENSOR = Device(1)
THERE = ("10.0.0.7", 4700)


def relations(trust: Trust = Trust()) -> Relations:  # noqa: B008 (frozen)
    made = Relations(ME, 10.0, lambda bits: bits, at(0))
    made.trust_changed(trust, at(0))
    return made


def at(seconds: float) -> Instant:
    return Instant(seconds, NOW + seconds)


def kinds(made: Relations, seconds: float) -> list[tuple[emm.EventType, object]]:
    return [(emm.parse_untrusted(each.data).kind, each.target) for each in made.datagrams_to_send(at(seconds))]


def test_a_hello_is_answered_and_heartbeats_follow_until_it_falls_silent() -> None:
    made = relations()
    made.heard(DatagramProtocol.EMM, SENSOR.hello(), THERE, at(0))
    assert kinds(made, 0) == [(emm.EventType.HELLO, THERE)]
    assert made.targets(DatagramProtocol.EMM) == [THERE]
    assert kinds(made, 5) == []
    assert kinds(made, 10) == [(emm.EventType.HEARTBEAT, THERE)]
    made.heard(DatagramProtocol.EMM, SENSOR.heartbeat(), THERE, at(11))
    assert kinds(made, 40) == [(emm.EventType.HEARTBEAT, THERE)]
    assert (emm.EventType.HEARTBEAT, THERE) not in kinds(made, 60)
    assert made.targets(DatagramProtocol.EMM) == []


def test_configured_addresses_are_greeted_until_they_answer() -> None:
    made = relations()
    made.seek(THERE, at(0))
    greetings = [seconds for seconds in range(30) if kinds(made, seconds)]
    assert greetings[0] == 0
    assert 3 <= len(greetings) <= 10
    made.heard(DatagramProtocol.EMM, SENSOR.hello(), THERE, at(31))
    assert kinds(made, 100)[:1] != []


def test_without_a_group_key_nobody_speaks_emm_c() -> None:
    made = relations()
    made.heard(DatagramProtocol.EMM_COMPACT, b"", THERE, at(0))
    assert made.targets(DatagramProtocol.EMM_COMPACT) == []


def test_group_keys_come_change_and_go() -> None:
    made = relations(Trust(groups=(Secret(b"g" * 32),)))
    session = made._compact
    assert session is not None
    made.trust_changed(Trust(groups=(Secret(b"o" * 32), Secret(b"g" * 32))), at(1))
    assert made._compact is session  # the same key signs: neighbours stay
    made.trust_changed(Trust(groups=(Secret(b"n" * 32),)), at(2))
    assert made._compact is not session
    made.trust_changed(Trust(), at(3))
    assert made._compact is None
