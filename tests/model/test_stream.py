"""Node ids, streams, positions and event identities, and the partition of a key."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.forge import crc32c_bit_by_bit
from tests.model.strategies import EPOCHS, NODE_IDS, OFFSETS, STREAMS, TOPICS
from weft.errors import UsageError
from weft.model import (
    BadName,
    Epoch,
    EventId,
    NodeId,
    Position,
    Stream,
    Topic,
    parse_event_id,
    parse_node_id,
    parse_position,
    parse_stream,
    partition_of,
)

VECTORS = Path(__file__).parent.parent / "vectors" / "model"
STREAM = Stream(Topic("plant.line1.temp"), NodeId("node-a"), 0)


@pytest.mark.parametrize("text", ["a", "9", "node-a", "n.example.org", "A_b", "x" * 64])
def test_good_node_ids(text: str) -> None:
    assert parse_node_id(text) == text


@pytest.mark.parametrize("text", ["", "x" * 65, "a b", "a/b", "a@b", "a:b", "é", "-a", ".a", "..", "_a", "a\n", "a\0"])
def test_bad_node_ids(text: str) -> None:
    with pytest.raises(BadName, match="is not 1 to 64 ASCII letters"):
        parse_node_id(text)


@pytest.mark.req("MSH-01")
def test_a_stream_is_a_topic_an_origin_and_a_partition() -> None:
    assert str(STREAM) == "plant.line1.temp@node-a/0"
    assert parse_stream("plant.line1.temp@node-a/0") == STREAM
    others = [
        Stream(Topic("b"), NodeId("a"), 1),
        Stream(Topic("a"), NodeId("b"), 0),
        Stream(Topic("a"), NodeId("a"), 2),
    ]
    assert sorted([*others, STREAM]) == [others[2], others[1], others[0], STREAM]
    assert len({*others, STREAM, parse_stream(str(STREAM))}) == 4


def test_positions_and_events_look_alike_and_are_not() -> None:
    position = Position(STREAM, Epoch(7), 1234)
    event = EventId(STREAM, Epoch(7), 1234)
    assert str(position) == str(event) == "plant.line1.temp@node-a/0:e7:1234"
    assert parse_position(str(position)) == position
    assert parse_event_id(str(event)) == event
    assert len({position, event}) == 2


def test_a_topic_may_look_like_a_stream() -> None:
    stream = Stream(Topic("a@b/1:e2:3"), NodeId("c"), 4)
    assert parse_stream(str(stream)) == stream
    position = Position(stream, Epoch(5), 6)
    assert str(position) == "a@b/1:e2:3@c/4:e5:6"
    assert parse_position(str(position)) == position


@given(STREAMS)
def test_stream_text_and_back(stream: Stream) -> None:
    assert parse_stream(str(stream)) == stream


@given(STREAMS, EPOCHS, OFFSETS)
def test_place_text_and_back(stream: Stream, epoch: Epoch, offset: int) -> None:
    position, event = Position(stream, epoch, offset), EventId(stream, epoch, offset)
    assert parse_position(str(position)) == position
    assert parse_event_id(str(event)) == event
    assert hash(parse_event_id(str(event))) == hash(event)


PLACE_LIKE = st.text(st.sampled_from("ab.@/:e019-+ \n"), max_size=20)
NEARLY_PLACES = st.builds("{}@{}/{}:e{}:{}".format, TOPICS, NODE_IDS, *[st.integers(-9, 1 << 64) | PLACE_LIKE] * 3)


@pytest.mark.parametrize("parse", [parse_stream, parse_position, parse_event_id])
@given(text=PLACE_LIKE | NEARLY_PLACES | st.text())
def test_only_the_one_text_of_a_value_is_taken(parse: Callable[[str], object], text: str) -> None:
    try:
        value = parse(text)
    except BadName as error:
        assert len(str(error)) < 500
    else:
        assert str(value) == text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "expected topic@node/partition"),
        ("plant@node-a", "expected topic@node/partition"),
        ("plant@node-a/", "expected topic@node/partition"),
        ("plant@node-a/00", "expected topic@node/partition"),
        ("plant@node-a/+1", "expected topic@node/partition"),
        ("plant@node-a/\u0661", "expected topic@node/partition"),  # a digit to int(), not to us
        ("plant@-node/1", "expected topic@node/partition"),
        ("@node-a/1", "expected topic@node/partition"),
        ("plant..x@node-a/1", "token 2 is empty"),
        ("plant.*@node-a/1", "only allowed in patterns"),
        ("plant@node-a/65536", "partition 65536, the limit is 65535"),
        ("x" * 1000 + "@node-a/1", "expected topic@node/partition"),
    ],
)
def test_bad_streams(text: str, fault: str) -> None:
    with pytest.raises(BadName, match="is not a stream") as caught:
        parse_stream(text)
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("place", "fault"),
    [
        ("", "expected topic@node/partition:eEPOCH:offset"),
        (":1:2", "expected topic@node/partition:eEPOCH:offset"),
        (":e1", "expected topic@node/partition:eEPOCH:offset"),
        (":e1:-2", "expected topic@node/partition:eEPOCH:offset"),
        (":e1:02", "expected topic@node/partition:eEPOCH:offset"),
        (":e0:2", "epochs count from 1"),
        (f":e{1 << 63}:2", "epochs count from 1"),
        (f":e1:{1 << 63}", "offset out of range"),
    ],
)
def test_bad_places(place: str, fault: str) -> None:
    with pytest.raises(BadName, match="is not a position") as caught:
        parse_position(f"{STREAM}{place}")
    assert fault in str(caught.value)
    with pytest.raises(BadName, match="is not an event"):
        parse_event_id(f"{STREAM}{place}")


@pytest.mark.parametrize(("epoch", "offset"), [(0, 0), (-1, 0), (1 << 63, 0), (1, -1), (1, 1 << 63)])
def test_places_out_of_range(epoch: int, offset: int) -> None:
    for kind in (Position, EventId):
        with pytest.raises(UsageError):
            kind(STREAM, Epoch(epoch), offset)


@pytest.mark.parametrize("partition", [-1, 65536])
def test_partitions_out_of_range(partition: int) -> None:
    with pytest.raises(UsageError, match="no such partition"):
        Stream(STREAM.topic, STREAM.origin, partition)


@pytest.mark.parametrize("vector", json.loads((VECTORS / "crc32c.json").read_text()), ids=lambda vector: vector["name"])
def test_crc32c_is_that_of_the_rfc(vector: dict[str, str]) -> None:
    data, crc = bytes.fromhex(vector["hex"]), int(vector["crc32c"], 16)
    assert google_crc32c.value(data) == crc
    assert crc32c_bit_by_bit(data) == crc


@pytest.mark.parametrize("vector", json.loads((VECTORS / "partition.json").read_text()))
@pytest.mark.req("MSH-01")
def test_the_partition_of_a_key_never_changes(vector: dict[str, dict[str, int]]) -> None:
    key = bytes.fromhex(str(vector["key"]))
    for partitions, partition in vector["partitions"].items():
        assert partition_of(key, int(partitions)) == partition


@pytest.mark.req("MSH-01")
def test_events_without_a_key_keep_their_order() -> None:
    assert {partition_of(None, partitions) for partitions in (1, 2, 16, 65536)} == {0}


@given(st.binary(), st.integers(1, 65536))
def test_partitions_are_in_range(key: bytes, partitions: int) -> None:
    assert 0 <= partition_of(key, partitions) < partitions


@pytest.mark.parametrize("partitions", [2, 3, 12, 16])
def test_similar_keys_spread_over_partitions(partitions: int) -> None:
    counts = Counter(partition_of(b"sensor-%d" % number, partitions) for number in range(12_000))
    assert len(counts) == partitions
    assert max(counts.values()) < 1.2 * 12_000 / partitions


@pytest.mark.parametrize("partitions", [0, -1, 65537])
def test_impossible_numbers_of_partitions(partitions: int) -> None:
    with pytest.raises(UsageError, match="at least one partition"):
        partition_of(b"key", partitions)
