"""Real nodes on loopback for the tests of this folder."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from tests.emm_compact.world import node_id, ring_of, signer
from weft.emm_compact import Event, Node, Settings

WAIT_S = 30.0  # a bound, not an expectation: the machine may be busy


def node(number: int, *, nodes: int = 10, host: str = "127.0.0.1", settings: Settings | None = None) -> Node:
    return Node(node_id(number), signer(number), ring_of(range(nodes)), listen=(host, 0), settings=settings)


@asynccontextmanager
async def mesh(pairs: list[tuple[int, int]], host: str = "127.0.0.1") -> AsyncIterator[list[Node]]:
    """Nodes that have joined each other as the pairs say."""
    async with AsyncExitStack() as stack:
        count = 1 + max(max(pair) for pair in pairs)
        nodes = [await stack.enter_async_context(node(number, host=host)) for number in range(count)]
        await asyncio.gather(*(nodes[who].join(nodes[whom].address, timeout_s=WAIT_S) for who, whom in pairs))
        yield nodes


async def take(who: Node, count: int) -> list[Event]:
    """The next so many events."""
    taken: list[Event] = []
    if count:
        async with asyncio.timeout(WAIT_S):
            async for event in who.events():
                taken.append(event)
                if len(taken) == count:
                    break
    return taken


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.005)


def epoch_now() -> int:
    """For packets that are put together by hand."""
    return int(time.time()) % 65536
