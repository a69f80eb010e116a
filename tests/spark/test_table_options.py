"""A table as options of Spark: there and back, and what is refused."""

from __future__ import annotations

import pytest

from weft.lake.address import TableError
from weft.lake.settings import TableFormat, TableSettings
from weft.spark import BadOption
from weft.spark.table_options import table_of


def test_options_say_all_that_settings_do() -> None:
    settings = TableSettings(
        "/lake/events", TableFormat.ICEBERG, ("date", "topic_token"), ("topic",), 1 << 20, "prod", "plant.events"
    )
    assert table_of(settings.options()) == settings


def test_spark_changes_the_case_of_names_and_adds_its_own() -> None:
    options = {"TABLE": "/lake/events", "tableformat": "Parquet", "queryname": "q", "checkpointlocation": "/c"}
    assert table_of(options) == TableSettings("/lake/events", TableFormat.PARQUET)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "option table is missing"),
        ({"table": "/t", "tableFormat": "orc"}, "option tableFormat is one of delta, iceberg, parquet, not 'orc'"),
        ({"table": "/t", "fileBytes": "12"}, "option fileBytes is a number from 65536"),
        ({"table": "/t", "partitonBy": "date"}, "no such option 'partitonBy'"),
        ({"table": "ftp://bucket/t"}, "tables are in directories or below s3://, gs:// or abfss://; ftp: is not"),
        ({"table": "/t", "identifier": "events"}, "a table of a catalog is called namespace.name"),
        ({"table": "/t", "partitionBy": "date", "sortBy": "date"}, "rows of a partition are not sorted by"),
        ({"table": ""}, "a table needs a path"),
    ],
)
def test_a_refusal_names_the_option(options: dict[str, str], words: str) -> None:
    with pytest.raises((BadOption, TableError), match=words):
        table_of(options)
