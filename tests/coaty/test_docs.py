"""The examples of docs/coaty.md run as they stand."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.docs.blocks import blocks_for
from tests.gateway.coaty.stories import WAIT_S_MAX, bridge_wants_to_send, bridged, settle_quickly
from weft.coaty import Agent, Return

AGENT, CALLER = blocks_for("docs/coaty.md", __file__)


@pytest.fixture(autouse=True)
def quick_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    settle_quickly(monkeypatch)


def names_of(code: str, place: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": place}
    exec(compile(code, place, "exec"), names)
    return names


async def test_the_agent_answers_calls() -> None:
    main = names_of(AGENT.code, AGENT.place)["main"]

    async with Agent("plant", name="office") as office:
        running = asyncio.create_task(main(office.addresses))
        while not office.peer.wanted_by("coaty/1/plant/CLLcalibrate"):
            await asyncio.sleep(0.005)
        returns = await office.call("calibrate", [1])
        assert (await returns.first(WAIT_S_MAX)).data.result == {"done": [1]}
        running.cancel()
        await asyncio.wait([running])


async def test_a_client_of_the_mesh_calls_an_agent() -> None:
    multiply = names_of(CALLER.code, CALLER.place)["multiply"]

    async with bridged() as (it, client, agent):
        calls = agent.observe_call("multiply")
        await bridge_wants_to_send(it, "n0", agent, "coaty/1/plant/CLLmultiply")
        asking = asyncio.create_task(multiply(client))
        call = await calls.next(WAIT_S_MAX)
        assert call.data.parameters == [6, 7]
        await call.reply(Return(result=42))
        assert json.loads(await asking)["data"]["result"] == 42
