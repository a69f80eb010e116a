"""Somebody who recorded a device's datagrams and sends them again, after the gateway was killed and restarted."""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path
from typing import Final

import pytest

from tests.gateway.emm.devices import Device
from tests.gateway.emm.stories import now_s
from tests.up import END_TIMEOUT_S, RunningNode, up
from weft.security import Secret
from weft.security.files import private_directory
from weft.security.trust_file import add_group
from weft.wire import emm_compact
from weft.wire.emm_compact import Format, Header, Notification, Numbering, Priority, Signer

SENSOR: Final = Device(1)
SIGNER: Final = Device(2, signs=True)
GROUP: Final = b"g" * 32
REPLAYED: Final = 'weft_datagrams_rejected_total{reason="replay"} 3.0'


def notification() -> bytes:
    triple, _ = Numbering.starting(now_s()).take(now_s(), 5)
    body = Notification(Priority.CRITICAL, Format.JSON, b'{"fire":true}')
    return emm_compact.seal(Header(body.TYPE, *triple), body, Signer(GROUP, b"e" * 32)).raw


def send(node: RunningNode, packets: list[bytes]) -> None:
    host, _, port = node.gateway("emm").rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        for packet in packets:
            device.sendto(packet, (host, int(port)))


async def payloads(node: RunningNode, count: int) -> list[bytes]:
    """Of the first so many events that came from devices."""
    async with (
        asyncio.timeout(END_TIMEOUT_S),
        node.client() as client,
        client.subscribe("emm.>", start="earliest") as events,
    ):
        return [(await anext(aiter(events))).payload for _ in range(count)]


async def until_told(node: RunningNode, line: str) -> None:
    async with asyncio.timeout(END_TIMEOUT_S):
        while line not in await asyncio.to_thread(node.metrics):
            await asyncio.sleep(0.02)


@pytest.mark.req("SEC-07", "EMM-19", "EMC-13")
async def test_replays_are_refused_after_a_crash(tmp_path: Path) -> None:
    """All three ways to prove a packet: a shared secret, a signature, a group's key (EMM-C)."""
    data = private_directory(tmp_path / "a")
    SENSOR.trust(data)
    SIGNER.trust(data)
    add_group(data, Secret(GROUP))
    file = tmp_path / "weft.toml"
    file.write_text('[gateway.emm]\nudp = "127.0.0.1:0"\n')
    recorded = [
        SENSOR.event("plant.temp", 21.5, at_s=now_s()),
        SIGNER.event("plant.door", "open", at_s=now_s()),
        notification(),
    ]
    first = {b"21.5", b"open", b'{"fire":true}'}
    with up(data, "--config", str(file)) as node:
        send(node, recorded)
        assert set(await payloads(node, 3)) == first
        node.end(signal.SIGKILL)
    with up(data, "--config", str(file)) as node:
        send(node, recorded)
        await until_told(node, REPLAYED)
        send(node, [SENSOR.event("plant.temp", 22.5, at_s=now_s())])
        found = await payloads(node, 4)
        assert set(found) == first | {b"22.5"}, "each of them once"
        node.end_quietly()
