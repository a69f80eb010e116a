"""A table on S3 from end to end: archived, read by Spark without a jar, compacted, and audited against the log."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipelines.archiving import Publisher, in_order, table_rows
from tests.pipelines.s3 import S3, SECRET_KEY
from weft.configuration import Source, validated
from weft.pipelines import archive, audit, compact, lake, replay
from weft.pipelines.archive import ArchiveSettings
from weft.pipelines.audit import AuditSettings
from weft.pipelines.base import JobRun
from weft.pipelines.compact import CompactSettings
from weft.pipelines.replay import ReplaySettings
from weft.testing import blocking_mesh

pytestmark = pytest.mark.xdist_group("spark")


@pytest.mark.req("LAK-01")
def test_a_table_on_s3_is_written_read_compacted_and_audited(
    spark: SparkSession, s3: S3, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    with blocking_mesh(nodes=1) as mesh, mesh.client("n0") as client:
        publisher = Publisher(client, seed=4, topics=2)
        table = {"path": f"{s3.bucket()}/lake/events", "store": s3.section}
        node = {"nodes": [mesh.address("n0")], "insecure": True}
        settings = validated(
            ArchiveSettings,
            [
                Source(
                    "a test",
                    {
                        "mesh": node,
                        "source": {"subscribe": "plant.>", "max_events_per_trigger": 500},
                        "table": table,
                        "run": {"checkpoint": str(tmp_path / "checkpoint"), "trigger": "available-now"},
                    },
                )
            ],
        )
        for _ in range(10):
            publisher.publish()
        (query,) = archive.start(spark, settings)
        query.awaitTermination()
        assert in_order(table_rows(settings)) == in_order(publisher.rows)
        frame = lake.read(spark, settings.table_settings())
        assert frame.schema == lake.open_table(settings.table_settings()).schema()
        assert frame.groupBy("topic").count().count() == 2

        run = JobRun(False, said.append)
        outcome = compact.run(spark, validated(CompactSettings, [Source("a test", {"table": table})]), run)
        assert outcome.ok
        assert outcome.rows[0]["files_before"] != 0
        assert in_order(table_rows(settings)) == in_order(publisher.rows)
        wanted = {"mesh": node, "table": table, "audit": {"subscribe": "plant.>"}}
        outcome = audit.run(spark, validated(AuditSettings, [Source("a test", wanted)]), run)
        assert outcome.ok, outcome.summary
        wanted = {"mesh": node, "table": table, "replay": {"topics": "plant.>"}}
        outcome = replay.run(spark, validated(ReplaySettings, [Source("a test", wanted)]), run)
        assert outcome.summary.startswith(f"{len(publisher.rows):,} events of 2 topics")
    told = capfd.readouterr()
    assert SECRET_KEY not in told.out + told.err + "".join(said)
