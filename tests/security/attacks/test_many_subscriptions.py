"""One connection with more subscriptions than it may have: the first ones work, the others are told (SEC-05)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.up import up
from weft.errors import UsageError

OPENED = 1000  # of 1,024 streams that a node allows on one connection
WAIT_S = 60.0


@pytest.mark.req("SEC-05")
async def test_what_is_beyond_the_streams_of_one_connection_is_refused_at_once(tmp_path: Path) -> None:
    with up(tmp_path / "data") as node:
        async with asyncio.timeout(WAIT_S), node.client() as client, AsyncExitStack() as subscriptions:
            opened = [await subscriptions.enter_async_context(client.subscribe(f"t.{n}")) for n in range(OPENED + 5)]
            outcomes = await asyncio.gather(*(each.opened() for each in opened), return_exceptions=True)
            refused = [each for each in outcomes if isinstance(each, BaseException)]
            assert len(refused) == 5
            for each in refused:
                assert isinstance(each, UsageError)
                assert f"has {OPENED} streams open" in str(each) and "open another client" in str(each)
            first = opened[outcomes.index(None)]
            await client.publish(str(first.pattern), b"still served")
            assert (await anext(aiter(first))).payload == b"still served"
        node.end_quietly()
