"""One suite for a directory and an object store: what each operation promises."""

from __future__ import annotations

import base64
import json
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.pipelines.s3 import ACCESS_KEY, S3, SECRET_KEY
from weft.lake.access import StoreAccess
from weft.lake.address import parse_address
from weft.lake.store import STORE_PART_BYTES, Store, StoreError, open_store

pytestmark = pytest.mark.xdist_group("s3")


@pytest.fixture(params=["directory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "directory":
        return open_store(parse_address(str(tmp_path / "t")), StoreAccess())
    s3: S3 = request.getfixturevalue("s3")
    return s3.store(f"{s3.bucket()}/deep/t")


def put(store: Store, path: str, data: bytes) -> None:
    sink = store.writer(path)
    sink.write(data)
    sink.close()


@pytest.mark.req("LAK-01")
def test_files_are_written_listed_moved_and_removed(store: Store) -> None:
    store.check(writing=True)
    assert list(store.files()) == []
    put(store, "b=1/two", b"12")
    put(store, "b=1 %ü/three", b"123")
    put(store, "_hidden/x", b"")
    assert sorted((path, facts.size_bytes) for path, facts in store.files()) == [
        ("_hidden/x", 0),
        ("b=1 %ü/three", 3),
        ("b=1/two", 2),
    ]
    assert [path for path, _ in store.files("b=1")] == ["b=1/two"], "not names that only begin so"
    store.move("b=1/two", "c/two")
    store.move("b=1/two", "c/two")
    assert store.facts("b=1/two") is None
    assert (found := store.facts("c/two")) and found.size_bytes == 2
    store.remove("c/two")
    store.remove("c/two")
    assert store.read("c/two") is None


@pytest.mark.req("LAK-01")
def test_of_many_who_swap_one_wins(store: Store) -> None:
    barrier, won = threading.Barrier(4), list[int]()

    def race(number: int) -> None:
        barrier.wait(60)
        if store.swap("d/q.json", b"from %d" % number, None):
            won.append(number)

    racers = [threading.Thread(target=race, args=(number,)) for number in range(4)]
    for each in racers:
        each.start()
    for each in racers:
        each.join(60)
    first = store.read("d/q.json")
    assert first is not None
    assert [b"from %d" % number for number in won] == [first.data]
    assert not store.swap("d/q.json", b"late", None)
    assert store.swap("d/q.json", b"next", first)
    assert not store.swap("d/q.json", b"again", first), "somebody has been here since"
    assert (now := store.read("d/q.json")) and now.data == b"next"


@pytest.mark.req("LAK-01")
def test_parquet_of_many_parts_is_there_when_it_is_whole(store: Store) -> None:
    rows = pa.table({"x": pa.array([bytes([n]) * (STORE_PART_BYTES // 3) for n in range(4)])})
    sink = store.writer("big.parquet")
    with pq.ParquetWriter(sink, rows.schema, compression="none", use_dictionary=False) as writer:
        for batch in rows.to_batches(max_chunksize=1):
            writer.write_batch(batch)
    size = sink.tell()
    sink.close()
    assert size > STORE_PART_BYTES
    assert (found := store.facts("big.parquet")) and found.size_bytes == size
    assert pq.ParquetFile(store.reader("big.parquet")).read().equals(rows)


def test_what_is_not_closed_is_never_there(s3: S3) -> None:
    store = s3.store(f"{s3.bucket()}/t")
    sink = store.writer("half")
    sink.write(b"x" * (STORE_PART_BYTES + 1))
    del sink
    assert list(store.files()) == []


@pytest.mark.req("LAK-01")
def test_stores_that_cannot_be_used_say_so_in_a_sentence(s3: S3, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot be listed: the bucket or container is not there .*nobucket"):
        s3.store("s3://nobucket/t").check(writing=False)
    section = s3.section | {"endpoint": "http://127.0.0.1:1"}
    away = open_store(parse_address("s3://bucket/t"), StoreAccess(**section))
    with pytest.raises(StoreError, match="cannot be listed: no answer from the endpoint") as refusal:
        away.check(writing=True)
    for shown in (str(refusal.value), repr(away), repr(refusal.value)):
        assert SECRET_KEY not in shown
        assert ACCESS_KEY not in shown
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot make the directory .*file: File exists"):
        open_store(parse_address(str(tmp_path / "file")), StoreAccess()).check(writing=True)


@pytest.mark.req("LAK-01")
@pytest.mark.parametrize("cloud", ["gs://bucket/t", "abfss://lake@weft.dfs.core.windows.net/t"])
def test_other_clouds_understand_our_settings(cloud: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No endpoint of theirs is here: it is seen that they take the settings, and that we tell what is wrong."""
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    service = {"client_email": "a@b", "private_key": key.decode(), "private_key_id": "1", "disable_oauth": True}
    (tmp_path / "service.json").write_text(json.dumps(service))
    monkeypatch.setenv("WEFT_ACCOUNT_KEY", base64.b64encode(bytes(32)).decode())
    away = {"endpoint": "http://127.0.0.1:1"}
    secret = (
        {"service_account": str(tmp_path / "service.json")}
        if cloud.startswith("gs")
        else {"account_key": "env:WEFT_ACCOUNT_KEY"}
    )
    with pytest.raises(StoreError, match="cannot be listed: no answer from the endpoint"):
        open_store(parse_address(cloud), StoreAccess(**away, **secret)).check(writing=True)
