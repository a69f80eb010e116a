"""The mesh that users' own tests run on: it comes up, breaks as told, and comes back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import uvloop

from weft.client import Client
from weft.errors import UsageError
from weft.testing import blocking_mesh, mesh

WAIT_S = 90.0  # of a test; nothing takes nearly as long


async def read(client: Client, count: int) -> list[bytes]:
    """The first events of the topic, as this client gets them."""
    payloads: list[bytes] = []
    async with client.subscribe("plant.>", start="earliest") as events:
        async for event in events:
            payloads.append(event.payload)
            if len(payloads) == count:
                break
    return payloads


@pytest.mark.req("MSH-02")
async def test_events_cross_a_chain_and_a_cut_only_delays_them() -> None:
    async with mesh(nodes=3, links="chain") as it, it.client("n0") as one, it.client("n2") as other:
        await one.publish("plant.t", "before")
        assert await read(other, 1) == [b"before"]
        it.cut("n0", "n1")
        await one.publish("plant.t", "meanwhile")
        it.heal()
        await it.settled()
        assert await read(other, 2) == [b"before", b"meanwhile"]


@pytest.mark.req("NFR-02")
async def test_a_killed_node_comes_back_with_all_it_gave_receipts_for() -> None:
    async with mesh(nodes=["a", "b"]) as it:
        async with it.client("a") as one:
            receipt = await one.publish("plant.t", "kept")
        await it.kill("a")
        with pytest.raises(UsageError, match="a does not run"):
            it.node("a")
        await it.restart("a")
        await it.settled()
        assert it.node("a").log.epoch == receipt.epoch
        async with it.client("b") as other:
            assert await read(other, 1) == [b"kept"]


async def test_a_node_that_lost_its_disk_comes_back_with_another_log() -> None:
    async with mesh(nodes=2) as it:
        epoch, address = it.node("n1").log.epoch, it.address("n1")
        await it.lose_disk("n1")
        await it.restart("n1")
        await it.settled()
        assert it.node("n1").log.epoch > epoch
        assert it.address("n1") == address


@pytest.mark.parametrize(
    ("links", "count"),
    [("full", 6), ("chain", 3), ("ring", 4), ("star", 3), ([("n0", "n3"), ("n3", "n1"), ("n1", "n2")], 3)],
)
async def test_shapes(links: str | list[tuple[str, str]], count: int) -> None:
    async with mesh(nodes=4, links=links) as it:
        links_up = [view for name in it.names for view in it.node(name).links.links() if view.connected]
        assert len(links_up) == 2 * count


@pytest.mark.parametrize(
    ("nodes", "links", "error"),
    [
        (0, "full", "at least one node"),
        (["a", "a"], "full", "a different name"),
        (2, "web", "no such shape: web"),
        (2, [("n0", "n0")], "between two nodes"),
        (2, [("n0", "n7")], "between two nodes"),
    ],
)
def test_what_is_no_mesh(nodes: int | list[str], links: str | list[tuple[str, str]], error: str) -> None:
    with pytest.raises(UsageError, match=error):
        mesh(nodes, links)


async def test_names_that_there_are_not_are_refused_with_those_that_there_are() -> None:
    async with mesh(nodes=2) as it:
        with pytest.raises(UsageError, match=r"no node n9 \(nodes n0, n1\)"):
            await it.kill("n9")
        with pytest.raises(UsageError, match=r"no link between n0 and n9 \(links n1-n0\)"):
            it.cut("n0", "n9")
        with pytest.raises(UsageError, match="n0 runs already"):
            await it.restart("n0")


async def test_nothing_is_left_behind() -> None:
    directories: list[Path] = []

    async with mesh(nodes=1) as it:
        directories.append(it.node("n0").config.node.data)
        assert directories[0].exists()
    assert not directories[0].exists()


def test_nodes_without_asyncio_run_on_the_loop_of_weft_up() -> None:
    with blocking_mesh(nodes=1) as it:
        assert isinstance(it._thread.call(asyncio.get_running_loop), uvloop.Loop)


def test_without_asyncio() -> None:
    with blocking_mesh(nodes=2) as it, it.client("n0") as one, it.client("n1") as other:
        one.publish("plant.t", "before")
        it.cut("n0", "n1")
        one.publish("plant.t", "meanwhile")
        it.heal()
        it.kill("n1")
        it.restart("n1")
        it.settled()
        with other.subscribe("plant.>", start="earliest") as events:
            payloads = [event.payload for _, event in zip(range(2), events, strict=False)]
        assert payloads == [b"before", b"meanwhile"]
