"""For tests of ``archive``: a publisher that remembers, drivers that can be killed, and tables row by row."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from tests.pipelines.lake.made import arrow_rows
from weft.client.blocking import Client
from weft.lake.store import Store
from weft.pipelines import lake
from weft.pipelines.archive import ArchiveSettings

POLL_S = 0.02
START_TIMEOUT_S = 600.0  # of a driver on a machine that does much else
EVENTS_PER_ROUND = 20_000  # more than a driver can archive before it is killed
DAY_US = 86_400_000_000
FIRST_US = 20_772 * DAY_US - 3_600_000_000  # an hour before midnight: two days
ROW = ("topic", "origin", "epoch", "partition", "offset", "timestamp", "key", "value", "headers")


class Publisher:
    """Publishes events of several topics and knows every row that has to be in the table for them."""

    def __init__(self, client: Client, seed: int, topics: int = 5) -> None:
        self._client = client
        self._random = random.Random(seed)  # noqa: S311  a seed is the point
        self._topics = [f"plant.line{number}.temp" for number in range(topics)]
        self.rows: list[tuple[object, ...]] = []

    def publish(self) -> None:
        """One batch, of some events of some topic."""
        topic, size = self._random.choice(self._topics), self._random.randrange(1, 200)
        first = len(self.rows)
        times = [FIRST_US + (first + number) * 10_000_000 for number in range(size)]
        keys = [self._random.choice([None, b"a", b"b"]) for _ in range(size)]
        payloads = [b"payload %d" % (first + number) for number in range(size)]
        headers = [self._random.choice([None, {}, {"unit": "C", "n": str(number)}]) for number in range(size)]
        columns = {
            "timestamp": pa.array(times, pa.int64()),
            "key": pa.array(keys, pa.binary()),
            "headers": pa.array(
                [None if each is None else list(each.items()) for each in headers], pa.map_(pa.string(), pa.string())
            ),
            "payload": pa.array(payloads, pa.binary()),
        }
        receipt = self._client.publish_batch(topic, pa.table(columns))
        stream = receipt.stream
        self.rows += [
            (topic, stream.origin, receipt.epoch, stream.partition, receipt.first_offset + place, *event)
            for place, event in enumerate(zip(times, keys, payloads, map(_told, headers), strict=True))
        ]


def table_rows(settings: ArchiveSettings) -> list[tuple[object, ...]]:
    """What a plain reader of the format finds, as the publisher tells it."""
    found = arrow_rows(lake.open_table(settings.table_settings()))
    columns = [
        found.column(name).cast(pa.int64()).to_pylist() if name == "timestamp" else found.column(name).to_pylist()
        for name in ROW
    ]
    return [(*row[:-1], _told(row[-1])) for row in zip(*columns, strict=True)]


def _told(headers: object) -> object:
    return None if headers is None else tuple(sorted(dict(headers).items()))  # type: ignore[call-overload]


def in_order(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return sorted(rows, key=lambda row: row[:5])


# --- drivers in processes of their own ------------------------------------------------------------------------------


@contextmanager
def driver(place: Path, settings: dict[str, object], *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """``python archive.py --config ...``; what is left of it at the end is killed, its Java and workers too."""
    config = place / "archive.json.yaml"
    config.write_text(json.dumps(settings))  # JSON is YAML
    log = place / "driver.log"
    with log.open("ab") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "weft.pipelines.archive", "--config", config, "--state-dir", place / "runs", *flags],
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """The driver with its Java and its workers, at once."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def marks(place: Path, table: Store) -> int:
    """How much has happened: a number that grows with every file that Spark or a table writes."""
    return sum(1 for path in place.rglob("*") if path.is_file()) + sum(1 for _ in table.files())


def kill_while_it_writes(
    place: Path,
    settings: dict[str, object],
    table: Store,
    publisher: Publisher,
    chance: random.Random,
    patience: int,
) -> None:
    """Start a driver, publish while it works, and kill it after it has written a random number of files."""
    before = marks(place / "data", table)
    enough = before + chance.randrange(1, patience)
    published = len(publisher.rows)
    deadline_s = time.monotonic() + START_TIMEOUT_S
    with driver(place, settings) as process:
        while marks(place / "data", table) < enough:
            assert process.poll() is None, (place / "driver.log").read_text()[-5000:]
            assert time.monotonic() < deadline_s, f"nothing is written: {(place / 'driver.log').read_text()[-5000:]}"
            if len(publisher.rows) - published < EVENTS_PER_ROUND:
                publisher.publish()
            time.sleep(POLL_S)
