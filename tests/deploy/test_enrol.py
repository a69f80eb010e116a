"""weft-enrol: with secrets as Kubernetes mounts them, a node gets a certificate and clients' keys, and joins."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import Weft
from tests.deploy.files import ENROL, compose_nodes, moved, path, started, status_of
from tests.up import END_TIMEOUT_S

HOSTS = ("a", "localhost")


@pytest.fixture
def weft(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Weft:
    return Weft(monkeypatch, capsys, tmp_path / "config")


@pytest.fixture
def mesh(weft: Weft, tmp_path: Path) -> Path:
    """What `weft ca init` makes."""
    assert weft("ca", "init", "--data", tmp_path / "mesh").status == 0
    return tmp_path / "mesh"


def mounted(directory: Path, *files: Path) -> Path:
    """As a Secret with a group appears: links, in a directory with hidden ones, to files that the group can read."""
    (directory / "..data").mkdir(parents=True)
    for file in files:
        shutil.copy(file, directory / "..data")
        (directory / "..data" / file.name).chmod(0o440)
        (directory / file.name).symlink_to(Path("..data") / file.name)
    return directory


def enrolled(ca: Path, keys: Path, data: Path) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": path(), "WEFT_NODE_ID": "a", "WEFT_NODE_DATA": str(data)}
    command = ["sh", str(ENROL), str(ca), str(keys), *HOSTS]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=END_TIMEOUT_S, check=False)


@pytest.mark.req("OPS-01", "SEC-01")
def test_a_node_of_the_compose_file_enrols_serves_and_ends_well(weft: Weft, mesh: Path, tmp_path: Path) -> None:
    made = weft("keys", "create", "--data", mesh, "--name", "admin", "--publish", ">")
    client = tmp_path / "client"
    assert weft("ca", "issue", "admin", "--client", "--data", mesh, "--to", client).status == 0
    (mesh / "ca" / "root-key.pem").unlink()
    data = tmp_path / "data"
    data.mkdir()
    (data / "trust.json").touch(0o660)  # as a volume that was mounted for a group leaves it
    ca, keys = mounted(tmp_path / "ca", *(mesh / "ca").iterdir()), mounted(tmp_path / "keys", mesh / "keys.json")
    outcome = enrolled(ca, keys, data)
    assert outcome.returncode == 0, outcome.stderr
    assert "spiffe://weft/node/a" in outcome.stdout
    assert all(file.stat().st_mode & 0o077 == 0 for file in data.rglob("*"))
    (data / "trust.json").unlink()

    given = compose_nodes()["a"]["environment"]
    peers = given.pop("WEFT_PEERS")  # neither they nor their names are there
    environ = {name: moved(value, data) for name, value in given.items()}
    with started(["weft", "up"], {**environ, "WEFT_PEERS": peers}) as node:
        assert status_of(node, "/readyz") == 200
        files = {"root": "root.pem", "certificate": "identity.pem", "key": "identity.pem"}
        flags = [f"--tls-{name}={client / file}" for name, file in files.items()]
        address = f"localhost:{node.grpc.rpartition(':')[2]}"
        assert weft("context", "add", "mesh", "--node", address, "--token", made.out.strip(), *flags).status == 0
        published = weft("pub", "plant.line1.temp", "21.5")
        assert published.status == 0, published.err
        assert node.end(signal.SIGTERM) == 0


def test_a_revoked_node_gets_nothing(weft: Weft, mesh: Path, tmp_path: Path) -> None:
    assert weft("ca", "revoke", "a", "--data", mesh).status == 0
    ca, keys = mounted(tmp_path / "ca", *(mesh / "ca").glob("*.*")), mounted(tmp_path / "keys")
    outcome = enrolled(ca, keys, tmp_path / "data")
    assert outcome.returncode == 1
    assert "was revoked: it gets no certificates (weft ca allow permits the name again)" in outcome.stderr
    assert not (tmp_path / "data" / "tls").exists()


def test_it_can_be_run() -> None:
    assert os.access(ENROL, os.X_OK)
