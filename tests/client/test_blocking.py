"""The client without asyncio."""

from __future__ import annotations

import subprocess
import sys
from asyncio import get_running_loop, sleep
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pyarrow as pa
import pytest

import weft.sync
from tests.client.fake import FakeNode, error
from tests.client.story import quick
from tests.client.test_subscribe import filled, numbers
from weft.client import Closed, NotAllowed, PositionUnknown, Unavailable
from weft.client.loop_thread import LoopThread
from weft.model import Epoch, NodeId, Position, Stream, Topic
from weft.wire.mesh import mesh_pb2 as pb

TIMEOUT_S = 20.0


@pytest.fixture
def node() -> Iterator[FakeNode]:
    """A node on a thread of its own: there is no event loop here."""
    thread = LoopThread(lambda: None)

    async def begin() -> FakeNode:
        made = FakeNode()
        await filled(made, 20)
        await made.start()
        return made

    made = thread.run(begin(), TIMEOUT_S)
    yield made
    thread.run(made.stop(), TIMEOUT_S)
    thread.stop()


def connect(node: FakeNode) -> weft.sync.Client:
    return weft.sync.connect(node.address, insecure=True, options=quick())


def test_publish_and_subscribe(node: FakeNode) -> None:
    with connect(node) as client, client.subscribe("b") as subscription:
        subscription.opened(TIMEOUT_S)
        assert client.publish("b", "1", key="k", timeout_s=TIMEOUT_S).first_offset == 0
        future = client.publish_nowait("b", b"2")
        assert future.result(TIMEOUT_S).first_offset == 1
        client.publish_batch("b", pa.table({"payload": [b"3"]}))
        whole = client.publish_batch_nowait("b", pa.table({"payload": [b"4"]}), partition=0)
        assert whole.result(TIMEOUT_S).count == 1
        client.flush(TIMEOUT_S)
        client.wait_for_room()
        assert [next(subscription).payload for _ in range(4)] == [b"1", b"2", b"3", b"4"]
        with pytest.raises(TimeoutError):
            subscription.next(timeout_s=0.05)
        client.publish("b", b"5")
        event = subscription.next(TIMEOUT_S)
        assert event is not None
        assert event.payload == b"5"


def test_batches_groups_and_questions(node: FakeNode) -> None:
    stream = Stream(Topic("a"), NodeId("node-a"), 0)
    with connect(node) as client:
        subscription = client.subscribe("a", group="g", start="earliest")
        events = [next(subscription) for _ in range(12)]
        subscription.close()
        assert [event.payload for event in events] == numbers(12)
        assert node.groups["g"].positions["a", "node-a", 1, 0] == 11
        with client.subscribe("a", group="g", commit="manual") as again:
            again.handled(next(iter(again.batches())))
        assert client.positions("a", "g")[0].group_offset == 20
        client.commit("g", [Position(stream, Epoch(1), 3)])
        assert client.seek("g", "a", 5) == [Position(stream, Epoch(1), 5)]
        assert [len(batch) for batch in client.fetch(stream, 1, 5)] == [5, 10]
        assert [topic.topic for topic in client.topics()] == ["a"]
        assert client.status().node_id == "node-a"
        assert client.peers()
        assert client.groups("g")[0].group == "g"
        assert client.explain("a")


def test_many_batches_come_at_once(node: FakeNode) -> None:
    stream = Stream(Topic("a"), NodeId("node-a"), 0)
    with connect(node) as client:
        found = list(client.fetch_many(stream, 1, 5))
        assert all(found), "an empty list tells nobody anything"
        assert [len(batch) for some in found for batch in some] == [5, 10]
        narrow = [batch for some in client.fetch_many(stream, 1, 5, 7, ["payload"]) for batch in some]
        assert [batch.record_batch.schema.names for batch in narrow] == [["payload"]]
        with pytest.raises(PositionUnknown):
            next(client.fetch_many(stream, 2, 0))
        left = client.fetch_many(stream, 1, 0)
        assert next(left)
        left.close()  # type: ignore[attr-defined]
        assert client.status().node_id == "node-a", "what was on its way is let go of"


def test_several_threads_share_a_client(node: FakeNode) -> None:
    with connect(node) as client, ThreadPoolExecutor(8) as pool:
        receipts = list(pool.map(lambda number: client.publish("b", b"%d" % number), range(200)))
    assert sorted(receipt.first_offset for receipt in receipts) == list(range(200))
    assert len(node.payloads("b")) == 200


def test_errors_come_through(node: FakeNode) -> None:
    with connect(node) as client:
        node.faults.refuse = [error(pb.ERROR_NOT_ALLOWED, "no")]
        with pytest.raises(NotAllowed):
            client.publish("b", b"1")
    client.close()
    with pytest.raises(Closed):
        client.publish("b", b"1")
    with pytest.raises(Unavailable):
        weft.sync.connect("127.0.0.1:1", insecure=True, options=quick(connect_timeout_s=0.1))


def test_a_program_that_closes_nothing_ends_by_itself(node: FakeNode) -> None:
    program = (
        "import sys, weft.sync\n"
        "client = weft.sync.connect(sys.argv[1], insecure=True)\n"
        "subscription = client.subscribe('b')\n"
        "subscription.opened()\n"
        "client.publish_nowait('b', b'1')\n"
        "print(next(subscription).payload.decode())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, node.address], capture_output=True, timeout=120, text=True, check=True
    )
    assert done.stdout == "1\n"
    assert node.payloads("b") == [b"1"]


def test_what_still_runs_when_the_thread_is_stopped_is_cancelled_and_closed() -> None:
    """Otherwise its connections stay open until somebody collects the garbage."""
    ended = Event()

    async def endless() -> None:
        try:
            await get_running_loop().create_future()
        finally:
            ended.set()

    thread = LoopThread(lambda: None)
    work = thread.submit(endless())
    thread.run(sleep(0))  # it has begun
    thread.stop()
    assert ended.is_set() and work.cancelled() and thread.is_closed


def test_flush_raises_the_failure_of_an_event_whose_future_nobody_asked(node: FakeNode) -> None:
    with connect(node) as client:
        node.faults.refuse = [error(pb.ERROR_NOT_ALLOWED, "no"), error(pb.ERROR_NOT_ALLOWED, "no")]
        future = client.publish_nowait("b", b"1")
        with pytest.raises(NotAllowed):
            client.flush(TIMEOUT_S)
        with pytest.raises(NotAllowed):
            future.result(TIMEOUT_S)
        client.flush(TIMEOUT_S)


def test_a_future_that_is_cancelled_unsends_nothing(node: FakeNode) -> None:
    with connect(node) as client:
        client.publish_nowait("b", b"1").cancel()
        client.flush(TIMEOUT_S)
        assert node.payloads("b") == [b"1"]
