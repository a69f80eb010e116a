"""Fetch, Positions, Commit and Topics of a running node."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pyarrow as pa
import pytest

from tests.node.raw_client import EARLIEST, RawClient
from tests.node.running import running_node
from tests.node.secured import until
from weft.model import Batch, parse_pattern
from weft.node.runtime import Node
from weft.transport.clients import projection, queries
from weft.wire.mesh import mesh_pb2 as pb


def ref(node: Node, topic: str = "plant.t", partition: int = 0) -> pb.StreamRef:
    return pb.StreamRef(topic=topic, origin=node.node_id, epoch=node.log.epoch, partition=partition)


async def fill(client: RawClient, batches: int = 5, rows: int = 2, topic: str = "plant.t") -> None:
    """Events "0", "1", ... with a millisecond each."""
    publisher = await client.publisher()
    for number in range(batches):
        numbers = range(number * rows, (number + 1) * rows)
        batch = Batch.from_columns([b"%d" % n for n in numbers], [n * 1000 for n in numbers], [b"k"] * rows)
        await publisher.send(number, topic, batch)
    await publisher.answers(batches)
    await publisher.end()


# --- fetch -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "end", "bases"),
    [
        (0, 0, [0, 2, 4, 6, 8]),  # no end: all there is
        (0, 10, [0, 2, 4, 6, 8]),
        (0, 99, [0, 2, 4, 6, 8]),
        (3, 5, [2, 4]),
        (10, 12, []),
        (4, 4, []),
    ],
)
async def test_a_range_comes_as_stored(tmp_path: Path, first: int, end: int, bases: list[int]) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        await fill(client)
        replies = await client.fetch(pb.FetchRequest(stream=ref(node), first_offset=first, end_offset=end))
        stored = [Batch.read_untrusted(data) for reply in replies for data in reply.fetched.batches]
        assert [batch.base_offset for batch in stored] == bases


@pytest.mark.req("SEC-05")
async def test_columns_are_taken_out_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a hundred thousand events took 40 ms of the loop."""
    threads: list[int] = []
    real = projection.projected

    def projected(*arguments: Any) -> bytes:
        threads.append(threading.get_ident())
        return real(*arguments)

    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        await fill(client)
        monkeypatch.setattr(projection, "projected", projected)
        await client.fetch(pb.FetchRequest(stream=ref(node), columns=["payload"]))
        assert threads and threading.get_ident() not in threads


@pytest.mark.req("SEC-05")
async def test_positions_of_streams_with_large_batches_let_others_have_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch of each stream is read, for its time: 128 of 15 MiB took a second of the loop."""
    turns = 0
    sleep = asyncio.sleep

    async def counted(delay_s: float) -> None:
        nonlocal turns
        turns += 1
        await sleep(delay_s)

    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        for number in range(5):
            await fill(client, 1, topic=f"plant.t{number}")
        monkeypatch.setattr(queries, "LOOK_BYTES_AT_ONCE", 1)
        monkeypatch.setattr(queries, "asyncio", SimpleNamespace(sleep=counted))
        reply = await client.call("Positions", pb.PositionsRequest(pattern="plant.>"), pb.PositionsReply)
        assert len(reply.streams) == 5
        assert turns == 5


async def test_a_reply_keeps_to_its_size(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        await fill(client)
        replies = await client.fetch(pb.FetchRequest(stream=ref(node), bytes_max=1))
        assert [len(reply.fetched.batches) for reply in replies] == [1] * 5


@pytest.mark.parametrize("columns", [["payload"], ["key", "timestamp"], ["timestamp", "key", "headers", "payload"]])
async def test_columns_come_as_arrow_with_the_rows_wanted_only(tmp_path: Path, columns: list[str]) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        await fill(client)
        request = pb.FetchRequest(stream=ref(node), first_offset=3, end_offset=7, columns=columns)
        replies = await client.fetch(request)
        fetched = [
            pair for reply in replies for pair in zip(reply.fetched.batches, reply.fetched.first_offsets, strict=True)
        ]
        tables = [(pa.ipc.open_stream(data).read_all(), first) for data, first in fetched]
        offsets = [first + row for table, first in tables for row in range(table.num_rows)]
        assert offsets == [3, 4, 5, 6]  # however many stored batches stand in one
        assert {tuple(table.column_names) for table, _ in tables} == {tuple(columns)}
        whole = pa.concat_tables([table for table, _ in tables]).to_pydict()
        if "payload" in columns:
            assert whole["payload"] == [b"3", b"4", b"5", b"6"]
        if "timestamp" in columns:
            assert whole["timestamp"] == [3000, 4000, 5000, 6000]


async def test_what_cannot_be_fetched(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        await fill(client)
        other_epoch = pb.StreamRef(topic="plant.t", origin="a", epoch=7)
        for request, code, facts in (
            (pb.FetchRequest(stream=ref(node), first_offset=11), pb.ERROR_POSITION_UNKNOWN, {"latest": "10"}),
            (pb.FetchRequest(stream=ref(node, "plant.other")), pb.ERROR_POSITION_UNKNOWN, {}),
            (pb.FetchRequest(stream=other_epoch), pb.ERROR_POSITION_UNKNOWN, {"epochs": f"[{node.log.epoch}]"}),
            (pb.FetchRequest(stream=pb.StreamRef(topic="plant..t")), pb.ERROR_BAD_REQUEST, {}),
            (pb.FetchRequest(stream=ref(node), columns=["colour"]), pb.ERROR_BAD_REQUEST, {"column": "colour"}),
            (pb.FetchRequest(stream=ref(node), first_offset=5, end_offset=4), pb.ERROR_BAD_REQUEST, {"first": "5"}),
        ):
            (reply,) = await client.fetch(request)
            assert reply.error.code == code, reply
            assert facts.items() <= dict(reply.error.facts).items()


# --- positions and topics --------------------------------------------------------------------------------------------


async def test_positions_of_streams_of_a_group_and_of_a_time(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        await fill(client)
        await fill(client, batches=1, topic="plant.u")
        place = pb.StreamPosition(stream=ref(node), next_offset=4)
        commit = pb.CommitRequest(group="billing", positions=[place])
        assert not (await client.call("Commit", commit, pb.CommitReply)).HasField("error")
        request = pb.PositionsRequest(pattern="plant.*", group="billing", timestamp_us=3500)
        reply = await client.call("Positions", request, pb.PositionsReply)
        assert (reply.node_id, list(reply.members)) == (node.node_id, [])
        t, u = reply.streams
        assert (t.info.stream, t.info.earliest_offset, t.info.latest_offset) == (ref(node), 0, 10)
        assert (t.info.first_timestamp_us, t.info.last_timestamp_us) == (0, 9000)
        assert t.info.bytes > 0
        assert (t.group_offset, t.timestamp_offset) == (4, 4)
        assert not u.HasField("group_offset")
        assert u.timestamp_offset == 2
        plain = await client.call("Positions", pb.PositionsRequest(pattern="plant.u"), pb.PositionsReply)
        assert not plain.streams[0].HasField("timestamp_offset")


async def test_topics(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        await fill(client)
        await fill(client, batches=1, topic="plant.u")
        subscriber = await client.subscriber(">", group="billing")
        assert subscriber.first.HasField("opened")
        await until(lambda: node.log.streams(parse_pattern("weft.groups.billing")))
        reply = await client.call("Topics", pb.TopicsRequest(), pb.TopicsReply)
        assert [(each.topic, each.streams, each.last_timestamp_us) for each in reply.topics] == [
            ("plant.t", 1, 9000),
            ("plant.u", 1, 1000),
        ]
        assert reply.topics[0].events == 10
        own = await client.call("Topics", pb.TopicsRequest(pattern="weft.>"), pb.TopicsReply)
        assert [each.topic for each in own.topics] == ["weft.groups.billing"]


async def test_a_group_is_moved_back_and_reads_again(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        await fill(client)
        member = await client.subscriber("plant.t", group="billing", start=EARLIEST)
        generation = (await member.read()).assignment.generation
        await member.batches(10)
        await member.handled([pb.StreamPosition(stream=ref(node), next_offset=10)], generation)
        back = pb.CommitRequest(group="billing", positions=[pb.StreamPosition(stream=ref(node), next_offset=8)])
        assert not (await client.call("Commit", back, pb.CommitReply)).HasField("error")
        again: list[bytes] = []
        while again != [b"8", b"9"]:
            reply = await member.read()
            if reply.HasField("assignment"):
                await member.handled([], reply.assignment.generation)
            for each in reply.delivery.batches:
                again += [event.payload for event in Batch.read_untrusted(each.batch).events_from(each.first_offset)]


@pytest.mark.parametrize(
    ("commit", "code"),
    [
        (pb.CommitRequest(), pb.ERROR_BAD_REQUEST),
        (pb.CommitRequest(group="no spaces"), pb.ERROR_BAD_REQUEST),
        (pb.CommitRequest(group="g", positions=[pb.StreamPosition()]), pb.ERROR_BAD_REQUEST),
        (
            pb.CommitRequest(
                group="g", positions=[pb.StreamPosition(stream=pb.StreamRef(topic="t", origin="a", epoch=1))]
            ),
            pb.ERROR_POSITION_UNKNOWN,
        ),
    ],
)
async def test_moves_that_are_refused(tmp_path: Path, commit: pb.CommitRequest, code: int) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        assert (await client.call("Commit", commit, pb.CommitReply)).error.code == code


async def test_bad_patterns_fail_the_call(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, RawClient(node.grpc_address) as client:
        for method, request, reply in (
            ("Topics", pb.TopicsRequest(pattern="a..b"), pb.TopicsReply),
            ("Positions", pb.PositionsRequest(pattern="a..b"), pb.PositionsReply),
            ("Positions", pb.PositionsRequest(group="no spaces"), pb.PositionsReply),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await client.call(method, request, reply)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
