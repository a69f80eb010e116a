"""``weft emm compact``: packets as they leave, and a conversation over the gateway of a node that users start."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from tests.cli.commands import Weft, between_commands
from tests.gateway.emm.test_under_weft_up import client_of, events
from tests.transport.udp.plain import plain_socket, see
from tests.up import COMMAND, END_TIMEOUT_S, RunningNode, ended_in_time, up
from weft.gateway.emm.identity import FRESH_BYTES, Identity, settle_identity
from weft.security import Secret
from weft.security.trust_file import DeviceKey, KeyKind, add_device, add_group
from weft.wire.emm_compact import (
    Command,
    FieldType,
    Format,
    Header,
    KeyRing,
    Notification,
    Priority,
    Proof,
    Signer,
    decode_untrusted,
    draft_command,
    expiry_s_of,
    find,
    seal,
    verify_untrusted,
)

GROUP = b"g" * 32
NODE = "11111111-1111-1111-1111-111111111111"
SEED = b"e" * 32
BY_GROUP = ("--group-key", GROUP.hex())
BY_NODE = ("--node-id", NODE, "--signing-key", SEED.hex())
TRACE = "22222222-2222-2222-2222-222222222222"
RING = KeyRing((GROUP,), {UUID(NODE).bytes: (Signer(GROUP, SEED).public_key,)})


@pytest.fixture
def target() -> Iterator[socket.socket]:
    with plain_socket("127.0.0.1") as made:
        yield made


def address_of(made: socket.socket) -> str:
    return f"127.0.0.1:{made.getsockname()[1]}"


def member(data: Path, number: int) -> Identity:
    """A data directory with an identity and the group key."""
    identity = settle_identity(data, bytes(range(number, number + FRESH_BYTES)))
    add_group(data, Secret(GROUP))
    return identity


def trusting(data: Path, *others: Identity) -> None:
    for other in others:
        add_device(data, DeviceKey(other.node_id, other.key_id, KeyKind.ED25519, Secret(other.public_key)))


@pytest.mark.req("EMC-06", "EMC-12", "EMC-14")
@pytest.mark.parametrize(
    ("arguments", "body", "tos"),
    [
        (("pump 3",), Notification(Priority.INFO, Format.PLAIN_TEXT, b"pump 3"), 0x18 << 2 | 2),
        (
            ('{"a":1}', "--format", "json", "--priority", "critical"),
            Notification(Priority.CRITICAL, Format.JSON, b'{"a":1}'),
            0x38 << 2 | 2,
        ),
        (("00ff", "--hex"), Notification(Priority.INFO, Format.BINARY, b"\x00\xff"), 0x18 << 2 | 2),
    ],
)
def test_send_a_notification(
    weft: Weft, target: socket.socket, arguments: tuple[str, ...], body: Notification, tos: int
) -> None:
    told = weft("emm", "compact", "send", address_of(target), *arguments, *BY_GROUP, "--ttl", "9", "--urgent", "--json")
    assert told.status == 0, told.err
    seen = see(target)
    packet = decode_untrusted(seen.data)
    assert verify_untrusted(packet, RING) is Proof.GROUP
    assert (packet.body, packet.header.urgent, seen.ttl, seen.tos) == (body, True, 9, tos)
    number = "".join(f"{each:04x}" for each in packet.header.triple)
    assert told.document == {"message_id": number, "bytes": len(seen.data), "ttl": 9}
    assert abs((time.time() - packet.header.epoch + 32768) % 65536 - 32768) < 60


@pytest.mark.req("EMC-07", "EMC-10")
def test_send_a_command_with_all_that_can_be_said(weft: Weft, target: socket.socket) -> None:
    long = "level=debug;" * 30
    said = ("--expires", "30", "--trace-id", TRACE, "--priority", "error", "--compress")
    told = weft("emm", "compact", "command", address_of(target), "log-level", long, *BY_NODE, *said)
    assert told.status == 0, told.err
    packet = decode_untrusted(see(target).data)
    assert verify_untrusted(packet, RING) is Proof.SENDER
    assert isinstance(packet.body, Command)
    assert (packet.body.name, zlib.decompress(packet.body.parameters).decode()) == ("log-level", long)
    more = packet.body.more
    assert (find(more, FieldType.NODE_ID), find(more, FieldType.TRACE_ID)) == (UUID(NODE).bytes, UUID(TRACE).bytes)
    assert (expiry_s_of(packet.body), find(more, FieldType.EVENT_PRIORITY)) == (30, bytes((Priority.ERROR,)))


def test_keys_come_from_a_directory_or_by_standard_input(weft: Weft, target: socket.socket, tmp_path: Path) -> None:
    identity = member(tmp_path / "a", 0)
    ring = KeyRing((GROUP,), {identity.node_id.bytes: (identity.public_key,)})
    assert weft("emm", "compact", "send", address_of(target), "x", "--data", tmp_path / "a").status == 0
    assert weft("emm", "compact", "command", address_of(target), "x", "--data", tmp_path / "a").status == 0
    for _ in range(2):
        verify_untrusted(decode_untrusted(see(target).data), ring)
    piped = ("emm", "compact", "send", address_of(target), "x", "--group-key", "-")
    assert weft(*piped, stdin=GROUP.hex().encode() + b"\n").status == 0
    verify_untrusted(decode_untrusted(see(target).data), ring)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("send", "127.0.0.1:9", "x"), "there is no key to sign with"),
        (("send", "127.0.0.1:9", "x", "--group-key", "67"), "group key is too short"),
        (("send", "127.0.0.1:9", "x", *BY_GROUP, "--priority", "loud"), "--priority knows trace, debug"),
        (("send", "127.0.0.1:9", "x", *BY_GROUP, "--format", "toml"), "--format knows plain-text, json"),
        (("send", "127.0.0.1:9", "{", *BY_GROUP, "--format", "json"), "not JSON"),
        (("send", "127.0.0.1:9", "xyz", *BY_GROUP, "--hex"), "hexadecimal"),
        (("send", "127.0.0.1:9", "x" * 300, *BY_GROUP), "payload is too long (need 336, limit 255)"),
        (("send", "nowhere", "x", *BY_GROUP), "nowhere"),
        (("command", "127.0.0.1:9", "stop"), "there is no identity to sign with"),
        (("command", "127.0.0.1:9", "stop", "--data", ".", *BY_NODE), "leave out --node-id"),
        (("command", "127.0.0.1:9", "stop", *BY_NODE, "--trace-id", "x"), "--trace-id 'x' is not a UUID"),
        (("command", "127.0.0.1:9", "stop", *BY_NODE, "--expires", "256"), "--expires"),
        (("join", "127.0.0.1:9", "--data", "empty"), "has no group key"),
        (("listen", "--data", "empty"), "has no group key"),
        (("send", "127.0.0.1:9", "x", "--data", "empty"), "has no group key"),
    ],
)
def test_misuse_is_told(
    weft: Weft, arguments: tuple[str, ...], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = weft("emm", "compact", *arguments)
    assert outcome.status in (1, 2)
    assert told in outcome.err
    assert GROUP.hex() not in outcome.err and SEED.hex() not in outcome.err


def test_join_where_nobody_answers(weft: Weft, target: socket.socket, tmp_path: Path) -> None:
    member(tmp_path / "a", 0)
    outcome = weft("emm", "compact", "join", address_of(target), "--data", tmp_path / "a", "--timeout", "0.1")
    assert (outcome.status, "nobody answered" in outcome.err) == (1, True)


def test_listen_says_how_many_came_in_time(weft: Weft, tmp_path: Path) -> None:
    member(tmp_path / "a", 0)
    listen = ("emm", "compact", "listen", "--data", tmp_path / "a", "--listen", "127.0.0.1:0")
    outcome = weft(*listen, "--count", "1", "--timeout", "0.1")
    assert (outcome.status, "0 of 1 events" in outcome.err) == (1, True)


@contextmanager
def sending(port: int, *packets: bytes) -> Iterator[None]:
    """These, again and again, until somebody has heard them."""
    over = threading.Event()

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
            while not over.wait(0.02):
                for packet in packets:
                    device.sendto(packet, ("127.0.0.1", port))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_listen_shows_nothing_that_a_terminal_obeys(weft: Weft, tmp_path: Path) -> None:
    """Notifications of any format, commands and refusals; each packet is shown once."""
    data, epoch = tmp_path / "a", int(time.time()) % 65536
    member(data, 0)
    add_device(data, DeviceKey(UUID(NODE), b"key1", KeyKind.ED25519, Secret(Signer(GROUP, SEED).public_key)))
    with plain_socket("127.0.0.1") as probe:
        port = probe.getsockname()[1]
    bodies: list[Notification | Command] = [
        Notification(Priority.ERROR, Format.YAML, b"\x1b[2Jgone"),
        draft_command("stop \u202e", b"a\nb", UUID(NODE), trace_id=UUID(TRACE)),
    ]
    signer, stranger = Signer(GROUP, SEED), Signer(b"x" * 32, SEED)
    good = [seal(Header(body.TYPE, 1, epoch, 0, urgent=True), body, signer).raw for body in bodies]
    forged = seal(Header(bodies[0].TYPE, 1, epoch, 1), bodies[0], stranger).raw
    listen = ("emm", "compact", "listen", "--data", data, "--listen", f"127.0.0.1:{port}", "--timeout", "60")
    with sending(port, forged, good[0], forged, good[1]):
        shown = weft(*listen, "--count", "2").out
    assert "notification  ! error  \\x1b[2Jgone  from 127.0.0.1:" in shown
    assert f"command       ! stop \\u202e  a\\nb  {NODE} from" in shown
    assert "refused         bad-hmac  no group key fits the packet" in shown
    with sending(port, forged, good[0], forged, good[1]):
        documents = weft(*listen, "--count", "2", "--json").documents
    found = {each["type"]: each for each in documents if "type" in each}
    assert (found["notification"]["message"], found["notification"]["format"]) == ("\x1b[2Jgone", "yaml")
    assert (found["command"]["parameters"], found["command"]["trace_id"]) == ("a\nb", TRACE)
    assert any(each.get("refused") == "bad-hmac" for each in documents)


# --- over a gateway ------------------------------------------------------------------------------------------------


@contextmanager
def command_running(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """``weft`` in a process of its own; killed at the end if it still runs."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    with subprocess.Popen([*COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, text=True, env=environ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def wait_for_neighbour(node: RunningNode, whom: Identity) -> None:
    over_s, joined = time.monotonic() + END_TIMEOUT_S, ("emm_c_neighbour_joined", str(whom.node_id))
    while joined not in [(each["event"], each.get("emm_node")) for each in node.logged()]:
        assert time.monotonic() < over_s, node.said()
        threading.Event().wait(0.05)


@pytest.mark.req("EMC-11", "EMC-12")
def test_commands_of_people_over_the_gateway_of_a_node(weft: Weft, tmp_path: Path) -> None:
    mine, theirs, data = tmp_path / "mine", tmp_path / "theirs", tmp_path / "node"
    me, them, node_identity = member(mine, 0), member(theirs, 1), member(data, 2)
    trusting(data, me, them)
    trusting(mine, node_identity)
    trusting(theirs, node_identity, me)
    file = tmp_path / "weft.toml"
    file.write_text('[gateway.emm]\nudp = "127.0.0.1:0"\n')
    with up(data, "--config", str(file)) as node:
        gateway = node.gateway("emm")
        (found,) = weft("emm", "compact", "join", gateway, "--data", mine, "--timeout", "60", "--json").document
        assert (found["node_id"], found["address"]) == (str(node_identity.node_id), gateway)
        assert found["types"] == ["notification", "command", "heartbeat", "join"]
        shown = weft("emm", "compact", "join", gateway, "--data", mine, "--timeout", "60")
        assert str(node_identity.node_id) in shown.out and "notification, command" in shown.out
        listen = ("emm", "compact", "listen", "--listen", "127.0.0.1:0", "--join", gateway, "--data", theirs)
        with command_running(*listen, "--count", 2, "--json") as listening, ended_in_time(listening):
            wait_for_neighbour(node, them)
            sent = ("--data", mine, "--ttl", "5")
            assert weft("emm", "compact", "send", gateway, "tea \x1b[1m!", *sent).status != 0, "no text"
            assert weft("emm", "compact", "send", gateway, "tea is ready", *sent).status == 0
            assert weft("emm", "compact", "command", gateway, "stop", "ff", "--hex", *sent).status == 0
            output, _ = listening.communicate()
        assert listening.returncode == 0
        found = {each["type"]: each for each in map(json.loads, output.splitlines()) if "type" in each}
        note, command = found["notification"], found["command"]
        assert (note["message"], note["priority"], note["ttl"], note["source"]) == ("tea is ready", "info", 4, gateway)
        assert (command["name"], command["parameters_hex"], command["ttl"]) == ("stop", "ff", 4)
        assert command["node_id"] == str(me.node_id)

        async def in_the_mesh() -> set[str]:
            async with client_of(node) as client:
                return {str(event.topic) for event in await events(client, "emm.>", 2)}

        assert between_commands(in_the_mesh()) == {"emm.notification.info", "emm.command.stop"}
        node.end_quietly()
