"""EXMP at a node as users start it: ``weft up``, secured, on its own event loop."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.gateway.exmp.joined import PATIENCE_S, until
from tests.gateway.strangers import strangers
from tests.transport.tcp.raw import Raw
from tests.up import RunningNode, up
from tests.wire.exmp.transcript import octets, request, response
from weft import exmp
from weft.exmp import JsonObject
from weft.wire.exmp import Error, Failure, Response, Success, decode_outcome_untrusted, messages_untrusted

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
async def test_events_are_published_fetched_and_delivered(tmp_path: Path, name: str) -> None:
    delivered: list[JsonObject] = []

    async def event(data: JsonObject) -> None:
        delivered.append(data)

    with up(tmp_path / "a", *configured(tmp_path)) as node:
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


@pytest.mark.req("EXM-04", "EXM-05", "EXM-06", "EXM-08", "OBS-01")
async def test_the_rules_of_requests_and_what_is_counted(tmp_path: Path) -> None:
    """Byte by byte on a real socket, all in one piece; then the metrics tell the same story."""

    with up(tmp_path / "a", *configured(tmp_path)) as node:
        host, _, port = node.gateway("exmp").rpartition(":")
        raw = Raw(*await asyncio.open_connection(host, int(port)))
        await raw.greet()
        raw.send(request(900, json.dumps({"op": "authenticate", "data": {"key": node.context.token}})))
        await raw.expect(response(900))
        raw.send(request(901, '{"op":"subscribe","data":{"pattern":"none.>"}}'))
        await raw.expect(response(901, '{"status":"success","data":{"subscription":1}}'))
        assert await until_counted(node, "weft_exmp_subscriptions") == 1
        assert await until_counted(node, "weft_exmp_connections") == 1
        publish = '{"op":"publish","data":{"topic":"%s","payload":"x","partition":2,"timestamp_us":5}}'
        conversation = (
            request(10, publish % "first"),
            "00000007 02000000 616263  ; a ping with a body",
            request(7, publish % "second"),  # lower than the one before
            request(8, '{"op":"publish","data":{"topic":"t","payload":"\\ud800"}}'),
            request(9, '{"op":"nothing"}'),
            request(10, publish % "third"),  # used before
            request(11, publish % "fourth"),
        )
        raw.send("\n".join(conversation))
        answers = [message for _, _, message in messages_untrusted(await raw.reader.read(), 1 << 20)]
        *responses, last = answers
        assert last == Error(3, "this request id was used before (id 10)")
        outcomes = [decode_outcome_untrusted(each.data) for each in responses if isinstance(each, Response)]
        assert [each.id for each in responses if isinstance(each, Response)] == [10, 7, 8, 9]
        assert [isinstance(each, Success) and each.data["partition"] for each in outcomes[:2]] == [2, 2]  # type: ignore[index]
        assert [each.code for each in outcomes[2:] if isinstance(each, Failure)] == [
            "invalid_request",
            "unknown_operation",
        ]
        await raw.close()
        async with node.client() as sdk:
            assert sorted(each.topic for each in await sdk.topics("*")) == ["first", "second"]

        ended = 'weft_exmp_connections_ended_total{end="error-sent"}'
        assert await until_counted(node, ended) == 1
        counted = counted_by(node)
        for labels, count in {
            'operation="authenticate",outcome="success"': 1,
            'operation="subscribe",outcome="success"': 1,
            'operation="publish",outcome="success"': 2,
            'operation="unreadable",outcome="invalid_request"': 1,
            'operation="other",outcome="unknown_operation"': 1,
        }.items():
            assert counted[f"weft_exmp_requests_total{{{labels}}}"] == count
        assert counted["weft_exmp_subscriptions"] == counted["weft_exmp_connections"] == 0
        assert counted["weft_exmp_received_bytes_total"] > sum(len(octets(each)) for each in conversation)
        assert counted["weft_exmp_sent_bytes_total"] > 0
        node.end_quietly()


def counted_by(node: RunningNode) -> dict[str, float]:
    """Series and numbers, as Prometheus gets them."""
    lines = (line.rpartition(" ") for line in node.metrics().splitlines() if line.startswith("weft_exmp_"))
    return {series: float(number) for series, _, number in lines}


async def until_counted(node: RunningNode, series: str) -> float:
    """Its number, as soon as there is one that is not zero."""
    await until(lambda: counted_by(node).get(series))
    return counted_by(node)[series]


async def test_connections_that_are_one_too_many_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "weft.toml"
    file.write_text('[gateway.exmp]\ntcp = "127.0.0.1:0"\nconnections_max = 1\n')
    with up(tmp_path / "a", "--config", str(file)) as node:
        async with exmp.connect(node.gateway("exmp")) as client:
            assert await client.call("$echo") == {}
            host, _, port = node.gateway("exmp").rpartition(":")
            raw = Raw(*await asyncio.open_connection(host, int(port)))
            assert b"too many connections, the limit is 1" in await raw.reader.read()
            await raw.close()
            assert await until_counted(node, "weft_exmp_connections_refused_total") == 1
        node.end_quietly()


async def test_strangers_do_not_keep_a_node_from_serving_nor_from_ending(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        for name in ("exmp", "exmps"):
            async with exmp.connect(node.gateway(name), tls=tls_of(node, name)) as client:
                assert await client.call("$echo", {"n": 1}) == {"n": 1}

    with up(tmp_path / "a", *configured(tmp_path)) as node, ExitStack() as there:
        for name in ("exmp", "exmps"):
            there.enter_context(strangers(node.gateway(name)))
        await story(node)
        node.end_quietly()


@pytest.mark.req("SEC-01", "EXM-10")
async def test_a_renewed_certificate_is_shown_from_the_next_connection_on(tmp_path: Path) -> None:
    async def shown(node: RunningNode) -> bytes:
        async with exmp.connect(node.gateway("exmps"), tls=tls_of(node, "exmps")) as client:
            assert client.peer is not None and client.peer.certificate is not None
            return client.peer.certificate

    lifetime = "[security]\ncertificate_lifetime_s = 4\n"
    with up(tmp_path / "a", *configured(tmp_path, lifetime)) as node:
        async with asyncio.timeout(PATIENCE_S):
            before = await shown(node)
            await until(lambda: any(each["event"] == "certificate_renewed" for each in node.logged()))
            assert await shown(node) != before
        node.end_quietly()
