"""The gateway as an EMM-C node, without sockets: who gets what, how fast, with which keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from tests.gateway.emm.stories import now_s, site
from tests.node.running import config_of
from weft.datagram_node import Instant
from weft.emm_compact import KeyRing, Node
from weft.errors import UsageError
from weft.gateway.emm.compact_node import RELAYED_AT_ONCE, CompactNode, compact_settings
from weft.gateway.emm.identity import FRESH_BYTES, IdentityFile, prepare_next, settle_identity, use_next
from weft.gateway.emm.rows import Arrived
from weft.gateway.emm.settings import GatewaySettings
from weft.security import Secret
from weft.security.files import private_directory
from weft.security.trust_file import DeviceKey, KeyKind, add_device, add_group
from weft.wire.emm_compact import (
    Body,
    Ecn,
    EventType,
    Format,
    Header,
    Join,
    Notification,
    Packet,
    Priority,
    Signer,
    SupportedTypes,
    decode_untrusted,
    seal,
)
from weft.wire.emm_compact.judge import replay_mark
from weft.wire.recent import Recent
from weft.wire.udp import Address, Outgoing, show

ME = UUID(int=5)
GROUP, NEW_GROUP = b"g" * 32, b"n" * 32
NOTE = Notification(Priority.INFO, Format.BINARY, b"x")
WAIT_S = 30.0
_numbers = count(1)


def at(number: int) -> Address:
    return f"10.0.0.{number}", 4700


def signer(number: int, group: bytes = GROUP) -> Signer:
    return Signer(group, bytes([number]) * 32)


def packet(body: Body, number: int, **arrived: int) -> Arrived:
    header = Header(body.TYPE, 7, now_s() % 65536, next(_numbers))
    return Arrived(seal(header, body, signer(number)).raw, show(at(number)), **arrived)


def join_of(number: int, supported: SupportedTypes = SupportedTypes(0b1111)) -> Arrived:  # noqa: B008 (a number)
    return packet(Join(UUID(int=number).bytes, supported, 10, 60, b""), number)


class Log:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, event: str, **_facts: object) -> None:
        self.lines.append(event)

    error = info


class Place:
    """The node, what it sent, and what it noted."""

    def __init__(self, **settings: Any) -> None:
        self.sent: list[Outgoing] = []
        self.log = Log()
        self.marks: Recent[bytes] = Recent(100)
        self.node = CompactNode(
            ME,
            compact_settings(GatewaySettings(**settings)),
            self.marks,
            lambda bits: bits,
            self._send,
            now,
            lambda: 0,
            cast(Any, self.log),
        )

    def _send(self, each: Outgoing) -> bool:
        self.sent.append(each)
        return True

    def take(self, *arrived: Arrived) -> None:
        addresses = {show(at(number)): at(number) for number in range(1, 10)}
        self.node.take(arrived, addresses.get, now())

    def of(self, kind: EventType) -> list[Outgoing]:
        return [each for each in self.sent if decode_untrusted(each.data).header.type is kind]


def now() -> Instant:
    return Instant(asyncio.get_running_loop().time(), time.time())


def story(tell: Callable[[Place], Any]) -> None:
    async def run() -> None:
        place = Place()
        place.node.sign_with(signer(5))
        found = tell(place)
        if found is not None:
            async with asyncio.timeout(WAIT_S):
                await found
        place.node.close()

    asyncio.run(run())


@pytest.mark.req("EMC-12")
def test_a_notification_goes_on_to_all_but_its_sender() -> None:
    def tell(place: Place) -> None:
        place.take(join_of(1), join_of(2), join_of(3))
        note = packet(NOTE, 1, ttl=64)
        place.take(note, packet(NOTE, 1, ttl=1))
        assert [(each.data, each.target, each.ttl) for each in place.of(EventType.NOTIFICATION)] == [
            (note.data, at(2), 63),
            (note.data, at(3), 63),
        ]
        assert (place.node.figures.relayed, place.node.figures.ended) == (1, 1)
        assert place.log.lines == ["emm_c_neighbour_joined"] * 3

    story(tell)


@pytest.mark.req("EMC-12")
def test_many_events_for_many_neighbours_take_many_turns() -> None:
    """Every event gets to everybody, but the first turn sends no more than its share, and urgent ones first."""

    async def tell_on(place: Place) -> None:
        neighbours = (1, 2, 3, 4, 6, 7, 8)
        place.take(*map(join_of, neighbours))
        place.sent.clear()
        notes = [packet(NOTE, 9) for _ in range(400)]
        header = Header(NOTE.TYPE, 8, now_s() % 65536, 0, urgent=True)
        urgent = Arrived(seal(header, NOTE, signer(9)).raw, show(at(9)))
        place.take(*notes, urgent)
        assert len(place.sent) <= RELAYED_AT_ONCE < 401 * len(neighbours)
        assert place.sent[0].data == urgent.data
        while len(place.sent) < 401 * len(neighbours):
            await asyncio.sleep(0)
        assert place.node.unrelayed == 0

    story(tell_on)


def test_what_finds_no_room_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.gateway.emm.compact_node.GATEWAY_EMC_RELAYS_MAX", 5)

    def tell(place: Place) -> None:
        place.take(join_of(1))
        place.take(*(packet(NOTE, 9) for _ in range(8)))
        assert (place.node.figures.relayed, place.node.unrelayed) == (5, 3)

    story(tell)


@pytest.mark.req("EMC-12")
def test_joins_and_heartbeats_are_not_sent_on() -> None:
    def tell(place: Place) -> None:
        place.take(join_of(1), join_of(2))
        assert [each.target for each in place.of(EventType.JOIN)] == [at(1), at(2)], "answers, each to its own"

    story(tell)


@pytest.mark.req("EMC-14")
def test_congestion_slows_the_way_to_that_neighbour_alone() -> None:
    def tell(place: Place) -> None:
        place.take(join_of(1), join_of(2))
        before = place.node.rate_per_s(at(1))
        place.take(packet(NOTE, 1, tos=Ecn.CE))
        assert place.node.rate_per_s(at(1)) == pytest.approx(before / 2, rel=0.05)
        assert place.node.rate_per_s(at(2)) == before

    story(tell)


@pytest.mark.req("EMC-14")
async def test_own_events_go_at_the_pace_of_each_neighbour_and_all_arrive() -> None:
    place = Place(rate_per_s_max=200)
    place.node.sign_with(signer(5))
    place.take(join_of(1))
    for _ in range(30):
        assert place.node.send(place.node.seal_event(NOTE, False, time.time()), at(1))
    assert len(place.of(EventType.NOTIFICATION)) < 30, "the others wait for the timer"
    async with asyncio.timeout(WAIT_S):
        while len(place.of(EventType.NOTIFICATION)) < 30:
            await asyncio.sleep(0.01)
    place.node.close()


@pytest.mark.req("EMC-13")
def test_own_events_are_noted_so_that_they_are_nothing_new_when_they_come_back() -> None:
    def tell(place: Place) -> None:
        made = place.node.seal_event(NOTE, False, time.time())
        assert place.marks.holds(replay_mark(made), time.time())
        assert place.node.send(made, at(9)) is None, "no neighbour: the gateway sends it directly"

    story(tell)


@pytest.mark.req("EMC-09")
def test_types_of_neighbours_count() -> None:
    def tell(place: Place) -> None:
        place.take(join_of(1), join_of(2, SupportedTypes.COMMAND))
        assert place.node.takers(EventType.NOTIFICATION) == [at(1)]
        assert place.node.takers(EventType.COMMAND) == [at(1), at(2)]

    story(tell)


@pytest.mark.req("EMC-05")
def test_keys_come_change_and_go() -> None:
    def tell(place: Place) -> None:
        place.take(join_of(1))
        place.node.sign_with(signer(6, NEW_GROUP))
        assert place.node.takers(EventType.NOTIFICATION) == [at(1)], "another key, the same neighbours"
        made = place.node.seal_event(NOTE, False, time.time())
        assert made.signature == seal(made.header, NOTE, signer(6, NEW_GROUP)).signature
        place.node.sign_with(None)
        assert place.node.takers(EventType.NOTIFICATION) == []
        place.take(join_of(2))
        with pytest.raises(UsageError, match="weft trust add --group"):
            place.node.seal_event(NOTE, False, time.time())
        place.node.sign_with(signer(5))
        place.take(join_of(3))
        assert place.node.takers(EventType.NOTIFICATION) == [at(3)]

    story(tell)


@pytest.mark.req("EMC-11")
async def test_configured_nodes_are_joined_as_soon_as_there_is_a_key() -> None:
    place = Place()
    place.node.join([at(1)])
    assert place.sent == []
    place.node.sign_with(signer(5))
    assert [each.target for each in place.of(EventType.JOIN)] == [at(1)]
    place.node.join([at(2)])
    assert [each.target for each in place.of(EventType.JOIN)] == [at(1), at(2)]
    place.node.close()


@pytest.mark.req("EMC-11")
async def test_a_gateway_joins_a_node_that_it_is_told_of(tmp_path: Path) -> None:
    data = private_directory(tmp_path / "a")
    identity = settle_identity(data, bytes(range(FRESH_BYTES)))
    add_group(data, Secret(GROUP))
    add_device(data, DeviceKey(UUID(int=1), b"key1", KeyKind.ED25519, Secret(signer(1).public_key)))
    ring = KeyRing((GROUP,), {identity.node_id.bytes: (identity.public_key,)})
    async with Node(UUID(int=1), signer(1), ring) as other:
        host, port = other.address
        config = config_of(data, gateway__emm__udp="127.0.0.1:0", gateway__emm__compact_join=f"{host}:{port}")
        async with site(data, config) as here:
            await here.until(lambda: len(other.relationships) == 1)


@pytest.mark.req("EMC-14")
async def test_what_goes_out_to_a_neighbour_goes_at_its_pace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Address, bool | None]] = []
    really = CompactNode.send

    def send(self: CompactNode, packet: Packet, target: Address) -> bool | None:
        asked.append((target, really(self, packet, target)))
        return asked[-1][1]

    monkeypatch.setattr(CompactNode, "send", send)

    data = private_directory(tmp_path / "a")
    identity = settle_identity(data, bytes(range(FRESH_BYTES)))
    add_group(data, Secret(GROUP))
    add_device(data, DeviceKey(UUID(int=1), b"key1", KeyKind.ED25519, Secret(signer(1).public_key)))
    ring = KeyRing((GROUP,), {identity.node_id.bytes: (identity.public_key,)})
    file = tmp_path / "weft.toml"
    file.write_text('[[gateway.emm.out]]\npattern = "alarms.>"\nprotocol = "emm-c"\n')
    async with (
        site(data, config_of(data, file=file, gateway__emm__udp="127.0.0.1:0")) as here,
        Node(UUID(int=1), signer(1), ring) as other,
    ):
        await other.join(here.address, WAIT_S)
        await here.client.publish("alarms.fire", b"run")
        async with asyncio.timeout(WAIT_S):
            assert (await anext(aiter(other.events()))).message == b"run"
        assert asked == [(other.address, True)]


# --- the key of the gateway itself ---------------------------------------------------------------------------------


@pytest.mark.req("EMC-05")
def test_the_next_key_is_prepared_shown_and_then_used(tmp_path: Path) -> None:
    data = private_directory(tmp_path / "a")
    identity = settle_identity(data, bytes(range(FRESH_BYTES)))
    following = prepare_next(data, b"1" * 32)
    assert following.node_id == identity.node_id
    assert following.public_key == prepare_next(data, b"2" * 32).public_key, "the one that others were told of"
    assert settle_identity(data, b"").public_key == identity.public_key, "not yet"
    assert use_next(data).public_key == following.public_key == settle_identity(data, b"").public_key
    with pytest.raises(UsageError, match="--prepare-key"):
        use_next(data)


@pytest.mark.req("EMC-05")
def test_a_running_node_takes_another_key_but_no_other_node_id(tmp_path: Path) -> None:
    data, log = private_directory(tmp_path / "a"), Log()
    identity = settle_identity(data, bytes(range(FRESH_BYTES)))
    file = IdentityFile(data, 0.0)

    def current(seconds: float) -> bytes:
        return file.current(seconds, identity, cast(Any, log)).public_key

    assert file.current(2.0, identity, cast(Any, log)) is identity
    prepare_next(data, b"1" * 32)
    assert current(4.0) == identity.public_key
    changed = use_next(data)
    assert current(6.0) == changed.public_key
    (data / "emm.json").unlink()
    other = settle_identity(data, bytes(FRESH_BYTES))
    assert other.node_id != identity.node_id
    assert current(8.0) == identity.public_key
    (data / "emm.json").write_text("{")
    assert current(10.0) == identity.public_key
    assert current(12.0) == identity.public_key
    assert log.lines == ["emm_identity_not_taken"] * 2, "one line for each mistake"
