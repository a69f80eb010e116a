"""What every door has: where the mesh is, with which key, and how fast to go."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import msgspec

import weft
from tools.chaos.journal import Journal
from weft.client import Connecting

TOPICS: Final = 4  # for each publisher
LOST: Final = re.compile(r"(\S+)@([^/\s]+)/(\d+) has lost events")
Ends: TypeAlias = dict[tuple[str, str, int, int], int]  # topic, origin, partition and epoch -> the offset to go on at


def step_over(ends: Ends, told: str) -> None:
    """Go on behind events that a repair has given up, as a reader does that was told of them and has all before."""
    lost, first, end = LOST.search(told), re.search(r"first (\d+)", told), re.search(r"end (\d+)", told)
    if lost is None or first is None or end is None:
        return
    for stream, at in ends.items():
        if stream[:3] == (lost[1], lost[2], int(lost[3])) and at == int(first[1]):
            ends[stream] = int(end[1])


class GatewayKey(msgspec.Struct, frozen=True):
    """Who a node is among devices."""

    node_id: str
    key_id: str
    public_key: str


class Settings(msgspec.Struct, frozen=True):
    """``nodes``: name -> gRPC address. Kept in a file that only its owner may read: ``token`` may do everything."""

    seed: int
    journals: str
    nodes: dict[str, str]
    token: str
    root: str
    device: str  # a UUID
    device_secret: str
    device_seed: str  # of its Ed25519 key
    group_key: str  # of EMM-C
    gateways: list[GatewayKey]
    coaty: list[str]
    place: str  # the directory of the run
    token_file: str
    rate: float = 25.0  # events per second, of each publisher


@dataclass(frozen=True)
class Load:
    settings: Settings
    name: str
    index: int
    journal: Journal
    chance: Random
    over: asyncio.Event

    def client(self, *names: str, token: str | None = None) -> Connecting:
        """Of the nodes that are named, and no others; of all, if none is, beginning with another one for each door."""
        everybody = list(self.settings.nodes)
        order = list(names) or everybody[self.index :] + everybody[: self.index]
        nodes = [self.settings.nodes[name] for name in order]
        tls = weft.TlsFiles(Path(self.settings.root))
        return weft.connect(nodes, tls=tls, token=token or self.settings.token, learns=False)

    def mark(self, number: int) -> str:
        """The id of an event."""
        return f"#{self.name}/{number}#"

    def topic(self, number: int) -> str:
        return f"chaos.{self.name}.t{number % TOPICS}"

    async def paced(self, rate: float) -> AsyncIterator[int]:
        """Numbers, so many per second, until the load is over. What was missed is not caught up with."""
        number = 0
        while not self.over.is_set():
            yield number
            number += 1
            await self.rest(self.chance.expovariate(rate))

    async def rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(min(seconds, 5.0)):
                await self.over.wait()
        except TimeoutError:
            pass
