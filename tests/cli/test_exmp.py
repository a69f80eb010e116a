"""``weft exmp``: calls with and without protection, and a server to try a client against."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from tests.cli.commands import Weft
from tests.gateway.exmp.joined import address_of
from tests.node.secured import key_for, secure_config, tls_of
from tests.up import END_TIMEOUT_S
from weft import exmp
from weft.client.loop_thread import LoopThread
from weft.exmp import JsonObject
from weft.node.runtime import Node

T = TypeVar("T")
COMMAND = (sys.executable, "-c", "from weft.cli.main import main; main()", "exmp")


@contextmanager
def in_a_thread(start: Callable[[], Awaitable[str]], stop: Callable[[], Awaitable[None]]) -> Iterator[str]:
    """Something that serves on a loop of its own while the command runs here."""
    thread = LoopThread(lambda: None)
    try:
        yield thread.run(_awaited(start), END_TIMEOUT_S)
    finally:
        thread.run(_awaited(stop), END_TIMEOUT_S)
        thread.stop()


async def _awaited(work: Callable[[], Awaitable[T]]) -> T:
    return await work()


@pytest.fixture
def address() -> Iterator[str]:
    """A server with $echo and an operation that refuses."""
    servers: list[exmp.Server] = []

    async def echo(data: JsonObject) -> JsonObject:
        return data

    async def refuse(data: JsonObject) -> None:
        raise exmp.Failure("closed", "come back tomorrow", {"hour": 9})

    async def start() -> str:
        servers.append(exmp.serve({"$echo": echo, "refuse": refuse}, port=0))
        await servers[0].open()
        return str(servers[0].address)

    async def stop() -> None:
        await servers[0].close()

    with in_a_thread(start, stop) as found:
        yield found


def test_a_call_prints_the_answer(weft: Weft, address: str) -> None:
    outcome = weft("exmp", "call", address, "$echo", '{"n": 1}')
    assert (outcome.status, outcome.document) == (0, {"n": 1})
    assert weft("exmp", "call", address, "$echo", '{"n": 1}', "--json").document == {
        "status": "success",
        "data": {"n": 1},
    }
    assert weft("exmp", "call", address, "$echo").out == "{}\n"


def test_a_failure_is_a_line_and_a_status(weft: Weft, address: str) -> None:
    outcome = weft("exmp", "call", address, "refuse")
    assert (outcome.status, outcome.out) == (1, "")
    assert "come back tomorrow [closed]" in outcome.err
    outcome = weft("exmp", "call", address, "refuse", "--json")
    assert outcome.status == 1
    assert outcome.document == {
        "status": "failure",
        "code": "closed",
        "description": "come back tomorrow",
        "data": {"hour": 9},
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("127.0.0.1:1", "$echo", "[1]"), "JSON must be an object"),
        (("127.0.0.1:1", "$echo", "{"), "JSON must be an object"),
        (("not an address", "$echo"), "is not HOST:PORT"),
        (("127.0.0.1:1", "$echo"), "cannot connect to 127.0.0.1 port 1"),
        (("127.0.0.1:1", "$echo", "--context", "nowhere"), "no context is called 'nowhere'"),
        (("127.0.0.1:1", "$echo", "--context", "x", "--tls"), "--context has its own certificates"),
        (("127.0.0.1:1", "$echo", "--tls-certificate", __file__), "--tls-certificate is for TLS"),
        (("127.0.0.1:1", "$echo", "--tls-root", __file__), "no certificates to trust"),
    ],
)
def test_mistakes_are_one_line(weft: Weft, arguments: tuple[str, ...], words: str) -> None:
    outcome = weft("exmp", "call", *arguments)
    assert outcome.status != 0
    assert words in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.req("EXM-10", "SEC-02")
def test_a_context_brings_certificates_and_key(weft: Weft, tmp_path: Path) -> None:
    nodes: list[Node] = []

    async def start() -> str:
        nodes.append(Node(secure_config(tmp_path / "data", "a", gateway__exmp__tls="127.0.0.1:0")))
        await nodes[0].start()
        return address_of(nodes[0], "exmps")

    async def stop() -> None:
        await nodes[0].stop()

    with in_a_thread(start, stop) as address:
        files = tls_of(nodes[0])
        _, key = key_for(tmp_path / "data", time.time(), publish=("plant.>",))
        weft(
            *("context", "add", "mine", "--node", nodes[0].grpc_address, "--token", key),
            *("--tls-root", files.root, "--tls-certificate", str(files.certificate), "--tls-key", str(files.key)),
        )
        event = json.dumps({"topic": "plant.temp", "payload": "21"})
        outcome = weft("exmp", "call", address, "publish", event, "--context", "mine")
        assert (outcome.status, outcome.document["offset"]) == (0, 0)
        outcome = weft("exmp", "call", address, "publish", event, "--tls-root", files.root)
        assert outcome.status == 1 and "authenticate with an API key first" in outcome.err
        outcome = weft("exmp", "call", address, "publish", event)
        assert outcome.status == 1  # plain text to a TLS port


def test_serve_answers_echo_and_prints_what_it_is_asked(weft: Weft) -> None:
    with subprocess.Popen(
        [*COMMAND, "serve", "--listen", "127.0.0.1:0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stderr is not None and server.stdout is not None
            line = server.stderr.readline()
            address = line.partition(" at ")[2].partition(";")[0]
            assert weft("exmp", "call", address, "$echo", '{"n": 1}').document == {"n": 1}
            assert weft("exmp", "call", address, "other").status == 1
            seen = [json.loads(server.stdout.readline()) for _ in range(2)]
            assert [(each["op"], each["data"]) for each in seen] == [("$echo", {"n": 1}), ("other", {})]
            server.send_signal(signal.SIGINT)
            assert server.wait(END_TIMEOUT_S) == 130
        finally:
            if server.poll() is None:
                server.kill()


async def test_follow_stays_and_prints_what_comes(weft: Weft) -> None:
    async def run() -> tuple[str, int]:
        asked = asyncio.Event()

        async def subscribe(data: JsonObject) -> JsonObject:
            asked.set()
            return {"subscription": 1}

        async def tell(peer: exmp.Peer) -> None:
            await asked.wait()
            await peer.call("event", {"payload": "21"})

        async with exmp.serve({"subscribe": subscribe}, port=0, on_connected=tell) as server:
            process = await asyncio.create_subprocess_exec(
                *(*COMMAND, "call", str(server.address), "subscribe", "--follow", "--json"), stdout=subprocess.PIPE
            )
            assert process.stdout is not None
            async with asyncio.timeout(END_TIMEOUT_S):
                lines = [await process.stdout.readline() for _ in range(2)]
                process.send_signal(signal.SIGINT)
                return b"".join(lines).decode(), await process.wait()

    out, status = await run()
    answer, event = map(json.loads, out.splitlines())
    assert answer == {"status": "success", "data": {"subscription": 1}}
    assert event == {"op": "event", "data": {"payload": "21"}}
    assert status == 130
