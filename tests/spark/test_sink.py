"""The sink in Spark: batch and streaming, repeated, failing, killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from tests.spark import sink_driver
from weft.client.blocking import Client
from weft.client.received import Received
from weft.spark.connection import Connection
from weft.spark.staging import Applied, Decided, Writing, decode_untrusted, query_id, unseal_untrusted
from weft.testing import blocking_mesh
from weft.testing.live_blocking import BlockingMesh

pytestmark = pytest.mark.xdist_group("spark")

DRIVER = Path(sink_driver.__file__)
TIMEOUT_S = 300.0
SOAK = "WEFT_SOAK" in os.environ
KILLS = 12 if SOAK else 1
FILES, LINES = (40 if SOAK else 5), 50


@pytest.fixture(scope="module")
def mesh() -> Iterator[BlockingMesh]:
    with blocking_mesh(nodes=1) as mesh:
        yield mesh


@pytest.fixture
def client(mesh: BlockingMesh) -> Iterator[Client]:
    with mesh.client() as client:
        yield client


@pytest.fixture
def options(mesh: BlockingMesh) -> dict[str, str]:
    return {"nodes": mesh.address("n0"), "insecure": "true"}


def events(client: Client, pattern: str) -> list[Received]:
    places = client.positions(pattern)
    return [
        event for place in places for batch in client.fetch(place.stream, place.epoch, 0) for event in batch.events()
    ]


def payloads(client: Client, pattern: str) -> list[bytes]:
    return [event.payload for event in events(client, pattern)]


def save(frame: DataFrame, options: dict[str, str], **more: str) -> None:
    frame.write.format("weft").options(**options, **more).mode("append").save()


@pytest.mark.req("SPK-02")
def test_rows_become_events(spark: SparkSession, client: Client, options: dict[str, str]) -> None:
    frame = spark.sql(
        """select concat('batch.', id % 2) topic, cast(id as string) value, cast(cast(id as string) as binary) key,
                  map('n', cast(id as string)) headers, timestamp_micros(id) timestamp, cast(id % 3 as int) partition
           from range(0, 12, 1, 2)"""
    )
    save(frame, options)
    found = events(client, "batch.*")
    assert sorted(int(event.payload) for event in found) == list(range(12))
    for event in found:
        number = int(event.payload)
        assert (event.topic, event.partition) == (f"batch.{number % 2}", number % 3)
        assert (event.key, event.headers) == (str(number).encode(), {"n": str(number)})
        assert event.timestamp_us == number


@pytest.mark.req("SPK-02")
def test_a_write_with_a_name_and_a_number_happens_once(
    spark: SparkSession, client: Client, options: dict[str, str]
) -> None:
    frame = spark.sql("select cast(id as string) value from range(5)").coalesce(1)
    for version in ("0", "0", "1", "0"):
        save(frame, options, topic="once.t", txnAppId="test", txnVersion=version)
    assert payloads(client, "once.t") == [b"0", b"1", b"2", b"3", b"4"] * 2
    save(frame, options, topic="once.t")
    save(frame, options, topic="once.t")
    assert len(payloads(client, "once.t")) == 20, "without a name, each write is one"


def test_mistakes_are_told_before_anything_is_written(
    spark: SparkSession, client: Client, options: dict[str, str]
) -> None:
    frame = spark.sql("select 'a' value")
    with pytest.raises(AnalysisException, match=r"weft.spark.*no such option 'topics'.*known context, copies"):
        save(frame, options, topics="mistake.t")
    with pytest.raises(AnalysisException, match="cannot be overwritten"):
        frame.write.format("weft").options(**options, topic="mistake.t").mode("overwrite").save()
    assert payloads(client, "mistake.t") == []


@pytest.mark.req("SPK-02")
def test_a_stream_is_known_by_its_query_and_batch(
    spark: SparkSession, client: Client, options: dict[str, str], tmp_path: Path
) -> None:
    """Spark does not document how a task learns the id of its query: this fails when it is not so any more."""
    lines = tmp_path / "lines"
    lines.mkdir()
    for number in range(2):
        (lines / f"{number}.txt").write_text(f"line {number}\n")
    checkpoint = tmp_path / "checkpoint"

    def run() -> str:
        query = (
            spark.readStream.option("maxFilesPerTrigger", 1)
            .text(str(lines))
            .writeStream.format("weft")
            .options(**options, topic="stream.t", checkpointLocation=str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(int(TIMEOUT_S))
        return query.id

    query = run()
    writing = Writing(client.owner(), query_id(query))
    secret = Connection.from_options(options).secret()
    records = [decode_untrusted(unseal_untrusted(payload, secret)) for payload in payloads(client, writing.decisions)]
    assert [(type(record), record.number) for record in records] == [
        (Decided, 0),
        (Applied, 0),
        (Decided, 1),
        (Applied, 1),
    ]
    assert sorted(payloads(client, "stream.t")) == [b"line 0", b"line 1"]
    (checkpoint / "commits" / "1").unlink()  # as if the driver had died before it wrote that down
    (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    assert run() == query
    assert sorted(payloads(client, "stream.t")) == [b"line 0", b"line 1"]


# --- a driver that is killed -----------------------------------------------------------------------------------------


def started(lines: Path, checkpoint: Path, node: str, seed: int, log: Path) -> subprocess.Popen[bytes]:
    """A driver in a session of its own, so that its Java and its workers go with it."""
    command = [sys.executable, str(DRIVER), str(lines), str(checkpoint), node, str(seed)]
    with log.open("wb") as output:
        return subprocess.Popen(command, start_new_session=True, stdout=output, stderr=output)


def kill(driver: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


def written(client: Client, pattern: str) -> int:
    return sum(place.latest_offset for place in client.positions(pattern))


def let_live(driver: subprocess.Popen[bytes], client: Client, watched: str, more: int) -> None:
    """Until so many more events are there, or the driver has ended by itself."""
    enough = written(client, watched) + more
    give_up_s = time.monotonic() + TIMEOUT_S
    while driver.poll() is None and written(client, watched) < enough:
        assert time.monotonic() < give_up_s, f"nothing comes to {watched}"
        time.sleep(0.02)


@pytest.mark.xdist_group("drivers")
@pytest.mark.req("SPK-02")
def test_a_driver_that_is_killed_leaves_every_row_once(spark: SparkSession, tmp_path: Path) -> None:
    """Killed when a random number of batches was staged or decided, or of events published."""
    lines, checkpoint, log = tmp_path / "lines", tmp_path / "checkpoint", tmp_path / "log"
    lines.mkdir()
    rows = [[f"{file}-{line}" for line in range(LINES)] for file in range(FILES)]
    for number, some in enumerate(rows):
        (lines / f"{number:03}.txt").write_text("\n".join(some) + "\n")
    seed = os.getpid()
    chance = random.Random(seed)  # noqa: S311
    with blocking_mesh(nodes=1) as mesh, mesh.client() as client:
        for attempt in range(KILLS):
            driver = started(lines, checkpoint, mesh.address("n0"), seed + attempt, log)
            watched, most = chance.choice((("weft.staging.*.*", 12), ("weft.decisions.*.*", 4), ("out.*", LINES)))
            more = chance.randint(1, most)
            if attempt == 0:  # a whole batch at least, with the task of it that fails at first
                watched, more = "out.*", LINES
            try:
                let_live(driver, client, watched, more)
            finally:
                kill(driver)
            assert driver.returncode in (0, -signal.SIGKILL), log.read_text()
        query = sink_driver.start(spark, lines, checkpoint, mesh.address("n0"), seed + KILLS, fails=False)
        assert query.awaitTermination(int(TIMEOUT_S)), f"seed {seed}"
        found = Counter(payload.decode() for payload in payloads(client, "out.*"))
    assert found == Counter(line for some in rows for line in some), f"seed {seed}"
