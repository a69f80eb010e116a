"""Delta tables by their name in a Unity catalog, and what is said when the catalog cannot be used.

The catalog here is a server with the one answer that is needed, in the form of Unity's REST interface, version 2.1.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.pipelines.lake.made import SCHEMA, offsets_of, rows, written
from tests.pipelines.s3 import S3
from weft.lake.tables import check_place
from weft.lake.unity import HOST, TOKEN, UNITY_ANSWER_BYTES_MAX, location
from weft.pipelines.lake import Table, TableError, TableFormat, TableSection, TableSettings, open_table

pytestmark = pytest.mark.xdist_group("s3")
KEY = "dapi-not-to-be-seen"
NAME = "prod.plant.events"
LAYOUT = {"partition_by": ("date",), "sort_by": ("topic",)}


class Catalog:
    """What the server answers, by the path that is asked for, to those who have the key."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.asked: list[str] = []

    def tells(self, name: str, status: int = 200, **table: object) -> None:
        told = {"name": name.rpartition(".")[2], "table_type": "EXTERNAL", **table}
        self.raw(name, status, json.dumps(told).encode())

    def raw(self, name: str, status: int, body: bytes) -> None:
        self.answers[f"/api/2.1/unity-catalog/tables/{name}"] = status, body

    def answer(self, path: str, key: str | None) -> tuple[int, bytes]:
        self.asked.append(path)
        if key != f"Bearer {KEY}":
            return 401, b"{}"
        return self.answers.get(path, (404, b'{"error_code":"TABLE_NOT_FOUND"}'))


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    """It runs, and the environment names it."""
    made = Catalog()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = made.answer(self.path, self.headers.get("Authorization"))
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv(HOST, f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv(TOKEN, KEY)
        yield made
        server.shutdown()
        thread.join()


def lives(table: Table) -> None:
    """Batches once each, and files swapped, by a reader that knows nothing of us."""
    assert table.commit(written(table, rows(range(5))), "q", 0)
    assert not table.commit(written(table, rows(range(5))), "q", 0)
    assert table.commit(written(table, rows(range(5, 9)), batch=1), "q", 1)
    table.replace(table.files(), written(table, rows(range(9)), query="compact"))
    assert offsets_of(table) == list(range(9))


@pytest.mark.req("LAK-01")
def test_a_delta_table_of_unity_is_known_by_its_name(catalog: Catalog, tmp_path: Path) -> None:
    path = tmp_path / "a table"
    open_table(TableSettings(str(path), **LAYOUT)).create(SCHEMA)  # type: ignore[arg-type]
    catalog.tells(NAME, data_source_format="DELTA", storage_location=path.as_uri())
    settings = TableSection(name=NAME, format=TableFormat.DELTA).settings(**LAYOUT)
    check_place(settings, writing=True)
    table = open_table(settings)
    assert table.exists() and table.settings.path == str(path)
    lives(table)
    assert table.settings.catalog is None, "what tasks get needs no catalog"
    assert offsets_of(open_table(TableSettings(str(path)))) == list(range(9)), "it is the table at that path"


@pytest.mark.req("LAK-01")
def test_a_delta_table_of_unity_may_be_in_a_bucket(catalog: Catalog, s3: S3) -> None:
    path = f"{s3.bucket()}/events"
    open_table(TableSettings(path, access=s3.access, **LAYOUT)).create(SCHEMA)  # type: ignore[arg-type]
    catalog.tells(NAME, data_source_format="DELTA", storage_location=f"{path}/")
    section = TableSection(name=NAME, format=TableFormat.DELTA, store=s3.section)  # type: ignore[arg-type]
    table = open_table(section.settings(**LAYOUT))
    assert table.settings.path == path
    lives(table)


def test_an_option_of_spark_may_be_a_name_too(catalog: Catalog, tmp_path: Path) -> None:
    from weft.spark.table_options import table_of

    open_table(TableSettings(str(tmp_path), **LAYOUT)).create(SCHEMA)  # type: ignore[arg-type]
    catalog.tells(NAME, data_source_format="DELTA", storage_location=str(tmp_path))
    settings = TableSection(name=NAME, format=TableFormat.DELTA).settings(**LAYOUT)
    assert table_of(settings.options()) == settings
    assert open_table(table_of(settings.options())).settings.path == str(tmp_path)


def refusal() -> str:
    with pytest.raises(TableError) as refused:
        check_place(TableSection(name=NAME, format=TableFormat.DELTA).settings(), writing=True)
    assert KEY not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("tell", "words"),
    [
        (lambda _: None, "has no such table. Make it with its path first"),
        (lambda c: c.tells(NAME, 500), "cannot be asked (table prod.plant.events, status 500"),
        (lambda c: c.tells(NAME, 302), "cannot be asked (table prod.plant.events, status 302"),
        (lambda c: c.raw(NAME, 200, b"<html>"), "something else than a table"),
        (lambda c: c.raw(NAME, 200, b'{"storage_location": 7}'), "something else than a table"),
        (lambda c: c.raw(NAME, 200, b" " * (UNITY_ANSWER_BYTES_MAX + 1)), "cannot be asked"),
        (lambda c: c.tells(NAME, data_source_format="PARQUET", storage_location="/x"), "in another format"),
        (lambda c: c.tells(NAME, data_source_format="DELTA"), "does not say where the table lies"),
        (lambda c: c.tells(NAME, data_source_format="DELTA", storage_location="dbfs:/x"), "dbfs: is not supported"),
    ],
)
def test_what_the_catalog_says_is_told_in_a_sentence(
    catalog: Catalog, tell: Callable[[Catalog], None], words: str
) -> None:
    tell(catalog)
    assert words in refusal()
    assert "/elsewhere" not in catalog.asked, "a key does not follow redirections"


def test_keys_that_are_refused_are_not_shown(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, f"{KEY}2")
    assert f"refuses the key in {TOKEN}" in refusal()


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (None, f"in the variable {HOST}"),
        ("http://127.0.0.1:1", "does not answer"),
        ("ftp://127.0.0.1", "has to be https://HOST"),
        ("https://user:key@127.0.0.1", "has to be https://HOST"),
        ("https://127.0.0.1:none", "has to be https://HOST"),
        ("http://unity.example.com", "is sent over https:// only"),
    ],
)
def test_addresses_that_cannot_be_asked_are_refused(host: str | None, words: str) -> None:
    environ = {TOKEN: KEY} | ({} if host is None else {HOST: host})
    with pytest.raises(TableError) as refused:
        location(NAME, environ)
    assert words in str(refused.value)
    assert KEY not in str(refused.value) and "user" not in str(refused.value)


@pytest.mark.parametrize(
    "given",
    [
        {"name": NAME, "format": "parquet"},
        {"name": NAME, "format": "delta", "path": "/t"},
        {"path": "/t", "format": "delta", "catalog": "prod"},
    ],
)
def test_names_that_no_catalog_can_have_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="also one of Hive, is given by the path where it lies"):
        TableSection(**given)  # type: ignore[arg-type]
