"""A real step-ca gives nodes their certificates: tokens, ``weft ca enrol`` and ``renew``, and ``weft up --ca``.

It is configured with files of ``weft ca init``: root, intermediate, and the key that signs tokens,
which is that of its JWK provisioner. ``weft ca token`` stands in for ``step ca token``.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509

from tests.cli.commands import Weft
from tests.transport.held_port import held_port
from tests.up import COMMAND, END_TIMEOUT_S, RunningNode, up
from weft.security import Authority, CertificateStore, ca_directory, tls_directory
from weft.security.authority import PROVISIONER
from weft.security.certificates import key_pem, to_pem
from weft.security.enrolment import fetch_root
from weft.security.errors import EnrolmentFailed
from weft.security.urls import parse_url

BUILT = sorted((Path(__file__).parents[3] / "build" / "interop" / "step-ca").glob("*/step-ca"))
POLL_S = 0.1
# step-ca dates certificates back by a minute. So two thirds of a life are over after ten seconds, and 35 s are left.
LIFETIME = "45s"

pytestmark = pytest.mark.skipif(not BUILT, reason="there is no step-ca: `make peers` builds one where Go is")


@dataclass(frozen=True)
class StepCa:
    """It runs at ``url``. ``data`` has the files of ``weft ca init``."""

    url: str
    data: Path
    fingerprint: str

    def token(self, node_id: str) -> str:
        arguments = ("ca", "token", node_id, "--data", str(self.data), "--host", "127.0.0.1", "--host", "localhost")
        done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=END_TIMEOUT_S, check=True)
        return done.stdout


@pytest.fixture
def step_ca(weft: Weft, tmp_path: Path) -> Iterator[StepCa]:
    data, home = tmp_path / "data", tmp_path / "step-ca"
    with held_port() as port:
        url = f"https://127.0.0.1:{port}"
        assert weft("ca", "init", "--data", data, "--url", url).status == 0
        authority = Authority.open(ca_directory(data))
        config = configured(authority, home, port)
        with serving(config, home / "log"):
            until(lambda: answers(url, authority.fingerprint), (home / "log").read_text)
            yield StepCa(url, data, authority.fingerprint)


def configured(authority: Authority, home: Path, port: int) -> Path:
    """Its files, as its own tool lays them out."""
    home.mkdir()
    jwk = json.loads((authority.directory / PROVISIONER).read_text())
    jwk.pop("d")  # step-ca checks tokens and makes none
    signer = authority.signer
    (home / "intermediate.crt").write_bytes(to_pem([signer.certificate]))
    (home / "intermediate.key").write_bytes(key_pem(signer.key).reveal())
    (home / "root.crt").write_bytes(authority.root_pem)
    lifetimes = {"minTLSCertDuration": "5s", "defaultTLSCertDuration": LIFETIME}
    provisioner = {"type": "JWK", "name": "weft", "key": jwk, "claims": lifetimes}
    config = home / "ca.json"
    config.write_text(
        json.dumps(
            {
                "root": str(home / "root.crt"),
                "crt": str(home / "intermediate.crt"),
                "key": str(home / "intermediate.key"),
                "address": f"127.0.0.1:{port}",
                "dnsNames": ["127.0.0.1"],
                "logger": {"format": "json"},
                "authority": {"provisioners": [provisioner]},
            }
        )
    )
    return config


@contextmanager
def serving(config: Path, log: Path) -> Iterator[None]:
    with log.open("wb") as stream:
        process = subprocess.Popen([BUILT[-1], config], stdout=stream, stderr=stream)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def answers(url: str, fingerprint: str) -> bool:
    try:
        fetch_root(parse_url(url), fingerprint)
    except EnrolmentFailed:
        return False
    return True


def until(holds: Callable[[], bool], describe: Callable[[], str]) -> None:
    deadline_s = time.monotonic() + END_TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline_s, describe()
        time.sleep(POLL_S)


def figure(node: RunningNode, name: str) -> float:
    (value,) = re.findall(rf"^{re.escape(name)} (\S+)$", node.metrics(), re.MULTILINE)
    return float(value)


def certificate(data: Path) -> x509.Certificate:
    found = CertificateStore(tls_directory(data)).load()
    assert found is not None
    return x509.load_pem_x509_certificate(found.chain_pem)


@pytest.mark.req("SEC-01")
def test_a_token_becomes_a_certificate_once_and_it_is_renewed(weft: Weft, step_ca: StepCa, tmp_path: Path) -> None:
    to, token = tmp_path / "tls", step_ca.token("node-b")
    enrolled = weft("ca", "enrol", "--to", to, "--json", stdin=token.encode())
    assert enrolled.status == 0, enrolled.err
    assert enrolled.document["identity"] == "spiffe://weft/node/node-b"
    assert set(enrolled.document["hosts"]) == {"127.0.0.1", "localhost"}
    renewed = weft("ca", "renew", "--to", to, "--json")
    assert renewed.status == 0, renewed.err
    assert renewed.document["identity"] == enrolled.document["identity"]
    assert renewed.document["fingerprint"] != enrolled.document["fingerprint"]

    again = weft("ca", "enrol", "--to", tmp_path / "more", stdin=token.encode())
    assert again.status == 1
    assert f"the CA at {step_ca.url} refused: " in again.err and token.strip() not in again.err
    other = tmp_path / "other"
    assert weft("ca", "init", "--data", other, "--url", step_ca.url).status == 0
    stranger = weft("ca", "token", "node-c", "--data", other).out
    flags = ("--fingerprint", step_ca.fingerprint)
    refused = weft("ca", "enrol", "--to", tmp_path / "more", *flags, stdin=stranger.encode())
    assert refused.status == 1 and "refused: " in refused.err, "a token that another key signed"


@pytest.mark.req("SEC-01")
def test_nodes_enrol_link_and_renew(step_ca: StepCa, tmp_path: Path) -> None:
    """Two nodes that have no other CA. They renew while they run, and still know each other."""

    def node(node_id: str, *flags: str) -> AbstractContextManager[RunningNode]:
        token = step_ca.token(node_id)
        return up(tmp_path / node_id, "--node-id", node_id, "--ca", step_ca.url, "--token", "-", *flags, stdin=token)

    with node("a") as first, node("b", "--peer", first.grpc) as second:
        for each in (first, second):
            until(partial(is_linked, each), each.said)
        serials = [certificate(tmp_path / each).serial_number for each in "ab"]
        for each, data, serial in zip((first, second), "ab", serials, strict=True):
            until(partial(is_renewed, each, tmp_path / data, serial), each.said)
            until(partial(is_linked, each), each.said)
        second.end_quietly()
        first.end_quietly()


def is_linked(node: RunningNode) -> bool:
    return figure(node, 'weft_members{liveness="alive"}') == 2


def is_renewed(node: RunningNode, data: Path, serial: int) -> bool:
    return certificate(data).serial_number != serial and figure(node, "weft_certificate_renewals_total") >= 1
