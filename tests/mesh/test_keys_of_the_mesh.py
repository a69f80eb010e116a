"""API keys belong to the mesh: three nodes as users start them, secured, in a chain a - b - c (SEC-03)."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

import weft
from tests.mesh.watching import until
from tests.node.secured import key_for, token_from
from tests.security.attacks.test_one_bad_node_of_weft_up import evil_at
from tests.up import COMMAND, END_TIMEOUT_S, RunningNode, up
from weft.client import Connecting, Unauthenticated
from weft.security import CertificateStore, KeyRequest, new_key, revoke_key
from weft.security.certificates import load_key
from weft.security.key_statements import DOMAIN, KeyMade, sign
from weft.wire.mesh import peerlink_pb2 as pb


class Chain:
    """The nodes that run now, by name, and how to start one again."""

    def __init__(self, directory: Path, parts: ExitStack) -> None:
        self.directory = directory
        self._parts = parts
        self.ca = "127.0.0.1:0"
        self.nodes: dict[str, RunningNode] = {}
        self._addresses: dict[str, str] = {}

    def data(self, name: str) -> Path:
        return self.directory / name

    def start(self, name: str, to: str | None = None, *flags: str) -> RunningNode:
        options = ["--node-id", name, *flags]
        if name in self._addresses:
            options += ["--listen", self._addresses[name]]
        stdin = ""
        if to is not None:
            first = self.nodes["a"]
            options += ["--peer", self.nodes[to].grpc, "--ca", f"https://{first.ready['ca']}"]
            if name not in self._addresses:
                options += ["--token", "-"]
                stdin = token_from(self.data("a"), name)
        else:
            options += ["--ca-listen", self.ca]
        node = self._parts.enter_context(up(self.data(name), *options, stdin=stdin))
        self.nodes[name] = node
        self._addresses[name] = node.grpc
        if to is None:
            self.ca = str(node.ready["ca"])
        return node

    def client(self, key: str, *names: str) -> Connecting:
        context = self.nodes["a"].context
        assert context.tls_root
        return weft.connect(
            [self._addresses[name] for name in names], token=key, tls=weft.TlsFiles(Path(context.tls_root))
        )

    def blocking_client(self, name: str) -> weft.sync.Client:
        context = self.nodes["a"].context
        assert context.tls_root
        return weft.sync.connect(self._addresses[name], token=self.admin, tls=weft.TlsFiles(Path(context.tls_root)))

    @property
    def admin(self) -> str:
        """The key that the first start made."""
        token = self.nodes["a"].context.token
        assert token is not None
        return token

    def command(self, *arguments: str, status: int = 0) -> Any:
        """``weft keys ... --json`` with the context of the first node."""
        environ = {**os.environ, "WEFT_CONFIG_DIR": str(self.nodes["a"].config)}
        outcome = subprocess.run(
            [*COMMAND, "keys", *arguments],
            capture_output=True,
            text=True,
            timeout=END_TIMEOUT_S,
            env=environ,
            check=False,
        )
        assert outcome.returncode == status, outcome.stderr
        return msgspec.json.decode(outcome.stdout) if "--json" in arguments and status == 0 else outcome


@contextmanager
def chain(directory: Path, *names: str, flags: tuple[str, ...] = ()) -> Iterator[Chain]:
    with ExitStack() as parts:
        mesh = Chain(directory, parts)
        before = None
        for name in names:
            mesh.start(name, before, *flags)
            before = name
        yield mesh


async def is_good(mesh: Chain, key: str, name: str) -> bool:
    try:
        async with mesh.client(key, name) as client:
            await client.publish("plant.t", name.encode())
    except Unauthenticated:
        return False
    return True


async def is_refused(mesh: Chain, key: str, name: str) -> bool:
    return not await is_good(mesh, key, name)


async def until_good(mesh: Chain, key: str, *names: str) -> None:
    for name in names:
        await until(partial(is_good, mesh, key, name))


async def until_refused(mesh: Chain, key: str, *names: str) -> None:
    for name in names:
        await until(partial(is_refused, mesh, key, name))


def logged(node: RunningNode, event: str, **facts: Any) -> bool:
    return any(line["event"] == event and facts.items() <= line.items() for line in node.logged())


@pytest.mark.req("SEC-03", "SEC-05")
async def test_a_key_made_at_one_node_is_good_at_all_until_it_is_revoked_at_another(tmp_path: Path) -> None:
    """First, only the node that made it knew it: clients that failed over were refused, and people copied files."""

    with chain(tmp_path, "a", "b", "c") as mesh:
        a, b = mesh.nodes["a"], mesh.nodes["b"]
        await until_good(mesh, mesh.admin, "c")  # which was made at a, two hops away
        async with mesh.client(mesh.admin, "c") as at_c:
            quota = {"topics": 7, "subscriptions": 3}
            made = await at_c.create_key("meters", publish=["plant.>"], subscribe=["plant.>"], quota=quota)
        key, key_id = made.key, made.info.id
        assert (made.info.made_by, made.info.quota) == ("c", quota)
        await until_good(mesh, key, "a", "b", "c")
        assert logged(b, "key_learned", key=key_id, made_by="c", peer="c")
        assert logged(a, "key_learned", key=key_id, made_by="c", peer="b")
        async with (
            mesh.client(mesh.admin, "a") as admin,
            mesh.client(key, "b", "a") as client,
            client.subscribe("plant.>", start="latest") as events,
        ):
            await events.opened()
            assert b.end(signal.SIGKILL) == -signal.SIGKILL
            arriving = aiter(events)
            fetched = asyncio.ensure_future(anext(arriving))
            while not fetched.done():  # the client goes to a, with the same key
                await admin.publish("plant.t", b"after b")
                await asyncio.wait([fetched], timeout=0.1)
            assert (await fetched).payload == b"after b"
            (shown,) = await admin.keys(key_id)
            assert (shown.used["subscriptions"], shown.limits["topics"], shown.made_by) == (1, 7, "c")
            mesh.start("b", "a")
            async with mesh.client(mesh.admin, "c") as at_c:
                assert (await at_c.revoke_key(key_id)).id == key_id
                assert (await at_c.revoke_key(key_id)).id == key_id, "asked again, it says the same"
            with pytest.raises(Unauthenticated, match=f"key {key_id} was revoked"):
                while True:
                    await anext(arriving)
        await until_refused(mesh, key, "a", "b", "c")
        assert logged(a, "key_revoked", key=key_id, revoked_by="c")
        assert 'weft_api_keys{state="revoked"} 1.0' in a.metrics()
        for name in "cba":
            mesh.nodes[name].end_quietly()


@pytest.mark.req("SEC-03")
async def test_a_node_that_could_not_hear_of_it_ends_the_streams_once_it_can(tmp_path: Path) -> None:
    with chain(tmp_path, "a", "b") as mesh:
        b = mesh.nodes["b"]
        await until_good(mesh, mesh.admin, "b")
        async with mesh.client(mesh.admin, "b") as admin, mesh.client(mesh.admin, "a") as at_a:
            made = await admin.create_key("reader", subscribe=["plant.>"])
            async with mesh.client(made.key, "b") as client, client.subscribe("plant.>") as events:
                await events.opened()
                await until(partial(knows, at_a, made.info.id))
                b.process.send_signal(signal.SIGSTOP)
                await at_a.revoke_key(made.info.id)
                b.process.send_signal(signal.SIGCONT)
                with pytest.raises(Unauthenticated, match=f"key {made.info.id} was revoked"):
                    await anext(aiter(events))
        mesh.nodes["b"].end_quietly()
        mesh.nodes["a"].end_quietly()


async def knows(admin: weft.Client, key_id: str) -> bool:
    return bool(await admin.keys(key_id))


@pytest.mark.req("SEC-03")
async def test_commands_at_any_node_and_beside_a_node_that_is_stopped(tmp_path: Path) -> None:
    async def made_while_stopped(mesh: Chain, key: str, gone: str) -> None:
        await until_good(mesh, key, "b", "a")
        await until_refused(mesh, gone, "a")

    async def restarted(mesh: Chain, kept: str, gone: str) -> None:
        assert await is_good(mesh, kept, "a"), "known from its disk"
        assert await is_refused(mesh, gone, "a")

    with chain(tmp_path, "a", "b") as mesh:
        await until_good(mesh, mesh.admin, "b")
        at_b = ("--node", mesh.nodes["b"].grpc, "--context", "default")
        made = mesh.command(
            "create", "--name", "meters", "--publish", "plant.>", "--quota", "topics=5", "--json", *at_b
        )
        assert (made["made_by"], made["by"]) == ("b", f"key {mesh.admin.split('_')[1]}")
        await until_good(mesh, made["key"], "a", "b")
        (shown,) = mesh.command("show", made["id"], "--json")
        assert (shown["quota"], shown["limits"]["topics"], shown["used"]["topics"]) == ({"topics": 5}, 5, 1)
        text = mesh.command("show", made["id"]).stdout
        assert "made: " in text and f"at node b by {made['by']}" in text and "topics: 5 (its own), 1 used" in text
        assert {each["name"] for each in mesh.command("ls", "--json", *at_b)} == {"the first key", "meters"}
        with mesh.blocking_client("b") as client:
            made_here = client.create_key("other", publish=["plant.>"])
            assert client.keys(made_here.info.id) == [made_here.info]
            short = client.create_key("short", publish=["plant.>"])
            assert client.revoke_key(short.info.id).name == "short" and not client.keys(short.info.id)
        other = {"key": made_here.key, "id": made_here.info.id}
        await until_good(mesh, other["key"], "b")

        mesh.nodes["b"].end_quietly()
        _, offline = key_for(mesh.data("b"), time.time(), publish=("plant.>",))
        revoke_key(mesh.data("b"), other["id"])
        mesh.start("b", "a")
        await made_while_stopped(mesh, offline, other["key"])
        assert logged(mesh.nodes["b"], "keys_taken_up", keys=1, revoked=1)

        mesh.nodes["b"].end_quietly()
        mesh.nodes["a"].end_quietly()
        mesh.start("a")
        await restarted(mesh, offline, other["key"])
        assert mesh.command("revoke", made["id"], "--json")["id"] == made["id"]
        assert "there is no key 'k77'" in " ".join(mesh.command("revoke", "k77", status=1).stderr.split())
        mesh.nodes["a"].end_quietly()


def put_back(data: Path, name: str) -> str:
    """What an earlier version left in a directory: one key, number 1. Returns the key."""
    record, key = new_key(KeyRequest(name, publish=("plant.>",)), secrets.token_bytes(48), time.time())
    old = msgspec.to_builtins(record) | {"id": "k1"}
    (data / "keys.json").write_bytes(msgspec.json.encode({"keys": [old], "next": 2, "version": 1}))
    (data / "keys.json").chmod(0o600)
    (data / "mesh-keys.json").unlink()
    return key.reveal().replace(record.id, "k1")


@pytest.mark.req("SEC-03")
async def test_keys_of_before_are_taken_into_the_mesh_also_where_two_have_one_number(tmp_path: Path) -> None:
    with chain(tmp_path, "a", "b") as mesh:
        await until_good(mesh, mesh.admin, "b")
        mesh.nodes["b"].end_quietly()
        mesh.nodes["a"].end_quietly()
        of_a, of_b = put_back(mesh.data("a"), "one"), put_back(mesh.data("b"), "other")
        mesh.start("a")
        mesh.start("b", "a")
        await until_good(mesh, of_b, "a")
        several = mesh.command("revoke", "k1", "--data", str(mesh.data("a")), status=1)
        assert "say which, k1@a, k1@b" in " ".join(several.stderr.split())
        for key in (of_a, of_b):
            await until_good(mesh, key, "a", "b")
        revoke_key(mesh.data("a"), "k1@b")
        await until_refused(mesh, of_b, "a", "b")
        assert await is_good(mesh, of_a, "b")


@pytest.mark.req("SEC-03", "SEC-06")
async def test_a_bad_node_forges_no_key_in_the_name_of_another(tmp_path: Path) -> None:
    with chain(tmp_path, "a") as mesh:
        a = mesh.nodes["a"]
        async with mesh.client(mesh.admin, "a") as admin:
            genuine = (await admin.create_key("meters", publish=["plant.>"])).info
        record, key = new_key(KeyRequest("evil", publish=(">",), admin=True), secrets.token_bytes(48), time.time())
        async with evil_at(a, mesh.data("a"), tmp_path / "evil") as evil:
            mine = CertificateStore(tmp_path / "evil").load()
            assert mine is not None
            own = sign(KeyMade(key=record, signer="evil", signed_s=0, by="me"), mine, time.time())
            posing = own.text.body.replace(b'"signer":"evil"', b'"signer":"a"')
            forged = [
                (posing, own.text.signature),  # altered, and in the name of another
                (posing, load_key(mine.key_pem).sign(DOMAIN + posing, ec.ECDSA(hashes.SHA256()))),
                (own.text.body.replace(b'"name":"evil"', b'"name":"good"'), own.text.signature),
                (b"{", b""),
            ]
            for body, signature in forged:
                said = pb.KeyStatement(text=body, signature=signature, chain=0)
                talk = pb.PeerKeys(statements=[said], chains=[mine.chain_pem])
                await evil.control.write(pb.PeerMessage(keys=talk).SerializeToString())
            await until(lambda: 'weft_peer_refused_total{peer="evil",reason="keys"} 4.0' in a.metrics())
            assert logged(a, "refused_from_peer", peer="evil", reason="keys")
            async with mesh.client(mesh.admin, "a") as admin:
                assert {each.made_by for each in await admin.keys()} == {"a"}
                assert await is_refused(mesh, key.reveal(), "a")
                # What it says in its own name counts, as of any node: keys.makers is there for who wants less.
                said = pb.KeyStatement(text=own.text.body, signature=own.text.signature, chain=0)
                talk = pb.PeerKeys(statements=[said], chains=[mine.chain_pem])
                await evil.control.write(pb.PeerMessage(keys=talk).SerializeToString())
                await until(lambda: logged(a, "key_learned", key=record.id, made_by="evil", peer="evil"))
                (shown,) = await admin.keys(record.id)
                assert shown.made_by == "evil"
                await admin.revoke_key(record.id)
                assert [each.id for each in await admin.keys(genuine.id)] == [genuine.id]
        mesh.nodes["a"].end_quietly()
