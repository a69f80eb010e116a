"""Every option of the source: what it is without, what it takes, what it refuses."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest

from weft.model import Epoch, NodeId, Pattern, Stream, Topic
from weft.spark.connection import Connection
from weft.spark.offsets import NamedOffsets, Place
from weft.spark.option_values import BadOption, by_name, parse_count, parse_flag, parse_list
from weft.spark.options import ALIASES, COLUMNS, REFUSED, SOURCE_OPTIONS, Members, parse_options, parse_time
from weft.spark.selection import Selection

LEAST = {"nodes": "h:1", "insecure": "true", "subscribe": "plant.>"}


def test_what_holds_when_little_is_given() -> None:
    options = parse_options(LEAST)
    assert options.connection == Connection(("h:1",), insecure=True)
    assert options.selection == Selection((Pattern("plant.>"),))
    assert options.members is None
    assert (options.starting, options.ending) == (None, "latest")
    assert (options.events_max, options.bytes_max, options.partitions_min) == (None, None, None)
    assert options.fail_on_data_loss
    assert options.columns == COLUMNS
    assert options.group is None
    assert pickle.loads(pickle.dumps(options)) == options
    options.check_batch()
    options.check_stream()


@pytest.mark.parametrize("change", [str.lower, str.upper, str])
def test_names_are_taken_in_any_case(change: object) -> None:
    """SPARK.md, trap 9: Spark hands names over in lower case."""
    given = {
        **LEAST,
        "startingOffsets": "Earliest",
        "maxEventsPerTrigger": "10",
        "maxBytesPerTrigger": "20",
        "minPartitions": "3",
        "failOnDataLoss": "FALSE",
        "columns": "value, offset,value",
        "group": "job",
    }
    options = parse_options({change(name): value for name, value in given.items()})  # type: ignore[operator]
    assert options.starting == "earliest"
    assert (options.events_max, options.bytes_max, options.partitions_min) == (10, 20, 3)
    assert not options.fail_on_data_loss
    assert options.columns == ("value", "offset")
    assert options.group == "job"


def test_places_to_begin_and_end() -> None:
    place = Place(Stream(Topic("plant.a"), NodeId("n"), 0), Epoch(1))
    options = parse_options({**LEAST, "startingOffsets": '{"plant.a": {"n/0/1": 5}}', "endingTimestamp": "1000"})
    assert options.starting == NamedOffsets({place: 5})
    assert options.ending == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2026-05-04T08:00:00+02:00", datetime(2026, 5, 4, 8, tzinfo=timezone(timedelta(hours=2)))),
        ("2026-05-04T08:00:00Z", datetime(2026, 5, 4, 8, tzinfo=UTC)),
        ("2026-05-04 08:00:00.123456Z", datetime(2026, 5, 4, 8, 0, 0, 123456, tzinfo=UTC)),
        ("1777881600123", datetime(2026, 5, 4, 8, 0, 0, 123000, tzinfo=UTC)),
        ("0", datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_times(text: str, wanted: datetime) -> None:
    assert parse_time("startingTimestamp", text) == wanted


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"subscribe": ""}, "option subscribe selects nothing"),
        ({"subscribe": "a.>.b"}, "option subscribe"),
        ({"subscirbe": "a"}, r"no such option 'subscirbe' \(known .*subscribe"),
        ({"path": "x"}, "option subscribe is given twice"),
        ({"assign": '{"a": [0]}'}, "subscribe and assign contradict each other"),
        ({"members": "some"}, "option members is one of all, reachable, named, not 'some'"),
        ({"onlyNamed": "true"}, "onlyNamed needs offsets or times in JSON"),
        ({"onlyNamed": "true", "startingOffsets": "latest"}, "onlyNamed needs offsets or times in JSON"),
        ({"maxTriggerDelay": "5m"}, "maxTriggerDelay is how long to wait for minEventsPerTrigger"),
        ({"minOffsetsPerTrigger": "5", "maxTriggerDelay": "soon"}, "option maxTriggerDelay is a time such as 15m"),
        ({"minOffsetsPerTrigger": "5", "maxTriggerDelay": "0s"}, "option maxTriggerDelay is a time such as 15m"),
        ({"maxOffsetsPerTrigger": "5", "maxEventsPerTrigger": "5"}, "maxEventsPerTrigger is given twice"),
        ({"columns": "headers", "includeHeaders": "false"}, "columns and includeHeaders contradict each other"),
        ({"startingOffsetsByTimestamp": "{}", "startingOffsets": "latest"}, "contradict each other"),
        ({"startingOffsetsByTimestamp": '{"other": 5}'}, "names other, which option subscribe does not select"),
        ({"provider": "weft", "owner": "me"}, "use CREATE TEMPORARY VIEW name USING weft OPTIONS"),
        ({"kafka.bootstrap.servers": "h:1"}, "named by option nodes"),
        ({"kafka.fetch.min.bytes": "1"}, "is for Kafka's consumer, which is not there"),
        ({"groupIdPrefix": "x"}, "under option group"),
        ({"nodes": "nonsense"}, "option nodes: node 'nonsense' is not host:port"),
        ({"nodes": "h:1", "insecure": ""}, "option insecure is true or false"),
        ({"insecure": "false"}, "option nodes needs security"),
        ({"insecure": "yes"}, "option insecure is true or false, not 'yes'"),
        ({"token": "weft_k3_abc"}, "Spark logs options"),
        ({"startingOffsets": "newest"}, "option startingOffsets"),
        ({"startingOffsets": '{"other": {"n/0/1": 5}}'}, "names other, which option subscribe does not select"),
        ({"startingOffsets": "latest", "startingTimestamp": "5"}, "contradict"),
        ({"endingOffsets": "latest", "endingTimestamp": "5"}, "contradict"),
        ({"startingTimestamp": "2026-05-04T08:00:00"}, "option startingTimestamp is a time with its zone"),
        ({"startingTimestamp": "noon"}, "option startingTimestamp"),
        ({"endingTimestamp": "99999999999999999999"}, "option endingTimestamp is a number"),
        ({"maxEventsPerTrigger": "0"}, "option maxEventsPerTrigger is a number from 1"),
        ({"maxBytesPerTrigger": "1.5"}, "option maxBytesPerTrigger"),
        ({"minPartitions": "-1"}, "option minPartitions"),
        ({"minPartitions": "1000000"}, "from 1 to 100000"),
        ({"failOnDataLoss": "no"}, "option failOnDataLoss"),
        ({"columns": "value,colour"}, r"no column 'colour' \(known key, value"),
        ({"columns": ","}, "option columns"),
    ],
)
def test_every_mistake_names_its_option(given: dict[str, str], message: str) -> None:
    with pytest.raises(BadOption, match=message):
        parse_options({**LEAST, **given})


@pytest.mark.parametrize("name", ["maxEventsPerTrigger", "minEventsPerTrigger", "maxBytesPerTrigger", "group"])
def test_some_options_are_for_streams(name: str) -> None:
    options = parse_options({**LEAST, name: "1"})
    options.check_stream()
    with pytest.raises(BadOption, match=f"option {name} is only for readStream"):
        options.check_batch()


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp"])
def test_some_options_are_for_batches(name: str) -> None:
    options = parse_options({**LEAST, name: "latest" if name == "endingOffsets" else "5"})
    options.check_batch()
    with pytest.raises(BadOption, match=f"option {name} is only for read"):
        options.check_stream()


def test_values() -> None:
    assert parse_list(" a, b,,a ") == ("a", "b")
    assert parse_flag("x", "True") is True
    assert parse_count("x", "-2", -2, 5) == -2
    assert by_name({"NODES": " h:1 "}, ("nodes",)) == {"nodes": "h:1"}
    assert len(set(SOURCE_OPTIONS)) == len(SOURCE_OPTIONS)
    for text in ("", "-", "--1", "1e3", "\u0661", "9" * 5000):
        with pytest.raises(BadOption, match="option x is a number from -2 to 5"):
            parse_count("x", text, -2, 5)


@pytest.mark.req("SPK-01")
def test_names_of_the_kafka_source_are_known() -> None:
    """Each is taken, or refused with what to use instead."""
    given = {
        "nodes": "h:1",
        "insecure": "true",
        "subscribePattern": "plant.>,!plant.secret",
        "maxOffsetsPerTrigger": "10",
        "minOffsetsPerTrigger": "5",
        "maxTriggerDelay": "2m",
        "startingOffsetsByTimestamp": '{"plant.a": {"0": 1000}}',
        "failOnDataLoss": "false",
        "includeHeaders": "false",
        "minPartitions": "3",
    }
    options = parse_options({name.lower(): value for name, value in given.items()})
    assert str(options.selection) == "plant.>,!plant.secret"
    assert (options.events_max, options.events_min, options.trigger_delay_s) == (10, 5, 120.0)
    assert "headers" not in options.columns and len(options.columns) == len(COLUMNS) - 1
    assert not (ALIASES.keys() | REFUSED.keys()) & set(SOURCE_OPTIONS)
    for name in REFUSED:
        with pytest.raises(BadOption, match=f"there is no option {name}: "):
            parse_options({**LEAST, name: "x"})


def test_which_streams_are_read() -> None:
    one, two = (Place(Stream(Topic("plant.a"), NodeId("n"), number), Epoch(1)) for number in (0, 1))
    assert parse_options(LEAST).is_read(two)
    only = {**LEAST, "onlyNamed": "true"}
    named = parse_options({**only, "startingOffsets": '{"plant.a": {"n/0/1": 5}}'})
    assert (named.is_read(one), named.is_read(two)) == (True, False)
    named = parse_options({**only, "endingOffsetsByTimestamp": '{"plant.a": {"1": 5}}'})
    assert (named.is_read(one), named.is_read(two)) == (False, True)
    assert parse_options({**LEAST, "members": "Named"}).members is Members.NAMED
