"""Devices that a gateway is in touch with, without sockets."""

from __future__ import annotations

from uuid import UUID

from tests.gateway.emm.devices import NOW, Device
from weft.datagram_node import Instant
from weft.gateway.emm.identity import Identity
from weft.gateway.emm.relations import Relations
from weft.security import Secret, Trust
from weft.wire import emm

ME = Identity(UUID(int=5), Secret(b"e" * 32))
SENSOR = Device(1)
THERE = ("10.0.0.7", 4700)


def relations(trust: Trust = Trust()) -> Relations:  # noqa: B008 (frozen)
    made = Relations(ME, 10.0, lambda bits: bits, at(0))
    made.sign_with(ME, trust)
    return made


def at(seconds: float) -> Instant:
    return Instant(seconds, NOW + seconds)


def kinds(made: Relations, seconds: float) -> list[tuple[emm.EventType, object]]:
    return [(emm.parse_untrusted(each.data).kind, each.target) for each in made.datagrams_to_send(at(seconds))]


def test_a_hello_is_answered_and_heartbeats_follow_until_it_falls_silent() -> None:
    made = relations()
    made.heard(SENSOR.hello(), THERE, at(0))
    assert kinds(made, 0) == [(emm.EventType.HELLO, THERE)]
    assert made.targets() == [THERE]
    assert kinds(made, 5) == []
    assert kinds(made, 10) == [(emm.EventType.HEARTBEAT, THERE)]
    made.heard(SENSOR.heartbeat(), THERE, at(11))
    assert kinds(made, 40) == [(emm.EventType.HEARTBEAT, THERE)]
    assert (emm.EventType.HEARTBEAT, THERE) not in kinds(made, 60)
    assert made.targets() == []


def test_configured_addresses_are_greeted_until_they_answer() -> None:
    made = relations()
    made.seek(THERE, at(0))
    greetings = [seconds for seconds in range(30) if kinds(made, seconds)]
    assert greetings[0] == 0
    assert 3 <= len(greetings) <= 10
    made.heard(SENSOR.hello(), THERE, at(31))
    assert kinds(made, 100)[:1] != []
