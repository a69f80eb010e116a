"""A typed archive as users run it: killed again and again, and by the ``weft`` command at a secured node."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.pipelines.archiving import FIRST_US, kill_while_it_writes
from tests.pipelines.lake.made import arrow_rows
from tests.spark.secured_pair import Ended, run_with_spark
from tests.up import COMMAND, RunningNode, up
from weft.client import TlsFiles
from weft.client.blocking import Client, connect
from weft.configuration import Source, validated
from weft.pipelines import archive, lake
from weft.pipelines.archive import ArchiveSettings
from weft.pipelines.typed.tables import TypedTables
from weft.testing import blocking_mesh

pytestmark = [pytest.mark.xdist_group("drivers"), pytest.mark.req("LAK-02")]

SOAK = os.environ.get("WEFT_SOAK") == "1"
ROUNDS = 10 if SOAK else 1
KINDS = list(lake.TableFormat) if SOAK else [lake.TableFormat.DELTA]
IDENTITY = ("topic", "origin", "epoch", "partition", "offset")


class TypedPublisher:
    """Publishes events of several topics, some of which are no JSON, and knows where each has to be."""

    def __init__(self, client: Client, seed: int) -> None:
        self._client = client
        self._random = random.Random(seed)  # noqa: S311  a seed is the point
        self.rows: list[tuple[object, ...]] = []  # of both tables, in the order of publication
        self.good: list[tuple[object, ...]] = []
        self.dead: list[tuple[object, ...]] = []

    def publish(self) -> None:
        topic, size = f"plant.line{self._random.randrange(5)}", self._random.randrange(1, 200)
        first = len(self.rows)
        numbers = range(first, first + size)
        dead = {number for number in numbers if self._random.random() < 0.05}
        payloads = [b"broken %d" % n if n in dead else json.dumps({"n": n, "s": f"text {n}"}).encode() for n in numbers]
        columns = {
            "timestamp": pa.array([FIRST_US + number * 10_000_000 for number in numbers], pa.int64()),
            "key": pa.nulls(size, pa.binary()),
            "headers": pa.nulls(size, pa.map_(pa.string(), pa.string())),
            "payload": pa.array(payloads, pa.binary()),
        }
        receipt = self._client.publish_batch(topic, pa.table(columns))
        stream = receipt.stream
        for place, (number, payload) in enumerate(zip(numbers, payloads, strict=True)):
            identity = (topic, stream.origin, receipt.epoch, stream.partition, receipt.first_offset + place)
            self.rows.append(identity)
            if number in dead:
                self.dead.append((*identity, payload))
            else:
                self.good.append((*identity, number))


def tables_of(values: dict[str, object]) -> TypedTables:
    tables = validated(ArchiveSettings, [Source("a test", values)]).typed_tables()
    assert tables is not None
    return tables


def found(table: lake.TableSettings, *names: str) -> list[tuple[object, ...]]:
    """By the format's own reader."""
    rows = arrow_rows(lake.open_table(table)).select([*IDENTITY, *names]).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


@pytest.mark.parametrize("kind", KINDS)
def test_a_driver_that_is_killed_leaves_every_event_once_in_one_of_both_tables(
    spark: SparkSession, tmp_path: Path, kind: lake.TableFormat
) -> None:
    """The last of its drivers, which goes on to the end, is the session of this process."""
    chance = random.Random(int(os.environ.get("WEFT_SEED", "11")))  # noqa: S311  a seed is the point
    with blocking_mesh(nodes=1) as mesh, mesh.client("n0") as client:
        client.schemas.set("plant.>", "n BIGINT NOT NULL, s STRING", kind="ddl", mode="off")
        values: dict[str, object] = {
            "mesh": {"nodes": [mesh.address("n0")], "insecure": True},
            "source": {"subscribe": "plant.>", "max_events_per_trigger": 500},
            "table": {"path": str(tmp_path / "data" / "table"), "format": kind.value},
            "run": {"checkpoint": str(tmp_path / "data" / "checkpoint"), "trigger": "100 milliseconds"},
            "spark": {"master": "local[2]", "conf": {"spark.sql.shuffle.partitions": "2"}},
            "typed": {},
        }
        publisher = TypedPublisher(client, seed=3)
        publisher.publish()
        tables = tables_of(values)
        for _ in range(ROUNDS):
            kill_while_it_writes(tmp_path, values, tables.table.store(), publisher, chance, patience=80)  # type: ignore[arg-type]
        run = {"checkpoint": str(tmp_path / "data" / "checkpoint"), "trigger": "available-now"}
        settings = validated(ArchiveSettings, [Source("a test", values | {"run": run})])
        for query in archive.start(spark, settings):
            query.awaitTermination()
        assert publisher.dead, "there was something to put aside"
        assert found(tables.table, "n") == sorted(publisher.good)
        assert found(tables.dead_letters, "value") == sorted(publisher.dead)


# --- the command, secured --------------------------------------------------------------------------------------------


def weft(config: Path, *arguments: str) -> Ended:
    return run_with_spark(["env", f"WEFT_CONFIG_DIR={config}", *COMMAND, *arguments])


def client_of(node: RunningNode) -> Client:
    context = node.context
    assert context.tls_root and context.tls_certificate and context.tls_key, "it is secured"
    files = TlsFiles(Path(context.tls_root), Path(context.tls_certificate), Path(context.tls_key))
    return connect(list(context.nodes), token=context.token, tls=files)


def test_set_a_schema_archive_mend_it_and_replay(tmp_path: Path) -> None:
    schema = tmp_path / "temp.sql"
    schema.write_text("celsius DOUBLE NOT NULL, timestamp STRING")
    config = tmp_path / "archive.toml"
    config.write_text(
        f"""
        name = "temps"
        [source]
        subscribe = "plant.*.temp"
        [table]
        path = "{tmp_path}/temps"
        [typed]
        strict = true
        [run]
        checkpoint = "{tmp_path}/checkpoint"
        [spark]
        master = "local[2]"
        [spark.conf]
        "spark.sql.shuffle.partitions" = "2"
        """
    )
    state = ("--state-dir", str(tmp_path / "runs"))
    with up(tmp_path / "node") as node, client_of(node) as client:
        ended = weft(node.config, "schema", "set", "plant.*.temp", str(schema), "--mode", "off")
        assert ended.status == 0, ended.err
        client.publish("plant.a.temp", b'{"celsius": 21.5, "timestamp": "mine"}')
        client.publish("plant.a.temp", b'{"celsius": 22, "unit": "C"}')
        client.publish("plant.b.temp", b'{"fahrenheit": 70}')
        ended = weft(node.config, "pipeline", "run", "archive", "--config", str(config), "--available-now", *state)
        assert ended.status == 0, ended.err
        assert "1 dead letters in" in ended.out + ended.err
        table = lake.TableSettings(f"{tmp_path}/temps")
        assert [row[5:] for row in found(table, "celsius", "payload_timestamp", "_rescued")] == [
            (21.5, "mine", None),
            (22.0, None, '{"unit":"C"}'),
        ]
        schema.write_text("celsius DOUBLE, fahrenheit DOUBLE, timestamp STRING")
        assert weft(node.config, "schema", "set", "plant.*.temp", str(schema)).status == 0
        ended = weft(node.config, "pipeline", "run", "replay", "--config", str(config), "--execute", *state)
        assert ended.status == 0, ended.err
        assert "1 of 1 dead letters fit the schema of now; 1 marked as done" in ended.out
        assert [row[5:] for row in found(table, "celsius", "fahrenheit")] == [(21.5, None), (22.0, None), (None, 70.0)]
