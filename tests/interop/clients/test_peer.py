"""The peer in ``examples/clients/javascript``: a certificate of the mesh, the four messages, and nothing of ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.up import COMMAND, END_TIMEOUT_S, RunningNode, up

ROOT = Path(__file__).parents[3]
PEER = ROOT / "examples" / "clients" / "javascript" / "peer.js"
PACKAGES = ROOT / "tests" / "interop" / "grpc" / "js" / "node_modules"
NAME = "old-timer"
pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (PACKAGES / "@grpc").exists(),
    reason="node or its packages not found: `make peers` installs them where npm is",
)


@dataclass(frozen=True)
class Place:
    node: RunningNode
    tls: Path  # the peer's

    def run(self, what: str, *arguments: str, name: str = NAME) -> subprocess.CompletedProcess[str]:
        command = ["node", str(PEER), what, self.node.grpc, str(self.tls), name, *arguments]
        environ = os.environ | {"NODE_PATH": str(PACKAGES)}
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=END_TIMEOUT_S, check=False)

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        ended = self.run(*arguments)
        assert ended.returncode == 0, ended.stderr
        return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("peer")
    ca = {"WEFT_LEGACY_PEERS": "to.peer"}
    with up(directory / "data", "--node-id", "a", "--ca-listen", "127.0.0.1:0", environ=ca) as node:
        issue = [*COMMAND, "ca", "issue", NAME, "--data", str(directory / "data"), "--to", str(directory / "tls")]
        subprocess.run(issue, check=True, capture_output=True, timeout=END_TIMEOUT_S)
        yield Place(node, directory / "tls")


@pytest.mark.req("PL-05", "SEC-01")
async def test_what_it_sends_is_acknowledged_and_read_by_a_subscriber(place: Place) -> None:
    acks = place.lines("send", "0", "from.peer", "one", "two", "three")
    assert acks[-1] == {"topic": "from.peer", "offset": 2}

    async def read() -> list[Any]:
        async with place.node.client() as client, client.subscribe("from.peer", start="earliest") as events:
            return [await anext(aiter(events)) for _ in range(3)]

    events = await read()
    assert [event.payload for event in events] == [b"one", b"two", b"three"]
    assert [(str(event.stream.origin), event.offset) for event in events] == [(NAME, 0), (NAME, 1), (NAME, 2)]
    assert all(event.headers == {"language": "JavaScript"} for event in events)


@pytest.mark.req("PL-05", "SEC-01")
async def test_what_is_published_it_hears_once_it_has_acknowledged(place: Place) -> None:
    async def publish(*payloads: str) -> None:
        async with place.node.client() as client:
            for payload in payloads:
                await client.publish("to.peer", payload)

    await publish("one", "two")
    heard = place.lines("hear", "2")
    assert [(each["topic"], each["offset"], each["payload"]) for each in heard] == [
        ("to.peer", 0, "one"),
        ("to.peer", 1, "two"),
    ]
    await publish("three")
    assert [(each["offset"], each["payload"]) for each in place.lines("hear", "1")] == [(2, "three")]


@pytest.mark.req("SEC-01")
def test_it_may_not_take_the_name_of_another(place: Place) -> None:
    ended = place.run("send", "0", "from.peer", "x", name="somebody-else")
    assert ended.returncode == 1 and "certificate" in ended.stderr, ended.stderr
