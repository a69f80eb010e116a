"""Loads on a node as users start it. How fast it is, no test says: the machine may be busy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import pytest

import weft
from tests.up import RunningNode, up
from weft.client import Client
from weft.errors import UsageError, WeftError
from weft.load import Load, Report, measure

RUN = b"this run"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with up(tmp_path_factory.mktemp("load") / "data", "--insecure") as running:
        yield running


def done(node: RunningNode, load: Load) -> Report:
    def connect() -> AbstractAsyncContextManager[Client]:
        return weft.connect(node.grpc, insecure=True)

    return asyncio.run(measure(load, connect, RUN))


KINDS = {
    "one by one": Load("one", subscribers=2, events=50),
    "many in flight": Load("flight", subscribers=1, in_flight=100, events=2_500),
    "fewer than a burst": Load("few", subscribers=1, in_flight=5, events=23),
    "in batches": Load("batches", subscribers=2, batch=100, in_flight=4, events=1_050),
    "at a rate": Load("rate", subscribers=1, rate=500, events=50),
    "batches at a rate": Load("slow", subscribers=1, batch=10, rate=500, events=55),
    "by several publishers to many topics": Load(
        "many", publishers=3, subscribers=1, topics=7, in_flight=9, events=700
    ),
    "too small for a stamp": Load("small", subscribers=1, size=3, events=20),
    "without payload, nobody reads": Load("nothing", size=0, events=20),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.req("SEE-02")
def test_every_event_is_acknowledged_and_comes_to_everybody(node: RunningNode, kind: str) -> None:
    load = replace(KINDS[kind], topic=f"load.{kind.replace(' ', '-').replace(',', '')}")
    report = done(node, load)
    assert report.sent == load.events
    assert report.delivered == [load.events] * load.subscribers and not report.missing
    assert 0 < report.receipts.count <= report.sent and report.sent_s > 0
    assert report.deliveries.count == (sum(report.delivered) if load.size >= 16 else 0)


def test_a_load_ends_by_the_clock(node: RunningNode) -> None:
    report = done(node, Load("load.clock", seconds=0.2))
    assert report.sent > 0 and report.sent_s < 30


async def test_a_reader_alone_reads_until_it_has_enough(node: RunningNode) -> None:
    def connect() -> AbstractAsyncContextManager[Client]:
        return weft.connect(node.grpc, insecure=True)

    reading = measure(Load("load.apart", 0, 1, events=30, is_fresh=True), connect, RUN)
    reader, publisher = await asyncio.gather(
        reading, measure(Load("load.apart", 1, 0, events=30), connect, b"another ")
    )
    assert (reader.delivered, reader.missing, publisher.sent) == ([30], 0, 30)
    assert not reader.deliveries.count, "another process has another clock"


def test_what_a_node_refuses_ends_the_load(node: RunningNode) -> None:
    with pytest.raises(WeftError, match="weft"):
        done(node, Load("weft.groups.mine", events=5))


@pytest.mark.parametrize(
    ("load", "words"),
    [
        ({"publishers": 0, "subscribers": 0, "events": 1}, "nothing to do"),
        ({"publishers": 1}, "needs an end"),
        ({"batch": 0, "events": 1}, "batch"),
        ({"topics": 1_000_000, "events": 1}, "topics"),
        ({"topic": "no spaces", "events": 1}, "topic"),
    ],
)
def test_a_load_that_cannot_be_is_refused(load: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Load(**{"topic": "bench", **load})  # type: ignore[arg-type]
