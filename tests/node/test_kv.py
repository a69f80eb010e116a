"""Writes of keys: those that are on their way at the same time, and the time that they get."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.node.running import running_node
from weft.core.kv import ClockBehind
from weft.log.errors import DiskFull
from weft.model import Batch, Topic
from weft.model.key_value import BucketSettings
from weft.port.errors import RevisionConflict
from weft.port.kv import Write
from weft.port.node import PublishClient


@pytest.mark.req("CON-05")
async def test_a_refused_write_does_not_hide_another_one_that_is_still_on_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a third writer would be told that the key is still as it was, and both writes would count."""

    async with running_node(tmp_path) as node:
        kv, clients = node._machinery.kv, node.clients
        await kv.configure("settings", BucketSettings("a"), "a test", force=False)
        first = await kv.write(Write("settings", "k", b"first", "a test"))
        held: list[tuple[PublishClient, int, Topic, int, Batch, int]] = []
        with monkeypatch.context() as patch:
            patch.setattr(clients, "publish", lambda *publish: held.append(publish))
            wins = asyncio.create_task(kv.write(Write("settings", "k", b"wins", "a", None, str(first))))
            refused = asyncio.create_task(kv.write(Write("settings", "k", b"refused", "b")))
            while len(held) < 2:
                await asyncio.sleep(0)
            kv.refused(held[1][1], DiskFull("there is no room"))
            with pytest.raises(DiskFull):
                await refused
            late = asyncio.create_task(kv.write(Write("settings", "k", b"late", "c", None, str(first))))
            for _ in range(10):
                await asyncio.sleep(0)
            assert late.done() and isinstance(late.exception(), RevisionConflict)
        clients.publish(*held[0])
        await wins
        found = await kv.get("settings", "k", None)
        assert found is not None and found.value == b"wins"


@pytest.mark.req("CON-05")
async def test_writes_have_the_time_of_the_machines_clock_also_after_it_slept_or_its_clock_was_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or they would lose against older ones, and those of other nodes would be held back as too far ahead."""
    night_s, real_ns = 8 * 3600, time.time_ns

    async with running_node(tmp_path) as node:
        kv = node._machinery.kv
        evening = await kv.write(Write("settings", "k", b"evening", "a test"))
        await kv.write(Write("settings", "short", b"x", "a test", ttl_s=3600))
        monkeypatch.setattr(time, "time_ns", lambda: real_ns() + night_s * 1_000_000_000)
        morning = await kv.write(Write("settings", "k", b"morning", "a test"))
        assert morning.time_ms - evening.time_ms >= night_s * 1000
        assert await kv.get("settings", "short", None) is None
        monkeypatch.setattr(time, "time_ns", real_ns)
        with pytest.raises(ClockBehind):
            await kv.write(Write("settings", "k", b"set back", "a test"))
