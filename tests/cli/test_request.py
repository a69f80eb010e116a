"""``weft request`` and ``weft serve``, and the page about them, against a real node."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import weft as sdk
from tests.cli.commands import Weft
from tests.up import COMMAND, END_TIMEOUT_S, RunningNode

pytestmark = pytest.mark.req("CON-04")
WAIT_S = 60.0
ADD = f"{sys.executable} -c 'import sys; print(sum(map(int, sys.stdin.read().split())))'"
LETTERS = f"{sys.executable} -c 'print(*input(), sep=chr(10))'"


@contextmanager
def serving(node: RunningNode, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [*COMMAND, "serve", *arguments, *node.flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        try:
            asyncio.run(wait_served(node, arguments[0]))
            yield process
        finally:
            process.kill()


async def wait_served(node: RunningNode, topic: str) -> None:
    async with asyncio.timeout(WAIT_S), sdk.connect(node.grpc, insecure=True) as client:
        while not any(each.serves for each in await client.explain(topic)):
            await asyncio.sleep(0.02)


def test_a_command_answers(weft: Weft, node: RunningNode) -> None:
    with serving(node, "cli.sums", "--command", ADD, "--count", "4", "--json") as server:
        assert weft("request", "cli.sums", "1 2 3", *node.flags).out == "6\n"
        quick = weft("request", "cli.sums", "4 5", "--quick", "--json", *node.flags).document
        assert quick == {"headers": {}, "payload": "9", "event": None}
        kept = weft("request", "cli.sums", "--file", "-", "--header", "h=1", "--json", *node.flags, stdin=b"1").document
        assert kept["event"].startswith("weft.inbox.")
        explained = weft("explain", "cli.sums", *node.flags)
        assert "weft.serve.cli.sums" in explained.out and "1 server here" in explained.out
        failed = weft("request", "cli.sums", "one", *node.flags)
        assert failed.status == 1
        assert "the command ended with status 1: ValueError" in failed.err
        assert server.stdout is not None
        told = [json.loads(line) for line in server.stdout]
        assert server.wait(END_TIMEOUT_S) == 0
        assert [each["failure"] is None for each in told] == [True, True, True, False]


def test_many_replies(weft: Weft, node: RunningNode) -> None:
    with serving(node, "cli.letters", "--command", LETTERS, "--lines"):
        assert weft("request", "cli.letters", "abc", "--many", "--quick", *node.flags).out == "a\nb\nc\n"


def test_nobody_and_what_is_misused(weft: Weft, node: RunningNode) -> None:
    nobody = weft("request", "cli.nobody", "x", "--timeout", "3600", *node.flags)
    assert nobody.status == 1
    assert "nobody serves this topic" in nobody.err
    assert "this node knows nobody who serves requests to cli.nobody" in weft("explain", "cli.nobody", *node.flags).err
    assert weft("request", "cli.nobody", *node.flags).status == 2
    assert weft("serve", "cli.x", "--command", "'", *node.flags).status == 2
