"""QUIC at nodes as users start them: joined outwards, demanded by rules, and no trace of a client that left."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest

from tests.gateway.emm.devices import KEY_ID, Device
from tests.gateway.emm.stories import now_s, received
from tests.gateway.emm.test_under_weft_up import client_of, device_at, event_named, events
from tests.transport.quic.foreign import foreign_client
from tests.up import RunningNode, up
from weft import emm_compact as compact_nodes
from weft.gateway.emm.identity import FRESH_BYTES, Identity, settle_identity
from weft.security import Secret, tls_directory
from weft.security.files import private_directory
from weft.security.trust_file import DeviceKey, KeyKind, add_device, add_group
from weft.wire import emm, emm_compact

WAIT_S: Final = 60.0
SENSOR: Final = Device(1)
GROUP: Final = b"g" * 32
JOINED: Final = '[gateway.emm]\nquic = "127.0.0.1:{port}"\nheartbeat_interval_s = 1\n'
JOINING: Final = """
[gateway.emm]
udp = "127.0.0.1:0"
join = ["quic://127.0.0.1:{port}"]
quic_root = "{root}"
heartbeat_interval_s = 1

[[gateway.emm.out]]
pattern = "secret.>"
quic = true

[[gateway.emm.out]]
pattern = ">"
"""


def prepared(directory: Path, name: str) -> tuple[Path, Identity]:
    data = private_directory(directory / name)
    return data, settle_identity(data, bytes([ord(name)]) * FRESH_BYTES)


def trust(data: Path, whom: Identity) -> None:
    add_device(data, DeviceKey(whom.node_id, whom.key_id, KeyKind.ED25519, Secret(whom.public_key)))


def configured(data: Path, text: str) -> tuple[str, str]:
    file = data.with_suffix(".toml")
    file.write_text(text)
    return "--config", str(file)


def root_of(data: Path) -> Path:
    return tls_directory(data) / "root.pem"


def port_of(node: RunningNode) -> int:
    return int(node.gateway("emm-quic").rpartition(":")[2])


async def count(node: RunningNode, fate: str) -> float:
    lines = (await asyncio.to_thread(node.metrics)).splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f'weft_datagrams_total{{fate="{fate}"}}'))


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not await condition():
            await asyncio.sleep(0.05)


@asynccontextmanager
async def watched(device: socket.socket, judge: emm.Judge) -> AsyncIterator[list[str]]:
    """The names of events that a device gets, which says Hello as long as somebody is there."""
    seen: list[str] = []

    async def watch() -> None:
        loop = asyncio.get_running_loop()
        while True:
            packet = judge.receive_datagram(await loop.sock_recv(device, 2048), b"node", now_s()).packet
            if packet.event_name is not None:
                seen.append(packet.event_name)
            else:
                device.send(SENSOR.hello(now_s()))

    task = asyncio.create_task(watch())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def believing(identity: Identity) -> emm.Judge:
    store = emm.TrustStore()
    store.add_public_key(identity.node_id, identity.key_id, identity.public_key)
    return emm.Judge(store)


async def arrives(source: RunningNode, target: RunningNode, topic: str) -> None:
    """Published at the one until it is an event of the other: datagrams promise nothing."""
    async with (
        client_of(source) as here,
        client_of(target) as there,
        there.subscribe(f"emm.{topic}", start="earliest") as found,
    ):
        taken = asyncio.ensure_future(anext(aiter(found)))
        while not taken.done():
            await here.publish(topic, b"for your eyes only")
            await asyncio.wait([taken], timeout=0.5)
        event = taken.result()
    assert event.payload == b"for your eyes only"
    assert event.headers is not None
    assert event.headers["emm-source"].startswith("quic/127.0.0.1:")
    assert event.headers["emm-verdict"] == "verified"


@pytest.mark.req("EMM-28")
async def test_a_gateway_joins_another_by_quic_and_secret_topics_go_no_other_way(tmp_path: Path) -> None:
    """Two meshes, each with a CA of its own. A device at the first one gets everything else by UDP, and is the proof
    that nothing secret goes that way: while the other node is there, while it is away, and when it is back."""
    (first, me), (second, you) = prepared(tmp_path, "a"), prepared(tmp_path, "b")
    trust(first, you)
    trust(second, me)
    SENSOR.trust(first)

    with up(second, *configured(second, JOINED.format(port=0))) as there:
        text = JOINING.format(port=port_of(there), root=root_of(second))
        with up(first, *configured(first, text)) as here, device_at(here.gateway("emm")) as device:
            async with watched(device, believing(me)) as seen, here.client() as client:
                device.send(SENSOR.hello(now_s()))
                await arrives(here, there, "secret.one")
                await asyncio.to_thread(there.end_quietly)
                before = await count(here, "no-quic")

                async def nobody_was_there() -> bool:
                    await client.publish("secret.lost", b"x")
                    return await count(here, "no-quic") > before

                await until(nobody_was_there)
                with up(second, *configured(second, JOINED.format(port=port_of(there)))) as again:
                    await arrives(here, again, "secret.two")

                    async def came() -> bool:
                        await client.publish("public", b"for everybody")
                        return "public" in seen

                    await until(came)
                    assert not [name for name in seen if name.startswith("secret")]
                    await asyncio.to_thread(again.end_quietly)
                assert await count(here, "dropped") == 0
                await asyncio.to_thread(here.end_quietly)
            connected = [each["address"] for each in here.logged() if each["event"] == "emm_quic_connected"]
            assert set(connected) == {f"quic://127.0.0.1:{port_of(there)}"}
            assert len(connected) >= 2, "once more after the restart"


@pytest.mark.req("EMM-28")
async def test_nothing_is_dropped_after_a_client_has_left(tmp_path: Path) -> None:
    """Heartbeats went on to connections that had ended, and each was counted."""
    data, me = prepared(tmp_path, "a")
    other = Device(2)
    for each in (SENSOR, other):
        each.trust(data)

    text = '[gateway.emm]\nudp = "127.0.0.1:0"\nquic = "127.0.0.1:0"\nheartbeat_interval_s = 1\n'
    text += '[[gateway.emm.out]]\npattern = "alarms.>"\n'
    with up(data, *configured(data, text)) as node, device_at(node.gateway("emm")) as device:
        async with foreign_client(port_of(node), root_of(data).read_bytes()) as client:
            client.send(SENSOR.hello(now_s()))
            await client.frame()
        device.send(other.hello(now_s()))
        heartbeats = 0
        while heartbeats < 3:  # the one that left would have been called as often
            packet = believing(me).receive_datagram(await received(device), b"x", now_s()).packet
            heartbeats += packet.kind is emm.EventType.HEARTBEAT
            device.send(other.hello(now_s()))
        async with client_of(node) as client:
            await client.publish("alarms.fire", b"!")
            await event_named("alarms.fire", believing(me), lambda: received(device))
        assert await count(node, "sent") == 1
        for fate in ("dropped", "unsent", "no-quic"):
            assert await count(node, fate) == 0
        await asyncio.to_thread(node.end_quietly)


QUIC_ALONE: Final = """
[gateway.emm]
quic = "127.0.0.1:0"

[[gateway.emm.out]]
pattern = "alarms.>"

[[gateway.emm.out]]
pattern = "notes.>"
protocol = "emm-c"
quic = true
"""


@pytest.mark.req("EMM-28")
async def test_a_gateway_without_udp_sends_both_formats_over_one_port(tmp_path: Path) -> None:
    """A foreign EMM client, and an EMM-C node of the library."""
    data, me = prepared(tmp_path, "a")
    SENSOR.trust(data)
    signer, node_id = emm_compact.Signer(GROUP, b"n" * 32), UUID(int=55)
    add_group(data, Secret(GROUP))
    add_device(data, DeviceKey(node_id, KEY_ID, KeyKind.ED25519, Secret(signer.public_key)))
    ring = emm_compact.KeyRing((GROUP,), {me.node_id.bytes: (me.public_key,)})

    with up(data, *configured(data, QUIC_ALONE)) as node:
        assert "emm " not in str(node.ready["gateways"])
        root = root_of(data).read_bytes()
        async with (
            client_of(node) as client,
            foreign_client(port_of(node), root) as device,
            compact_nodes.Node(node_id, signer, ring, listen=None) as compact,
        ):
            device.send(SENSOR.hello(now_s()))
            await device.frame()
            neighbour = await compact.join_quic(("127.0.0.1", port_of(node)), root, WAIT_S)
            assert neighbour.node_id == me.node_id.bytes
            await compact.publish("from afar")
            (event,) = await events(client, "emm.notification.*", 1)
            assert event.payload == b"from afar"
            assert (event.headers or {})["emm-source"].startswith("quic/127.0.0.1:")
            await client.publish("alarms.fire", b"hall 3")
            alarm = await event_named("alarms.fire", believing(me), device.frame)
            assert alarm.values[1][1] == b"hall 3"
            await client.publish("notes.x", b"careful")
            note = await anext(aiter(compact.events()))
            assert (note.message, note.ttl) == (b"careful", 64)
        await asyncio.to_thread(node.end_quietly)


@pytest.mark.req("EMM-28")
async def test_a_certificate_that_is_not_trusted_is_logged_and_nothing_is_sent(tmp_path: Path) -> None:
    (first, _), (second, _) = prepared(tmp_path, "a"), prepared(tmp_path, "b")
    with up(second, *configured(second, JOINED.format(port=0))) as there:
        target = f"quic://127.0.0.1:{port_of(there)}"
        text = f'[[gateway.emm.out]]\npattern = "secret.>"\nquic = true\ntargets = ["{target}"]\n'
        with up(first, *configured(first, text)) as here:

            async def told() -> bool:
                return any(each["event"] == "emm_quic_backoff" for each in here.logged())

            async def counted() -> bool:
                return await count(here, "no-quic") == 1

            await until(told)
            async with client_of(here) as client:
                await client.publish("secret.one", b"x")
            await until(counted)
            assert await count(there, "received") == 0
            (refusal,) = [each for each in here.logged() if each["event"] == "emm_quic_backoff"][:1]
            assert refusal["address"] == target
            assert "certificate" in refusal["reason"]
            here.end_quietly()
        assert there.end(signal.SIGTERM) == 0


@pytest.mark.req("EMM-28", "EMC-11", "EMC-12")
async def test_gateways_that_are_emm_c_neighbours_by_quic_pass_events_on(tmp_path: Path) -> None:
    """One dials the other; what a node beside one says reaches the mesh of the other, and again after a restart."""
    (first, one), (second, other) = prepared(tmp_path, "a"), prepared(tmp_path, "b")
    signer, node_id = emm_compact.Signer(GROUP, b"n" * 32), UUID(int=55)
    for data, neighbour in ((first, other), (second, one)):
        add_group(data, Secret(GROUP))
        trusted = ((node_id, signer.public_key), (neighbour.node_id, neighbour.public_key))
        for who, key in trusted:
            add_device(data, DeviceKey(who, KEY_ID, KeyKind.ED25519, Secret(key)))
    ring = emm_compact.KeyRing((GROUP,), {one.node_id.bytes: (one.public_key,)})

    async def story(here: RunningNode, there: RunningNode, *said: str) -> None:
        root = root_of(first).read_bytes()
        async with compact_nodes.Node(node_id, signer, ring, listen=None) as compact, client_of(there) as client:
            await compact.join_quic(("127.0.0.1", port_of(here)), root, WAIT_S)

            async def both_ways() -> bool:
                figures = (await asyncio.to_thread(here.metrics)).splitlines()
                return "weft_emm_c_neighbours 2.0" in figures

            await until(both_ways)
            await compact.publish(said[-1])
            found = await events(client, "emm.notification.*", len(said))
            assert [event.payload.decode() for event in found] == list(said)
        await asyncio.to_thread(there.end_quietly)

    with up(second, *configured(second, JOINED.format(port=0))) as there:
        port = port_of(there)
        joining = f'compact_join = ["quic://127.0.0.1:{port}"]\nquic_root = "{root_of(second)}"\n'
        with up(first, *configured(first, f'[gateway.emm]\nquic = "127.0.0.1:0"\n{joining}')) as here:
            await story(here, there, "from afar")
            with up(second, *configured(second, JOINED.format(port=port))) as again:
                await story(here, again, "from afar", "once more")
            here.end_quietly()
