"""Devices and the mesh, through a real node and real sockets on loopback."""

from __future__ import annotations

import json
import secrets
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prometheus_client import generate_latest

import weft
from tests.gateway.emm.devices import KEY_ID, Device, forged
from tests.gateway.emm.stories import now_s, received, site
from tests.node.running import config_of
from tests.node.secured import secure_config, tls_of
from tests.security import pki
from tests.transport.quic.foreign import foreign_client
from weft.errors import UsageError
from weft.gateway.emm.identity import FRESH_BYTES, Identity, settle_identity
from weft.gateway.emm.quarantine import QUARANTINE_BURST
from weft.gateway.emm.topics import QUARANTINE_TOPIC
from weft.limits import QUARANTINE_PER_S
from weft.node.protection import Secured
from weft.node.runtime import Node
from weft.security import Secret
from weft.security.files import private_directory
from weft.security.trust_file import DeviceKey, KeyKind, add_device, add_group, remove_devices
from weft.transport.quic import QuicLinks
from weft.wire import emm, emm_compact
from weft.wire.emm_compact import Format, Header, Notification, Numbering, Priority, Signer
from weft.wire.reject import Reject
from weft.wire.udp import Datagram

SENSOR = Device(1)
SIGNER = Device(2, signs=True)
GROUP = b"g" * 32


def toml(data: Path, text: str) -> Path:
    """A configuration file, for lists of tables."""
    file = data.parent / f"{data.name}.toml"
    file.write_text(text)
    return file


@pytest.mark.req("EMM-14", "EMM-15", "EMM-18")
async def test_verified_events_become_mesh_events_and_the_rest_goes_to_the_quarantine(tmp_path: Path) -> None:
    data = private_directory(tmp_path / "a")
    SENSOR.trust(data)
    SIGNER.trust(data)
    async with site(data) as here:
        device = here.device()
        device.send(SENSOR.event("plant.temp", 21.5, at_s=now_s()))
        device.send(SIGNER.event("plant.door", "open", at_s=now_s()))
        bad = forged(SENSOR.event(at_s=now_s()))
        device.send(bad)
        device.send(b"junk")
        device.send(b"\x20 of EMM-C, by its first bits")
        events = await here.events("emm.>", 2)
        assert {(event.topic, event.payload) for event in events} == {
            ("emm.plant.temp", b"21.5"),
            ("emm.plant.door", b"open"),
        }
        for event in events:
            assert event.headers is not None
            assert event.headers["emm-verdict"] == "verified"
            assert event.headers["emm-source"] == f"127.0.0.1:{device.getsockname()[1]}"
        refused = [(event.payload, event.headers or {}) for event in await here.events(QUARANTINE_TOPIC, 3)]
        assert {(payload, each["emm-protocol"], each["emm-reject"]) for payload, each in refused} == {
            (bad, "emm", "bad-hmac"),
            (b"junk", "neither", "protocol"),
            (b"\x20 of EMM-C, by its first bits", "emm-c", "length-mismatch"),
        }
        told = generate_latest(here.node.registry).decode()
        assert 'weft_datagrams_total{fate="received"} 5.0' in told
        assert 'weft_datagrams_rejected_total{reason="bad-hmac"} 1.0' in told


async def test_both_header_formats_come_in_by_one_port(tmp_path: Path) -> None:
    data = private_directory(tmp_path / "a")
    SENSOR.trust(data)
    add_group(data, Secret(GROUP))
    async with site(data) as here:
        triple, _ = Numbering.starting(now_s()).take(now_s(), 5)
        body = Notification(Priority.CRITICAL, Format.JSON, b'{"fire":true}')
        note = emm_compact.seal(Header(body.TYPE, *triple), body, Signer(GROUP, b"e" * 32))
        here.device().send(note.raw)
        here.device().send(SENSOR.event("plant.temp", 1, at_s=now_s()))
        events = {str(event.topic): event for event in await here.events("emm.>", 2)}
        compact = events["emm.notification.critical"]
        assert compact.payload == b'{"fire":true}'
        assert compact.headers is not None
        assert (compact.headers["emm-protocol"], compact.headers["emm-verdict"]) == ("emm-c", "group")
        assert "emm.plant.temp" in events


@pytest.mark.req("EMM-17")
async def test_a_key_counts_as_soon_as_it_is_trusted_and_no_longer(tmp_path: Path) -> None:
    data = private_directory(tmp_path / "a")
    async with site(data) as here:
        device = here.device()

        inbound = here.gateway.inbound

        def refused() -> bool:
            device.send(SENSOR.event(at_s=now_s()))
            return inbound.quarantine.rejected[Reject.UNKNOWN_KEY] > before

        def taken() -> bool:
            device.send(SENSOR.event(at_s=now_s()))
            return inbound.figures.published > sum(inbound.quarantine.rejected.values())

        before = 0
        await here.until(refused)
        SENSOR.trust(data)
        await here.until(taken)  # the node looks at the file once a second
        remove_devices(data, SENSOR.node_id, None)
        before = inbound.quarantine.rejected[Reject.UNKNOWN_KEY]
        await here.until(refused)


OUT = """
[[gateway.emm.out]]
pattern = "alarms.>"
targets = ["127.0.0.1:{port}"]

[[gateway.emm.out]]
pattern = "notes.>"
protocol = "emm-c"
targets = ["127.0.0.1:{port}"]
priority = "warning"
urgent = true
"""


def listener() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 0))
    made.setblocking(False)
    return made


def trusting(identity: Identity) -> emm.TrustStore:
    store = emm.TrustStore()
    store.add_public_key(identity.node_id, identity.key_id, identity.public_key)
    return store


async def test_chosen_topics_go_out_signed_by_the_node(tmp_path: Path) -> None:
    data = private_directory(tmp_path / "a")
    identity = settle_identity(data, bytes(range(FRESH_BYTES)))
    add_group(data, Secret(GROUP))
    with listener() as target:
        file = toml(data, OUT.format(port=target.getsockname()[1]))
        config = config_of(data, file=file, gateway__emm__udp="127.0.0.1:0")
        async with site(data, config) as here:
            await here.client.publish("alarms.fire", b"hall 3")
            packet = await received(target)
            taken = emm.Judge(trusting(identity)).receive_datagram(packet, b"x", now_s())
            assert (taken.packet.event_name, taken.packet.values[1][1]) == ("alarms.fire", b"hall 3")
            assert taken.packet.node_id == identity.node_id
            await here.client.publish("notes.x", b"careful")
            note = emm_compact.decode_untrusted(await received(target))
            emm_compact.verify_untrusted(note, emm_compact.KeyRing((GROUP,)))
            assert note.body == Notification(Priority.WARNING, Format.BINARY, b"careful")
            assert note.header.urgent
            await here.client.publish("alarms.long", b"x" * 600)  # does not fit, and does not hold up what does
            await here.client.publish("alarms.next", b"1")
            assert b"alarms.next" in await received(target)
            await here.until(lambda: here.gateway.outbound.figures.unfit == 1)


@pytest.mark.req("EMM-02")
async def test_message_ids_come_from_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of hellos, and of events that go out."""
    drawn: list[int] = []

    def randbits(bits: int) -> int:
        drawn.append(really(bits))
        return drawn[-1]

    really = secrets.randbits
    monkeypatch.setattr("weft.gateway.emm.gateway.secrets.randbits", randbits)

    data = private_directory(tmp_path / "a")
    with listener() as target:
        port = target.getsockname()[1]
        joins = {"gateway__emm__udp": "127.0.0.1:0", "gateway__emm__join": f"127.0.0.1:{port}"}
        async with site(data, config_of(data, file=toml(data, OUT.format(port=port)), **joins)) as here:
            await here.client.publish("alarms.fire", b"!")
            kinds: set[emm.EventType] = set()
            while len(kinds) < 2:
                packet = emm.parse_untrusted(await received(target))
                assert packet.message_id in drawn
                kinds.add(packet.kind)


@pytest.mark.req("EMM-02", "EMM-28")
async def test_message_ids_over_quic_come_from_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of hellos, heartbeats and events, at a gateway that has no listener at all."""
    drawn: set[int] = set()

    def randbits(bits: int) -> int:
        drawn.add(number := really(bits))
        return number

    really = secrets.randbits
    monkeypatch.setattr("weft.gateway.emm.gateway.secrets.randbits", randbits)

    data = private_directory(tmp_path / "a")
    SENSOR.trust(data)
    certificate = pki.issued(pki.authority(tmp_path, now_s=pki.wall()), now_s=pki.wall())
    (tmp_path / "root.pem").write_bytes(certificate.root_pem)
    told: dict[emm.EventType, int] = {}

    def look(datagrams: Sequence[Datagram]) -> None:
        for each in datagrams:
            packet = emm.parse_untrusted(each.data)
            told[packet.kind] = packet.message_id
            if packet.kind is emm.EventType.HELLO:
                links.send(SENSOR.hello(now_s()), each.source)

    links = QuicLinks(look)
    port = (await links.listen("127.0.0.1", 0, certificate))[1]
    text = f'[gateway.emm]\njoin = ["quic://127.0.0.1:{port}"]\nquic_root = "{tmp_path / "root.pem"}"\n'
    text += 'heartbeat_interval_s = 1\n[[gateway.emm.out]]\npattern = "alarms.>"\nquic = true\n'
    async with site(data, config_of(data, file=toml(data, text))) as here:
        await here.until(lambda: emm.EventType.HELLO in told)
        await here.events("weft.emm.hello", 1)
        await here.client.publish("alarms.fire", b"!")
        await here.until(lambda: len(told) == 3)
        assert set(told.values()) <= drawn
    links.close()


async def test_joining_by_quic_needs_a_root(tmp_path: Path) -> None:
    async def story(**settings: Any) -> None:
        async with site(tmp_path / "a", gateway__emm__join="quic://127.0.0.1:9", **settings):
            pass

    with pytest.raises(UsageError, match=r"set gateway\.emm\.quic_root"):
        await story()
    with pytest.raises(UsageError, match=r"there is no file .*none\.pem"):
        await story(gateway__emm__quic_root=str(tmp_path / "none.pem"))


async def test_with_an_hmac_key_of_its_own_the_node_uses_that(tmp_path: Path) -> None:
    data = private_directory(tmp_path / "a")
    identity = settle_identity(data, bytes(range(FRESH_BYTES)))
    add_device(data, DeviceKey(identity.node_id, KEY_ID, KeyKind.HMAC, Secret(b"h" * 32)))
    with listener() as target:
        config = config_of(
            data, file=toml(data, OUT.format(port=target.getsockname()[1])), gateway__emm__udp="127.0.0.1:0"
        )
        async with site(data, config) as here:
            await here.client.publish("alarms.fire", b"x")
            store = emm.TrustStore()
            store.add_hmac_key(identity.node_id, KEY_ID, b"h" * 32)
            taken = emm.Judge(store).receive_datagram(await received(target), b"x", now_s())
            assert taken.verdict is emm.Verdict.VERIFIED


async def test_what_came_as_a_datagram_never_goes_out_again(tmp_path: Path) -> None:
    """The worst case: whatever comes in matches what goes out, and the target is the gateway itself."""

    data = private_directory(tmp_path / "a")
    SENSOR.trust(data)
    identity = settle_identity(data, bytes(range(FRESH_BYTES)))
    add_device(data, DeviceKey(identity.node_id, identity.key_id, KeyKind.ED25519, Secret(identity.public_key)))
    with listener() as probe:
        port = probe.getsockname()[1]
    text = f'[gateway.emm]\nudp = "127.0.0.1:{port}"\nprefix = "loop."\n'
    text += f'[[gateway.emm.out]]\npattern = "loop.>"\ntargets = ["127.0.0.1:{port}"]\n'
    async with site(data, config_of(data, file=toml(data, text))) as here:
        here.device().send(SENSOR.event("a", 1, at_s=now_s()))
        await here.client.publish("loop.b", b"once")
        await here.until(lambda: here.gateway.outbound.figures.echoes == 2)
        events = await here.events("loop.>", 3)
        assert sorted(event.topic for event in events) == ["loop.a", "loop.b", "loop.loop.b"]
        assert here.gateway.outbound.figures.sent == 1


@pytest.mark.req("EMM-27")
async def test_devices_that_say_hello_are_answered_and_get_what_goes_out(tmp_path: Path) -> None:
    data = private_directory(tmp_path / "a")
    SENSOR.trust(data)
    identity = settle_identity(data, bytes(range(FRESH_BYTES)))
    config = config_of(
        data,
        file=toml(data, '[[gateway.emm.out]]\npattern = "alarms.>"\n'),
        gateway__emm__udp="127.0.0.1:0",
        gateway__emm__heartbeat_interval_s=1,
    )
    async with site(data, config) as here:
        device, receiver = here.device(), emm.Judge(trusting(identity))
        device.send(SENSOR.hello(now_s()))
        answer = receiver.receive_datagram(await received(device), b"x", now_s()).packet
        assert (answer.kind, answer.node_id) == (emm.EventType.HELLO, identity.node_id)
        await here.client.publish("alarms.fire", b"!")
        kinds = []
        while emm.EventType.EVENT not in kinds or emm.EventType.HEARTBEAT not in kinds:
            packet = receiver.receive_datagram(await received(device), b"x", now_s()).packet
            kinds.append(packet.kind)
        assert (await here.events("weft.emm.hello", 1))[0].headers


@pytest.mark.req("EMC-11")
async def test_an_emm_c_node_joins_the_gateway(tmp_path: Path) -> None:
    from weft import emm_compact as nodes

    data = private_directory(tmp_path / "a")
    identity = settle_identity(data, bytes(range(FRESH_BYTES)))
    signer, node_id = Signer(GROUP, b"n" * 32), UUID(int=55)
    add_group(data, Secret(GROUP))
    add_device(data, DeviceKey(node_id, KEY_ID, KeyKind.ED25519, Secret(signer.public_key)))
    ring = emm_compact.KeyRing((GROUP,), {identity.node_id.bytes: (identity.public_key,)})
    config = config_of(
        data,
        file=toml(data, '[[gateway.emm.out]]\npattern = "alarms.>"\nprotocol = "emm-c"\n'),
        gateway__emm__udp="127.0.0.1:0",
    )
    async with site(data, config) as here, nodes.Node(node_id, signer, ring) as node:
        neighbour = await node.join(here.address)
        assert neighbour.node_id == identity.node_id.bytes
        await node.publish("hello mesh", priority=Priority.NOTICE)
        (event,) = await here.events("emm.notification.*", 1)
        assert event.payload == b"hello mesh"
        await here.client.publish("alarms.fire", b"run")
        async for arrived in node.events():
            assert arrived.message == b"run"
            break


async def test_over_ipv6(tmp_path: Path) -> None:
    data = private_directory(tmp_path / "a")
    SENSOR.trust(data)
    async with site(data, gateway__emm__udp="[::1]:0") as here:
        device = here.device()
        device.send(SENSOR.event("n", "v6", at_s=now_s()))
        (event,) = await here.events("emm.>", 1)
        assert event.payload == b"v6"
        assert event.headers is not None
        assert event.headers["emm-source"] == f"[::1]:{device.getsockname()[1]}"


@pytest.mark.req("EMM-28")
async def test_a_foreign_client_over_quic_is_heard_and_answered(tmp_path: Path) -> None:
    data = private_directory(tmp_path / "a")
    SENSOR.trust(data)
    identity = settle_identity(data, bytes(range(FRESH_BYTES)))
    text = '[gateway.emm]\nudp = "127.0.0.1:0"\nquic = "127.0.0.1:0"\n[[gateway.emm.out]]\npattern = "alarms.>"\n'
    node = Node(secure_config(data, "a", file=toml(data, text)))
    await node.start()
    try:
        (gateway,) = node.gateways
        port = int(next(each for each in gateway.listeners if each.startswith("emm-quic")).rpartition(":")[2])
        assert isinstance(node.protection, Secured)
        async with foreign_client(port, node.protection.certificate().root_pem) as device:
            device.send(SENSOR.hello(now_s()))
            receiver = emm.Judge(trusting(identity))
            answer = receiver.receive_datagram(await device.frame(), b"x", now_s()).packet
            assert answer.kind is emm.EventType.HELLO
            device.send(SENSOR.event("n", "secret", at_s=now_s()))
            files = node.protection.client
            assert files is not None
            assert files.key is not None
            key = files.key.reveal()
            async with weft.connect(node.grpc_address, tls=tls_of(node), token=key) as client:
                async with client.subscribe("emm.>", start="earliest") as events:
                    event = await anext(aiter(events))
                    assert event.payload == b"secret"
                    assert event.headers is not None
                    assert event.headers["emm-source"].startswith("quic/127.0.0.1:")
                await client.publish("alarms.fire", b"over quic")
            names = []
            while "alarms.fire" not in names:  # heartbeats come in between
                names.append(receiver.receive_datagram(await device.frame(), b"x", now_s()).packet.event_name)
    finally:
        await node.stop()


def test_quic_needs_a_certificate(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gateway\.emm\.quic"):
        config_of(tmp_path, gateway__emm__quic="127.0.0.1:0")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[gateway.emm]\nprefix = "a b"', "prefix"),
        ('[[gateway.emm.out]]\npattern = "a"', "set udp"),
        ('[gateway.emm]\njoin = ["10.0.0.7:4700"]', "set udp, or write quic://10.0.0.7:4700"),
        ('[gateway.emm]\njoin = ["quic://10.0.0.7"]', "not HOST:PORT"),
        ('[gateway.emm]\njoin = ["quic://10.0.0.7:0"]', "needs the port"),
        ('[[gateway.emm.out]]\npattern = "a"\nquic = true\ntargets = ["b:1"]', "write quic://b:1 in targets"),
        ('[[gateway.emm.rules]]\nevent = ">"\ntopic = "x.*"', "a rule's topic"),
        ('[gateway.emm]\nprefix = "weft.groups."', "internal topics of the mesh"),
        ('[gateway.emm]\nudp = "0.0.0.0:4700"', "loopback"),
        ('[gateway.emm]\nudpp = "127.0.0.1:0"', "did you mean udp"),
    ],
)
def test_a_bad_configuration_is_named(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        config_of(tmp_path, file=toml(tmp_path / "a", text))


async def test_rules_prefix_and_payload_as_configured(tmp_path: Path) -> None:
    data = private_directory(tmp_path / "a")
    SENSOR.trust(data)
    text = '[gateway.emm]\nudp = "127.0.0.1:0"\nprefix = "dev."\npayload = "datagram"\n'
    text += '[[gateway.emm.rules]]\nevent = "plant.>"\ntopic = "site7.{event}"\n'
    async with site(data, config_of(data, file=toml(data, text))) as here:
        first, second = SENSOR.event("plant.temp", at_s=now_s()), SENSOR.event("other", at_s=now_s())
        here.device().send(first)
        assert [(e.topic, e.payload) for e in await here.events("site7.>", 1)] == [("site7.plant.temp", first)]
        here.device().send(second)
        assert [(e.topic, e.payload) for e in await here.events("dev.>", 1)] == [("dev.other", second)]


@pytest.mark.req("EMM-18", "EMM-29")
async def test_a_flood_of_forgeries_stops_nobody_and_fills_nothing(tmp_path: Path) -> None:
    """Forged signatures cost fifty times what everything else does; honest packets do not wait for them."""

    data = private_directory(tmp_path / "a")
    SENSOR.trust(data)
    SIGNER.trust(data)
    async with site(data) as here:
        inbound = here.gateway.inbound
        forger, sensor, signer = here.device(), here.device(), here.device()
        signer.send(SIGNER.event("first", at_s=now_s()))  # so that it is known for a good one
        await here.events("emm.first", 1)
        forgery = forged(SIGNER.event(at_s=now_s()))
        began_s = time.monotonic()
        for portion in range(1, 31):
            sensor.send(SENSOR.event("honest", portion, at_s=now_s()))
            signer.send(SIGNER.event("signed", portion, at_s=now_s()))
            for _ in range(100):
                forger.send(forgery)
            # What the kernel holds may be little: it is to lose nothing, so that all can be counted.
            await here.until(lambda sent=1 + 102 * portion: inbound.figures.received == sent)  # type: ignore[misc]
        await here.events("emm.honest", 30)
        await here.events("emm.signed", 30)
        await here.until(lambda: inbound.quarantine.rejected[Reject.BAD_SIGNATURE] == 3000)
        kept = 3000 - inbound.quarantine.skipped
        assert 0 < kept <= QUARANTINE_BURST + QUARANTINE_PER_S * (time.monotonic() - began_s)
        await here.until(lambda: inbound.figures.published == 61 + kept)
        assert inbound.line.dropped == inbound.signatures.dropped == 0


def test_an_identity_is_made_once(tmp_path: Path) -> None:
    first = settle_identity(tmp_path / "a", bytes(range(FRESH_BYTES)))
    again = settle_identity(tmp_path / "a", bytes(FRESH_BYTES))
    assert first == again
    assert json.loads((tmp_path / "a" / "emm.json").read_text())["node_id"] == str(first.node_id)
    assert "seed" not in repr(first) or "***" in repr(first)


async def test_a_node_that_drains_syncs_what_it_took(tmp_path: Path) -> None:
    data = private_directory(tmp_path / "a")
    SENSOR.trust(data)
    async with site(data) as here:
        device = here.device()
        for first in range(0, 300, 100):
            for number in range(first, first + 100):
                device.send(SENSOR.event("n", number, at_s=now_s()))
            await here.until(lambda sent=first + 100: here.gateway.inbound.figures.received == sent)  # type: ignore[misc]
        await here.until(lambda: not here.gateway.inbound.line)
    async with site(data) as here:
        assert len(await here.events("emm.n", 300)) == 300
