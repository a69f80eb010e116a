"""Requests over EXMP, and events that an EXMP client refuses until later (CON-02, CON-04)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import weft
from tests.gateway.exmp.joined import PATIENCE_S, address_of, joined, refused
from weft import exmp
from weft.client import Request
from weft.exmp import JsonObject


@pytest.mark.req("CON-04", "EXM-11")
async def test_a_client_asks_those_who_serve(tmp_path: Path) -> None:
    def handle(request: Request) -> bytes:
        if request.payload == b"fail":
            raise ValueError("no stock")
        return b"\xff" if request.payload == b"raw" else request.payload.upper()

    async with joined(tmp_path) as (node, client):
        code, description = await refused(client, "request", {"topic": "ask", "payload": "x", "timeout_s": 3600})
        assert (code, "nobody serves this topic" in description) == ("no_server", True)
        async with weft.connect(node.grpc_address, insecure=True) as server, server.serve("ask", handle):
            assert await client.call("request", {"topic": "ask", "payload": "x"}) == {"payload": "X"}
            assert await client.call("request", {"topic": "ask", "payload": "raw"}) == {"payload_base64": "/w=="}
            code, description = await refused(client, "request", {"topic": "ask", "payload": "fail"})
            assert (code, "ValueError: no stock" in description) == ("server_failed", True)
            for data in ({"topic": "ask"}, {"topic": "ask", "payload": "x", "timeout_s": 0}):
                assert (await refused(client, "request", data))[0] == "bad_request"
        assert await client.call("topics", {}) == {"topics": []}, "nothing was written"


@pytest.mark.req("CON-02", "EXM-11")
async def test_a_failure_with_retry_has_an_event_come_again_and_end_as_a_dead_letter(tmp_path: Path) -> None:
    seen: list[str] = []

    async def event(data: JsonObject) -> None:
        seen.append(data["payload"])
        if data["payload"] == "2" or (data["payload"] == "1" and seen.count("1") < 2):
            raise exmp.Failure("later", "no stock", {"retry": 0.01})

    async with (
        asyncio.timeout(PATIENCE_S),
        joined(tmp_path) as (node, client),
        weft.connect(node.grpc_address, insecure=True) as sdk,
        exmp.connect(address_of(node), handlers={"event": event}) as reader,
    ):
        for number in range(5):
            await client.call("publish", {"topic": "orders", "payload": str(number)})
        code, _ = await refused(reader, "subscribe", {"pattern": "orders", "settle": True})
        assert code == "bad_request"
        wanted = {"pattern": "orders", "group": "billing", "start": "earliest", "settle": True}
        await reader.call("subscribe", wanted)
        while not (letters := await sdk.dead_letters("billing")) or set(seen) != set("01234"):
            await asyncio.sleep(0.01)
        (letter,) = letters
        assert (letter.event.payload, letter.reason) == (b"2", "no stock")
        assert letter.tries == seen.count("2")
        while sum(each.position.offset for group in await sdk.groups("billing") for each in group.streams) < 5:
            await asyncio.sleep(0.01)
