"""Requests in a real mesh: two secured nodes as users start them, servers at both, and kill -9 in the middle."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.mesh.test_under_weft_up import pair
from tests.node.secured import key_for
from tests.up import COMMAND, END_TIMEOUT_S, RunningNode
from weft.client import Client, NoServer, ServerLost

pytestmark = pytest.mark.req("CON-04")
WAIT_S: Final = 120.0
SERVER: Final = (sys.executable, "-m", "tests.mesh.killed_server")


@contextmanager
def servers(directory: Path, a: RunningNode, b: RunningNode) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    context = a.context
    _, key_of_b = key_for(directory / "b", time.time(), subscribe=("weft.serve.work",))
    places = {"at-a": (a.grpc, context.token), "at-b": (b.grpc, key_of_b)}
    tls = [context.tls_root, context.tls_certificate, context.tls_key]
    started = {}
    for name, (node, token) in places.items():
        document = {"node": node, "token": token, "tls": tls, "name": name, "notes": str(directory / f"notes-{name}")}
        started[name] = subprocess.Popen([*SERVER, json.dumps(document)], env=os.environ)
    try:
        yield started
    finally:
        for process in started.values():
            process.kill()
            process.wait(END_TIMEOUT_S)


def handed(directory: Path) -> Counter[str]:
    return Counter(line for path in directory.glob("notes-*") for line in path.read_text().split("\n") if line)


async def served_by(client: Client, count: int) -> None:
    """Until this node knows of so many nodes that serve."""
    while len([each for each in await client.explain("work") if each.serves]) != count:
        await asyncio.sleep(0.05)


def weft(node: RunningNode, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "WEFT_CONFIG_DIR": str(node.config)}
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=END_TIMEOUT_S, env=environ, check=False
    )


async def with_both(asker: Client) -> Counter[str]:
    """Who answers, of a hundred requests; half of them are durable."""
    await served_by(asker, 2)
    asking = [asker.request("work", f"n{number}", durable=number % 2 == 0, timeout_s=60) for number in range(100)]
    return Counter(reply.payload.decode().split()[0] for reply in await asyncio.gather(*asking))


async def with_one_killed(directory: Path, asker: Client, processes: dict[str, subprocess.Popen[bytes]]) -> list[Any]:
    """Requests that both have in hand when the one at the other node is killed."""
    asking = [asyncio.create_task(asker.request("work", f"hold{number}", timeout_s=60)) for number in range(8)]
    while sum(name.startswith("hold") for name in handed(directory)) < 8:
        await asyncio.sleep(0.02)
    processes["at-b"].kill()
    at_b = len([line for line in (directory / "notes-at-b").read_text().split("\n") if line.startswith("hold")])
    while len(lost := [each for each in asking if each.done()]) < at_b:
        await asyncio.sleep(0.02)
    for each in asking:
        each.cancel()
    return await asyncio.gather(*lost, return_exceptions=True)


async def test_two_nodes_share_requests_and_one_that_is_killed_is_told(tmp_path: Path) -> None:
    with pair(tmp_path) as (a, b):
        with servers(tmp_path, a, b) as processes:
            async with asyncio.timeout(WAIT_S), a.client() as asker:
                shares = await with_both(asker)
                assert min(shares["at-a"], shares["at-b"]) >= 10, shares
                outcomes = await with_one_killed(tmp_path, asker, processes)
                assert outcomes and all(isinstance(each, ServerLost) for each in outcomes), outcomes
                assert all(times == 1 for times in handed(tmp_path).values()), "nothing was handed out twice"
                # The one that is left does the rest, at once and whatever gossip says.
                left = await asyncio.gather(
                    *(asker.request("work", f"l{n}", durable=False, timeout_s=60) for n in range(20))
                )
                assert {each.payload.decode().split()[0] for each in left} == {"at-a"}
                processes["at-a"].kill()
                while True:  # until its node has noticed
                    try:
                        await asker.request("work", "last", durable=False, timeout_s=60)
                    except NoServer:
                        break
                    except ServerLost:
                        continue
        assert weft(a, "request", "work", "x").returncode == 1
        asked = weft(a, "request", "nobody.there", "x", "--timeout", "3600")
        assert "nobody serves this topic" in asked.stderr
        metrics = a.metrics()
        assert 'weft_requests_total{outcome="answered"}' in metrics
        assert 'weft_requests_total{outcome="no-server"}' in metrics
        assert 'weft_requests_total{outcome="lost"}' in metrics
        b.end_quietly()
        a.end_quietly()
