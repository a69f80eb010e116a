"""Keys with a long history, schedules with large payloads, many buckets: their lists come in pages, as topics do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.security.attacks.hostile import PATIENCE_S
from tests.up import up
from weft.client import Client, TooLarge
from weft.errors import UsageError
from weft.limits import MIB
from weft.wire.mesh import mesh_pb2 as pb

COUNT = 18  # of a mebibyte each: more than one message takes
SCHEDULES = 66  # of a quarter of that


async def with_a_long_history(client: Client) -> None:
    bucket = client.kv("long")
    await bucket.configure(history=COUNT)
    for number in range(COUNT):
        await bucket.put("key", bytes([number]) * MIB)
    await bucket.put("other", "x")


async def with_large_schedules(client: Client) -> None:
    for number in range(SCHEDULES):
        await client.add_schedule(f"s{number:02}", "@yearly", "plant.t", bytes([number]) * (MIB // 4))


async def with_many_buckets(client: Client) -> None:
    for number in range(COUNT):
        await client.kv(f"b{number:02}").put("key", "x")


Ask = Callable[[Client], Awaitable[list[object]]]


async def history(client: Client) -> list[object]:
    return [each.value[0] for each in await client.kv("long").history("key")]


async def schedules(client: Client) -> list[object]:
    return [each.name for each in await client.schedules()]


async def buckets(client: Client) -> list[object]:
    return [each.bucket for each in await client.buckets()]


CASES = [
    pytest.param(
        *(with_a_long_history, history, list(reversed(range(COUNT)))),
        *("KvHistory", pb.KvHistoryRequest(bucket="long", key="key"), pb.KvHistoryReply, True),
        id="history",
    ),
    pytest.param(
        *(with_large_schedules, schedules, [f"s{number:02}" for number in range(SCHEDULES)]),
        *("Schedules", pb.SchedulesRequest(), pb.SchedulesReply, True),
        id="schedules",
    ),
    pytest.param(
        *(with_many_buckets, buckets, [f"b{number:02}" for number in range(COUNT)]),
        *("KvBuckets", pb.KvBucketsRequest(), pb.KvBucketsReply, False),
        id="buckets",
    ),
]


@pytest.mark.req("SEC-05")
@pytest.mark.parametrize(("prepare", "ask", "expected", "call", "request_", "reply_type", "is_large"), CASES)
async def test_long_lists_come_in_pages(
    tmp_path: Path,
    prepare: Callable[[Client], Awaitable[None]],
    ask: Ask,
    expected: list[object],
    call: str,
    request_: Any,
    reply_type: Any,
    is_large: bool,
) -> None:
    async def story() -> None:
        async with node.client() as client:
            await prepare(client)
            assert await ask(client) == expected
            method = f"/weft.mesh.v1.Mesh/{call}"
            pages = 0
            one = type(request_)()
            one.CopyFrom(request_)
            one.page.limit = 5
            while True:
                reply = await client._nodes.call(method, one, reply_type)
                pages += 1
                if not reply.next_page:
                    break
                one.page.token = reply.next_page
            assert pages >= COUNT / 5
            one.page.token = b"\xff"
            with pytest.raises(UsageError):
                await client._nodes.call(method, one, reply_type)
            if is_large:
                with pytest.raises(TooLarge, match="ask for pages"):  # a client that knows no pages
                    await client._nodes.call(method, request_, reply_type)
            else:
                assert not (await client._nodes.call(method, request_, reply_type)).next_page

    with up(tmp_path / "node") as node:
        await asyncio.wait_for(story(), 2 * PATIENCE_S)
        node.end_quietly()
