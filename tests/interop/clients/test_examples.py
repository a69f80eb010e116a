"""The clients in ``examples/clients`` publish to a secured node and read from it, with ``mesh.proto`` alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.up import END_TIMEOUT_S, RunningNode, up

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "clients"
PACKAGES = ROOT / "tests" / "interop" / "grpc" / "js" / "node_modules"
QUICK_JAVA = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # for a life of a second
GO = ROOT / "build" / "interop" / "go" / "weft-example"


def javascript() -> list[str]:
    if shutil.which("node") is None or not (PACKAGES / "@grpc").exists():
        pytest.skip("node or its packages not found: `make peers` installs them where npm is")
    return ["node", str(EXAMPLES / "javascript" / "weft.js")]


def go() -> list[str]:
    if not GO.exists():
        pytest.skip("the example in Go was not built: `make peers` does it where go is")
    return [str(GO)]


def java() -> list[str]:
    target = EXAMPLES / "java" / "target"
    if shutil.which("java") is None or not (target / ".ready").exists():
        pytest.skip("the example in Java was not built: `make peers` does it where mvn and javac are")
    return ["java", *QUICK_JAVA, "-cp", f"{target / 'classes'}:{target / 'lib' / '*'}", "Weft"]


@pytest.fixture(params=[javascript, go, java], ids=["javascript", "go", "java"])
def example(request: pytest.FixtureRequest) -> list[str]:
    command: list[str] = request.param()
    return command


MTLS = {"WEFT_SECURITY_CLIENT_CERTIFICATES": "required"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """It lets nobody in without a certificate of the mesh, and a key."""
    with up(tmp_path_factory.mktemp("node") / "data", "--node-id", "node-a", environ=MTLS) as running:
        yield running


class Runner:
    def __init__(self, command: list[str], node: RunningNode) -> None:
        self._command = command
        self._node = node

    def run(
        self, what: str, *arguments: str, token: str | None = None, identity: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        context = self._node.context
        assert context.tls_root is not None and context.token is not None and context.tls_certificate is not None
        environ = os.environ | {"WEFT_TOKEN": token or context.token, "NODE_PATH": str(PACKAGES)}
        environ["WEFT_IDENTITY"] = context.tls_certificate if identity is None else identity
        command = [*self._command, what, self._node.grpc, str(context.tls_root), *arguments]
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=END_TIMEOUT_S, check=False)

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        ended = self.run(*arguments)
        assert ended.returncode == 0, ended.stderr
        return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.fixture
def client(example: list[str], node: RunningNode) -> Runner:
    return Runner(example, node)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    return "plant." + name.translate(str.maketrans("[]-", "___"))


@pytest.mark.req("MSH-01", "SEC-02")
async def test_what_it_publishes_the_sdk_reads(client: Runner, node: RunningNode, topic: str) -> None:
    receipts = client.lines("publish", topic, "one", "two", "three")
    assert sorted(each["offset"] for each in receipts) == [0, 1, 2]
    assert {each["origin"] for each in receipts} == {"node-a"}

    async def read() -> list[Any]:
        async with node.client() as mesh, mesh.subscribe(topic, start="earliest") as events:
            found = []
            async for event in events:
                found.append(event)
                if len(found) == len(receipts):
                    return found
        raise AssertionError("the subscription ended")

    events = await read()
    assert [event.payload for event in events] == [b"one", b"two", b"three"]
    assert all(event.headers and "language" in event.headers for event in events)


@pytest.mark.req("MSH-01", "SEC-02")
async def test_it_reads_what_the_sdk_published_alone_and_in_a_group(
    client: Runner, node: RunningNode, topic: str
) -> None:
    async def publish() -> None:
        async with node.client() as mesh:
            for number in range(5):
                await mesh.publish(topic, str(number), key=f"k{number}", headers={"unit": "C"})

    await publish()
    events = client.lines("subscribe", topic, "5")
    assert [(each["offset"], each["key"], each["payload"]) for each in events] == [
        (number, f"k{number}", str(number)) for number in range(5)
    ]
    assert all(each["topic"] == topic and each["headers"] == {"unit": "C"} for each in events)
    assert len(client.lines("subscribe", topic, "5", f"readers-{len(topic)}")) == 5


@pytest.mark.req("SEC-02")
def test_a_wrong_key_is_told_so(client: Runner, topic: str) -> None:
    ended = client.run("publish", topic, "x", token="weft_nobody_has_this")
    assert ended.returncode == 1 and "key" in ended.stderr, ended.stderr


@pytest.mark.req("SEC-01", "SEC-02")
def test_without_a_certificate_it_is_not_let_in(client: Runner, topic: str) -> None:
    assert client.run("publish", topic, "x", identity="").returncode == 1
