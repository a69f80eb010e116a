"""Two bridges as users start them, of which one joins, is killed and comes back while events flow both ways.

What is promised while bridges change is that every event comes over at least once; while they stay, exactly once. The
counting of doubles is left to figures that cannot depend on how busy the machine is.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.node.secured import token_from
from tests.up import RunningNode, up
from weft.client import Client
from weft.coaty import Agent, CoatyObject, new_id
from weft.coaty.observing import Observation

WAIT_S: Final = 120.0
INTO, OUT_OF = "into the mesh", "out of the mesh"  # channels
AT_A_TIME: Final = 40
# On a busy machine, nobody may be taken for dead who is not: that would be a change of bridges.
CONFIG: Final = """
[gateway.coaty]
namespace = "plant"
bootstrap = {bootstrap}

[membership]
suspicion_multiplier = 20
"""


def thing(name: str) -> CoatyObject:
    return {"objectId": new_id(), "coreType": "CoatyObject", "objectType": "com.weft.Pump", "name": name}


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not holds():
            await asyncio.sleep(0.02)


class Traffic:
    """Events both ways, numbered, and how often each was seen at the other end."""

    def __init__(self, speaker: Agent, client: Client) -> None:
        self._speaker = speaker
        self._client = client
        self.sent = 0
        self.in_mesh: Counter[str] = Counter()
        self.at_agent: Counter[str] = Counter()

    async def send(self, count: int) -> None:
        for _ in range(count):
            name, self.sent = str(self.sent), self.sent + 1
            await self._speaker.channel(INTO, thing(name))
            said = {"sourceId": new_id(), "data": {"object": thing(name)}}
            await self._client.publish(f"coaty.plant.CHN.{OUT_OF.replace(' ', '%20')}", json.dumps(said))

    async def read_mesh(self) -> None:
        async with self._client.subscribe(f"coaty.plant.CHN.{INTO.replace(' ', '%20')}", start="earliest") as events:
            async for event in events:
                self.in_mesh[json.loads(event.payload)["data"]["object"]["name"]] += 1

    async def read_agent(self, heard: Observation[Any]) -> None:
        async for event in heard:
            self.at_agent[event.data.object["name"]] += 1

    async def all_arrived(self) -> None:
        await until(lambda: len(self.in_mesh) == len(self.at_agent) == self.sent)

    def doubles_since(self, first: int) -> list[str]:
        """Of the events from this one on."""
        names = map(str, range(first, self.sent))
        return [name for name in names if self.in_mesh[name] > 1 or self.at_agent[name] > 1]


@asynccontextmanager
async def flowing(speaker: Agent, listener: Agent, client: Client) -> AsyncIterator[Traffic]:
    traffic = Traffic(speaker, client)
    # The listener wants both, so that bridges learn them; what the speaker says to it directly is not counted.
    unread, heard = listener.observe_channel(INTO), listener.observe_channel(OUT_OF)
    works = [traffic.read_mesh(), traffic.read_agent(heard), _drop(unread)]
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield traffic
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _drop(heard: Observation[Any]) -> None:
    async for _ in heard:
        pass


async def shares(node: RunningNode) -> bool:
    """Whether it is connected to the other bridge, and in one group with it."""
    figures = (await asyncio.to_thread(node.metrics)).splitlines()
    is_in_group = any(line.startswith('weft_group_members{group="coaty-bridge') and " 2.0" in line for line in figures)
    return "weft_coaty_bridges 1.0" in figures and is_in_group


async def know_each_other(*nodes: RunningNode) -> None:
    async with asyncio.timeout(WAIT_S):
        while not all([await shares(node) for node in nodes]):
            await asyncio.sleep(0.1)


@pytest.mark.req("COA-12")
async def test_nothing_is_lost_while_bridges_change_and_nothing_doubles_while_they_stay(tmp_path: Path) -> None:
    with ExitStack() as stack:
        async with Agent("plant", name="speaker") as speaker, Agent("plant", name="listener") as listener:
            await asyncio.gather(speaker.ready(), listener.ready())
            file = tmp_path / "weft.toml"
            bootstrap = json.dumps([*speaker.addresses, *listener.addresses])
            file.write_text(CONFIG.format(bootstrap=bootstrap))
            config = ("--config", str(file))
            wanted = f"coaty/1/plant/CHN{INTO}"

            async def start(name: str, *flags: str, token: str = "") -> RunningNode:
                return await asyncio.to_thread(stack.enter_context, up(tmp_path / name, *flags, *config, stdin=token))

            a = await start("a", "--node-id", "a", "--ca-listen", "127.0.0.1:0")
            async with a.client() as client, flowing(speaker, listener, client) as traffic:
                await until(lambda: len(speaker.peer.wanted_by(wanted)) == 1)
                await traffic.send(AT_A_TIME)
                await traffic.all_arrived()
                assert traffic.doubles_since(0) == [], "a bridge alone"

                going_on = asyncio.create_task(traffic.send(AT_A_TIME))
                token = await asyncio.to_thread(token_from, tmp_path / "a", "b")
                enrolling = ("--peer", a.grpc, "--ca", f"https://{a.ready['ca']}", "--token", "-")
                b = await start("b", *enrolling, token=token)
                await traffic.send(AT_A_TIME)
                await know_each_other(a, b)
                await going_on
                await traffic.all_arrived()

                first = traffic.sent
                await traffic.send(AT_A_TIME)
                await traffic.all_arrived()
                assert traffic.doubles_since(first) == [], "two bridges that stay"

                await traffic.send(AT_A_TIME // 2)
                await asyncio.to_thread(b.end, signal.SIGKILL)
                await traffic.send(AT_A_TIME)
                b = await start("b", "--peer", a.grpc)
                await traffic.send(AT_A_TIME)
                await know_each_other(a, b)
                await traffic.all_arrived()
                for node in (b, a):
                    await asyncio.to_thread(node.end_quietly)


@pytest.mark.req("COA-12")
async def test_agents_that_are_in_the_mesh_do_not_come_again_with_a_bridge(tmp_path: Path) -> None:
    """Neither with one that was killed and starts again, nor with another one. Each asks what there is, and an agent
    answers, whose own word of itself the first one heard."""

    async def there(client: Client) -> list[str]:
        """The names of agents in the mesh, but for the bridges, as often as they came."""
        names = [
            json.loads(event.payload)["data"]["object"]["name"]
            for place in await client.positions("coaty.plant.ADV.Identity")
            async for batch in await client.fetch(place.stream, place.epoch, 0)
            for event in batch.events()
        ]
        return sorted(name for name in names if name != "weft")

    async def come(client: Client, *names: str) -> None:
        """Once they all are, each is there once."""
        async with asyncio.timeout(WAIT_S):
            while not set(names) <= set(await there(client)):
                await asyncio.sleep(0.05)
        assert await there(client) == sorted(names)

    with ExitStack() as stack:
        file = tmp_path / "weft.toml"
        config = ("--config", str(file))

        async def start(name: str, bootstrap: list[str], *flags: str, token: str = "") -> RunningNode:
            file.write_text(CONFIG.format(bootstrap=json.dumps(bootstrap)))
            return await asyncio.to_thread(stack.enter_context, up(tmp_path / name, *flags, *config, stdin=token))

        first = await start("a", [], "--node-id", "a")
        async with Agent("plant", name="old", bootstrap=[first.gateway("coaty")]) as old:
            async with first.client() as client:
                await come(client, "old")
            await asyncio.to_thread(first.end, signal.SIGKILL)
            a = await start("a", list(old.addresses), "--node-id", "a", "--ca-listen", "127.0.0.1:0")
            async with a.client() as client, Agent("plant", name="late", bootstrap=[a.gateway("coaty")]):
                await come(client, "old", "late")
                token = await asyncio.to_thread(token_from, tmp_path / "a", "b")
                enrolling = ("--peer", a.grpc, "--ca", f"https://{a.ready['ca']}", "--token", "-")
                b = await start("b", list(old.addresses), *enrolling, token=token)
                await know_each_other(a, b)  # so it has asked, and what it had to bring over is on its way
                async with Agent("plant", name="last", bootstrap=[b.gateway("coaty")]):
                    await come(client, "old", "late", "last")
                await asyncio.to_thread(b.end_quietly)  # with all that it had to send
                assert await there(client) == ["last", "late", "old"]
        await asyncio.to_thread(a.end_quietly)
