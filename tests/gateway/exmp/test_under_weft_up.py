"""EXMP at a node as users start it: ``weft up``, secured, on its own event loop."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.gateway.exmp.joined import PATIENCE_S, until
from tests.gateway.strangers import strangers
from tests.up import RunningNode, up
from weft import exmp
from weft.exmp import JsonObject

SETTINGS: Final = '[gateway.exmp]\ntcp = "127.0.0.1:0"\ntls = "127.0.0.1:0"\n'


def configured(directory: Path, more: str = "") -> tuple[str, str]:
    """Flags."""
    file = directory / "weft.toml"
    file.write_text(SETTINGS + more)
    return "--config", str(file)


def tls_of(node: RunningNode, name: str) -> ssl.SSLContext | None:
    root = node.context.tls_root
    assert root is not None, "of a secured node"
    return exmp.client_context(Path(root)) if name == "exmps" else None


@pytest.mark.req("EXM-10", "EXM-11")
@pytest.mark.parametrize("name", ["exmp", "exmps"])
def test_events_are_published_fetched_and_delivered(tmp_path: Path, name: str) -> None:
    delivered: list[JsonObject] = []

    async def event(data: JsonObject) -> None:
        delivered.append(data)

    async def story(node: RunningNode) -> None:
        key = node.context.token
        async with (
            asyncio.timeout(PATIENCE_S),
            exmp.connect(node.gateway(name), tls=tls_of(node, name), handlers={"event": event}) as client,
            node.client() as sdk,
        ):
            await client.call("authenticate", {"key": key})
            await client.call("subscribe", {"pattern": "plant.>"})
            receipt = await client.call("publish", {"topic": "plant.temp", "payload": "21"})
            assert receipt is not None and receipt["offset"] == 0
            await sdk.publish("plant.temp", b"22")
            await until(lambda: [each["payload"] for each in delivered] == ["21", "22"])
            found = await client.call("fetch", {"topic": "plant.temp"})
            assert found is not None
            assert [each["payload"] for each in found["events"]] == ["21", "22"]
            async with sdk.subscribe("plant.temp", start="earliest") as events:
                assert (await anext(aiter(events))).payload == b"21"
            large = {"text": "x" * 4_000_000}  # more than a socket takes at once, in both directions
            assert await client.call("$echo", large) == large
            await asyncio.to_thread(node.end_quietly)  # with a client at the other end

    with up(tmp_path / "a", *configured(tmp_path)) as node:
        asyncio.run(story(node))


def test_strangers_do_not_keep_a_node_from_serving_nor_from_ending(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        for name in ("exmp", "exmps"):
            async with exmp.connect(node.gateway(name), tls=tls_of(node, name)) as client:
                assert await client.call("$echo", {"n": 1}) == {"n": 1}

    with up(tmp_path / "a", *configured(tmp_path)) as node, ExitStack() as there:
        for name in ("exmp", "exmps"):
            there.enter_context(strangers(node.gateway(name)))
        asyncio.run(asyncio.wait_for(story(node), PATIENCE_S))
        node.end_quietly()


@pytest.mark.req("SEC-01", "EXM-10")
def test_a_renewed_certificate_is_shown_from_the_next_connection_on(tmp_path: Path) -> None:
    async def shown(node: RunningNode) -> bytes:
        async with exmp.connect(node.gateway("exmps"), tls=tls_of(node, "exmps")) as client:
            assert client.peer is not None and client.peer.certificate is not None
            return client.peer.certificate

    async def story(node: RunningNode) -> None:
        async with asyncio.timeout(PATIENCE_S):
            before = await shown(node)
            await until(lambda: any(each["event"] == "certificate_renewed" for each in node.logged()))
            assert await shown(node) != before

    lifetime = "[security]\ncertificate_lifetime_s = 4\n"
    with up(tmp_path / "a", *configured(tmp_path, lifetime)) as node:
        asyncio.run(story(node))
        node.end_quietly()
