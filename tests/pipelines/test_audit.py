"""``audit``: finds what is missing, too much or not the same, and says where; and agrees with a sound table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from tests.spark.secured_pair import run_with_spark, secured_pair
from tests.up import COMMAND
from weft.client import Options
from weft.client.blocking import Client
from weft.configuration import Source, validated
from weft.model import matches, parse_pattern, parse_topic
from weft.pipelines import archive, audit, lake
from weft.pipelines.archive import ArchiveSettings
from weft.pipelines.audit import AuditSettings, Finding, Range, Side, StreamAudit, classified, compare, of_rows
from weft.pipelines.base import JobRun, Outcome
from weft.pipelines.topics import topic_regex
from weft.spark import surveyor as survey_room
from weft.spark.options import parse_options
from weft.testing import blocking_mesh
from weft.testing.live_blocking import BlockingMesh

pytestmark = pytest.mark.xdist_group("spark")
TOKENS = st.sampled_from(["a", "b", "a+b", "ü(", "*", "x|y", "$"])


@given(
    pattern=st.lists(TOKENS, min_size=1, max_size=4), rest=st.booleans(), topic=st.lists(TOKENS, min_size=1, max_size=5)
)
def test_a_pattern_as_a_regular_expression_selects_the_same(pattern: list[str], rest: bool, topic: list[str]) -> None:
    wanted = ".".join([*pattern, ">"] if rest else pattern)
    name = ".".join(token.replace("*", "star") for token in topic)
    selected = matches(parse_pattern(wanted), parse_topic(name))
    assert bool(re.match(topic_regex(wanted), name)) is selected


@pytest.mark.parametrize(
    ("finding", "first", "log", "archived", "was_asked", "then"),
    [
        (Finding.MISSING, 5, Side(10, 0, 9), Side(9, 0, 9), True, Finding.MISSING),
        (Finding.MISSING, 8, Side(10, 0, 9), Side(8, 0, 7), True, Finding.BEHIND),
        (Finding.MISSING, 0, Side(10, 0, 9), Side(), True, Finding.BEHIND),
        (Finding.KEPT, 0, Side(5, 5, 9), Side(10, 0, 9), True, Finding.KEPT),
        (Finding.KEPT, 0, Side(), Side(10, 0, 9), True, Finding.KEPT),
        (Finding.KEPT, 10, Side(10, 0, 9), Side(12, 0, 11), True, Finding.UNKNOWN),
        (Finding.DIFFERENT, 10, Side(10, 0, 9), Side(12, 0, 11), True, Finding.DIFFERENT),
        (Finding.KEPT, 0, Side(), Side(10, 0, 9), False, Finding.UNASKED),
        (Finding.MISSING, 5, Side(10, 0, 9), Side(9, 0, 9), False, Finding.MISSING),
    ],
)
def test_what_is_on_one_side_only_is_told_apart_by_where_it_lies(
    finding: Finding, first: int, log: Side, archived: Side, was_asked: bool, then: Finding
) -> None:
    found = classified([Range(finding, first, first + 1, 2)], log, archived, was_asked=was_asked)
    assert found == [Range(then, first, first + 1, 2)]


@pytest.mark.parametrize(
    ("finding", "strict", "lenient"),
    [
        (Finding.MISSING, False, False),
        (Finding.BEHIND, False, True),
        (Finding.DIFFERENT, False, False),
        (Finding.DUPLICATED, False, False),
        (Finding.UNKNOWN, False, False),
        (Finding.UNASKED, False, False),
        (Finding.KEPT, True, True),
    ],
)
def test_which_findings_are_faults(finding: Finding, strict: bool, lenient: bool) -> None:
    found = StreamAudit(("t", "n", 1, 0), Side(), Side(), [Range(finding, 3, 4, 2)])
    assert (found.is_sound(ignore_tail=False), found.is_sound(ignore_tail=True)) == (strict, lenient)
    assert found.row()[finding.value] == 2


# --- in Spark -------------------------------------------------------------------------------------------------------


def events(spark: SparkSession, *offsets: int, topic: str = "t", **changes: object) -> DataFrame:
    schema = (
        "topic string, origin string, epoch long, partition int, offset long, "
        "timestamp timestamp, key binary, value binary, headers map<string, string>"
    )
    row = {"key": b"k", "value": b"v", "headers": {"b": "2", "a": "1"}} | changes
    rows = [(topic, "n0", 7, 0, offset, None, row["key"], row["value"], row["headers"]) for offset in offsets]
    return spark.createDataFrame(rows, schema)


def test_each_fault_is_found_where_it_is(spark: SparkSession) -> None:
    log = events(spark, *range(20)).union(events(spark, *range(70_000, 70_010)))
    table = (
        events(spark, *range(5), *range(8, 18))
        .union(events(spark, 18, value=b"w"))
        .union(events(spark, 3, 4))
        .union(events(spark, *range(70_000, 70_004)))
        .union(events(spark, 5, topic="gone from the log"))
    )
    first, second = compare(of_rows(log), of_rows(table), {"n0"})
    assert first.stream == ("gone from the log", "n0", 7, 0)
    assert [(each.finding, str(each)) for each in first.ranges] == [(Finding.KEPT, "5")]
    assert second.stream == ("t", "n0", 7, 0)
    assert [(each.finding, str(each), each.count) for each in second.ranges] == [
        (Finding.DIFFERENT, "18", 1),
        (Finding.DUPLICATED, "3-4", 2),
        (Finding.MISSING, "5-7", 3),
        (Finding.MISSING, "19", 1),
        (Finding.BEHIND, "70004-70009", 6),
    ]
    assert (second.log, second.lake) == (Side(30, 0, 70_009), Side(22, 0, 70_003))


def test_digests_see_nulls_headers_and_which_column_it_is(spark: SparkSession) -> None:
    log = events(spark, 0, 1).union(events(spark, 2, key=None, value=b"k")).union(events(spark, 3, headers=None))
    same = events(spark, 1, 0, headers={"a": "1", "b": "2"})
    table = same.union(events(spark, 2, key=b"k", value=None)).union(events(spark, 3, headers={}))
    (found,) = compare(of_rows(log), of_rows(table), {"n0"})
    assert [(each.finding, str(each)) for each in found.ranges] == [(Finding.DIFFERENT, "2-3")]


def test_a_table_that_lacks_every_other_event_can_be_told_of(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "AUDIT_RANGES_MAX", 3)
    (found,) = compare(of_rows(events(spark, *range(21))), of_rows(events(spark, *range(0, 21, 2))), {"n0"})
    assert [(str(each), each.count) for each in found.ranges] == [("1", 1), ("3", 1), ("5-19", 8)]


@pytest.fixture(scope="module")
def mesh() -> Iterator[BlockingMesh]:
    with blocking_mesh(nodes=1) as made:
        yield made


@pytest.fixture
def client(mesh: BlockingMesh) -> Iterator[Client]:
    with mesh.client("n0") as made:
        yield made


def audited(spark: SparkSession, values: dict[str, object], **wanted: object) -> Outcome:
    settings = validated(AuditSettings, [Source("test", {**values, "audit": {"subscribe": "plant.>"} | wanted})])
    return audit.run(spark, settings, JobRun(False, lambda _: None))


@pytest.mark.req("SPK-03")
def test_a_table_is_audited_against_the_log(
    spark: SparkSession, mesh: BlockingMesh, client: Client, tmp_path: Path
) -> None:
    def publish(size: int) -> None:
        for topic in ("plant.a", "plant.b"):
            client.publish_batch(topic, pa.table({"payload": [b"%d" % n for n in range(size)], "key": ["k"] * size}))

    publish(50)
    both: dict[str, object] = {
        "mesh": {"nodes": [mesh.address("n0")], "insecure": True},
        "table": {"path": str(tmp_path / "table")},
    }
    run = {"checkpoint": str(tmp_path / "checkpoint"), "trigger": "available-now"}
    settings = validated(ArchiveSettings, [Source("test", {**both, "source": {"subscribe": ">"}, "run": run})])
    for query in archive.start(spark, settings):
        query.awaitTermination()
    sound = audited(spark, both)
    assert sound.ok
    assert sound.summary == "2 streams with 100 events in the table agree with the log"
    assert sound.rows == []
    with blocking_mesh(["m0"]) as other:  # nobody there knows n0, so what n0 had cannot be compared
        elsewhere = {**both, "mesh": {"nodes": [other.address("m0")], "insecure": True}}
        unasked = audited(spark, elsewhere)
        assert not unasked.ok
        assert unasked.summary.startswith("2 of 2 streams differ or cannot be compared: 100 unasked")
        assert unasked.summary.endswith("; not asked: n0")
        assert [row["ranges"] for row in unasked.rows] == ["unasked 0-49"] * 2
        assert [line.split()[0] for line in unasked.warnings] == ["n0"]
        retired = audited(spark, elsewhere, retired=["n0"])
        assert (retired.ok, retired.rows[0]["kept"], retired.warnings) == (True, 50, [])

    publish(10)
    behind = audited(spark, both)
    assert not behind.ok
    assert behind.summary.startswith("2 of 2 streams differ: 20 behind")
    assert [row["ranges"] for row in behind.rows] == ["behind 50-59"] * 2
    assert audited(spark, both, ignore_tail=True).ok

    table = lake.open_table(settings.table_settings())
    table.replace(table.files(), [])
    assert audited(spark, both).summary.startswith("2 of 2 streams differ: 120 behind")


def test_members_that_are_not_named_are_asked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey_room, "ASKING", Options(connect_timeout_s=0.5, call_timeout_s=60))
    with blocking_mesh(2) as two:
        with two.client("n1") as client:
            client.publish("plant.b", "1")
        address = two.address("n1")
        options = parse_options({"nodes": two.address("n0"), "insecure": "true", "subscribe": "plant.>"})
        everybody = audit.ask_all(options)
        assert (set(everybody.answered), everybody.unread()) == ({"n0", "n1"}, [])
        assert [str(place.stream) for place in everybody.held] == ["plant.b@n1/0"]
        two.kill("n1")
        (missing,) = audit.ask_all(options).unread()
        assert (missing.node, missing.address) == ("n1", address)
        assert missing.why.startswith("cannot be asked: no node answers")


def test_a_table_of_something_else_is_refused(spark: SparkSession, mesh: BlockingMesh, tmp_path: Path) -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    path = tmp_path / "table"
    lake.prepare(lake.TableSettings(str(path)), StructType([StructField("n", LongType())]))
    both: dict[str, object] = {"mesh": {"nodes": [mesh.address("n0")], "insecure": True}, "table": {"path": str(path)}}
    with pytest.raises(lake.TableError, match=r"this is not a table of raw events .*missing topic"):
        audited(spark, both)


@pytest.mark.xdist_group("drivers")
@pytest.mark.req("SPK-03")
def test_the_command_does_not_agree_while_a_node_is_down(spark: SparkSession, tmp_path: Path) -> None:
    """What only that node has in its log cannot be compared, and it may have more than the table."""
    with secured_pair(tmp_path) as pair:
        both: dict[str, object] = {
            "mesh": {**pair.mesh, "nodes": [pair.first, pair.second]},
            "table": {"path": str(tmp_path / "table")},
        }
        config = tmp_path / "audit.yaml"
        quick = {"master": "local[2]", "conf": {"spark.sql.shuffle.partitions": "2"}}
        config.write_text(json.dumps({**both, "audit": {"subscribe": "plant.>"}, "spark": quick}))  # JSON is YAML

        with pair.second_node() as second:
            for address, topic in ((pair.first, "plant.a"), (pair.second, "plant.b")):
                with pair.client(address) as client:
                    client.publish_batch(topic, pa.table({"payload": [b"%d" % number for number in range(50)]}))
            run = {"checkpoint": str(tmp_path / "checkpoint"), "trigger": "available-now"}
            settings = validated(ArchiveSettings, [Source("test", {**both, "source": {"subscribe": ">"}, "run": run})])
            for query in archive.start(spark, settings):
                query.awaitTermination()
            assert second.end() == 0
        flags = ("--config", config, "--state-dir", tmp_path / "runs", "--json")
        down = run_with_spark([*COMMAND, "pipeline", "run", "audit", *flags])
        assert down.status == 1, down
        told = json.loads(down.out)
        assert not told["ok"]
        assert told["summary"].endswith(f"; not asked: b ({pair.second})")
        assert told["warnings"][0].startswith(f"b ({pair.second}) cannot be asked: ")
        with pair.second_node():
            again = audited(spark, both)
        assert again == Outcome("2 streams with 100 events in the table agree with the log", [], ok=True, warnings=[])
