"""Iceberg tables by name, in the catalogs that people have: REST, Glue and SQL, with their files on S3."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError
from pyiceberg.catalog.sql import SqlCatalog

from tests.pipelines.lake.made import SCHEMA, arrow_rows, configure_catalog, offsets_of, rows, written
from tests.pipelines.rest_catalog import serving
from tests.pipelines.s3 import ACCESS_KEY, REGION, S3, SECRET_KEY
from weft.lake.tables import check_place
from weft.pipelines.lake import Table, TableError, TableFormat, TableSection, open_table
from weft.pipelines.lake.iceberg import IcebergLake

pytestmark = pytest.mark.xdist_group("s3")
LAYOUT = {"partition_by": ("date",), "sort_by": ("topic",)}
TOKEN = "a-token-of-the-catalog"


@pytest.fixture(params=["rest", "glue", "sql"])
def section(
    request: pytest.FixtureRequest, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TableSection]:
    """A table that is known by its name, in a catalog that decides where tables lie."""
    warehouse = f"{s3.bucket()}/warehouse"
    with ExitStack() as stack:
        match request.param:
            case "rest":
                of_server = s3.iceberg(tmp_path / "rest.db") | {"warehouse": warehouse}
                uri = stack.enter_context(serving(SqlCatalog("behind", **of_server), TOKEN))
                properties = {"type": "rest", "uri": uri, "token": TOKEN}
            case "glue":
                properties = {
                    "type": "glue",
                    "warehouse": warehouse,
                    "glue.endpoint": s3.endpoint,
                    "glue.region": REGION,
                    "glue.access-key-id": ACCESS_KEY,
                    "glue.secret-access-key": SECRET_KEY,
                }
            case _:
                properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/prod.db", "warehouse": warehouse}
        configure_catalog(
            monkeypatch, "prod", properties | {k: v for k, v in s3.iceberg(tmp_path).items() if "s3" in k}
        )
        number = warehouse.removeprefix("s3://lake").partition("/")[0]
        yield TableSection(name=f"prod.plant{number}.events", store=s3.section)  # type: ignore[arg-type]


@pytest.mark.req("LAK-01")
def test_a_table_is_known_by_its_name(section: TableSection) -> None:
    settings = section.settings(**LAYOUT)
    check_place(settings, writing=True)
    table = open_table(settings)
    assert not table.exists()
    table.create(SCHEMA)
    table.create(SCHEMA)
    assert table.settings.path.startswith("s3://lake"), "the catalog has said where"
    assert table.commit(written(table, rows(range(5))), "q", 0)
    again = open_table(settings)
    assert not again.commit(written(again, rows(range(5))), "q", 0)
    assert again.commit(written(again, rows(range(5, 9)), batch=1), "q", 1)
    assert offsets_of(again) == list(range(9))
    again.replace(again.files(), written(again, rows(range(9)), query="compact"))
    assert [file.path.partition("/")[0] for file in table.files()] == ["date=2026-11-15"]
    assert arrow_rows(table).num_rows == 9
    check_place(settings, writing=False)


@pytest.mark.req("LAK-01")
def test_of_two_drivers_at_a_batch_one_wins(section: TableSection, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = section.settings(**LAYOUT)
    table = open_table(settings)
    table.create(SCHEMA)
    mine, others = written(table, rows(range(5))), written(table, rows(range(5)))
    load = IcebergLake._load
    looks = iter([True])

    def slow(self: IcebergLake) -> object:
        found = load(self)
        if self is table and next(looks, False):
            assert open_table(settings).commit(others, "q", 0)
        return found

    assert table.settings.path
    monkeypatch.setattr(IcebergLake, "_load", slow)
    assert not table.commit(mine, "q", 0)
    assert offsets_of(table) == list(range(5))


def refused(section: TableSection) -> str:
    with pytest.raises(TableError) as refusal:
        check_place(section.settings(), writing=True)
    return str(refusal.value)


@pytest.mark.req("LAK-01")
def test_catalogs_that_cannot_be_used_say_so_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "pyiceberg cannot open the catalog: set it up in .pyiceberg.yaml" in refused(TableSection(name="no.a.b"))
    configure_catalog(monkeypatch, "away", {"type": "rest", "uri": "http://127.0.0.1:1"})
    assert "the catalog cannot be asked: " in refused(TableSection(name="away.a.b"))
    with serving(SqlCatalog("behind", uri=f"sqlite:///{tmp_path}/x.db"), TOKEN) as uri:
        configure_catalog(monkeypatch, "shut", {"type": "rest", "uri": uri, "token": SECRET_KEY})
        said = refused(TableSection(name="shut.a.b"))
    assert "the catalog cannot be asked: " in said
    assert SECRET_KEY not in said
    lone = TableSection(path="s3://bucket/t", format=TableFormat.ICEBERG).settings()
    with pytest.raises(TableError, match="an Iceberg table in an object store needs a catalog"):
        open_table(lone).exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "give path, or name"),
        ({"name": "a.b"}, "has to be catalog.namespace.table"),
        ({"path": "/t", "catalog": "a", "format": "parquet"}, "catalogs are for Iceberg tables"),
        ({"name": "a.b.c", "identifier": "x.y"}, "give one or the other"),
    ],
)
def test_names_that_cannot_be_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        TableSection(**given)  # type: ignore[arg-type]


def test_a_path_says_where_a_new_table_of_a_catalog_lies(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_catalog(monkeypatch, "prod", s3.iceberg(tmp_path / "prod.db"))
    path = f"{s3.bucket()}/here"
    section = TableSection(path=path, name="prod.plant.events", store=s3.section)  # type: ignore[arg-type]
    table: Table = open_table(replace(section.settings(), partition_by=("date",)))
    table.create(SCHEMA)
    table.commit(written(table, rows(range(3))), "q", 0)
    assert table.settings.path == path
    assert offsets_of(table) == [0, 1, 2]
