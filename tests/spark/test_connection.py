"""Where a job connects and as whom."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkFiles

from weft.contexts import Context, Contexts, contexts_path, write_contexts
from weft.errors import UsageError
from weft.references import SECRET_FILE_BYTES_MAX, find_file
from weft.spark.connection import Connection
from weft.spark.option_values import BadOption
from weft.testing import blocking_mesh


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with blocking_mesh(1) as mesh:
        yield mesh.address("n0")


def test_options_become_a_connection_that_can_travel() -> None:
    connection = Connection.from_options(
        {"nodes": "a:1, b:2", "token": "env:KEY", "tlsRoot": "r", "tlsCertificate": "c", "tlsKey": "k", "other": "x"}
    )
    assert connection == Connection(("a:1", "b:2"), None, "env:KEY", "r", "c", "k", insecure=False)
    assert pickle.loads(pickle.dumps(connection)) == connection
    assert Connection.from_options({}) == Connection()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"token": "weft_k3_secret"}, "a key must not stand in one"),
        ({"nodes": "a"}, "option nodes"),
        ({"nodes": "a:1"}, "option nodes needs security"),
        ({"nodes": "a:1", "insecure": "true", "tlsRoot": "r"}, "contradict"),
        ({"nodes": "a:1", "tlsRoot": "r", "tlsKey": "k"}, "go together"),
        ({"tlsCertificate": "c", "tlsKey": "k"}, "need tlsRoot"),
    ],
)
def test_mistakes_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(BadOption, match=message) as raised:
        Connection.from_options(options)
    assert "secret" not in str(raised.value)


def test_a_process_has_one_client_for_the_same_nodes(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection((address,), insecure=True)
    client = connection.client()
    assert connection.client(address) is client
    assert pickle.loads(pickle.dumps(connection)).client() is client
    assert client.status().node_id == "n0"
    own = connection.new_client()
    assert own is not client
    own.close()
    client.close()
    client = connection.client()
    assert client.status().node_id == "n0", "one that somebody closed is not handed out again"
    monkeypatch.setenv("KEY", "one")
    keyed = Connection((address,), insecure=True, token="env:KEY")
    before = keyed.client()
    assert before is not client
    monkeypatch.setenv("KEY", "two")
    assert keyed.client() is not before, "a new key makes a new client"
    process = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: process + 1)
    forked = connection.client()
    assert forked is not client, "never across a fork"
    for each in (client, before, keyed.client(), forked):
        each.close()


def test_a_context_is_looked_up_where_it_is_used(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CONFIG_DIR", str(tmp_path))
    there, nowhere = Context((address,), insecure=True), Context(("127.0.0.1:1",), insecure=True)
    for connection in (Connection(context="plant"), Connection()):
        with pytest.raises(UsageError, match="no context"):
            connection.addresses()
    write_contexts(contexts_path(os.environ), Contexts("plant", {"plant": there, "other": nowhere}))
    for connection in (Connection(context="plant"), Connection(), Connection((address,), context="other")):
        assert connection.addresses() == (address,)
        with connection.new_client() as client:
            assert client.status().node_id == "n0"


def test_files_lie_here_or_came_with_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, sent = tmp_path / "here", tmp_path / "sent"
    here.mkdir()
    sent.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    monkeypatch.setattr(SparkFiles, "_root_directory", str(sent))
    assert find_file("/absolute") == Path("/absolute")
    assert find_file("root.pem") == Path("root.pem")
    (sent / "root.pem").touch()
    assert find_file("root.pem") == sent / "root.pem"
    (here / "root.pem").touch()
    assert find_file("root.pem") == Path("root.pem")


def test_files_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", False)
    monkeypatch.setattr(SparkFiles, "_sc", None)
    assert find_file("absent.pem") == Path("absent.pem")


def test_keys_are_read_where_the_reference_says(tmp_path: Path, address: str) -> None:
    def fails(reference: str, message: str) -> None:
        with pytest.raises(UsageError, match=message):
            Connection((address,), insecure=True, token=reference).new_client()

    fails("env:WEFT_NOT_THERE", "no variable WEFT_NOT_THERE")
    fails(f"file:{tmp_path}/absent", "cannot read .*absent on this machine")
    path = tmp_path / "key"
    for content in (b"", b" \n", b"k" * (SECRET_FILE_BYTES_MAX + 1)):
        path.write_bytes(content)
        fails(f"file:{path}", "holds no key")
    path.write_bytes(b"\xff")
    fails(f"file:{path}", "holds no key: it has a byte that is not ASCII")
    path.write_bytes(b"weft_k3_secret\n")
    with Connection((address,), insecure=True, token=f"file:{path}").new_client() as client:
        assert client.status().node_id == "n0"
    access = Connection((address,), insecure=True, token=f"file:{path}").access()
    assert access.token == "weft_k3_secret"
    assert "secret" not in repr(access)
