"""Limits, profile, seals, compression and first use at a node as users start it."""

from __future__ import annotations

import asyncio
import json
import subprocess
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from tests.gateway.emm.devices import KEY_ID, Device
from tests.gateway.emm.stories import now_s, received
from tests.gateway.emm.test_under_weft_up import client_of, device_at, event_named, events
from tests.up import COMMAND, RunningNode, up
from weft.gateway.emm.identity import FRESH_BYTES, settle_identity
from weft.model import parse_pattern
from weft.security import Secret
from weft.security.files import private_directory
from weft.security.trust_file import SealKey, add_seal
from weft.wire import emm
from weft.wire.emm.fields import Value

SENSOR: Final = Device(1)
SEAL_ID, SEAL_KEY = b"i" * 16, b"k" * 32
KEYS: Final = {SEAL_ID: SEAL_KEY}
RULES: Final = emm.Rules(packet_bytes_max=1200, profile=emm.Profile.INTEROP_V1)
SECRETS: Final = emm.SealRule(parse_pattern("secret.>"), SEAL_ID)
# 896 bytes that no compression makes smaller: too many for a packet of the default size.
NOISE: Final = b"".join(sha256(bytes((number,))).digest() for number in range(28))
CONFIG: Final = f"""
[gateway.emm]
udp = "127.0.0.1:0"
packet_bytes_max = 1200
profile = "interop-v1"

[[gateway.emm.seal]]
pattern = "secret.>"
key_id = "{SEAL_ID.hex()}"
cipher = "chacha20-poly1305"

[[gateway.emm.out]]
pattern = "secret.alarms.>"
compress = true
"""


def prepared(directory: Path, config: str) -> tuple[Path, tuple[str, str]]:
    data = private_directory(directory / "a")
    file = directory / "weft.toml"
    file.write_text(config)
    return data, ("--config", str(file))


def weft(*arguments: object) -> str:
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def sealed(number: int, name: str, value: Value, **draft: Any) -> bytes:
    made = emm.draft_event(number, now_s(), name, value, node_id=SENSOR.node_id)
    seal = emm.seal_for([SECRETS], name, KEYS.get, lambda bits: 5)
    return emm.build(replace(made, **draft), SENSOR.credentials, seal=seal, rules=RULES)


async def count_of(node: RunningNode, reason: str) -> float:
    for line in (await asyncio.to_thread(node.metrics)).splitlines():
        if line.startswith(f'weft_datagrams_rejected_total{{reason="{reason}"}}'):
            return float(line.split()[-1])
    return 0.0


async def refused(node: RunningNode, reason: str) -> None:
    async with asyncio.timeout(60):
        while not await count_of(node, reason):
            await asyncio.sleep(0.02)


@pytest.mark.req("EMM-04", "EMM-22", "EMM-23", "EMM-24", "EMM-26")
async def test_limits_profile_seals_and_compression(tmp_path: Path) -> None:
    data, flags = prepared(tmp_path, CONFIG)
    SENSOR.trust(data)
    add_seal(data, SealKey(SEAL_ID, Secret(SEAL_KEY)))
    identity = settle_identity(data, bytes(range(FRESH_BYTES)))
    store = emm.TrustStore()
    store.add_public_key(identity.node_id, identity.key_id, identity.public_key)
    judge = emm.Judge(store, emm.Terms(RULES, sealed=(SECRETS,)), find_key=KEYS.get)
    bare = emm.Credentials(hmac_key=SENSOR.secret)  # no key id, as the profile asks for

    with up(data, *flags) as node, device_at(node.gateway("emm")) as device:
        async with client_of(node) as client:
            device.send(SENSOR.hello(now_s()))
            device.send(sealed(1001, "secret.temp", 21.5))
            device.send(sealed(1002, "secret.text", "x" * 800))
            device.send(sealed(1003, "secret.long", "y" * 900, compressed=True))
            device.send(SENSOR.event("secret.temp", "in the clear", at_s=now_s()))
            device.send(emm.build(emm.draft_event(1004, now_s(), "n", node_id=SENSOR.node_id), bare))
            device.send(bytes(1201))
            taken = await events(client, "emm.>", 3)
            assert {(event.topic, event.payload) for event in taken} == {
                ("emm.secret.temp", b"21.5"),
                ("emm.secret.text", b"x" * 800),
                ("emm.secret.long", b"y" * 900),
            }
            for reason in ("unsealed", "profile"):
                await refused(node, reason)
            await client.publish("secret.alarms.fire", b"hall 3 " * 400)
            alarm = await event_named("secret.alarms.fire", judge, lambda: received(device))
            assert alarm.values[1][1] == b"hall 3 " * 400
            assert alarm.encrypted
            assert alarm.compressed
            assert b"alarms" not in alarm.raw
            await client.publish("secret.alarms.picture", NOISE)
            picture = await event_named("secret.alarms.picture", judge, lambda: received(device))
            assert picture.values[1][1] == NOISE
        await asyncio.to_thread(node.end_quietly)


FIRST_USE: Final = """
[gateway.emm]
udp = "127.0.0.1:0"
policy = "first-use"
"""


def carrying(seed: int, number: int) -> bytes:
    """An event of one and the same device, signed with the key that it carries."""
    key = emm.SigningKey(bytes([seed]) * 32)
    draft = emm.draft_event(number, now_s(), f"from.key{seed}", number, node_id=UUID(int=77))
    return emm.build(draft, emm.Credentials(KEY_ID, signing_key=key, carry_public_key=True))


@pytest.mark.req("EMM-17")
async def test_the_first_key_of_a_device_is_known_after_a_restart_until_it_is_removed(tmp_path: Path) -> None:
    data, flags = prepared(tmp_path, FIRST_USE)

    with up(data, *flags) as node, device_at(node.gateway("emm")) as device:
        async with client_of(node) as client:
            device.send(carrying(1, 1))
            await events(client, "emm.from.key1", 1)
            await asyncio.to_thread(node.end_quietly)
    pinned = json.loads(weft("trust", "list", "--data", data, "--json"))["first_use"]
    assert [each["node_id"] for each in pinned] == [str(UUID(int=77))]
    assert "first-use" in weft("trust", "list", "--data", data)
    with up(data, *flags) as node, device_at(node.gateway("emm")) as device:
        async with client_of(node) as client:
            device.send(carrying(2, 2))
            await refused(node, "untrusted-key")
            device.send(carrying(1, 3))
            assert [event.payload for event in await events(client, "emm.from.key1", 2)] == [b"1", b"3"]
            await asyncio.to_thread(weft, "trust", "remove", "--data", data, "--node-id", UUID(int=77))
            async with client.subscribe("emm.from.key2", start="earliest") as found:
                taken = asyncio.ensure_future(anext(aiter(found)))
                number = 4
                while not taken.done():  # until the node has noticed
                    device.send(carrying(2, number))
                    number += 1
                    await asyncio.wait([taken], timeout=0.2)
                assert (taken.result().headers or {})["emm-verdict"] == "verified"
            await asyncio.to_thread(node.end_quietly)
