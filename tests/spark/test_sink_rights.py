"""The sink at a node that checks rights: staging needs none, the topics that rows go to do."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import weft
import weft.sync
from tests.node.secured import key_for, secured, tls_of
from weft.client import NotAllowed
from weft.model import parse_pattern
from weft.spark.connection import Connection
from weft.spark.sink_books import Books
from weft.spark.sink_steps import commit, commit_unnamed, stage
from weft.spark.staging import Writing, query_id


@pytest.mark.req("SPK-02", "SEC-02")
async def test_a_job_publishes_what_its_key_may(tmp_path: Path) -> None:
    async with secured(tmp_path, time.time(), "n0") as [node]:
        data: Any = node.config.node.data
        _, key = key_for(data, time.time(), publish=(parse_pattern("plant.*"),))
        _, other = key_for(data, time.time(), subscribe=(parse_pattern(">"),))
        await asyncio.to_thread(write, node.grpc_address, tls_of(node), key, other)


def write(address: str, tls: weft.TlsFiles, key: str, readers_key: str) -> None:
    """A write that may go to some of its topics goes to none of them."""
    with (
        weft.sync.connect([address], tls=tls, token=key, learns=False) as client,
        weft.sync.connect([address], tls=tls, token=readers_key, learns=False) as reader,
    ):
        writing = Writing(client.owner(), query_id("a query"))
        books = Books(client, writing, b"secret")
        commit(books, 0, [stage(client, writing, 0, [_rows("plant.a")], None)], 1)
        for number, topics in enumerate((["other.a"], ["plant.b", "other.a", "plant.c"]), 1):
            staged = stage(client, writing, 0, [_rows(*topics)], None)
            refused = r'nothing of this write was published: .*not allowed to publish to "other.a"'
            with pytest.raises(NotAllowed, match=refused):
                commit(books, number, [staged], 1)
            with pytest.raises(NotAllowed, match=refused):
                commit_unnamed(client, writing, [staged], 1)
        assert books.progress() == 0
        commit(books, 1, [stage(client, writing, 0, [_rows("plant.d")], None)], 1)
        assert books.progress() == 1, "what was refused was not decided"
        assert sorted(each.topic for each in reader.topics("plant.*")) == ["plant.a", "plant.d"]


def _rows(*topics: str) -> pa.RecordBatch:
    return pa.record_batch({"value": ["x"] * len(topics), "topic": list(topics)})


def test_the_seal_is_made_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def secret(key: str) -> bytes:
        monkeypatch.setenv("THE_KEY", key)
        return Connection(nodes=("127.0.0.1:1",), insecure=True, token="env:THE_KEY").secret()

    assert secret("one") == secret("one") != secret("other")
    assert b"one" not in secret("one")
