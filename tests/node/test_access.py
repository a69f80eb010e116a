"""Who may do what on a protected node: every call of both services, with rights and without."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import grpc
import pytest

import weft
from tests.node.secured import LOOPBACK, authority_of, client_credentials, key_for, secured, tls_of, until
from weft.client import Client, NotAllowed, Unauthenticated
from weft.model import Epoch, Position, Stream
from weft.node.runtime import Node
from weft.security import Authority, AuthoritySettings, Credentials, LocalSource, Names
from weft.security import client as client_identity
from weft.security import node as node_identity
from weft.security.rates import FAILURES_BURST, FAILURES_PER_S
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.features import Feature, Hello
from weft.wire.mesh.peerlink_pb2 import PeerMessage

Call = Callable[[Client], Awaitable[object]]


async def _subscribe(client: Client, pattern: str, group: str = "") -> None:
    subscription = client.subscribe(pattern, group=group)
    try:
        await subscription.opened()
    finally:
        await subscription.close()


async def _fetch(client: Client, topic: str) -> None:
    found = await client.positions("open.t")
    place = found[0]
    stream = Stream(topic, place.stream.origin, place.stream.partition)  # type: ignore[arg-type]
    async for _ in await client.fetch(stream, place.epoch, 0):
        pass


async def _commit(client: Client, topic: str, group: str = "g") -> None:
    place = (await client.positions("open.t"))[0]
    stream = Stream(topic, place.stream.origin, place.stream.partition)  # type: ignore[arg-type]
    await client.commit(group, [Position(stream, place.epoch, 0)])


async def _revoke_new(client: Client) -> None:
    """One that was just made, by who may; others are refused before anybody asks which key."""
    with suppress(NotAllowed):
        made = await client.create_key("y", publish=["open.t"])
        await client.revoke_key(made.info.id)
        return
    await client.revoke_key("k77")


# The key may publish to and subscribe to open.>, use the group g, and administer nothing.
ALLOWED: dict[str, Call] = {
    "publish": lambda client: client.publish("open.t", b"x"),
    "subscribe": lambda client: _subscribe(client, "open.*"),
    "fetch": lambda client: _fetch(client, "open.t"),
    "positions": lambda client: client.positions("open.>"),
    "commit": lambda client: _commit(client, "open.t"),
    "topics": lambda client: client.topics(">"),
    "subscribe in a group": lambda client: _subscribe(client, "open.*", "g"),
    "positions of a group": lambda client: client.positions("open.>", "g"),
    "groups": lambda client: client.groups(),
    "one group": lambda client: client.groups("g"),
}
REFUSED: dict[str, tuple[Call, str]] = {
    "publish": (lambda client: client.publish("shut.t", b"x"), 'publish to "shut.t"'),
    "subscribe": (lambda client: _subscribe(client, "shut.t"), 'subscribe to "shut.t"'),
    "subscribe more": (lambda client: _subscribe(client, ">"), 'subscribe to ">"'),
    "fetch": (lambda client: _fetch(client, "shut.t"), 'subscribe to "shut.t"'),
    "positions": (lambda client: client.positions(">"), 'subscribe to ">"'),
    "commit": (lambda client: _commit(client, "shut.t"), 'subscribe to "shut.t"'),
    "status": (lambda client: client.status(), "see the status"),
    "peers": (lambda client: client.peers(), "see the peers"),
    "subscribe in a group": (lambda client: _subscribe(client, "open.*", "h"), 'use group "h"'),
    "positions of a group": (lambda client: client.positions("open.>", "h"), 'use group "h"'),
    "commit to a group": (lambda client: _commit(client, "open.t", "h"), 'use group "h"'),
    "one group": (lambda client: client.groups("h"), 'use group "h"'),
    "explain": (lambda client: client.explain("open.t"), "see routes"),
    "keys": (lambda client: client.keys(), "see keys"),
    "create key": (lambda client: client.create_key("x", publish=["open.t"]), "make keys"),
    "revoke key": (_revoke_new, "revoke keys"),
    "leave": (lambda client: client.leave(), "have the node leave the mesh"),
}


@asynccontextmanager
async def one_node(directory: Path) -> AsyncIterator[Node]:
    async with secured(directory, time.time(), "a") as (only,):
        yield only


@pytest.mark.req("SEC-02")
async def test_every_call_of_both_services_asks_for_rights(tmp_path: Path) -> None:
    async with one_node(tmp_path) as node:
        data, tls = node.config.node.data, tls_of(node)
        _, everything = key_for(data, time.time(), publish=(">",), subscribe=(">",), admin=True)
        key_id, some = key_for(data, time.time(), publish=("open.>",), subscribe=("open.>",), groups=("g",))
        async with weft.connect(node.grpc_address, tls=tls, token=everything) as client:
            for topic in ("open.t", "shut.t"):
                await client.publish(topic, b"1")
            for call in (*ALLOWED.values(), *(call for call, _ in REFUSED.values())):
                await call(client)
            assert {each.topic for each in await client.topics()} == {"open.t", "shut.t"}
        async with weft.connect(node.grpc_address, tls=tls, token=some) as client:
            for call in ALLOWED.values():
                await call(client)
            for name, (call, what) in REFUSED.items():
                with pytest.raises(NotAllowed, match=f"not allowed to {what} with key {key_id}"):
                    await call(client)
                    pytest.fail(f"{name} was allowed")
            assert {each.topic for each in await client.topics()} == {"open.t"}
            assert [each.group for each in await client.groups()] == ["g"]
        causes = node._refusals.totals
        assert (causes["publish"], causes["subscribe"], causes["group"], causes["admin"]) == (1, 5, 4, 8)


@pytest.mark.req("SEC-02")
@pytest.mark.parametrize(
    ("key", "message"),
    [
        (None, "no API key"),
        ("nonsense", "not an API key"),
        (f"weft_k1_{'0' * 64}", "key k1 is not valid"),
        (f"weft_k99_{'0' * 64}", "key k99 is not valid"),
    ],
)
async def test_every_call_wants_a_key(tmp_path: Path, key: str | None, message: str) -> None:
    async with (
        one_node(tmp_path) as node,
        weft.connect(node.grpc_address, tls=tls_of(node), token=key) as client,
    ):
        for call in (
            lambda: client.publish("t", b"x"),
            lambda: _subscribe(client, "t"),
            lambda: client.positions("t"),
            client.topics,
            client.status,
        ):
            with pytest.raises(Unauthenticated, match=message):
                await call()


@pytest.mark.req("SEC-02")
async def test_who_guesses_keys_has_to_wait_and_who_has_one_does_not(tmp_path: Path) -> None:
    async with one_node(tmp_path) as node:
        key_id, good = key_for(node.config.node.data, time.time(), publish=(">",))
        async with weft.connect(node.grpc_address, tls=tls_of(node), token=good) as known:
            await known.publish("t", b"1")
            began_s = time.monotonic()
            for number in range(12):
                wrong = f"weft_{key_id}_{number:064x}"
                async with weft.connect(node.grpc_address, tls=tls_of(node), token=wrong) as client:
                    with pytest.raises(Unauthenticated):
                        await client.topics()
            await known.publish("t", b"2")
        looked_at = node._refusals.totals["bad-key"]
        assert FAILURES_BURST <= looked_at <= FAILURES_BURST + FAILURES_PER_S * (time.monotonic() - began_s)
        assert looked_at + node._refusals.totals["too-many-failures"] == 12


# --- certificates ------------------------------------------------------------------------------------------------


def channel(node: Node, shown: Credentials | None, root_pem: bytes | None = None) -> grpc.aio.Channel:
    root = root_pem or authority_of(node).root_pem
    pair = (None, None) if shown is None else (shown.key_pem.reveal(), shown.chain_pem)
    return grpc.aio.secure_channel(node.grpc_address, grpc.ssl_channel_credentials(root, *pair))


async def status_of(node: Node, shown: Credentials | None, key: str, root_pem: bytes | None = None) -> grpc.StatusCode:
    async with channel(node, shown, root_pem) as open_channel:
        call = open_channel.unary_unary(
            "/weft.mesh.v1.Mesh/Topics", pb.TopicsRequest.SerializeToString, pb.TopicsReply.FromString
        )
        try:
            await call(pb.TopicsRequest(), metadata=(("authorization", f"Bearer {key}"),), timeout=20)
        except grpc.aio.AioRpcError as error:
            return error.code()
    return grpc.StatusCode.OK


@pytest.mark.req("SEC-01")
async def test_a_mesh_may_want_a_certificate_beside_the_key(tmp_path: Path) -> None:
    async with secured(tmp_path, time.time(), "a", security__client_certificates="required") as (node,):
        now_s = time.time()
        _, key = key_for(node.config.node.data, now_s, subscribe=(">",))
        shown = client_credentials(authority_of(node), now_s)
        assert await status_of(node, shown, key) is grpc.StatusCode.OK
        assert await status_of(node, None, key) is grpc.StatusCode.UNAVAILABLE


@pytest.mark.req("SEC-01")
async def test_certificates_that_are_refused(tmp_path: Path) -> None:
    async with one_node(tmp_path) as node:
        ours, now_s = authority_of(node), time.time()
        _, key = key_for(node.config.node.data, now_s, subscribe=(">",))
        other = Authority.create(tmp_path / "other", AuthoritySettings("weft", "https://127.0.0.1:1"), now_s)
        foreign = LocalSource(ours).enrol(Names(client_identity("elsewhere", "x")), now_s)
        cases = {
            "good": (client_credentials(ours, now_s), None, grpc.StatusCode.OK),
            "none": (None, None, grpc.StatusCode.OK),  # the key is enough
            "of another CA": (client_credentials(other, now_s), None, grpc.StatusCode.UNAVAILABLE),
            "of another mesh": (foreign, None, grpc.StatusCode.UNAUTHENTICATED),
            "a server of another CA": (
                client_credentials(ours, now_s),
                other.root_pem,
                grpc.StatusCode.UNAVAILABLE,
            ),
        }
        for name, (shown, root, expected) in cases.items():
            assert await status_of(node, shown, key, root) is expected, name
        brief = Authority(ours.directory, AuthoritySettings("weft", "https://127.0.0.1:1", 1), ours.root)
        short = client_credentials(brief, now_s)
        await until(lambda: time.time() > short.end_s + 1)  # gRPC's clock may be a tick behind this one
        assert await status_of(node, short, key) is grpc.StatusCode.UNAVAILABLE


async def greet(node: Node, shown: Credentials, claimed: str | None) -> tuple[grpc.StatusCode, str]:
    """Open an event stream as a peer of this name; how it ends. None: say nothing, the certificate is enough. (What
    grpcio sends on a call that was refused meanwhile makes an error of its own of it.)"""
    async with channel(node, shown) as open_channel:
        call = open_channel.stream_stream("/PeerLink/EventStream")(timeout=20)
        with suppress(grpc.aio.AioRpcError):
            if claimed is not None:
                hello = Hello(claimed, frozenset(Feature), "weft", Epoch(1), 1)  # type: ignore[arg-type]
                await call.write(PeerMessage(handshake=hello.to_message()).SerializeToString())
                await call.read()
            await call.read()
        return await call.code(), await call.details() or ""


@pytest.mark.req("SEC-01")
async def test_peers_are_who_their_certificates_say(tmp_path: Path) -> None:
    async with one_node(tmp_path) as node:
        ours, now_s = authority_of(node), time.time()
        b = LocalSource(ours).enrol(Names(node_identity("weft", "b"), LOOPBACK), now_s)
        foreign = LocalSource(ours).enrol(Names(node_identity("elsewhere", "b"), LOOPBACK), now_s)
        cases = {
            "another node's id": (b, "c", "certificate is of node b, but its owner says it is node c"),
            "a client": (client_credentials(ours, now_s, "b"), None, "certificate is of client b, not of a node"),
            "another mesh": (foreign, None, "certificate is of mesh elsewhere, this is mesh weft"),
        }
        for name, (shown, claimed, message) in cases.items():
            code, details = await greet(node, shown, claimed)
            assert (code, message in details) == (grpc.StatusCode.UNAUTHENTICATED, True), (name, details)
        assert node._refusals.totals["peer"] == len(cases)
        assert not node.links.links()
