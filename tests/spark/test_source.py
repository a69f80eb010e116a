"""The source as Spark's planner and executors call it, without a JVM: offsets, limits, losses, progress."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxFiles, ReadMaxRows

from tests.spark.meshes import OLD_EVENTS, fill, fill_old, let_retention_pass, until
from weft.client import Options, Unavailable
from weft.client.blocking import Client
from weft.spark import surveyor as survey_room
from weft.spark.offsets import Json
from weft.spark.option_values import BadOption
from weft.spark.options import parse_options
from weft.spark.planning import DataLoss
from weft.spark.source import BatchReader, StreamReader, WeftSource
from weft.testing import blocking_mesh
from weft.testing.live_blocking import BlockingMesh

ALL = ReadAllAvailable()


class Readers(ExitStack):
    """Makes stream readers, and stops them."""

    def stream(self, *addresses: str, subscribe: str, **options: str) -> StreamReader:
        reader = StreamReader(parse_options(given(*addresses, subscribe=subscribe, **options)))
        self.callback(reader.stop)
        return reader


def given(*addresses: str, **options: str) -> dict[str, str]:
    return {"nodes": ",".join(addresses), "insecure": "true", **options}


@pytest.fixture
def readers() -> Iterator[Readers]:
    with Readers() as made:
        yield made


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test does not wait for nodes as long as a job does."""
    monkeypatch.setattr(
        survey_room, "ASKING", Options(connect_timeout_s=0.5, call_timeout_s=0.5, open_timeout_s=0.5, backoff_s_max=0.1)
    )
    monkeypatch.setattr(survey_room, "SPARK_UNAVAILABLE_S", 0.5)
    monkeypatch.setattr(survey_room, "RETRY_S", 0.05)


def rows(reader: StreamReader | BatchReader, partitions: list[InputPartition]) -> list[str]:
    found = []
    for partition in partitions:
        copy = pickle.loads(pickle.dumps(reader)) if isinstance(reader, BatchReader) else reader
        for batch in copy.read(pickle.loads(pickle.dumps(partition))):
            found += [value.decode() for value in batch.column("value").to_pylist()]
    return found


def step(reader: StreamReader, start: Json, limit: ReadLimit = ALL) -> tuple[Json, list[str]]:
    """One micro-batch: where it ends, and what was in it."""
    end = reader.latestOffset(json.loads(json.dumps(start)), limit)
    return end, rows(reader, list(reader.partitions(start, end)))


def numbers(count: int) -> pa.RecordBatch:
    return pa.record_batch({"payload": [b"%03d" % number for number in range(count)]})


def batch(*addresses: str, **options: str) -> list[str]:
    reader = BatchReader(parse_options(given(*addresses, **options)))
    return rows(reader, reader.partitions())


# --- batches ---------------------------------------------------------------------------------------------------------


@pytest.mark.req("SPK-01")
def test_a_batch_reads_a_topic_a_pattern_and_ranges(mesh: BlockingMesh, client: Client) -> None:
    address = mesh.address("n0")
    fill(client, "b.one", "0123456789")
    fill(client, "b.two", "ab")
    epoch = client.positions("b.one")[0].epoch
    assert sorted(batch(address, subscribe="b.*")) == list("0123456789ab")
    assert batch(address, subscribe="b.one") == list("0123456789")
    assert batch(address, subscribe="b.none") == []
    places = {"startingOffsets": json.dumps({"b.one": {f"n0/0/{epoch}": 7}}), "endingOffsets": "latest"}
    assert sorted(batch(address, subscribe="b.>", **places)) == list("789ab")
    places = {"endingOffsets": json.dumps({"b.one": {f"n0/0/{epoch}": 3}})}
    assert batch(address, subscribe="b.one", **places, minPartitions="2") == list("012")
    assert batch(address, subscribe="b.one", startingOffsets="latest") == []


def test_a_batch_reads_a_stretch_of_time(mesh: BlockingMesh, client: Client) -> None:
    for second in range(10):
        client.publish("time.a", str(second), timestamp_us=second * 1_000_000)
    times = {"startingTimestamp": "3000", "endingTimestamp": "1970-01-01T02:00:07+02:00"}
    assert batch(mesh.address("n0"), subscribe="time.a", **times) == list("3456")
    assert batch(mesh.address("n0"), subscribe="time.a", endingTimestamp="3000") == list("012")
    assert batch(mesh.address("n0"), subscribe="time.a", startingTimestamp="9999999999999") == []


def test_a_batch_says_what_is_gone(mesh: BlockingMesh, client: Client) -> None:
    address = mesh.address("n0")
    fill_old(client, "bgone.a")
    fill(client, "bgone.a", ["new"])
    taken = let_retention_pass(mesh, client, "n0", "bgone.a")
    epoch = client.positions("bgone.a")[0].epoch
    places = {"subscribe": "bgone.a", "startingOffsets": json.dumps({"bgone.a": {f"n0/0/{epoch}": 0}})}
    with pytest.raises(DataLoss, match=rf"offsets 0 to {taken - 1} \({taken} events\).*failOnDataLoss=false"):
        batch(address, **places)
    assert batch(address, **places, failOnDataLoss="false")[-1] == "new"
    assert len(batch(address, subscribe="bgone.a")) == OLD_EVENTS + 1 - taken, "the earliest is what there is"
    places["startingOffsets"] = json.dumps({"bgone.a": {f"n0/0/{epoch + 1}": 3}})
    with pytest.raises(DataLoss, match="is gone altogether"):
        batch(address, **places)


@pytest.mark.usefixtures("impatient")
def test_a_batch_wants_all_its_nodes(mesh: BlockingMesh, client: Client) -> None:
    """Half of the events would look like all of them."""
    fill(client, "half.a", "1")
    nodes = (mesh.address("n0"), "127.0.0.1:1")
    with pytest.raises(Unavailable, match=r"not all nodes of the job answer .*127\.0\.0\.1:1"):
        batch(*nodes, subscribe="half.a")
    assert batch(*nodes, subscribe="half.a", failOnDataLoss="false") == ["1"]
    assert batch(*nodes, subscribe="half.a", members="reachable") == ["1"]


@pytest.mark.req("SPK-01")
def test_a_stream_begins_while_a_named_node_is_away_if_the_others_will_do(
    mesh: BlockingMesh, client: Client, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(client, "away.a", "1")
    nodes = (mesh.address("n0"), "127.0.0.1:1")
    reader = readers.stream(*nodes, subscribe="away.a", startingOffsets="earliest", members="reachable")
    assert step(reader, reader.initialOffset())[1] == ["1"]
    monkeypatch.setattr(survey_room, "SPARK_UNAVAILABLE_S", 0.5)  # a test does not wait for nodes as long as a job does
    with pytest.raises(Unavailable, match="not all nodes of the job answer"):
        readers.stream(*nodes, subscribe="away.a", startingOffsets="earliest").initialOffset()


@pytest.mark.req("SPK-01")
def test_streams_of_several_nodes_are_read_together() -> None:
    with blocking_mesh(2, links=()) as two, two.client("n0") as one, two.client("n1") as other:
        fill(one, "many.a", "12")
        fill(other, "many.a", "34")
        assert sorted(batch(two.address("n0"), two.address("n1"), subscribe="many.a")) == list("1234")


# --- streams ---------------------------------------------------------------------------------------------------------


@pytest.mark.req("SPK-01")
def test_a_stream_reads_on_where_it_was(mesh: BlockingMesh, client: Client, readers: Readers) -> None:
    address = mesh.address("n0")
    fill(client, "s.one", "123")
    reader = readers.stream(address, subscribe="s.>", startingOffsets="earliest")
    start = reader.initialOffset()
    end, found = step(reader, start)
    assert found == list("123")
    assert step(reader, end) == (end, []), "the same text while there is nothing new"
    fill(client, "s.one", "45")
    following, found = step(reader, end)
    assert found == list("45")
    again = readers.stream(address, subscribe="s.>")  # restarted from the checkpoint
    assert rows(again, list(again.partitions(end, following))) == list("45"), "a batch is repeated as it was"
    assert step(again, following) == (following, [])
    assert reader.reportLatestOffset() == following


def test_a_stream_begins_at_the_latest_unless_told_otherwise(
    mesh: BlockingMesh, client: Client, readers: Readers
) -> None:
    fill(client, "l.one", "123")
    reader = readers.stream(mesh.address("n0"), subscribe="l.one")
    assert reader.reportLatestOffset() is None
    start = reader.initialOffset()
    fill(client, "l.one", "45")
    assert step(reader, start)[1] == list("45")


@pytest.mark.req("SPK-01")
def test_a_new_topic_is_read_from_its_beginning(mesh: BlockingMesh, client: Client, readers: Readers) -> None:
    fill(client, "new.one", "1")
    reader = readers.stream(mesh.address("n0"), subscribe="new.>")
    start = reader.initialOffset()
    fill(client, "new.two", "abc")
    entered, found = step(reader, start)
    assert (found, set(entered)) == ([], {"new.one", "new.two"}), "its beginning goes into the checkpoint first"
    assert step(reader, entered)[1] == list("abc")


def test_a_new_topic_is_read_from_the_starting_time(mesh: BlockingMesh, client: Client, readers: Readers) -> None:
    reader = readers.stream(mesh.address("n0"), subscribe="newtime.>", startingTimestamp="5000")
    start = reader.initialOffset()
    assert start == {}
    for second in range(10):
        client.publish("newtime.a", str(second), timestamp_us=second * 1_000_000)
    entered, _ = step(reader, start)
    assert step(reader, entered)[1] == list("56789")


@pytest.mark.req("SPK-01")
@pytest.mark.parametrize(
    ("options", "limit", "most"),
    [
        ({"maxEventsPerTrigger": "7"}, ReadMaxRows(7), 7),
        ({"maxBytesPerTrigger": "1000"}, ReadMaxBytes(1000), 30),
        ({"maxEventsPerTrigger": "1000", "maxBytesPerTrigger": "1000"}, ReadMaxRows(1000), 30),
        ({}, ReadAllAvailable(), 60),
    ],
)
def test_limits_are_kept(
    mesh: BlockingMesh, client: Client, readers: Readers, options: dict[str, str], limit: ReadLimit, most: int
) -> None:
    topics = [f"limit{len(options)}{most}.{letter}" for letter in "abc"]
    for topic in topics:
        client.publish_batch(topic, numbers(20))
    pattern = topics[0].replace(".a", ".>")
    reader = readers.stream(mesh.address("n0"), subscribe=pattern, startingOffsets="earliest", **options)
    assert reader.getDefaultReadLimit() == limit
    start, seen, sizes = reader.initialOffset(), [], []
    while True:
        end, found = step(reader, start, limit)
        if end == start:
            break
        seen += found
        sizes.append(len(found))
        start = end
    assert len(seen) == 60
    assert all(0 < size <= most for size in sizes)
    assert len(sizes) >= 60 // most


def test_all_means_all_whatever_the_options_say(mesh: BlockingMesh, client: Client, readers: Readers) -> None:
    fill(client, "allof.a", "123")
    reader = readers.stream(
        mesh.address("n0"), subscribe="allof.a", startingOffsets="earliest", maxEventsPerTrigger="1"
    )
    start = reader.initialOffset()
    assert step(reader, start, ReadAllAvailable())[1] == list("123")
    assert step(reader, start, ReadMaxFiles(5))[1] == ["1"], "a limit that means nothing here leaves the option's"


@pytest.mark.req("SPK-01")
def test_available_now_ends_where_it_was_when_it_began(mesh: BlockingMesh, client: Client, readers: Readers) -> None:
    fill(client, "now.a", "123")
    reader = readers.stream(mesh.address("n0"), subscribe="now.>", startingOffsets="earliest")
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    fill(client, "now.a", "45")
    fill(client, "now.b", "6")
    end, found = step(reader, start)
    assert found == list("123")
    assert step(reader, end) == (end, [])


@pytest.mark.req("SPK-01")
def test_a_first_batch_that_is_read_again_leaves_new_topics_to_the_next_one(
    mesh: BlockingMesh, client: Client, readers: Readers
) -> None:
    """A query that died in its first batch: the checkpoint says where that ends, and the source where it begins."""
    options = {"subscribe": "reread.>", "startingOffsets": "earliest"}
    fill(client, "reread.a", "12")
    first = readers.stream(mesh.address("n0"), **options)
    end = first.latestOffset(first.initialOffset(), ALL)
    fill(client, "reread.b", "3")
    again = readers.stream(mesh.address("n0"), **options)
    assert rows(again, list(again.partitions(again.initialOffset(), end))) == list("12")
    entered, found = step(again, end)
    assert found == []
    assert step(again, entered)[1] == ["3"]


def test_a_stream_begins_where_it_first_said(mesh: BlockingMesh, client: Client, readers: Readers) -> None:
    """Spark asks again when it reads the first batch. By then there are more events, and streams that are new."""
    fill(client, "again.a", "12")
    reader = readers.stream(mesh.address("n0"), subscribe="again.>")
    start = reader.initialOffset()
    fill(client, "again.a", "3")
    fill(client, "again.b", "4")
    end = reader.latestOffset(start, ALL)
    assert rows(reader, list(reader.partitions(reader.initialOffset(), end))) == ["3"]


# --- losses ----------------------------------------------------------------------------------------------------------


@pytest.mark.req("SPK-01")
def test_retention_that_overtook_fails_or_is_passed_over(
    mesh: BlockingMesh, client: Client, readers: Readers, caplog: pytest.LogCaptureFixture
) -> None:
    fill_old(client, "over.a")
    strict, lenient = (
        readers.stream(mesh.address("n0"), subscribe="over.a", startingOffsets="earliest", failOnDataLoss=choice)
        for choice in ("true", "false")
    )
    start = strict.initialOffset()
    fill(client, "over.a", ["new"])
    taken = let_retention_pass(mesh, client, "n0", "over.a")
    with pytest.raises(DataLoss, match=rf"over.a@n0/0:e\d+ offsets 0 to {taken - 1} \({taken} events\)"):
        strict.latestOffset(start, ALL)
    with caplog.at_level(logging.WARNING, "weft.spark"):
        end, found = step(lenient, start)
    assert (len(found), found[-1]) == (OLD_EVENTS + 1 - taken, "new")
    assert caplog.text.count(f"offsets 0 to {taken - 1}") == 1, "it is said once"
    assert step(lenient, end) == (end, [])


@pytest.mark.req("SPK-01")
def test_a_lost_disk_is_a_loss_and_its_new_epoch_is_read(readers: Readers) -> None:
    with blocking_mesh(1) as lone:
        address = lone.address("n0")
        with lone.client() as client:
            fill(client, "disk.a", "12")
        strict = readers.stream(address, subscribe="disk.>", startingOffsets="earliest")
        end, _ = step(strict, strict.initialOffset())
        lone.lose_disk("n0")
        lone.restart("n0")
        with lone.client() as client:
            fill(client, "disk.a", "345")
            until(lambda: client.positions("disk.a"))
            with pytest.raises(DataLoss, match=r"disk.a@n0/0:e\d+ is gone altogether; offset 2 was to be read next"):
                step(strict, end)
            lenient = readers.stream(address, subscribe="disk.>", failOnDataLoss="false")
            entered, found = step(lenient, end)
            assert (found, len(entered["disk.a"])) == ([], 2)
            assert step(lenient, entered)[1] == list("345")
            readers.close()


@pytest.mark.usefixtures("impatient")
def test_a_node_that_is_away_is_not_a_loss(readers: Readers) -> None:
    with blocking_mesh(2, links=()) as two:
        nodes = (two.address("n0"), two.address("n1"))
        with two.client("n0") as one, two.client("n1") as other:
            fill(one, "away.a", "12")
            fill(other, "away.b", "34")
            reader = readers.stream(*nodes, subscribe="away.>", startingOffsets="earliest")
            start = reader.initialOffset()
            end, found = step(reader, start)
            assert sorted(found) == list("1234")
        two.kill("n1")
        with two.client("n0") as one:
            fill(one, "away.a", "5")
            following, found = step(reader, end)
            assert found == ["5"], "the others go on"
            assert following["away.b"] == end["away.b"], "and it waits"
            with pytest.raises(Unavailable, match="not all nodes of the job answer"):
                reader.partitions(start, end)
        two.restart("n1")
        again = readers.stream(*nodes, subscribe="away.>")
        assert sorted(rows(again, list(again.partitions(start, end)))) == list("1234")
        two.kill("n0")
        two.kill("n1")
        with pytest.raises(Unavailable, match="none of the job's nodes answers"):
            again.latestOffset(following, ALL)
        readers.close()


@pytest.mark.req("SPK-01")
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("lossy", ["true", "false"])
def test_a_planned_batch_waits_for_a_member_that_is_away_and_was_not_named(readers: Readers, lossy: str) -> None:
    """A query that is started again reads the batch of its checkpoint first, whoever is there by then."""
    with blocking_mesh(2) as two:
        with two.client("n1") as other:
            fill(other, "later.a", "12")
        nodes = (two.address("n0"), two.address("n1"))
        first = readers.stream(*nodes, subscribe="later.>", startingOffsets="earliest")
        start = first.initialOffset()
        end = first.latestOffset(start, ALL)
        first.stop()
        two.kill("n1")
        again = readers.stream(nodes[0], subscribe="later.>", failOnDataLoss=lossy)
        with pytest.raises(Unavailable, match=r"may be on nodes that do not answer .*n1"):
            again.partitions(start, end)
        two.restart("n1")
        once_more = readers.stream(nodes[0], subscribe="later.>", failOnDataLoss=lossy)
        assert rows(once_more, list(once_more.partitions(start, end))) == list("12")
        readers.close()


# --- progress, and the rest of the mesh ------------------------------------------------------------------------------


@pytest.mark.req("SPK-01")
def test_progress_is_what_spark_is_done_with(mesh: BlockingMesh, client: Client, readers: Readers) -> None:
    fill(client, "lag.a", "12345")
    reader = readers.stream(mesh.address("n0"), subscribe="lag.a", startingOffsets="earliest", group="job")
    start = reader.initialOffset()
    end, _ = step(reader, start)
    assert client.positions("lag.a", "job")[0].group_offset == 0
    step(reader, end)
    (lag,) = client.groups("job")
    assert [(each.position.offset, each.lag_events) for each in lag.streams] == [(5, 0)]
    fill(client, "lag.a", "67")
    assert client.groups("job")[0].streams[0].lag_events == 2


def test_a_job_goes_on_when_nobody_takes_its_progress(
    mesh: BlockingMesh, client: Client, readers: Readers, caplog: pytest.LogCaptureFixture
) -> None:
    fill(client, "nolag.a", "1")
    reader = readers.stream(mesh.address("n0"), subscribe="nolag.a", startingOffsets="earliest", group="x" * 100)
    with caplog.at_level(logging.WARNING, "weft.spark"):
        assert step(reader, reader.initialOffset())[1] == ["1"]
    assert "cannot report progress to group xxx" in caplog.text


@pytest.mark.req("SPK-01")
def test_events_of_other_nodes_come_while_a_query_runs(readers: Readers) -> None:
    with blocking_mesh(2) as two, two.client("n0") as far:
        reader = readers.stream(two.address("n1"), subscribe="far.>", startingOffsets="earliest")
        place = reader.initialOffset()
        assert place == {}
        fill(far, "far.a", "123")
        found: list[str] = []

        def has_come() -> bool:
            nonlocal place
            place, more = step(reader, place)
            found.extend(more)
            return len(found) == 3

        until(has_come)
        assert found == list("123")
        readers.close()


# --- for Spark -------------------------------------------------------------------------------------------------------


def test_the_schema_is_the_columns() -> None:
    source = WeftSource(given("h:1", subscribe="a", columns="value,offset"))
    assert source.schema().simpleString() == "struct<value:binary,offset:bigint>"
    assert WeftSource.name() == "weft"
    whole = WeftSource(given("h:1", subscribe="a")).schema().simpleString()
    assert whole == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "headers:map<string,string>,origin:string,epoch:bigint>"
    )


def test_options_are_checked_by_whoever_reads() -> None:
    source = WeftSource(given("h:1", subscribe="a", endingOffsets="latest"))
    with pytest.raises(BadOption, match="endingOffsets is only for read"):
        source.streamReader(source.schema())
    source.reader(source.schema())


def test_readers_travel_before_they_are_used() -> None:
    for kind in (StreamReader, BatchReader):
        pickle.loads(pickle.dumps(kind(parse_options(given("h:1", subscribe="a")))))
    reader = BatchReader(parse_options(given("h:1", subscribe="a")))
    assert list(reader.read(InputPartition(None))) == [], "Spark's own, when there is nothing to read"


@pytest.mark.req("SPK-01")
def test_too_little_is_left_for_a_later_batch(
    mesh: BlockingMesh, client: Client, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1000.0
    monkeypatch.setattr("weft.spark.source.time.monotonic", lambda: now_s)
    fill(client, "few.a", "1")
    options = {"minOffsetsPerTrigger": "3", "maxTriggerDelay": "60s", "startingOffsets": "earliest"}
    reader = readers.stream(mesh.address("n0"), subscribe="few.a", **options)
    end, found = step(reader, reader.initialOffset())
    assert found == ["1"], "the first batch is not waited for"
    fill(client, "few.a", "23")
    assert step(reader, end) == (end, [])
    fill(client, "few.a", "4")
    end, found = step(reader, end)
    assert found == list("234")
    fill(client, "few.a", "5")
    now_s += 59
    assert step(reader, end) == (end, [])
    now_s += 2
    assert step(reader, end)[1] == ["5"], "it waits no longer than that"


@pytest.mark.req("SPK-01")
def test_offsets_and_times_of_topics_and_only_these(mesh: BlockingMesh, client: Client) -> None:
    address = mesh.address("n0")
    for topic in ("some.a", "some.b", "some.c"):
        for second in range(4):
            client.publish(topic, f"{topic[-1]}{second}", timestamp_us=second * 1_000_000)
    places = {"subscribe": "some.*", "startingOffsets": '{"some.a": 3, "some.b": {"0": -1}}'}
    assert sorted(batch(address, **places)) == ["a3", "c0", "c1", "c2", "c3"]
    assert batch(address, **places, onlyNamed="true") == ["a3"]
    times = {
        "subscribe": "some.*",
        "startingOffsetsByTimestamp": '{"some.a": 2000, "some.b": {"0": 3000}}',
        "endingOffsetsByTimestamp": '{"some.a": 3000}',
        "onlyNamed": "true",
    }
    assert sorted(batch(address, **times)) == ["a2", "b3"]
    assert sorted(batch(address, assign='{"some.a": [0], "some.b": [7]}', columns="value")) == ["a0", "a1", "a2", "a3"]


def test_a_new_topic_enters_at_its_own_time(mesh: BlockingMesh, client: Client, readers: Readers) -> None:
    times = {"startingOffsetsByTimestamp": '{"own.a": 2000}'}
    reader = readers.stream(mesh.address("n0"), subscribe="own.>", **times)
    start = reader.initialOffset()
    for topic in ("own.a", "own.b"):
        for second in range(4):
            client.publish(topic, f"{topic[-1]}{second}", timestamp_us=second * 1_000_000)
    entered, _ = step(reader, start)
    assert sorted(step(reader, entered)[1]) == ["a2", "a3", "b0", "b1", "b2", "b3"]
