"""Keys that change while a gateway runs: each counts within a second or two, and the old one no longer."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gateway.emm.devices import Device
from tests.gateway.emm.stories import Site, now_s, received, site
from tests.node.running import config_of
from tests.node.secured import secure_config
from tests.security import pki
from weft.errors import PeerError
from weft.gateway.emm.gateway import EmmGateway
from weft.gateway.emm.identity import FRESH_BYTES, Identity, prepare_next, settle_identity, use_next
from weft.node.runtime import Node
from weft.security import Secret
from weft.security.files import private_directory
from weft.security.trust_file import SealKey, add_seal, remove_devices
from weft.transport.quic import QuicLinks
from weft.wire import emm
from weft.wire.reject import BadPacket, Reject

WAIT_S = 60.0  # a bound, not an expectation: the machine may be busy
SENSOR = Device(1)
SEAL_ID = b"k" * 16
ALARMS = '[[gateway.emm.out]]\npattern = "alarms.>"\n'
SEALED = f'[[gateway.emm.seal]]\npattern = "secret.>"\nkey_id = "{SEAL_ID.hex()}"\n'


def toml(data: Path, text: str) -> Path:
    file = data.parent / f"{data.name}.toml"
    file.write_text(text)
    return file


def judge_of(identity: Identity) -> emm.Judge:
    store = emm.TrustStore()
    store.add_public_key(identity.node_id, identity.key_id, identity.public_key)
    return emm.Judge(store)


def sealed(key: bytes) -> bytes:
    seal = emm.Seal(emm.Encryption(emm.Algorithm.AES_256_GCM, secrets.token_bytes(12), SEAL_ID), key)
    draft = emm.draft_event(secrets.randbits(32), now_s(), "secret.temp", 21, node_id=SENSOR.node_id)
    return emm.build(draft, SENSOR.credentials, seal=seal)


async def rejected(here: Site, make: Callable[[], bytes], reason: Reject) -> None:
    """Send until one more is refused for that reason."""
    device, rejects = here.device(), here.gateway.inbound.quarantine.rejected
    before = rejects[reason]
    async with asyncio.timeout(WAIT_S):
        while rejects[reason] == before:
            device.send(make())
            await asyncio.sleep(0.01)


async def published(here: Site, make: Callable[[], bytes]) -> None:
    """Send until one more becomes an event."""
    device, inbound = here.device(), here.gateway.inbound

    def events() -> int:
        return inbound.figures.published - sum(inbound.quarantine.rejected.values())

    before = events()
    async with asyncio.timeout(WAIT_S):
        while events() <= before:
            device.send(make())
            await asyncio.sleep(0.01)


@pytest.mark.req("EMM-17")
async def test_a_removed_key_is_no_good_to_packets_that_come_by_the_thousand(tmp_path: Path) -> None:
    """Packets in columns are checked with keys that are kept ready."""

    data = private_directory(tmp_path / "a")
    SENSOR.trust(data)
    async with site(data) as here:
        here.gateway._judge._few_max = 0
        here.device().send(SENSOR.event(at_s=now_s()))
        await here.events("emm.>", 1)
        remove_devices(data, SENSOR.node_id, None)
        await rejected(here, lambda: SENSOR.event(at_s=now_s()), Reject.UNKNOWN_KEY)


@pytest.mark.req("EMM-15", "EMM-27")
async def test_the_gateways_next_key_signs_heartbeats_and_events_as_soon_as_it_is_used(tmp_path: Path) -> None:
    data = private_directory(tmp_path / "a")
    SENSOR.trust(data)
    settle_identity(data, bytes(range(FRESH_BYTES)))
    config = config_of(
        data,
        file=toml(data, ALARMS),
        gateway__emm__udp="127.0.0.1:0",
        gateway__emm__heartbeat_interval_s=1,
    )
    async with site(data, config) as here:
        device = here.device()
        device.send(SENSOR.hello(now_s()))
        await received(device)
        judge = judge_of(prepare_next(data, b"1" * 32))
        use_next(data)
        kinds: set[emm.EventType] = set()
        async with asyncio.timeout(WAIT_S):
            while not kinds >= {emm.EventType.HEARTBEAT, emm.EventType.EVENT}:
                device.send(SENSOR.hello(now_s()))
                await here.client.publish("alarms.fire", b"!")
                try:
                    kinds.add(judge.receive_datagram(await received(device), b"x", now_s()).packet.kind)
                except BadPacket:
                    continue  # signed with the key before


@pytest.mark.req("EMM-23")
async def test_an_encryption_key_is_replaced_under_the_same_id(tmp_path: Path) -> None:
    data = private_directory(tmp_path / "a")
    SENSOR.trust(data)
    old, new = b"o" * 32, b"n" * 32
    add_seal(data, SealKey(SEAL_ID, Secret(old)))
    config = config_of(data, file=toml(data, SEALED), gateway__emm__udp="127.0.0.1:0")
    async with site(data, config) as here:
        await published(here, lambda: sealed(old))
        add_seal(data, SealKey(SEAL_ID, Secret(new)))
        await published(here, lambda: sealed(new))
        await rejected(here, lambda: sealed(old), Reject.UNDECRYPTABLE)


@pytest.mark.req("EMM-28")
async def test_a_renewed_certificate_is_shown_to_those_who_connect_by_quic_from_then_on(tmp_path: Path) -> None:
    node = Node(secure_config(private_directory(tmp_path / "a"), "a", gateway__emm__quic="127.0.0.1:0"))
    await node.start()
    client = QuicLinks(lambda datagrams: None)
    try:
        gateway = next(each for each in node.gateways if isinstance(each, EmmGateway))
        port = int(next(each for each in gateway.listeners if each.startswith("emm-quic")).rpartition(":")[2])
        renewed = pki.issued(pki.authority(tmp_path / "ca", now_s=pki.wall()), now_s=pki.wall())
        with pytest.raises(PeerError):
            await client.connect("127.0.0.1", port, renewed.root_pem)
        gateway._certificate = lambda: renewed
        connected = False
        async with asyncio.timeout(WAIT_S):
            while not connected:
                try:
                    await client.connect("127.0.0.1", port, renewed.root_pem)
                    connected = True
                except PeerError:
                    await asyncio.sleep(0.1)  # the gateway looks once a second
    finally:
        client.close()
        await node.stop()
