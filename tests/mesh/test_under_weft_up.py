"""Two nodes as users start them: ``weft up``, secured, the second enrolled with a token of the first."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

import weft
from tests.node.secured import key_for
from tests.up import COMMAND, END_TIMEOUT_S, RunningNode, up

WAIT_S: Final = 60.0


def token_for(name: str, data: Path) -> str:
    command = [*COMMAND, "ca", "token", name, "--data", str(data)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=END_TIMEOUT_S).stdout


@contextmanager
def pair(directory: Path) -> Iterator[tuple[RunningNode, RunningNode]]:
    first, second = directory / "a", directory / "b"
    with up(first, "--node-id", "a", "--ca-listen", "127.0.0.1:0") as a:
        enrolling = ("--peer", a.grpc, "--ca", f"https://{a.ready['ca']}", "--token", "-")
        with up(second, *enrolling, stdin=token_for("b", first)) as b:
            yield a, b


@pytest.mark.req("SEC-01", "SEC-02")
def test_what_is_published_at_one_node_arrives_at_the_other(tmp_path: Path) -> None:
    async def story(a: RunningNode, b: RunningNode) -> None:
        context = a.context
        assert context.tls_root and context.tls_certificate and context.tls_key, "of a secured node"
        tls = weft.TlsFiles(Path(context.tls_root), Path(context.tls_certificate), Path(context.tls_key))
        _, key = key_for(tmp_path / "b", time.time(), publish=(">",), subscribe=(">",))
        async with asyncio.timeout(WAIT_S), a.client() as at_a, weft.connect(b.grpc, tls=tls, token=key) as at_b:
            for topic, writer, reader in (("from.a", at_a, at_b), ("from.b", at_b, at_a)):
                async with reader.subscribe(topic, start="earliest") as events:
                    await writer.publish(topic, b"21")
                    assert (await anext(aiter(events))).payload == b"21"

    with pair(tmp_path) as (a, b):
        asyncio.run(story(a, b))
        b.end_quietly()
        a.end_quietly()
