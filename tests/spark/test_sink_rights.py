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
from weft.spark.sink_steps import commit, stage
from weft.spark.staging import Writing, query_id


@pytest.mark.req("SPK-02", "SEC-02")
def test_a_job_publishes_what_its_key_may(tmp_path: Path) -> None:
    async def story() -> None:
        async with secured(tmp_path, time.time(), "n0") as [node]:
            data: Any = node.config.node.data
            _, key = key_for(data, time.time(), publish=(parse_pattern("plant.*"),))
            await asyncio.to_thread(write, node.grpc_address, tls_of(node), key)

    asyncio.run(story())


def write(address: str, tls: weft.TlsFiles, key: str) -> None:
    with weft.sync.connect([address], tls=tls, token=key, learns=False) as client:
        writing = Writing(client.owner(), query_id("a query"))
        books = Books(client, writing, b"secret")
        for number, topic in enumerate(("plant.a", "other.a")):
            rows = pa.record_batch({"value": ["x"], "topic": [topic]})
            staged = stage(client, writing, 0, [rows], None)
            if topic == "plant.a":
                commit(books, number, [staged], 1)
            else:
                with pytest.raises(NotAllowed, match=r'not allowed to publish to "other.a"'):
                    commit(books, number, [staged], 1)
        assert books.progress() == 0


def test_the_seal_is_made_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def secret(key: str) -> bytes:
        monkeypatch.setenv("THE_KEY", key)
        return Connection(nodes=("127.0.0.1:1",), insecure=True, token="env:THE_KEY").secret()

    assert secret("one") == secret("one") != secret("other")
    assert b"one" not in secret("one")
