"""Five nodes that all know each other publish over a network that loses and reorders; run by itself, it prints figures.

Every event has four ways to each node, so that few are missed although many datagrams are.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass
from itertools import pairwise

from tests.emm_compact.nodes import WAIT_S, mesh, take
from weft.emm_compact import Node

NODES = 5
EVENTS = 40  # of each node
PAIRS = [(who, whom) for who in range(NODES) for whom in range(who)]
LOOKS = 10  # in a row, all the same: one is not enough, because the process itself may have stood still
LOOK_S = 0.05  # longer than the longest delay


@dataclass(frozen=True, slots=True)
class Outcome:
    delivered: list[list[str]]  # per node, in the order of arrival

    @property
    def twice(self) -> int:
        return sum(len(texts) - len(set(texts)) for texts in self.delivered)

    @property
    def share(self) -> float:
        """Of all events that could have been delivered."""
        return sum(map(len, self.delivered)) / (NODES * (NODES - 1) * EVENTS)

    @property
    def reordered(self) -> int:
        """Events that arrived before an older one of the same node."""
        count = 0
        for texts in self.delivered:
            for who in range(NODES):
                numbers = [int(text.split(":")[1]) for text in texts if text.startswith(f"{who}:")]
                count += sum(a > b for a, b in pairwise(numbers))
        return count


async def publish_all(nodes: list[Node]) -> Outcome:
    for number in range(EVENTS):
        for who, each in enumerate(nodes):
            await each.publish(f"{who}:{number}")
        await asyncio.sleep(0.002)
    await quiet(nodes)
    delivered = [[event.text for event in await take(each, each.figures.delivered)] for each in nodes]
    return Outcome(delivered)


async def quiet(nodes: list[Node]) -> None:
    """Until nothing has arrived for a while; heartbeats are rarer than that."""
    received, same = -1, 0
    async with asyncio.timeout(WAIT_S):
        while same < LOOKS:
            await asyncio.sleep(LOOK_S)
            before, received = received, sum(each.figures.received for each in nodes)
            same = same + 1 if received == before else 0


async def main() -> None:
    async with mesh(PAIRS) as nodes:
        print(json.dumps(asdict(await publish_all(nodes))))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
