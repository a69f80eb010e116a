"""What a second node stores of a topic, in a mesh as users start it: the past only once somebody there wants it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import pytest

from tests.mesh.test_under_weft_up import WAIT_S, client_of_second, pair
from weft.client import Client

OLD: Final = [f"old {number}".encode() * 100 for number in range(500)]


async def stored(client: Client) -> tuple[int, int]:
    """Events and bytes of the topic at the client's node."""
    found = [each for each in await client.topics("plant.temp") if each.topic == "plant.temp"]
    return sum(each.events for each in found), sum(each.size_bytes for each in found)


@pytest.mark.req("MSH-03")
async def test_a_node_copies_history_only_when_somebody_asks_for_it(tmp_path: Path) -> None:
    with pair(tmp_path) as (a, b):  # as it is by default
        async with asyncio.timeout(WAIT_S), a.client() as at_a, client_of_second(tmp_path, a, b) as at_b:
            for payload in OLD:
                at_a.publish_nowait("plant.temp", payload)
            await at_a.flush()
            async with at_b.subscribe("plant.temp", start="latest") as news:
                await news.opened()
                while not any("plant.temp" in peer.interest for peer in await at_a.peers()):
                    await asyncio.sleep(0.01)  # until gossip has told it
                await at_a.publish("plant.temp", b"new")
                assert (await anext(aiter(news))).payload == b"new"
                events, size = await stored(at_b)
                assert events == 1 and size < 2000, "nothing but what is new"
                async with at_b.subscribe("plant.temp", start="earliest") as everything:
                    got = [(await anext(aiter(everything))).payload for _ in range(len(OLD) + 1)]
                assert got == [*OLD, b"new"]
                assert (await stored(at_b))[0] == len(OLD) + 1
                await at_a.publish("plant.temp", b"newer")
                assert (await anext(aiter(news))).payload == b"newer"
        b.end_quietly()
        a.end_quietly()
