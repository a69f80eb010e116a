"""One publisher makes very many topics with long names: everybody else can still list them, subscribe and read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.security.attacks.hostile import PATIENCE_S
from tests.up import RunningNode, up
from weft.errors import UsageError
from weft.model import Position
from weft.wire.mesh import mesh_pb2 as pb

COUNT = 5000  # of 200 characters; a page has at most 4,096 of them
PAGE = 4096


def name(number: int) -> str:
    return f"many.{number:06}.{'x' * 188}"


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    async def fill() -> None:
        async with node.client() as client:
            for first in range(0, COUNT, 1000):
                await asyncio.gather(*(client.publish(name(first + number), b"x") for number in range(1000)))

    with up(tmp_path_factory.mktemp("crowded") / "node") as node:
        asyncio.run(asyncio.wait_for(fill(), 2 * PATIENCE_S))
        yield node
        node.end_quietly()


@pytest.mark.req("SEC-05")
async def test_topics_and_positions_come_in_pages(crowded: RunningNode) -> None:
    async with crowded.client() as client:
        assert [each.topic for each in await client.topics()] == [name(number) for number in range(COUNT)]
        positions = await client.positions(">")
        assert [each.stream.topic for each in positions] == [name(number) for number in range(COUNT)]
        request = pb.TopicsRequest(pattern=">", page=pb.Page(limit=3))
        reply = await client._nodes.call("/weft.mesh.v1.Mesh/Topics", request, pb.TopicsReply)
        assert [each.topic for each in reply.topics] == [name(0), name(1), name(2)]
        request.page.token = reply.next_page
        request.page.limit = 1 << 30
        reply = await client._nodes.call("/weft.mesh.v1.Mesh/Topics", request, pb.TopicsReply)
        assert reply.topics[0].topic == name(3) and len(reply.topics) <= PAGE and reply.next_page


@pytest.mark.req("SEC-05")
async def test_a_subscription_to_all_of_them_opens_and_resumes(crowded: RunningNode) -> None:
    async with crowded.client() as client:
        async with client.subscribe(">", start="earliest") as events:
            seen = {(await anext(events)).topic for _ in range(COUNT)}
        assert len(seen) == COUNT
        everywhere = [Position(each.stream, each.epoch, each.latest_offset) for each in await client.positions(">")]
        async with client.subscribe(">", start=everywhere) as events:
            await events.opened()
            await client.publish("many.new", b"the only one")
            assert (await anext(events)).payload == b"the only one"


@pytest.mark.req("SEC-05")
async def test_a_group_that_stands_in_all_of_them_is_moved_and_shown(crowded: RunningNode) -> None:
    async with crowded.client() as client:
        await client.seek("everything", "many.>", "latest")
        (group,) = await client.groups("everything")
        assert len(group.streams) >= COUNT


@pytest.mark.req("SEC-05")
async def test_a_client_that_knows_no_pages_gets_all_of_what_fits(crowded: RunningNode) -> None:
    async with crowded.client() as client:
        reply = await client._nodes.call("/weft.mesh.v1.Mesh/Topics", pb.TopicsRequest(pattern=">"), pb.TopicsReply)
        assert len(reply.topics) >= COUNT and not reply.next_page


async def test_a_token_that_no_page_came_with_is_refused(crowded: RunningNode) -> None:
    async with crowded.client() as client:
        for method, request, reply_type in (
            ("Mesh/Positions", pb.PositionsRequest(page=pb.Page(token=b"\xff")), pb.PositionsReply),
            ("Mesh/Topics", pb.TopicsRequest(page=pb.Page(token=b"\xff")), pb.TopicsReply),
            ("Admin/Groups", pb.GroupsRequest(page=pb.Page(token=b"\xff")), pb.GroupsReply),
        ):
            with pytest.raises(UsageError, match="not the token of a page"):
                await client._nodes.call(f"/weft.mesh.v1.{method}", request, reply_type)
