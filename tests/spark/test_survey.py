"""Who was asked for events, who was not, and how users of Spark hear of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.spark.meshes import fill
from tests.spark.secured_pair import run_with_spark, secured_pair
from weft.client import Member, NodePositions, StreamPositions, Unavailable
from weft.model import Epoch, NodeId, Stream, Topic
from weft.spark.survey import Survey, left_out, listed

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
print(json.dumps([*counts, len(query.recentProgress)]))
spark.stop()
"""


@pytest.mark.xdist_group("spark")
@pytest.mark.req("SPK-01")
def test_a_read_that_leaves_out_a_node_with_more_events_says_so(tmp_path: Path) -> None:
    with secured_pair(tmp_path) as pair, pair.second_node():
        for address, topics in ((pair.first, ("plant.a", "site.a")), (pair.second, ("plant.b",))):
            with pair.client(address) as client:
                for topic in topics:
                    fill(client, topic, "123")
        one, both = pair.first, f"{pair.first},{pair.second}"
        named = [("plant.*", both), ("site.*", one), ("plant.>", one), ("*.*", one)]
        reads = [{**pair.options, "subscribe": pattern, "nodes": nodes} for pattern, nodes in named]
        ended = run_with_spark([sys.executable, "-c", PROGRAM, tmp_path / "checkpoint", json.dumps(reads)])
    assert ended.status == 0, ended.err[-5000:]
    *counts, micro_batches = json.loads(ended.out)
    assert counts == [6, 3, 3]
    assert micro_batches >= 3, "each could have said it again"
    warnings = [line for line in ended.err.splitlines() if "are not read" in line]
    assert ["plant.>" in line for line in warnings] == [True, False], "of the batch and the stream that leave out b"
    assert "*.*" in warnings[1]
    assert all(f"b ({pair.second})" in line and "plant.b@b" in line for line in warnings)


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


@pytest.mark.parametrize(
    ("there", "told"),
    [
        ([], []),
        ([("t", 5)], []),
        ([("t", 5), ("empty", 0)], []),
        ([("t", 6)], ["b (b:1) is not named in option nodes and has more of t@a/0:e1"]),
        ([("t", 5), ("u", 1)], ["b (b:1) is not named in option nodes and has more of u@a/0:e1"]),
    ],
)
def test_only_nodes_with_more_events_are_left_out(there: list[tuple[str, int]], told: list[str]) -> None:
    survey = Survey({"a:1": answer("a", ("t", 5), members=[B])}, {})
    around = Survey({**survey.answers, "b:1": answer("b", *there, members=[A])}, {})
    assert list(map(str, left_out(survey, around))) == told


def test_a_long_list_is_cut() -> None:
    assert listed(["a", "b"]) == "a; b"
    assert listed(list("abcdefghijkl")) == "a; b; c; d; e; f; g; h; i; j; and 2 more"
