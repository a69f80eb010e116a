"""``weft emm --quic``: against a node as users start it, and in both directions by itself."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from tests.cli import test_emm_compact as compact
from tests.cli.commands import Weft
from tests.cli.test_emm import KEYS, free_port, trusting
from tests.gateway.emm.devices import Device
from tests.security import pki
from tests.transport.quic.test_links import signed_by_itself
from tests.up import COMMAND, ended_in_time, up
from weft.cli.emm.quic import send_packet
from weft.errors import PeerError
from weft.gateway.emm.identity import FRESH_BYTES, settle_identity
from weft.security import CertificateStore, tls_directory
from weft.security.files import private_directory
from weft.transport.quic import QUIC_PACKET_BYTES_MAX, QuicLinks
from weft.wire import emm as wire

WAIT_S: Final = 60.0
SENSOR: Final = Device(1)


class Server(threading.Thread):
    """Listens for QUIC in a loop of its own, and remembers what came."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.certificate = pki.issued(pki.authority(directory, now_s=pki.wall()), now_s=pki.wall())
        self.root = directory / "root.pem"
        self.root.write_bytes(self.certificate.root_pem)
        self.came: list[bytes] = []
        self.address = ""
        self.ready = threading.Event()
        self.over = threading.Event()

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        links = QuicLinks(lambda datagrams: self.came.extend(each.data for each in datagrams))
        self.address = f"127.0.0.1:{(await links.listen('127.0.0.1', 0, self.certificate))[1]}"
        self.ready.set()
        while not self.over.is_set():
            await asyncio.sleep(0.01)
        links.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    made.start()
    assert made.ready.wait(WAIT_S)
    yield made
    made.over.set()
    made.join()


@pytest.mark.req("EMM-02", "EMM-28")
def test_send_over_quic(weft: Weft, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ends when the other side has acknowledged, so the packet is there. Its number is from ``secrets``."""
    monkeypatch.setattr("weft.cli.emm.work.secrets.randbits", lambda bits: 1 << bits - 1 | 0xC0FFEE)
    sent = weft("emm", "send", server.address, "plant.temp", "21.5", *KEYS, "--quic", "--root", server.root, "--json")
    assert (sent.status, sent.document["message_id"]) == (0, "80c0ffee")
    (data,) = server.came
    packet = wire.parse_untrusted(data)
    assert (packet.message_id, packet.event_name) == (0x80C0FFEE, "plant.temp")


@pytest.mark.req("EMM-28")
def test_who_answers_is_checked(weft: Weft, server: Server, tmp_path: Path) -> None:
    send = ("emm", "send", server.address, "plant.temp", *KEYS, "--quic", "--root")
    (tmp_path / "other.pem").write_bytes(signed_by_itself().chain_pem)
    refused = weft(*send, tmp_path / "other.pem")
    assert (refused.status, server.came) == (1, [])
    assert "cannot connect to 127.0.0.1" in refused.err
    assert "certificate" in refused.err
    named = weft("emm", "send", f"localhost:{server.address.rpartition(':')[2]}", "n", *KEYS, *send[-2:], server.root)
    assert (named.status, server.came) == (1, [])
    large = weft(*send, server.root, "--packet-bytes-max", "1400", "--hex", "ff" * 1200)
    assert (large.status, server.came) == (1, [])
    assert f"limit {QUIC_PACKET_BYTES_MAX}" in large.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("send", "127.0.0.1:9", "n", *KEYS, "--quic"), "give --root FILE"),
        (("send", "127.0.0.1:9", "n", *KEYS, "--root", "x.pem"), "--root is for --quic"),
        (("send", "127.0.0.1:9", "n", *KEYS, "--quic", "--root", "/nowhere/x.pem"), "there is no file /nowhere/x.pem"),
        (("listen", "--quic"), "--certificate FILE and --key FILE"),
        (("listen", "--quic", "--certificate", "x.pem"), "go together"),
        (("listen", "--key", "x.pem"), "are for --quic"),
        (("listen", "--quic", "--certificate", "/nowhere/c", "--key", "/nowhere/k"), "there is no file /nowhere/c"),
    ],
)
def test_misuse_is_one_line(weft: Weft, arguments: tuple[str, ...], told: str) -> None:
    outcome = weft("emm", *arguments)
    assert outcome.status in (1, 2)
    assert told in " ".join(outcome.err.split())


@contextmanager
def sending(port: int, roots: bytes, packet: bytes) -> Iterator[None]:
    """Again and again, until the command has seen it."""
    over = threading.Event()

    def send() -> None:
        while not over.wait(0.05):
            with suppress(PeerError, TimeoutError):  # it does not listen yet, or no longer
                asyncio.run(asyncio.wait_for(send_packet(("127.0.0.1", port), packet, roots), 2))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.req("EMM-28")
@pytest.mark.parametrize("how", ["data", "files"])
def test_listen_for_quic_with_a_certificate(weft: Weft, tmp_path: Path, how: str) -> None:
    flags: tuple[str, ...] = ()
    data, port = private_directory(tmp_path / "a"), free_port()
    SENSOR.trust(data)
    if how == "data":
        credentials = pki.issued(pki.authority(tmp_path, now_s=pki.wall()), now_s=pki.wall())
        CertificateStore(tls_directory(data)).save(credentials)
        roots = credentials.root_pem
    else:
        pinned, certificate, key = signed_by_itself(), tmp_path / "c.pem", tmp_path / "k.pem"
        certificate.write_bytes(pinned.chain_pem)
        key.write_bytes(pinned.key_pem.reveal())
        key.chmod(0o600)
        roots, flags = pinned.chain_pem, ("--certificate", str(certificate), "--key", str(key))
    listen = ("emm", "listen", "--quic", "--listen", f"127.0.0.1:{port}", "--data", str(data), *flags, "--json")
    with sending(port, roots, SENSOR.event("plant.temp", 7, at_s=int(time.time()))):
        heard = weft(*listen, "--count", "1", "--timeout", str(WAIT_S))
    assert heard.status == 0
    (event,) = [each for each in heard.documents if "event" in each]
    assert (event["event"], event["verdict"]) == ("plant.temp", "verified")
    assert event["source"].startswith("quic/127.0.0.1:")
    assert f"listening on quic/127.0.0.1:{port}" in heard.err


def test_a_refusal_is_one_line_of_the_command(server: Server, tmp_path: Path) -> None:
    """In a process of its own, because tests have loggers that a command has not."""
    (tmp_path / "other.pem").write_bytes(signed_by_itself().chain_pem)
    send = ("emm", "send", server.address, "n", *KEYS, "--quic", "--root", str(tmp_path / "other.pem"))
    done = subprocess.run([*COMMAND, *send], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert done.stderr.startswith(f"weft: cannot connect to {server.address} over QUIC:")


def test_a_key_of_another_certificate_is_named(weft: Weft, tmp_path: Path) -> None:
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    certificate.write_bytes(signed_by_itself().chain_pem)
    key.write_bytes(signed_by_itself().key_pem.reveal())
    key.chmod(0o600)
    outcome = weft("emm", "listen", "--quic", "--certificate", certificate, "--key", key)
    assert (outcome.status, "is not that of the certificate" in " ".join(outcome.err.split())) == (1, True)


@pytest.mark.req("EMM-28")
def test_send_and_peers_at_a_node_as_users_start_it(weft: Weft, tmp_path: Path) -> None:
    data, mine = private_directory(tmp_path / "a"), private_directory(tmp_path / "mine")
    node_id, me = settle_identity(data, bytes(range(FRESH_BYTES))), settle_identity(mine, bytes(FRESH_BYTES))
    trusting(data, me)
    trusting(mine, node_id)
    file = tmp_path / "weft.toml"
    file.write_text('[gateway.emm]\nquic = "127.0.0.1:0"\n')
    with up(data, "--config", str(file), config=weft.config) as node:
        address, root = node.gateway("emm-quic"), tls_directory(data) / "root.pem"
        call = ("--data", mine, "--quic", "--root", root)
        assert weft("emm", "send", address, "plant.temp", "21.5", *call).status == 0
        heard = weft("sub", "emm.>", "--from", "earliest", "--count", "1")
        assert "21.5" in heard.out
        (peer,) = weft("emm", "peers", address, *call, "--timeout", str(WAIT_S), "--json").document
        assert (peer["node_id"], peer["address"]) == (str(node_id.node_id), f"quic/{address}")
        nobody = weft("emm", "peers", "127.0.0.1:9", *call, "--timeout", "0.2")
        assert (nobody.status, "over QUIC" in nobody.err) == (1, True)
        node.end_quietly()


@pytest.mark.req("EMM-28", "EMC-11", "EMC-12")
def test_emm_c_over_the_gateway_of_a_node_that_has_quic_alone(weft: Weft, tmp_path: Path) -> None:
    """Somebody joins, somebody listens, and gets what a third one sends."""
    mine, theirs, data = tmp_path / "mine", tmp_path / "theirs", tmp_path / "node"
    me, them, node_identity = compact.member(mine, 0), compact.member(theirs, 1), compact.member(data, 2)
    compact.trusting(data, me, them)
    compact.trusting(mine, node_identity)
    compact.trusting(theirs, node_identity, me)
    credentials = pki.issued(pki.authority(tmp_path, now_s=pki.wall()), now_s=pki.wall())
    CertificateStore(tls_directory(theirs)).save(credentials)
    file = tmp_path / "weft.toml"
    file.write_text('[gateway.emm]\nquic = "127.0.0.1:0"\n')
    with up(data, "--config", str(file)) as node:
        gateway, by_quic = node.gateway("emm-quic"), ("--quic", "--root", tls_directory(data) / "root.pem")
        join = ("emm", "compact", "join", gateway, "--data", mine, *by_quic, "--timeout", str(WAIT_S), "--json")
        (found,) = weft(*join).document
        assert (found["node_id"], found["address"]) == (str(node_identity.node_id), f"quic/{gateway}")
        listen = ("emm", "compact", "listen", "--listen", "127.0.0.1:0", "--join", gateway, "--data", theirs, *by_quic)
        with compact.command_running(*listen, "--count", 2, "--json") as listening, ended_in_time(listening):
            compact.wait_for_neighbour(node, them)
            sent = ("--data", mine, *by_quic)
            assert weft("emm", "compact", "send", gateway, "tea is ready", *sent).status == 0
            assert weft("emm", "compact", "command", gateway, "stop", *sent).status == 0
            output, _ = listening.communicate()
        assert listening.returncode == 0
        heard = {each["type"]: each for each in map(json.loads, output.splitlines()) if "type" in each}
        assert (heard["notification"]["message"], heard["command"]["name"]) == ("tea is ready", "stop")
        assert {each["source"] for each in heard.values()} == {f"quic/{gateway}"}
        node.end_quietly()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("send", "127.0.0.1:9", "x", *compact.BY_GROUP, "--quic"), "give --root FILE"),
        (("send", "127.0.0.1:9", "x", *compact.BY_GROUP, "--root", "x.pem"), "--root is for --quic"),
        (("listen", "--data", "a", "--root", "x.pem"), "--root is for --quic"),
        (("listen", "--data", "a", "--quic"), "--certificate FILE and --key FILE"),
        (("join", "127.0.0.1:9", "--data", "a", "--quic"), "give --root FILE"),
    ],
)
def test_misuse_with_emm_c_is_one_line(
    weft: Weft, arguments: tuple[str, ...], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compact.member(tmp_path / "a", 0)
    monkeypatch.chdir(tmp_path)
    outcome = weft("emm", "compact", *arguments)
    assert outcome.status in (1, 2)
    assert told in " ".join(outcome.err.split())


def test_hops_are_not_counted_over_quic(weft: Weft, server: Server) -> None:
    call = ("emm", "compact", "send", server.address, "x", *compact.BY_GROUP, "--quic", "--root", server.root)
    assert "--ttl is for UDP" in weft(*call, "--ttl", "5").err
    assert (weft(*call, "--json").document["ttl"], len(server.came)) == (64, 1)
