"""A device whose key is trusted publishes under the names it was given, and under no others."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from tests.gateway.emm.devices import Device
from tests.gateway.emm.stories import now_s
from tests.security.attacks.test_somebody_who_replays import payloads, send, until_told
from tests.up import COMMAND, END_TIMEOUT_S, RunningNode, up
from weft.model import Pattern
from weft.security.files import private_directory
from weft.security.trust_file import add_device

SENSOR = Device(1)
SIGNER = Device(2, signs=True)


@pytest.mark.req("SEC-03")
async def test_a_trusted_device_cannot_raise_the_alarm_of_others(tmp_path: Path) -> None:
    """Any trusted key was good for any name. What the running node was told last counts."""
    data = private_directory(tmp_path / "a")
    add_device(data, SENSOR.key, (Pattern("plant.*"),))
    SIGNER.trust(data)
    file = tmp_path / "weft.toml"
    file.write_text('[gateway.emm]\nudp = "127.0.0.1:0"\n')
    with up(data, "--config", str(file)) as node:
        send(node, [SENSOR.event("alarm.fire", "1", at_s=now_s()), SENSOR.event("plant.temp", "2", at_s=now_s())])
        send(node, [SIGNER.event("alarm.fire", "3", at_s=now_s())])
        await until_told(node, 'weft_datagrams_rejected_total{reason="name"} 1.0')
        assert set(await payloads(node, 2)) == {b"2", b"3"}, "devices without patterns use every name"
        allow = (*COMMAND, "trust", "allow", "--data", str(data), "--node-id", str(SIGNER.node_id), "--names", "door")
        subprocess.run(allow, check=True, timeout=END_TIMEOUT_S)
        await until_refused(node)
        node.end_quietly()


async def until_refused(node: RunningNode) -> None:
    """The node looks at its trust store every second: until then the device is believed."""
    async with asyncio.timeout(END_TIMEOUT_S):
        while 'rejected_total{reason="name"} 1.0' in await asyncio.to_thread(node.metrics):
            send(node, [SIGNER.event("alarm.fire", at_s=now_s())])
            await asyncio.sleep(0.1)
