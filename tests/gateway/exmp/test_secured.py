"""Who may do what over EXMP: keys, certificates of the mesh, rights by topic, revoked keys (SEC-01, SEC-02)."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.exmp.joined import PATIENCE_S, address_of, refused, until
from tests.node.secured import authority_of, client_credentials, key_for, secure_config, tls_of
from weft import exmp
from weft.exmp import JsonObject
from weft.gateway.exmp.session import EXMP_STRANGER_BYTES_MAX
from weft.node.runtime import Node
from weft.security import CertificateStore, revoke_key

PUBLISH: JsonObject = {"topic": "plant.temp", "payload": "21"}


@asynccontextmanager
async def protected(data: Path, **settings: Any) -> AsyncIterator[Node]:
    node = Node(
        secure_config(data, "a", gateway__exmp__tls="127.0.0.1:0", gateway__exmp__tcp="127.0.0.1:0", **settings)
    )
    await node.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield node
    finally:
        await node.stop()


def trusting(node: Node) -> ssl.SSLContext:
    return exmp.client_context(tls_of(node).root)


def showing(node: Node, directory: Path) -> ssl.SSLContext:
    """With a client certificate of the mesh's own CA."""
    store = CertificateStore(directory)
    store.save(client_credentials(authority_of(node), time.time(), "robot"))
    return exmp.client_context(tls_of(node).root, store.identity_file)


@pytest.mark.req("EXM-10", "EXM-11", "SEC-02")
async def test_tls_with_the_meshs_ca_and_an_api_key(tmp_path: Path) -> None:
    async with protected(tmp_path) as node:
        _, key = key_for(tmp_path, time.time(), publish=("plant.>",), subscribe=("plant.>",))
        async with exmp.connect(address_of(node, "exmps"), tls=trusting(node)) as client:
            assert await client.call("$echo", {"n": 1}) == {"n": 1}
            for op, data in (("publish", PUBLISH), ("fetch", {"topic": "plant.temp"}), ("topics", None)):
                code, words = await refused(client, op, data)
                assert (code, words) == ("unauthenticated", "authenticate with an API key first")
            assert (await refused(client, "authenticate", {"key": "weft_nonsense"}))[0] == "unauthenticated"
            assert await client.call("authenticate", {"key": key}) is None
            receipt = await client.call("publish", PUBLISH)
            assert receipt is not None and receipt["offset"] == 0
            found = await client.call("fetch", {"topic": "plant.temp"})
            assert found is not None and found["events"][0]["payload"] == "21"


@pytest.mark.req("SEC-02")
async def test_rights_are_those_of_the_key_by_operation_and_topic(tmp_path: Path) -> None:
    async with protected(tmp_path) as node:
        _, key = key_for(tmp_path, time.time(), publish=("plant.>",), subscribe=("office.>",))
        async with exmp.connect(address_of(node)) as client:  # plain text on loopback takes a key as well
            await client.call("authenticate", {"key": key})
            await client.call("publish", PUBLISH)
            for op, data in (
                ("publish", {"topic": "office.door", "payload": "x"}),
                ("fetch", {"topic": "plant.temp"}),
                ("subscribe", {"pattern": "plant.>"}),
                ("subscribe", {"pattern": ">"}),
                ("status", None),
            ):
                code, words = await refused(client, op, data)
                assert code == "not_allowed" and "not allowed to" in words
            assert await client.call("topics") == {"topics": []}  # what one may not read is none of one's business
            assert await client.call("subscribe", {"pattern": "office.>"}) == {"subscription": 1}


@pytest.mark.req("SEC-01", "SEC-02")
async def test_a_client_certificate_has_the_rights_that_the_configuration_gives_it(tmp_path: Path) -> None:
    data = tmp_path / "node"
    rights = {"gateway__exmp__publish": ["plant.>"], "gateway__exmp__subscribe": ["plant.*"]}
    async with protected(data, **rights) as node:
        context = showing(node, tmp_path / "client")
        async with exmp.connect(address_of(node, "exmps"), tls=context) as client:
            await client.call("publish", PUBLISH)
            code, words = await refused(client, "publish", {"topic": "office.door", "payload": "x"})
            assert code == "not_allowed"
            assert "the certificate of client robot" in words
            await client.call("subscribe", {"pattern": "plant.*"})
            _, key = key_for(data, time.time(), publish=("office.>",))
            await client.call("authenticate", {"key": key})  # from now on it is the key that counts
            await client.call("publish", {"topic": "office.door", "payload": "x"})
            assert (await refused(client, "publish", PUBLISH))[0] == "not_allowed"
        async with exmp.connect(address_of(node, "exmps"), tls=trusting(node)) as client:
            assert (await refused(client, "publish", PUBLISH))[0] == "unauthenticated"


@pytest.mark.req("SEC-01")
async def test_certificates_of_another_ca_are_worth_nothing_on_either_side(tmp_path: Path) -> None:
    async with protected(tmp_path / "ours") as node, protected(tmp_path / "theirs") as other:
        with pytest.raises(exmp.Unreachable, match="certificate"):
            await exmp.connect(address_of(node, "exmps"), tls=trusting(other), connect_timeout_s=0.0).open()
        forged = CertificateStore(tmp_path / "client")
        forged.save(client_credentials(authority_of(other), time.time(), "robot"))
        context = exmp.client_context(tls_of(node).root, forged.identity_file)
        with pytest.raises((exmp.LinkLost, exmp.Unreachable)):
            await exmp.connect(address_of(node, "exmps"), tls=context, connect_timeout_s=0.0).open()


@pytest.mark.req("SEC-02")
async def test_a_revoked_key_ends_subscriptions_and_rights(tmp_path: Path) -> None:
    endings: list[JsonObject] = []

    async def ended(data: JsonObject) -> None:
        endings.append(data)

    async with protected(tmp_path) as node:
        key_id, key = key_for(tmp_path, time.time(), publish=(">",), subscribe=(">",))
        async with exmp.connect(address_of(node), handlers={"ended": ended}) as client:
            await client.call("authenticate", {"key": key})
            await client.call("subscribe", {"pattern": ">"})
            revoke_key(tmp_path, key_id)
            await until(lambda: endings)
            assert (endings[0]["code"], endings[0]["description"]) == (
                "unauthenticated",
                f"key {key_id} was revoked",
            )
            assert (await refused(client, "publish", PUBLISH))[0] == "unauthenticated"
            assert node.clients.subscriptions == 0


@pytest.mark.req("SEC-02")
async def test_a_revoked_key_ends_its_subscriptions_although_another_key_was_shown_since(tmp_path: Path) -> None:
    endings: list[JsonObject] = []

    async def ended(data: JsonObject) -> None:
        endings.append(data)

    async with protected(tmp_path) as node:
        first_id, first = key_for(tmp_path, time.time(), subscribe=(">",))
        _, second = key_for(tmp_path, time.time(), publish=("plant.>",), subscribe=("plant.>",))
        async with exmp.connect(address_of(node), handlers={"ended": ended}) as client:
            await client.call("authenticate", {"key": first})
            await client.call("subscribe", {"pattern": "office.>"})
            await client.call("authenticate", {"key": second})
            await client.call("subscribe", {"pattern": "plant.>"})
            revoke_key(tmp_path, first_id)
            await until(lambda: endings)
            assert [each["subscription"] for each in endings] == [1]
            assert endings[0]["description"] == f"key {first_id} was revoked"
            assert node.clients.subscriptions == 1
            await client.call("publish", PUBLISH)  # the second key is as good as before


async def test_a_stranger_may_not_say_much_at_a_time_nor_stay_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with protected(tmp_path) as node:
        long = {"text": "x" * EXMP_STRANGER_BYTES_MAX}
        async with exmp.connect(address_of(node)) as client:
            with pytest.raises(exmp.LinkLost, match="message is too long"):
                await client.call("$echo", long)
        _, key = key_for(tmp_path, time.time(), publish=(">",))
        async with exmp.connect(address_of(node)) as client:
            await client.call("authenticate", {"key": key})
            assert await client.call("$echo", long) == long
        monkeypatch.setattr("weft.gateway.exmp.session.EXMP_STRANGER_S", 0.2)
        peers: list[exmp.Peer] = []

        async def on_connected(peer: exmp.Peer) -> None:
            peers.append(peer)

        async with exmp.connect(address_of(node), on_connected=on_connected):
            await peers[0].wait_closed()


@pytest.mark.req("SEC-01", "EXM-10")
async def test_new_certificates_count_from_the_next_connection_on(tmp_path: Path) -> None:
    async with protected(tmp_path, security__certificate_lifetime_s=5) as node:
        address, context = address_of(node, "exmps"), trusting(node)
        seen: set[bytes] = set()
        while len(seen) < 2:
            async with exmp.connect(address, tls=context) as client:
                assert client.peer is not None
                seen.add(client.peer.certificate or b"")
            await asyncio.sleep(0.1)
        assert node.protection.renewals >= 1 and b"" not in seen


async def test_who_was_at_the_other_end_is_known_after_the_end(tmp_path: Path) -> None:
    async with protected(tmp_path) as node:
        address = address_of(node, "exmps")
        async with exmp.connect(address, tls=trusting(node)) as client:
            peer = client.peer
            assert peer is not None
            shown = peer.certificate
        await peer.wait_closed()
        assert (peer.address, peer.certificate) == (address, shown)
