"""``weft ca``: a CA from its making to a renewed certificate, and each mistake in one line."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.cli.commands import Outcome, Weft
from tests.up import END_TIMEOUT_S
from weft.security import CertificateStore, Secret
from weft.security.tokens import read_token_untrusted


def made(weft: Weft, data: Path, *flags: str) -> Outcome:
    outcome = weft("ca", "init", "--data", data, "--json", *flags)
    assert outcome.status == 0, outcome.err
    return outcome


@pytest.mark.req("SEC-01")
def test_init_and_show(weft: Weft, tmp_path: Path) -> None:
    data = tmp_path / "data"
    document = made(weft, data, "--mesh", "plant", "--lifetime", "12h").document
    assert (document["mesh"], document["url"], document["lifetime_s"]) == ("plant", "https://127.0.0.1:7443", 43_200)
    assert weft("ca", "show", "--data", data, "--json").document == document
    shown = weft("ca", "show", "--data", data).out
    assert f"fingerprint: {document['fingerprint']}\n" in shown
    assert "PRIVATE" not in shown


@contextmanager
def serving(data: Path, port: int, files_max: int = 1024) -> Iterator[subprocess.Popen[str]]:
    command = ["sh", "-c", 'ulimit -n "$0" && exec "$@"', str(files_max)]
    command += [sys.executable, "-c", "from weft.cli.main import main; main()", "ca", "serve"]
    command += ["--data", str(data), "--listen", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.req("SEC-01")
def test_a_token_carries_a_new_node_to_its_certificate(weft: Weft, tmp_path: Path) -> None:
    data, to = tmp_path / "data", tmp_path / "tls"
    with socket.socket() as holder:  # keeps the port, which the token has to name, for one more socket like itself
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        made(weft, data, "--url", f"https://127.0.0.1:{port}")
        enrol_and_renew(weft, data, to, port)
    assert "cannot reach the CA" in weft("ca", "renew", "--to", to).err


@pytest.mark.req("SEC-04")
def test_an_idle_crowd_does_not_stop_a_ca_that_may_open_few_files(weft: Weft, tmp_path: Path) -> None:
    with socket.socket() as holder, ExitStack() as crowd:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        made(weft, tmp_path / "data", "--url", f"https://127.0.0.1:{port}")
        with serving(tmp_path / "data", port, files_max=64) as process:
            for _ in range(100):
                crowd.enter_context(socket.create_connection(("127.0.0.1", port), END_TIMEOUT_S))
            trusted = ssl.create_default_context(cafile=tmp_path / "data" / "ca" / "root.pem")
            with urlopen(f"https://127.0.0.1:{port}/health", timeout=END_TIMEOUT_S, context=trusted) as answer:
                assert json.load(answer) == {"status": "ok"}
            process.send_signal(signal.SIGTERM)
            assert process.wait(END_TIMEOUT_S) == 0


def enrol_and_renew(weft: Weft, data: Path, to: Path, port: int) -> None:
    with serving(data, port) as process:
        token = weft("ca", "token", "node-b", "--data", data, "--host", "node-b.example").out
        enrolled = weft("ca", "enrol", "--to", to, "--json", stdin=token.encode())
        assert enrolled.status == 0, enrolled.err
        assert enrolled.document["identity"] == "spiffe://weft/node/node-b"
        assert enrolled.document["hosts"] == ["node-b.example"]
        renewed = weft("ca", "renew", "--to", to, "--json")
        assert renewed.status == 0, renewed.err
        assert renewed.document["fingerprint"] != enrolled.document["fingerprint"]
        again = weft("ca", "enrol", "--to", to.with_name("more"), "--token", token.strip())
        assert again.status == 1
        assert "was used before" in again.err
        assert token.strip() not in again.err

        revoked = weft("ca", "revoke", "node-b", "--data", data)
        assert (revoked.status, revoked.out) == (0, "")
        assert revoked.err == "node node-b gets no more certificates; one that it has ends within a day\n"
        assert "was revoked" in weft("ca", "renew", "--to", to).err
        assert "was revoked" in weft("ca", "issue", "node-b", "--data", data, "--to", to.with_name("more")).err
        assert weft("ca", "allow", "node-b", "--data", data).status == 0
        assert weft("ca", "renew", "--to", to).status == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(END_TIMEOUT_S) == 0


def test_a_token_as_json_for_scripts(weft: Weft, tmp_path: Path) -> None:
    fingerprint = made(weft, tmp_path).document["fingerprint"]
    document = weft("ca", "token", "billing", "--client", "--data", tmp_path, "--json").document
    assert (document["url"], document["fingerprint"]) == ("https://127.0.0.1:7443", fingerprint)
    claims = read_token_untrusted(Secret(document["token"]))
    assert claims.sans == ["spiffe://weft/client/billing"]


@pytest.mark.req("SEC-01")
def test_a_certificate_without_a_detour(weft: Weft, tmp_path: Path) -> None:
    made(weft, tmp_path)
    outcome = weft("ca", "issue", "billing", "--client", "--data", tmp_path, "--to", tmp_path / "tls")
    assert "identity: spiffe://weft/client/billing\n" in outcome.out
    found = CertificateStore(tmp_path / "tls").load()
    assert found is not None
    assert found.identity.uri == "spiffe://weft/client/billing"


@pytest.mark.req("SEC-01")
def test_rotation_and_its_rehearsal(weft: Weft, tmp_path: Path) -> None:
    made(weft, tmp_path)
    before = (tmp_path / "ca" / "intermediate.pem").read_bytes()
    assert "nothing was changed" in weft("ca", "rotate", "--rehearse", "--data", tmp_path).err
    assert (tmp_path / "ca" / "intermediate.pem").read_bytes() == before
    assert weft("ca", "rotate", "--data", tmp_path, "--json").document["rotated"] is True
    assert (tmp_path / "ca" / "intermediate.pem").read_bytes() != before
    assert "rotated: the intermediate is now" in weft("ca", "rotate", "--data", tmp_path).err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "--data", "none"), "there is no CA in none/ca: weft ca init makes one"),
        (("init", "--data", "here"), "has a CA already"),
        (("init", "--data", "x", "--mesh", "My Mesh"), "is not a name for a mesh"),
        (("init", "--data", "x", "--url", "http://a"), "is not the address of a CA"),
        (("init", "--data", "x", "--lifetime", "1000d"), "lifetime of certificates is out of range"),
        (("token", "a b", "--data", "here"), "is no name for a node"),
        (("token", "a", "--data", "here", "--host", "*"), "neither a host name"),
        (("allow", "a", "--data", "here"), "was not revoked"),
        (("enrol", "--to", "x", "--token", "abc"), "not a token"),
        (("renew", "--to", "x"), "does not say where its certificate came from: give --url"),
        (("renew", "--to", "x", "--url", "https://127.0.0.1:1"), "no certificate to renew"),
        (("serve", "--data", "here", "--listen", "nowhere"), "is not HOST:PORT"),
    ],
)
def test_mistakes_are_one_line(
    weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if "here" in arguments:
        made(weft, Path("here"))
    outcome = weft("ca", *arguments)
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err.startswith("weft: ")
    assert words in " ".join(outcome.err.split())
