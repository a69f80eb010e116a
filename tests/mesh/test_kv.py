"""Buckets of keys and values in a real mesh: three nodes as users start them, secured, in a row (CON-05)."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

import weft
import weft.sync
from tests.mesh.watching import until
from tests.node.secured import key_for, token_from
from tests.up import END_TIMEOUT_S, RunningNode, up
from weft.client import ABSENT, Bucket, Client, Connecting, KvEntry, NotAllowed, NotOwner, RevisionConflict
from weft.log import open_log
from weft.model import Batch, Epoch
from weft.model.key_value import KEY_VALUES

pytestmark = pytest.mark.req("CON-05")
WAIT_S: Final = 120.0


def tls_of(node: RunningNode) -> weft.TlsFiles:
    context = node.context
    assert context.tls_root and context.tls_certificate and context.tls_key, "of a secured node"
    return weft.TlsFiles(Path(context.tls_root), Path(context.tls_certificate), Path(context.tls_key))


def client_at(data: Path, node: RunningNode, tls: weft.TlsFiles) -> Connecting:
    """That stays with this node."""
    _, key = key_for(data, time.time(), publish=(">",), subscribe=(">",), admin=True)
    return weft.connect(node.grpc, tls=tls, token=key, learns=False)


@contextmanager
def row(directory: Path) -> Iterator[dict[str, RunningNode]]:
    """a, b and c: between a and c there is only b."""
    first = directory / "a"
    with up(first, "--node-id", "a", "--ca-listen", "127.0.0.1:0") as a:
        ca = ("--ca", f"https://{a.ready['ca']}", "--token", "-")
        with (
            up(directory / "b", "--peer", a.grpc, *ca, stdin=token_from(first, "b")) as b,
            up(directory / "c", "--peer", b.grpc, *ca, stdin=token_from(first, "c")) as c,
        ):
            yield {"a": a, "b": b, "c": c}


async def eventually(ask: Callable[[], Awaitable[bool]]) -> None:
    """A condition that is asked for until it holds; the story's time-out bounds it."""
    while not await ask():
        await asyncio.sleep(0.05)


async def agree(buckets: list[Bucket], key: str, revision: object) -> None:
    async def all_have_it() -> bool:
        found = [await bucket.get(key) for bucket in buckets]
        return all(each is not None and each.revision == revision for each in found)

    await eventually(all_have_it)


async def clients_of(stack: AsyncExitStack, directory: Path, nodes: dict[str, RunningNode]) -> dict[str, Client]:
    tls = tls_of(nodes["a"])
    return {
        name: await stack.enter_async_context(client_at(directory / name, node, tls)) for name, node in nodes.items()
    }


async def write_at_once_and_watch(at: dict[str, Bucket]) -> None:
    """Three nodes write one key; all come to the same. Who watches elsewhere sees a value come, and go in time."""
    written = await asyncio.gather(*(bucket.put("leader", name) for name, bucket in at.items()))
    await agree(list(at.values()), "leader", max(written))
    async with at["c"].watch("session.*") as changes:
        revision = await at["a"].put("session.1", "here", ttl=2.0)
        found = [await anext(changes) for _ in range(2)]
    assert [(each.state, each.value) for each in found] == [("put", b"here"), ("expired", b"")]
    assert {each.revision for each in found} == {revision}
    assert await at["c"].get("session.1") is None and await at["a"].keys() == ["leader"]


async def split_and_heal(at: dict[str, Bucket], between: RunningNode) -> None:
    """Nothing goes through the node in the middle. Both sides go on; afterwards one rule decides for both."""
    before = await at["a"].put("mode", "old")
    await agree([at["a"], at["c"]], "mode", before)
    between.process.send_signal(signal.SIGSTOP)
    try:
        of_a = await at["a"].put("mode", "a's")
        of_c = await at["c"].put("mode", "c's")
        own = [await at["a"].get("mode"), await at["c"].get("mode")]
        assert [each and each.value for each in own] == [b"a's", b"c's"], "each side has its own while they are split"
    finally:
        between.process.send_signal(signal.SIGCONT)
    await agree(list(at.values()), "mode", max(of_a, of_c))
    waited = await at["a"].get("mode", at_least=max(of_a, of_c))
    assert waited is not None and waited.value == b"c's"
    await at["b"].delete("mode")

    async def is_gone() -> bool:
        return [await bucket.get("mode") for bucket in at.values()] == [None] * 3

    await eventually(is_gone)


async def own_a_bucket(at: dict[str, Client]) -> None:
    """One node owns the bucket: there a revision can be asked for, and nowhere else anything written."""
    owned = {name: client.kv("owned") for name, client in at.items()}
    with pytest.raises(NotOwner, match="several nodes may write this bucket"):
        await owned["a"].put("x", "1", if_revision=ABSENT)
    await owned["a"].configure(owner="a", history=2)
    first = await owned["a"].put("x", "1", if_revision=ABSENT)
    with pytest.raises(RevisionConflict, match="the key is at another revision"):
        await owned["a"].put("x", "2", if_revision=ABSENT)
    second = await owned["a"].put("x", "2", if_revision=first)
    with pytest.raises(RevisionConflict):
        await owned["a"].delete("x", if_revision=first)
    await agree(list(owned.values()), "x", second)
    for write in (owned["c"].put("x", "3", if_revision=second), owned["c"].put("x", "3"), owned["c"].delete("x")):
        with pytest.raises(NotOwner, match="bucket owned is owned by node a, and this is c"):
            await write
    assert [each.value for each in await owned["c"].history("x")] == [b"2", b"1"]


async def test_three_nodes_have_the_same_whatever_happens(tmp_path: Path) -> None:
    async def story(nodes: dict[str, RunningNode]) -> str:
        async with asyncio.timeout(WAIT_S), AsyncExitStack() as stack:
            at = await clients_of(stack, tmp_path, nodes)
            buckets = {name: client.kv("settings") for name, client in at.items()}
            await write_at_once_and_watch(buckets)
            await split_and_heal(buckets, nodes["b"])
            await own_a_bucket(at)
            return str(await buckets["c"].put("kept", "by c"))

    async def again(c: RunningNode, tls: weft.TlsFiles, revision: str) -> None:
        async with asyncio.timeout(WAIT_S), client_at(tmp_path / "c", c, tls) as client:
            entry = await client.kv("settings").get("kept")
            assert entry is not None and (entry.value, str(entry.revision)) == (b"by c", revision)
            assert await client.kv("settings").put("kept", "again") > entry.revision
            assert [each.bucket for each in await client.buckets()] == ["owned", "settings"]

    with row(tmp_path) as nodes:
        revision = await story(nodes)
        nodes["c"].end(signal.SIGKILL)
        with up(tmp_path / "c", "--peer", nodes["b"].grpc, "--ca", f"https://{nodes['a'].ready['ca']}") as c:
            await again(c, tls_of(nodes["a"]), revision)
            c.end_quietly()
        nodes["b"].end_quietly()
        nodes["a"].end_quietly()


SOON_GONE: Final = """
[kv]
grace_s = 0
[storage]
maintenance_interval_s = 1
"""


async def test_what_has_expired_leaves_the_disk(tmp_path: Path) -> None:
    file = tmp_path / "weft.toml"
    file.write_text(SOON_GONE)

    with up(tmp_path / "a", "--config", str(file)) as node:
        async with asyncio.timeout(WAIT_S), node.client() as client:
            bucket = client.kv("cache")
            await bucket.put("short", "secret of short", ttl=0.5)
            await bucket.put("long", "stays", ttl=3600)
            await bucket.put("deleted", "secret of deleted")
            await bucket.delete("deleted")
            await until(lambda: "weft_kv_keys 1.0" in node.metrics())
            assert await bucket.keys() == ["long"]
        node.end_quietly()
    log = open_log(tmp_path / "a", lambda: Epoch(1))
    try:
        stored = [
            event.payload
            for info in log.streams(KEY_VALUES)
            for data in log.read(info.stream, info.epoch, info.start)
            for event in Batch.read_stored(data)
        ]
    finally:
        log.close()
    assert stored == [b"stays"]


async def test_rights_are_those_to_the_topic_of_the_bucket(tmp_path: Path) -> None:
    with up(tmp_path / "a") as node:
        _, key = key_for(tmp_path / "a", time.time(), subscribe=("kv.settings",))
        async with asyncio.timeout(WAIT_S), node.client() as admin:
            await admin.kv("settings").put("x", "1")
            await admin.kv("secrets").put("x", "2")
            async with weft.connect(node.grpc, tls=tls_of(node), token=key) as reader:
                entry = await reader.kv("settings").get("x")
                assert entry is not None and entry.value == b"1"
                assert [each.bucket for each in await reader.buckets()] == ["settings"]
                with pytest.raises(NotAllowed, match=r'not allowed to publish to "kv[.]settings"'):
                    await reader.kv("settings").put("x", "3")
                with pytest.raises(NotAllowed, match="needs the admin right"):
                    await reader.kv("settings").configure(history=1)
                secrets = reader.kv("secrets")
                for ask in (secrets.get("x"), secrets.keys(), secrets.history("x"), anext(secrets.watch())):
                    with pytest.raises(NotAllowed, match=r'not allowed to subscribe to "kv[.]secrets"'):
                        await ask
                with pytest.raises(NotAllowed, match="belong to the mesh"):
                    await admin.publish("weft.kv.settings", b"forged", key=b"x")
        node.end_quietly()


# --- the SDK without asyncio -------------------------------------------------------------------------------------


def test_the_blocking_client(tmp_path: Path) -> None:
    with up(tmp_path / "a") as node:
        with weft.sync.connect(node.grpc, tls=tls_of(node), token=node.context.token) as client:
            bucket = client.kv("colors")
            with bucket.watch() as changes:
                revision = bucket.put("sky", "green")
                seen: KvEntry = changes.next(timeout_s=END_TIMEOUT_S)
            assert (seen.key, seen.value, seen.revision) == ("sky", b"green", revision)
            bucket.put("sky", "blue", ttl=3600)
            assert bucket.keys() == ["sky"] and [each.value for each in bucket.entries()] == [b"blue"]
            assert [each.value for each in bucket.history("sky")] == [b"blue", b"green"]
            bucket.delete("sky")
            assert bucket.get("sky") is None
            assert [each.bucket for each in client.buckets()] == ["colors"]
        node.end_quietly()
