"""The examples of docs/emm.md run as they stand."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.docs.blocks import Block, blocks_for
from tests.emm.world import KEY_ID, node_id, secret, trust_of
from weft import emm

EXAMPLES = blocks_for("docs/emm.md", __file__)


@pytest.mark.parametrize("block", EXAMPLES, ids=[block.place for block in EXAMPLES])
async def test_example(block: Block) -> None:
    names: dict[str, Any] = {}
    exec(compile(block.code, block.place, "exec"), names)
    credentials = [emm.Credentials(KEY_ID, hmac_key=secret(number)) for number in range(2)]
    async with emm.Node(node_id(1), credentials[1], trust_of(2)) as other:

        async def answer() -> None:
            async for event in other.events():
                await other.publish("answer", event.name)

        answering = asyncio.create_task(answer())
        async with asyncio.timeout(20):
            await names["main"](node_id(0), credentials[0], trust_of(2), other.address)
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
