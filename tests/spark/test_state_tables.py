"""Buckets and dead letters as tables: what the options mean, and what Spark gets."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.spark.meshes import until
from weft.client.blocking import Client
from weft.spark.option_values import BadOption
from weft.spark.source import WeftSource
from weft.spark.state_tables import DEAD, KV, state_table
from weft.testing.live_blocking import BlockingMesh

pytestmark = pytest.mark.xdist_group("spark")
PLACE = {"nodes": "127.0.0.1:7400", "insecure": "true"}


def test_the_option_names_the_table() -> None:
    assert state_table({**PLACE, "subscribe": "plant.>"}) is None
    bucket, letters = state_table({**PLACE, "kv": "settings"}), state_table({**PLACE, "deadletters": "billing"})
    assert bucket is not None and (bucket.kind, bucket.name, bucket.schema.names) == ("kv", "settings", KV.names)
    assert letters is not None and (letters.kind, letters.name, letters.schema.names) == (
        "deadLetters", "billing", DEAD.names,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kv": "a", "deadLetters": "b"}, "two tables"),
        ({"kv": "a", "subscribe": "x"}, "subscribe"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(BadOption, match=words):
        state_table({**PLACE, **options})


def test_a_stream_of_a_table_is_refused() -> None:
    source = WeftSource({**PLACE, "kv": "settings"})
    with pytest.raises(BadOption, match=r"spark\.read"):
        source.streamReader(source.schema())


@pytest.mark.req("CON-05", "CON-02")
def test_spark_reads_keys_and_values_and_dead_letters(spark: SparkSession, mesh: BlockingMesh, client: Client) -> None:
    given = {"nodes": mesh.address("n0"), "insecure": "true"}
    bucket = client.kv("machines")
    bucket.put("m1", b"on")
    bucket.put("m2", b"off", ttl=3600)
    bucket.put("m3", b"gone")
    bucket.delete("m3")
    rows = spark.read.format("weft").options(**given, kv="machines").load().orderBy("key").collect()
    assert [(row.key, bytes(row.value), row.expires is None) for row in rows] == [
        ("m1", b"on", True),
        ("m2", b"off", False),
    ]
    client.publish("tables.orders", b"poison", key="k", headers={"unit": "C"})
    events = client.subscribe("tables.orders", group="packing", start="earliest", commit="manual", max_deliveries=1)
    with events:
        events.nack(next(iter(events)), reason="not something to eat")
        until(lambda: bool(client.dead_letters("packing")))
    (letter,) = spark.read.format("weft").options(**given, deadLetters="packing").load().collect()
    assert (letter.topic, letter.origin, letter.offset, letter.tries) == ("tables.orders", "n0", 0, 1)
    assert (bytes(letter.key), bytes(letter.value), letter.reason) == (b"k", b"poison", "not something to eat")
    assert letter.headers["unit"] == "C" and not letter.lost
