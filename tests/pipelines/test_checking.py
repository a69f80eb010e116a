"""What a node says before Spark starts."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tests.node.secured import key_for, secured, tls_of
from weft.client import NotAllowed, Options, Unauthenticated, Unavailable
from weft.model import parse_pattern
from weft.pipelines import checking
from weft.pipelines.checking import ask_mesh
from weft.pipelines.settings import MeshSection, PipelineSettings, SourceSection

NOBODY = MeshSection(nodes=("127.0.0.1:1",), insecure=True)


class Reads(PipelineSettings):
    source: SourceSection


def said_by(mesh: MeshSection, subscribe: str) -> list[str]:
    said: list[str] = []
    ask_mesh(Reads(mesh=mesh, source=SourceSection(subscribe=subscribe)), said.append)
    return said


@pytest.mark.req("SPK-03")
async def test_a_key_that_may_not_read_is_refused_at_once(tmp_path: Path) -> None:
    def ask(address: str, root: Path, key: str) -> None:
        token = tmp_path / "key"
        mesh = MeshSection(nodes=(address,), tls_root=root, token=f"file:{token}")
        token.write_text(key)
        assert said_by(mesh, "plant.a,plant.*.temp,!plant.b") == []
        with pytest.raises(NotAllowed, match="other"):
            said_by(mesh, "plant.>,other.a")
        token.write_text(key[:-1] + ("0" if key[-1] != "0" else "1"))
        with pytest.raises(Unauthenticated):
            said_by(mesh, "plant.>")

    async with secured(tmp_path, time.time(), "n0") as [node]:
        data: Any = node.config.node.data
        _, key = key_for(data, time.time(), subscribe=(parse_pattern("plant.>"),))
        await asyncio.to_thread(ask, node.grpc_address, tls_of(node).root, key)


@pytest.mark.req("SPK-03")
def test_nodes_that_are_away_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "RETRY_S", 0.01)
    monkeypatch.setattr(checking, "SPARK_UNAVAILABLE_S", 0.2)
    monkeypatch.setattr(checking, "ASKING", Options(connect_timeout_s=0.05))
    said: list[str] = []
    with pytest.raises(Unavailable, match="Connection refused"):
        ask_mesh(Reads(mesh=NOBODY, source=SourceSection(subscribe="plant.>")), said.append)
    assert len(said) == 1 and said[0].startswith("waiting up to 0.2 s for a node: ")
