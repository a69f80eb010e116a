"""Topics by a name in SQL."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import weft.spark
from tests.spark.meshes import fill
from weft.client.blocking import Client
from weft.testing.live_blocking import BlockingMesh

pytestmark = pytest.mark.xdist_group("spark")


@pytest.mark.req("SPK-01")
def test_topics_have_a_name_in_sql(spark: SparkSession, mesh: BlockingMesh, client: Client) -> None:
    def counted() -> int:
        found = spark.sql("SELECT count(*) AS events FROM view_temperatures WHERE topic LIKE 'view.%'").collect()
        return int(found[0].events)

    fill(client, "view.line1.temp", ["21.5", "22"])
    options = {"nodes": mesh.address("n0"), "insecure": "true"}
    weft.spark.view(spark, "view_temperatures", "view.*.temp", **options)
    assert counted() == 2
    fill(client, "view.line2.temp", ["23"])
    assert counted() == 2, "as with any frame, Spark plans it once"
    weft.spark.view(spark, "view_temperatures", "view.*.temp,!view.line1.>", **options)
    assert counted() == 1
    spark.catalog.dropTempView("view_temperatures")
