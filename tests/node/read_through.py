"""A node in a process of its own whose log keeps little, and a table with what it has cut."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tests.lake.archived import Archive
from tests.up import RunningNode
from weft.client import Client, connect
from weft.lake.settings import TableSettings
from weft.lake.spans import StreamKey
from weft.model import Event, Receipt

OLD_US: Final = 1_700_000_000_000_000  # long ago: retention takes such events in its next round
WAIT_S: Final = 60.0  # a bound, not an expectation
RETENTION: Final = """
[storage]
maintenance_interval_s = 1

[[topics]]
pattern = ">"
retention_age_s = 3600
"""


def config_of(file: Path, *tables: TableSettings, patterns: Sequence[str] = (">",), **settings: object) -> Path:
    """A file for ``weft up`` with archive tables."""
    lines = [RETENTION]
    for table in tables:
        lines += ["[[history]]", f'path = "{table.path}"', f'format = "{table.format}"', f"patterns = {list(patterns)}"]
        lines += [f"{name} = {value!r}" for name, value in ({"refresh_s": 0.2} | settings).items()]
        lines += _store(table)
    file.write_text("\n".join(lines))
    return file


def _store(table: TableSettings) -> list[str]:
    access = table.access
    values = {name: getattr(access, name) for name in ("endpoint", "region", "access_key", "secret_key")}
    given = [f'{name} = "{value}"' for name, value in values.items() if value is not None]
    return ["[history.store]", *given] if given else []


def old(count: int, start: int = 0) -> list[Event]:
    """Events that retention takes, and that say who they are."""
    return [Event(b"event %d" % number, OLD_US + number) for number in range(start, start + count)]


@asynccontextmanager
async def client_of(node: RunningNode) -> AsyncIterator[Client]:
    async with connect(node.grpc, insecure=True) as client:
        yield client


async def publish(client: Client, topic: str, events: Sequence[Event]) -> tuple[StreamKey, int]:
    """Where they are: the stream, and the offset of the first."""
    receipts: list[Receipt] = await asyncio.gather(
        *(client.publish(topic, each.payload, timestamp_us=each.timestamp_us) for each in events)
    )
    first = min(receipts, key=lambda each: each.first_offset)
    return (first.stream, first.epoch), first.first_offset


async def cut(client: Client, topic: str, start: int) -> None:
    """Until retention has cut the log there."""

    async def is_cut() -> bool:
        found = await client.node_positions(topic, history=False)
        return bool(found.streams) and all(each.earliest_offset >= start for each in found.streams)

    await until(is_cut)


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    give_up_s = time.monotonic() + WAIT_S
    while not await condition():
        assert time.monotonic() < give_up_s, "it did not come to pass"
        await asyncio.sleep(0.05)


async def filled(client: Client, archive: Archive, topic: str = "plant.temp", count: int = 10) -> StreamKey:
    """``count`` events in the table only, and as many behind them in the log only."""
    key, first = await publish(client, topic, old(count))
    archive.write((key, first, old(count)))
    await cut(client, topic, first + count)
    await publish(client, topic, fresh(count, count))
    return key


def fresh(count: int, start: int) -> list[Event]:
    """Events that stay in the log."""
    now_us = time.time_ns() // 1000
    return [Event(b"event %d" % number, now_us + number) for number in range(start, start + count)]


async def read(client: Client, pattern: str, count: int, **options: object) -> list[tuple[int, str]]:
    """The next so many events of a subscription: offsets and payloads."""
    found: list[tuple[int, str]] = []
    async with asyncio.timeout(WAIT_S), client.subscribe(pattern, **options) as subscription:  # type: ignore[arg-type]
        async for event in subscription:
            found.append((event.offset, event.payload.decode()))
            if len(found) == count:
                return found
    raise AssertionError("a subscription does not end by itself")


def events(count: int, start: int = 0) -> list[tuple[int, str]]:
    return [(number, f"event {number}") for number in range(start, start + count)]


def lines_of(node: RunningNode, event: str) -> list[Mapping[str, object]]:
    return [line for line in node.logged() if line["event"] == event]
