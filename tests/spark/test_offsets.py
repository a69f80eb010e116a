"""Offsets as Spark and people write them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.limits import OFFSET_MAX
from weft.model import Epoch, NodeId, Stream, Topic
from weft.spark.offsets import (
    EARLIEST,
    LATEST,
    BadOffsets,
    Place,
    from_json,
    parse_offsets,
    parse_times,
    positions,
    time_of,
    to_json,
)
from weft.spark.option_values import BadOption

PLACES = st.builds(
    lambda topic, origin, partition, epoch: Place(Stream(Topic(topic), NodeId(origin), partition), Epoch(epoch)),
    st.sampled_from(["plant.line1.temp", "a", "b/c", "x@y:e1"]),
    st.sampled_from(["node-a", "node-b", "9"]),
    st.integers(0, 65_535),
    st.integers(1, OFFSET_MAX),
)
OFFSETS = st.dictionaries(PLACES, st.integers(0, OFFSET_MAX), max_size=8)


@given(OFFSETS, st.randoms())
def test_one_meaning_has_one_text(offsets: dict[Place, int], chance: object) -> None:
    """Spark compares texts: the order in which streams were found must not show."""
    shuffled = list(offsets.items())
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    text = json.dumps(to_json(offsets))
    assert json.dumps(to_json(dict(shuffled))) == text
    assert from_json(json.loads(text)) == offsets
    assert json.dumps(json.loads(text), sort_keys=True) == text


def test_the_text_is_as_documented() -> None:
    place = Place(Stream(Topic("plant.line1.temp"), NodeId("node-a"), 0), Epoch(7))
    assert to_json({place: 1234}) == {"plant.line1.temp": {"node-a/0/7": 1234}}
    assert str(place) == "plant.line1.temp@node-a/0:e7"
    assert [str(each) for each in positions({place: 1234})] == ["plant.line1.temp@node-a/0:e7:1234"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "offsets look like"),
        ({"a": 1}, "offsets look like"),
        ({"a": {"n/0/1": "1"}}, "offsets look like"),
        ({"a": {"n/0/1": 1.5}}, "offsets look like"),
        ({"a": {"n/0/1": True}}, "offsets look like"),
        ({"a": {"n/0/1": -1}}, "no offset -1"),
        ({"a": {"n/0/1": OFFSET_MAX + 1}}, "no offset"),
        ({"a": {"n/0": 1}}, "does not look like node/partition/epoch"),
        ({"a": {"n/0/1/2": 1}}, "does not look like node/partition/epoch"),
        ({"a": {"n/-1/1": 1}}, "does not look like node/partition/epoch"),
        ({"a": {"n/x/1": 1}}, "does not look like node/partition/epoch"),
        ({"a": {"n/65536/1": 1}}, "no such partition"),
        ({"a": {"n/0/0": 1}}, "epochs count from 1"),
        ({"a": {"-/0/1": 1}}, "node id"),
        ({"a..b": {"n/0/1": 1}}, "is not a stream"),
        ({"a.*": {"n/0/1": 1}}, "is not a stream"),
    ],
)
def test_what_cannot_be_is_refused(given: object, message: str) -> None:
    with pytest.raises(BadOffsets, match=message):
        from_json(given)


def test_options_may_name_the_ends() -> None:
    offsets = parse_offsets("startingOffsets", '{"a": {"n/0/1": -2, "n/1/1": -1, "n/2/1": 5}}')
    assert sorted(offsets.by_key.values()) == [EARLIEST, LATEST, 5]
    assert len(offsets.places()) == 3


def test_options_may_name_topics_and_partitions() -> None:
    named = parse_offsets("startingOffsets", '{"a": -1, "b": {"1": 5}}')
    assert dict(named.by_key) == {"a": LATEST, ("b", 1): 5}
    assert (named.topics(), named.places()) == ({"a", "b"}, [])
    times = parse_times("startingOffsetsByTimestamp", '{"a": 1000, "b": {"0": 2000}}')
    assert dict(times.by_key) == {"a": time_of(1000), ("b", 0): time_of(2000)}


@pytest.mark.parametrize(
    "text", ["", "latest", '{"a": -1}', '{"a": {"x": 1}}', '{"a": 1e99}', json.dumps({f"t{n}": n for n in range(65)})]
)
def test_bad_times_name_their_option(text: str) -> None:
    with pytest.raises(BadOption, match="option startingOffsetsByTimestamp is milliseconds since 1970 in JSON"):
        parse_times("startingOffsetsByTimestamp", text)


@pytest.mark.parametrize(
    "text",
    ["", "newest", "{", '{"a": -3}', '{"a": {"65536": 1}}', '{"a.*": 1}', '{"a": true}', '{"a": {"n/0/1": -3}}', "[]"],
)
def test_bad_offsets_name_their_option(text: str) -> None:
    with pytest.raises(BadOption, match="option endingOffsets is earliest, latest or offsets in JSON"):
        parse_offsets("endingOffsets", text)
