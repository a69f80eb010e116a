"""Who was asked for events, who was not, and how users of Spark hear of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.meshes import fill
from tests.spark.secured_pair import run_with_spark, secured_pair
from weft.client import Member, NodePositions, Options, StreamPositions, Unavailable
from weft.model import Epoch, NodeId, Stream, Topic
from weft.spark import surveyor as surveyor_room
from weft.spark.options import parse_options
from weft.spark.source import BatchReader
from weft.spark.survey import Survey, listed
from weft.spark.surveyor import MemberUnread

# As a user writes it: reads by patterns that tell them apart in what is said.
PROGRAM = """
import json, sys
from weft.spark.session import session

checkpoint, reads = sys.argv[1], json.loads(sys.argv[2])
spark = session("half", master="local[2]")
counts = [spark.read.format("weft").options(**options).load().count() for options in reads[:-1]]
options = {**reads[-1], "startingOffsets": "earliest", "maxEventsPerTrigger": "1"}
stream = spark.readStream.format("weft").options(**options).load()
query = stream.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
query.awaitTermination()
batches = query.recentProgress
print(json.dumps([*counts, sum(each.numInputRows for each in batches), len(batches)]))
spark.stop()
"""


@pytest.mark.xdist_group("drivers")
@pytest.mark.req("SPK-01")
def test_a_job_that_names_one_node_reads_the_mesh(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what it cannot ask is an error, or is said once."""
    with secured_pair(tmp_path) as pair:
        at_a = {**pair.options, "nodes": pair.first}
        with pair.second_node() as second:
            for address, topics in ((pair.first, ("plant.a", "site.a")), (pair.second, ("plant.b",))):
                with pair.client(address) as client:
                    for topic in topics:
                        fill(client, topic, "123")
            for pattern, members, wanted in (
                ("plant.*,!*.c", "all", 6),
                ("plant.>", "named", 3),
                (">,!site.a", "all", 6),
            ):
                options = {**at_a, "subscribe": pattern, "members": members}
                assert spark.read.format("weft").options(**options).load().count() == wanted
            assert second.end() == 0
        monkeypatch.setattr(surveyor_room, "SPARK_UNAVAILABLE_S", 0.1)
        monkeypatch.setattr(surveyor_room, "ASKING", Options(connect_timeout_s=0.5, call_timeout_s=60))
        with pytest.raises(MemberUnread, match=rf"b \({pair.second}\) cannot be asked: .* members=reachable"):
            BatchReader(parse_options({**at_a, "subscribe": "plant.>"})).partitions()
        lenient = {**at_a, "subscribe": "site.>,none.a", "members": "reachable"}
        ended = run_with_spark([sys.executable, "-c", PROGRAM, tmp_path / "checkpoint", json.dumps([lenient, lenient])])
    assert ended.status == 0, ended.err[-5000:]
    *counts, micro_batches = json.loads(ended.out)
    assert counts == [3, 3]
    assert micro_batches >= 3, "each could have said it again"
    for text in (f"b ({pair.second}) cannot be asked", "no topic of the mesh matches none.a yet"):
        assert len([line for line in ended.err.splitlines() if text in line]) == 2, "of batch and stream, once each"


# --- without Spark ---------------------------------------------------------------------------------------------------


def answer(node: str, *streams: tuple[str, int], members: Sequence[Member] = ()) -> NodePositions:
    """Streams by topic and end; their origin is always a."""
    places = (
        StreamPositions(Stream(Topic(topic), NodeId("a"), 0), Epoch(1), 0, end, 0, 0, 0, None, None)
        for topic, end in streams
    )
    return NodePositions(node, tuple(places), tuple(members))


A, B, C = (Member(name, (f"{name}:1",)) for name in "abc")


def test_nodes_that_did_not_answer_are_known_by_id_if_somebody_knows_it() -> None:
    survey = Survey({"a:1": answer("a", members=[B, C])}, {"b:1": Unavailable("gone"), "x:1": Unavailable("gone")})
    assert list(map(str, survey.unread())) == [
        "b (b:1) cannot be asked: gone",
        "x:1 cannot be asked: gone",
        "c (c:1) was not asked",
    ]
    named_otherwise = {"localhost:1": answer("a", members=[B]), "localhost:2": answer("b", members=[A])}
    assert Survey(named_otherwise, {}).unread() == []


def test_a_long_list_is_cut() -> None:
    assert listed(["a", "b"]) == "a; b"
    assert listed(list("abcdefghijkl")) == "a; b; c; d; e; f; g; h; i; j; and 2 more"
