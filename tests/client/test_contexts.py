"""Where a client connects and as whom when it is told a context, or nothing at all; and files that are read anew."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from tests.client.fake import FakeNode
from weft.client.nodes import Nodes
from weft.client.options import Options
from weft.contexts import Context, Contexts, write_contexts
from weft.errors import UsageError
from weft.security import Authority, AuthoritySettings, LocalSource, Names, client

NOW_S = 1_800_000_000.0


@pytest.fixture
def contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEFT_CONFIG_DIR", str(tmp_path))
    monkeypatch.delenv("WEFT_CONTEXT", raising=False)
    return tmp_path / "contexts.toml"


async def test_without_nodes_the_context_says_where(contexts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = FakeNode()
    await node.start()
    try:
        here, nowhere = Context((node.address,), insecure=True), Context(("127.0.0.1:1",), insecure=True)
        write_contexts(contexts, Contexts("here", {"here": here, "nowhere": nowhere}))
        async with weft.connect() as current:
            await current.publish("t", b"1")
        write_contexts(contexts, Contexts("nowhere", {"here": here, "nowhere": nowhere}))
        async with weft.connect(context="here") as named:
            await named.publish("t", b"2")
        async with weft.connect(node.address, context="nowhere") as elsewhere:
            await elsewhere.publish("t", b"3")
        monkeypatch.setenv("WEFT_CONTEXT", "here")
        async with weft.connect() as by_environment:
            await by_environment.publish("t", b"4")
    finally:
        await node.stop()


def test_nothing_to_go_by_is_told(contexts: Path) -> None:
    with pytest.raises(UsageError, match="no nodes were given and there is no context"):
        weft.connect()
    with pytest.raises(UsageError, match="no context is called 'absent'"):
        weft.connect(context="absent")
    write_contexts(contexts, Contexts("bare", {"bare": Context(("127.0.0.1:1",))}))
    with pytest.raises(UsageError, match="no security given"):
        weft.connect()


def made(directory: Path, name: str = "x") -> weft.TlsFiles:
    ca = Authority.create(directory / "ca", AuthoritySettings("weft", "https://127.0.0.1:1"), NOW_S)
    found = LocalSource(ca).enrol(Names(client("weft", name)), NOW_S)
    root, identity = directory / "root.pem", directory / "identity.pem"
    root.write_bytes(found.root_pem)
    identity.write_bytes(found.key_pem.reveal() + found.chain_pem)
    return weft.TlsFiles(root, identity, identity)


def nodes_with(tls: weft.TlsFiles | weft.ClientTls) -> Nodes:
    options = Options(connect_timeout_s=0.2)
    return Nodes(["127.0.0.1:1"], tls=tls, token=None, name="", options=options, hooks=weft.Hooks(), chance=lambda: 0.5)


@pytest.mark.req("SEC-01")
async def test_certificates_are_read_again_for_every_connection(tmp_path: Path) -> None:
    nodes = nodes_with(made(tmp_path))
    with pytest.raises(weft.client.Unavailable, match=r"no node answers \(127\.0\.0\.1:1: cannot connect"):
        await nodes.connect()
    (tmp_path / "identity.pem").write_text("-----BEGIN CERTIFICATE-----\nnonsense")
    with pytest.raises(UsageError, match="the client certificate and its key cannot be used"):
        await nodes.connect()
    await nodes.close()


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*absent"):
        weft.TlsFiles(tmp_path / "absent").read()


@pytest.mark.req("SEC-01")
async def test_a_file_that_holds_no_certificate_is_named(tmp_path: Path) -> None:
    root = tmp_path / "root.pem"
    root.write_text("nonsense")

    with pytest.raises(UsageError, match=r"root\.pem is not a PEM file"):
        await nodes_with(weft.TlsFiles(root)).connect()
