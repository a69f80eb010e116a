"""A node whose machine loses power: what had a receipt is there when it comes back (LOG-01)."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from random import Random

import pytest

import weft
from tests.node.power.power_cut import COMPILER, build, cut_power, environment
from tests.up import COMMAND, FREE_PORTS, SHORT_LOG, RunningNode, started

ROUNDS = 40 if os.environ.get("WEFT_SOAK") else 4
PUBLISHERS = 3
RECEIPTS_MIN = 50

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler: power cannot be cut here")


@pytest.mark.req("LOG-01", "LOG-03", "NFR-02")
async def test_what_had_a_receipt_outlives_a_power_cut(tmp_path: Path) -> None:
    library = build(tmp_path)
    chance = Random(20261116)  # noqa: S311
    receipted: dict[int, bytes] = {}  # offset -> payload
    taken = 0
    for number in range(ROUNDS):
        journal = tmp_path / f"journal-{number}"
        with node(tmp_path, environment(library, tmp_path / "data", journal)) as running:
            await publish_until_cut(running, number, receipted, RECEIPTS_MIN + chance.randint(0, 100))
        taken += cut_power(journal, chance).writes_lost
        journal.unlink()
    assert taken, "no cut took anything: nothing was tried"
    with node(tmp_path, {}) as running:
        found = await read_all(running)
        running.end_quietly()
    assert {offset: found.get(offset) for offset in receipted} == receipted
    assert sorted(found) == list(range(len(found)))


def node(place: Path, environ: dict[str, str]) -> AbstractContextManager[RunningNode]:
    command = [*COMMAND, "up", "--insecure", "--data", str(place / "data"), *FREE_PORTS, "--log-format", "json"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    return started(command, kept | SHORT_LOG | {"WEFT_CONFIG_DIR": str(place / "config")} | environ)


async def publish_until_cut(running: RunningNode, number: int, receipted: dict[int, bytes], wanted: int) -> None:
    """Several publishers, each with an event under way; the node is killed in the middle of it."""
    end = len(receipted) + wanted

    async def publish(client: weft.Client, publisher: int) -> None:
        for event in count():
            payload = f"{number}/{publisher}/{event}".encode()
            receipt = await client.publish("plant.temp", payload)
            receipted[receipt.first_offset] = payload
            if len(receipted) >= end:
                return

    async with weft.connect([running.grpc], insecure=True) as client, asyncio.timeout(60):
        publishers = [asyncio.create_task(publish(client, each)) for each in range(PUBLISHERS)]
        (done, *_), waiting = await asyncio.wait(publishers, return_when=asyncio.FIRST_COMPLETED)
        running.process.send_signal(signal.SIGKILL)
        await done
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    running.process.wait(60)


async def read_all(running: RunningNode) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    async with weft.connect([running.grpc], insecure=True) as client:
        for stream in await client.positions("plant.temp"):
            place = (stream.stream, stream.epoch, stream.earliest_offset, stream.latest_offset)
            async for batch in await client.fetch(*place):
                found.update((event.offset, event.payload) for event in batch.events())
    return found
