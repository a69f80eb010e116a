"""What can be set on the sink, and what cannot. No JVM."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructType

from weft.client import Unavailable
from weft.errors import UsageError
from weft.port.access import EVERYBODY
from weft.spark import sink as room
from weft.spark.connection import Connection
from weft.spark.sink import BATCH_OPTIONS, STREAM_OPTIONS, BatchSink, SinkOptions, StreamSink, Written
from weft.spark.staging import Staged, Writing, application_id, query_id
from weft.testing import blocking_mesh

NODE = {"nodes": "127.0.0.1:1,127.0.0.1:2", "insecure": "true"}
VALUE = StructType().add("value", StringType())


def test_options_as_spark_hands_them_over() -> None:
    given = {**NODE, "topic": "plant.t", "copies": "2", "txnappid": "job", "TXNVERSION": "7"}
    options = SinkOptions.parse(given, BATCH_OPTIONS)
    assert (options.topic, options.copies, options.application, options.version) == ("plant.t", 2, "job", 7)
    assert options.connection.nodes == ("127.0.0.1:1", "127.0.0.1:2")
    plain = SinkOptions.parse(NODE, BATCH_OPTIONS)
    assert (plain.topic, plain.copies, plain.application, plain.version) == (None, 1, None, None)


def test_what_spark_adds_to_a_stream_is_its_own() -> None:
    SinkOptions.parse({**NODE, "checkpointLocation": "/c", "queryName": "q"}, STREAM_OPTIONS)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topics": "t"}, "no such option 'topics'"),
        ({"copies": "none"}, "option copies is a number from 1 to 1000, not 'none'"),
        ({"copies": "0"}, "option copies is a number from 1"),
        ({"txnAppId": "a"}, "txnAppId and txnVersion go together"),
        ({"txnVersion": "1"}, "txnAppId and txnVersion go together"),
        ({"txnAppId": "a", "txnVersion": "-1"}, "option txnVersion is a number from 0"),
        ({"topic": "weft.groups.g"}, "belong to the mesh"),
        ({"topic": "a..b"}, "token 2 is empty"),
    ],
)
def test_bad_options_are_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SinkOptions.parse({**NODE, **given}, BATCH_OPTIONS)


def test_a_stream_has_its_own_numbers() -> None:
    with pytest.raises(UsageError, match="no such option 'txnAppId'"):
        StreamSink({**NODE, "topic": "t", "txnAppId": "a", "txnVersion": "1"}, VALUE, False)


@pytest.mark.parametrize("sink", [BatchSink, StreamSink])
def test_what_cannot_be_written_is_refused_at_once(sink: Callable[..., Any]) -> None:
    with pytest.raises(UsageError, match="append"):
        sink({**NODE, "topic": "t"}, VALUE, True)
    with pytest.raises(UsageError, match="no topic to write to"):
        sink(NODE, VALUE, False)


def test_writes_are_told_apart() -> None:
    """The id of a write goes to its tasks and back with the writer, and two writes have two."""
    one, other = (BatchSink({**NODE, "topic": "t"}, VALUE, False) for _ in range(2))
    again = pickle.loads(pickle.dumps(one))
    assert again._id == one._id != other._id
    named = BatchSink({**NODE, "topic": "t", "txnAppId": "job", "txnVersion": "0"}, VALUE, False)
    assert named._id == application_id("job")


def test_what_tasks_say_can_be_sent() -> None:
    written = Written(Writing("0" * 16, "w"), Staged(1, ()))
    assert pickle.loads(pickle.dumps(written)) == written


def test_a_write_without_tasks_needs_no_node() -> None:
    BatchSink({**NODE, "topic": "t"}, VALUE, False).commit([])
    StreamSink({**NODE, "topic": "t"}, VALUE, False).commit([None], 3)


def test_a_node_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SINK_NODE_TIMEOUT_S", 0.0)

    def refuse(self: Connection, *nodes: str) -> Any:
        assert nodes == ("127.0.0.1:1",), "the first node, and no other"
        raise Unavailable("no node answers")

    monkeypatch.setattr(Connection, "client", refuse)
    with pytest.raises(Unavailable, match=r"run it again when the node is back.*node 127.0.0.1:1"):
        StreamSink({**NODE, "topic": "t"}, VALUE, False).commit([Written(Writing("0" * 16, "w"), Staged(0, ()))], 3)


def test_a_job_that_is_known_elsewhere_is_sent_there() -> None:
    """The decisions of a job are at the node that was named first when it began."""
    writing = Writing(EVERYBODY.owner, query_id("a query that moved"))
    message = Written(writing, Staged(0, ()))
    with blocking_mesh(nodes=2) as mesh:
        one, other = mesh.address("n0"), mesh.address("n1")

        def commit(nodes: str, number: int) -> None:
            StreamSink({"nodes": nodes, "insecure": "true", "topic": "t"}, VALUE, False).commit([message], number)

        commit(f"{one},{other}", 0)
        commit(f"{one},{other}", 1)
        with pytest.raises(UsageError, match=rf"name that one first \(node {one}, id n0\)"):
            commit(f"{other},{one}", 2)
        commit(other, 7)  # as far as anybody can tell, it is new
