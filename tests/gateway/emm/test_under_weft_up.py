"""Devices at a node as users start it: ``weft up``, secured, on its own event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.gateway.emm.devices import Device, forged
from tests.gateway.emm.stories import now_s, received
from tests.transport.quic.foreign import foreign_client
from tests.up import RunningNode, up
from weft.client import Client, Received
from weft.gateway.emm.identity import FRESH_BYTES, settle_identity
from weft.security.files import private_directory
from weft.wire import emm

WAIT_S: Final = 60.0
SENSOR: Final = Device(1)
SIGNER: Final = Device(2, signs=True)
REFUSED: Final = 'weft_datagrams_rejected_total{reason="bad-hmac"} 1.0'
CONFIG: Final = """
[gateway.emm]
udp = "{host}:0"
quic = "{host}:0"

[[gateway.emm.out]]
pattern = "alarms.>"
"""


def prepared(directory: Path, host: str = "127.0.0.1") -> tuple[Path, emm.TrustStore, tuple[str, str]]:
    """A data directory that trusts both devices, what a device has to trust, and flags."""
    data = private_directory(directory / "a")
    for device in (SENSOR, SIGNER):
        device.trust(data)
    identity = settle_identity(data, bytes(range(FRESH_BYTES)))
    store = emm.TrustStore()
    store.add_public_key(identity.node_id, identity.key_id, identity.public_key)
    file = directory / "weft.toml"
    file.write_text(CONFIG.format(host=host))
    return data, store, ("--config", str(file))


@asynccontextmanager
async def client_of(node: RunningNode) -> AsyncIterator[Client]:
    async with asyncio.timeout(WAIT_S), node.client() as client:
        yield client


async def events(client: Client, pattern: str, count: int) -> list[Received]:
    async with client.subscribe(pattern, start="earliest") as found:
        return [await anext(aiter(found)) for _ in range(count)]


async def event_named(name: str, receiver: emm.Judge, packet: Callable[[], Awaitable[bytes]]) -> emm.Packet:
    """The next event of this name; heartbeats come in between."""
    while True:
        found = receiver.receive_datagram(await packet(), b"node", now_s()).packet
        if found.event_name == name:
            return found


def device_at(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    made = socket.socket(socket.AF_INET6 if "[" in host else socket.AF_INET, socket.SOCK_DGRAM)
    made.connect((host.strip("[]"), int(port)))
    made.setblocking(False)
    return made


@pytest.mark.req("EMM-14", "EMM-15", "EMM-18")
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
async def test_datagrams_become_events_and_events_datagrams(tmp_path: Path, host: str) -> None:
    data, trusted, flags = prepared(tmp_path, host)

    with up(data, *flags) as node, device_at(node.gateway("emm")) as device:
        async with client_of(node) as client:
            device.send(SENSOR.hello(now_s()))
            device.send(SENSOR.event("plant.temp", 21.5, at_s=now_s()))
            device.send(SIGNER.event("plant.door", "open", at_s=now_s()))
            device.send(forged(SENSOR.event(at_s=now_s())))
            taken = await events(client, "emm.>", 2)
            assert {(event.topic, event.payload) for event in taken} == {
                ("emm.plant.temp", b"21.5"),
                ("emm.plant.door", b"open"),
            }
            while REFUSED not in await asyncio.to_thread(node.metrics):
                await asyncio.sleep(0.02)
            await client.publish("alarms.fire", b"hall 3")
            alarm = await event_named("alarms.fire", emm.Judge(trusted), lambda: received(device))
            assert alarm.values[1][1] == b"hall 3"
        await asyncio.to_thread(node.end_quietly)


@pytest.mark.req("EMM-28")
async def test_a_foreign_client_over_quic_is_heard_and_answered(tmp_path: Path) -> None:
    data, trusted, flags = prepared(tmp_path)

    with up(data, *flags) as node:
        root = node.context.tls_root
        assert root is not None, "of a secured node"
        port = int(node.gateway("emm-quic").rpartition(":")[2])
        async with foreign_client(port, Path(root).read_bytes()) as device:
            async with client_of(node) as client:
                device.send(SENSOR.hello(now_s()))
                device.send(SENSOR.event("plant.temp", "secret", at_s=now_s()))
                (event,) = await events(client, "emm.>", 1)
                assert event.payload == b"secret"
                assert event.headers is not None
                assert event.headers["emm-source"].startswith("quic/127.0.0.1:")
                await client.publish("alarms.fire", b"over quic")
                alarm = await event_named("alarms.fire", emm.Judge(trusted), device.frame)
                assert alarm.values[1][1] == b"over quic"
            await asyncio.to_thread(node.end_quietly)


def test_garbage_ends_nothing(tmp_path: Path) -> None:
    data, _, flags = prepared(tmp_path)
    with up(data, *flags) as node:
        for name in ("emm", "emm-quic"):
            with device_at(node.gateway(name)) as device:
                for size in range(0, 1400, 7):
                    device.send(bytes(number & 0xFF for number in range(size)))
        node.metrics()  # by then the node's event loop has seen them
        node.end_quietly()
