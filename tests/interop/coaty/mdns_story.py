"""What ``test_mdns`` runs inside a network namespace of its own: agents that find each other by multicast alone."""

from __future__ import annotations

import asyncio
import sys

from tests.interop.coaty.js_agent import JsAgent, peer_id_file
from weft.coaty import Agent, new_id
from weft.limits import LIBP2P_DISCOVERY_S

WAIT_S_MAX = 3 * LIBP2P_DISCOVERY_S + 20  # two rounds of questions, and a slow machine


async def found(agent: Agent, peer_id: str) -> None:
    async with asyncio.timeout(WAIT_S_MAX):
        while peer_id not in agent.neighbours:
            await asyncio.sleep(0.02)


async def among_ourselves() -> None:
    async with (
        Agent("plant", name="one", mdns=["127.0.0.1"]) as one,
        Agent("plant", name="other", mdns=["127.0.0.1"]) as other,
        Agent("office", name="stranger", mdns=["127.0.0.1"]) as stranger,
    ):
        await asyncio.gather(found(one, other.peer_id), found(other, one.peer_id))
        assert not stranger.neighbours, "another namespace has another service name"


async def with_the_reference() -> None:
    with JsAgent("--peer-id", str(peer_id_file("Ed25519")), "--ns", "plant", "--mdns", "--interval", "1000") as js:
        their_id = str((await asyncio.to_thread(js.wait, "started", WAIT_S_MAX))["peerId"])
        async with Agent("plant", name="one", mdns=["127.0.0.1"]) as one:
            await found(one, their_id)
            heard = one.observe_channel("c")
            topic = "coaty/1/plant/CHNc"
            await asyncio.to_thread(
                js.wait_for, lambda event: event["ev"] == "subs" and [True, topic] in event["subs"], WAIT_S_MAX
            )
            thing = {"objectId": new_id(), "coreType": "CoatyObject", "objectType": "coaty.CoatyObject", "name": "x"}
            await asyncio.to_thread(js.command, "channel", id="c", object=thing)
            assert (await heard.next(WAIT_S_MAX)).data.object == thing


if __name__ == "__main__":
    asyncio.run({"ourselves": among_ourselves, "reference": with_the_reference}[sys.argv[1]]())
    sys.stdout.write("found\n")
