"""``weft emm``: send, listen, peers and identity, against nodes of the library and a gateway."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from tests.cli.commands import Weft
from tests.gateway.emm.devices import Device
from weft import emm
from weft.gateway.emm.identity import FRESH_BYTES, Identity, settle_identity
from weft.security import Secret
from weft.security.trust_file import DeviceKey, KeyKind, SealKey, add_device, add_seal
from weft.wire import emm as wire

WAIT_S = 20.0
NODE = "11111111-1111-1111-1111-111111111111"
KEYS = ("--node-id", NODE, "--key-id", "6b657931", "--hmac-key", "73" * 32)  # "key1", thirty-two times "s"


@pytest.fixture
def target() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", 0))
        made.settimeout(WAIT_S)
        yield made


def address_of(made: socket.socket) -> str:
    return f"127.0.0.1:{made.getsockname()[1]}"


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ((), None),
        (("21.5",), 21.5),
        (("7",), 7),
        (('{"a": [1]}',), {"a": [1]}),
        (("open",), "open"),
        (("true",), "true"),
        (("7", "--text"), "7"),
        (("00ff", "--hex"), b"\x00\xff"),
    ],
)
def test_send_one_event(weft: Weft, target: socket.socket, arguments: tuple[str, ...], value: object) -> None:
    outcome = weft("emm", "send", address_of(target), "plant.temp", *arguments, *KEYS, "--urgent", "--json")
    assert outcome.status == 0
    data = target.recv(2048)
    store = emm.TrustStore()
    store.add_hmac_key(wire.parse_untrusted(data).node_id, b"key1", b"s" * 32)  # type: ignore[arg-type]
    received = wire.Judge(store).receive_datagram(data, b"x", time.time())
    assert (received.packet.event_name, received.packet.urgent) == ("plant.temp", True)
    assert next((found for _, found in received.packet.values if found != "plant.temp"), None) == value
    assert outcome.document == {
        "node_id": NODE,
        "message_id": f"{received.packet.message_id:08x}",
        "bytes": len(data),
    }


def test_send_with_the_identity_of_a_directory(weft: Weft, target: socket.socket, tmp_path: Path) -> None:
    shown = weft("emm", "identity", "--data", tmp_path / "a", "--json").document
    assert weft("emm", "send", address_of(target), "n", "--data", tmp_path / "a").status == 0
    packet = wire.parse_untrusted(target.recv(2048))
    assert str(packet.node_id) == shown["node_id"]
    told = weft("emm", "identity", "--data", tmp_path / "a")
    assert shown["public_key"] in told.out
    assert f"--key-id {shown['key_id']} --public-key {shown['public_key']}" in told.err


def test_a_signing_key_by_standard_input(weft: Weft, target: socket.socket) -> None:
    who = ("--node-id", NODE, "--key-id", "6b657931", "--signing-key", "-")
    assert weft("emm", "send", address_of(target), "n", *who, stdin=b"65" * 32 + b"\n").status == 0
    packet = wire.parse_untrusted(target.recv(2048))
    store = emm.TrustStore()
    assert packet.node_id is not None
    store.add_public_key(packet.node_id, b"key1", wire.SigningKey(b"e" * 32).public_key)
    assert wire.authenticate(packet, store) is wire.Verdict.VERIFIED


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("send", "127.0.0.1:9", "n"), "there is no identity to sign with"),
        (("send", "127.0.0.1:9", "n", "--node-id", NODE), "there is no identity to sign with"),
        (("send", "127.0.0.1:9", "n", "1", "--text", "--hex"), "not both"),
        (("send", "127.0.0.1:9", "n", "xyz", "--hex", *KEYS), "hexadecimal"),
        (("send", "nowhere", "n", *KEYS), "nowhere"),
        (("send", "127.0.0.1:9", "x" * 600, *KEYS), "too large"),
        (("peers", "127.0.0.1:9"), "--data"),
        (("send", "127.0.0.1:9", "n", *KEYS, "--seal", "a1"), "32 hexadecimal digits"),
        (("send", "127.0.0.1:9", "n", *KEYS, "--seal", "a1" * 16), "there is no key with that id"),
        (("send", "127.0.0.1:9", "n", *KEYS, "--encryption-key", "77" * 32), "--seal"),
        (("send", "127.0.0.1:9", "n", *KEYS, "--profile", "interop-v9"), "--profile knows interop-v1"),
        (("send", "127.0.0.1:9", "n", "--node-id", "x", *KEYS[2:]), "not a UUID"),
    ],
)
def test_misuse_is_one_line(weft: Weft, arguments: tuple[str, ...], told: str) -> None:
    outcome = weft("emm", *arguments)
    assert outcome.status in (1, 2)
    assert told in outcome.err
    assert "73737373" not in outcome.err


@contextmanager
def sending(port: int, *packets: bytes) -> Iterator[None]:
    """Again and again, until the command has seen enough."""
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


def test_listen_shows_events_and_refusals_with_their_verdicts(weft: Weft, tmp_path: Path) -> None:
    sensor, port, now_s = Device(1), free_port(), int(time.time())
    data = tmp_path / "a"
    settle_identity(data, bytes(range(FRESH_BYTES)))
    sensor.trust(data)
    unsigned = wire.build(wire.draft_event(5, now_s, "anyone", 7))
    listen = ("emm", "listen", "--listen", f"127.0.0.1:{port}", "--data", data, "--unsigned", "--timeout", "20")
    # The junk twice, because listening may begin anywhere in a round: some of it always comes before both events have.
    junk, measured = b"\x01junk", sensor.event("plant.temp", b"\x01\x02", at_s=now_s)
    with sending(port, junk, measured, junk, unsigned):
        documents = weft(*listen, "--count", "2", "--json").documents
    events = {each["event"]: each for each in documents if "event" in each}
    assert (events["plant.temp"]["verdict"], events["plant.temp"]["values"]) == ("verified", ["0102"])
    assert (events["anyone"]["verdict"], events["anyone"]["node_id"]) == ("unsigned", None)
    assert any(each.get("refused") == "truncated" for each in documents)
    with sending(port, junk, sensor.event("plant.temp", "on", urgent=True, at_s=now_s), junk, unsigned):
        shown = weft(*listen, "--count", "2").out
    assert "verified             ! plant.temp  on" in shown
    assert "unsigned               anyone  7  nobody" in shown
    assert "refused" in shown


SEAL_ID, SEAL_KEY = "a1" * 16, "77" * 32


def received(data: bytes, rules: wire.Rules) -> wire.Packet:
    store = emm.TrustStore()
    store.add_hmac_key(UUID(NODE), b"key1", b"s" * 32)
    judge = wire.Judge(store, wire.Terms(rules), find_key={bytes.fromhex(SEAL_ID): b"w" * 32}.get)
    return judge.receive_datagram(data, b"x", time.time()).packet


@pytest.mark.req("EMM-04", "EMM-22", "EMM-23", "EMM-24", "EMM-26")
def test_send_compressed_sealed_large_and_by_the_profile(weft: Weft, target: socket.socket) -> None:
    send = ("emm", "send", address_of(target), "plant.temp")
    large, strict = wire.Rules(packet_bytes_max=1400), wire.Rules(profile=wire.Profile.INTEROP_V1)
    long = "abc" * 300
    assert weft(*send, long, *KEYS, "--compress").status == 0
    packet = received(target.recv(2048), strict)
    assert (packet.compressed, packet.values[1][1]) == (True, long)
    assert weft(*send, "5", *KEYS, "--compress").status == 0
    assert not received(target.recv(2048), strict).compressed, "it would not help"
    assert weft(*send, long, *KEYS, "--packet-bytes-max", "1400").status == 0
    assert received(target.recv(2048), large).values[1][1] == long
    seal = ("--seal", SEAL_ID, "--encryption-key", "-")
    assert weft(*send, "secret", *KEYS, *seal, "--profile", "interop-v1", stdin=SEAL_KEY.encode()).status == 0
    data = target.recv(2048)
    assert b"plant" not in data
    assert [value for _, value in received(data, strict).values] == ["plant.temp", "secret"]


@pytest.mark.req("EMM-02")
def test_message_ids_come_from_secrets(weft: Weft, target: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.cli.emm.work.secrets.randbits", lambda bits: 1 << bits - 1 | 0xC0FFEE)
    assert weft("emm", "send", address_of(target), "n", *KEYS).status == 0
    assert wire.parse_untrusted(target.recv(2048)).message_id == 0x80C0FFEE


@pytest.mark.req("EMM-22", "EMM-23", "EMM-26")
def test_listen_opens_what_is_sealed_and_refuses_what_should_be(weft: Weft, tmp_path: Path) -> None:
    sensor, port, now_s, data = Device(1), free_port(), int(time.time()), tmp_path / "a"
    settle_identity(data, bytes(range(FRESH_BYTES)))
    sensor.trust(data)
    add_seal(data, SealKey(bytes.fromhex(SEAL_ID), Secret(bytes.fromhex(SEAL_KEY))))
    seal = wire.Seal(wire.Encryption(wire.Algorithm.AES_256_GCM, b"i" * 12, bytes.fromhex(SEAL_ID)), b"w" * 32)
    sealed = wire.build(
        wire.draft_event(2001, now_s, "secret.temp", 7, node_id=sensor.node_id), sensor.credentials, seal=seal
    )
    clear = sensor.event("secret.door", "open", number=2002, at_s=now_s)
    bare = wire.build(
        wire.draft_event(2003, now_s, "n", node_id=sensor.node_id), wire.Credentials(hmac_key=sensor.secret)
    )
    listen = ("emm", "listen", "--listen", f"127.0.0.1:{port}", "--data", data, "--sealed", "secret.>", "--json")
    with sending(port, clear, bare, clear, bare, sealed):
        documents = weft(*listen, "--profile", "interop-v1", "--count", "1", "--timeout", "20").documents
    assert [each["values"] for each in documents if "event" in each] == [[7]]
    assert {"unsealed", "profile"} & {each.get("refused") for each in documents}


def test_listen_says_how_many_came_in_time(weft: Weft) -> None:
    outcome = weft("emm", "listen", "--listen", "127.0.0.1:0", "--count", "1", "--timeout", "0.1")
    assert (outcome.status, "0 of 1 events" in outcome.err) == (1, True)


def trusting(data: Path, whom: Identity) -> None:
    add_device(data, DeviceKey(whom.node_id, whom.key_id, KeyKind.ED25519, Secret(whom.public_key)))


class Answering(threading.Thread):
    """A node of the library in a loop of its own."""

    def __init__(self, data: Path, me: Identity) -> None:
        super().__init__()
        self._data = data
        self._me = me
        self.address = ""
        self.ready = threading.Event()
        self.over = threading.Event()

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        from weft.security import Trust
        from weft.security.trust_file import read_trust

        store = emm.TrustStore()
        read_trust(self._data).fill(store, Trust())
        credentials = self._me.credentials(Trust())
        async with emm.Node(self._me.node_id, credentials, store) as node:
            self.address = f"127.0.0.1:{node.address[1]}"
            self.ready.set()
            while not self.over.is_set():
                await asyncio.sleep(0.01)


def test_peers_says_hello_and_lists_who_answers(weft: Weft, tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    me = settle_identity(mine, bytes(range(FRESH_BYTES)))
    them = settle_identity(theirs, bytes(range(1, FRESH_BYTES + 1)))
    trusting(mine, them)
    trusting(theirs, me)
    other = Answering(theirs, them)
    other.start()
    try:
        assert other.ready.wait(WAIT_S)
        found = weft("emm", "peers", other.address, "--data", mine, "--timeout", "20", "--json").document
        assert found == [{"node_id": str(them.node_id), "address": other.address, "capabilities": "weft"}]
        assert str(them.node_id) in weft("emm", "peers", other.address, "--data", mine, "--timeout", "20").out
    finally:
        other.over.set()
        other.join()


def test_peers_where_nobody_answers(weft: Weft, target: socket.socket, tmp_path: Path) -> None:
    outcome = weft("emm", "peers", address_of(target), "--data", tmp_path / "a", "--timeout", "0.1")
    assert (outcome.status, "nobody answered" in outcome.err) == (1, True)
