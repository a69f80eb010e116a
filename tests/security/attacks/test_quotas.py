"""A key with quotas, at a real node: what it may not have more of, and what others still have."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import weft
from tests.security.attacks.hostile import PATIENCE_S
from tests.up import COMMAND, RunningNode, up
from weft.client import Connecting
from weft.client.errors import NotAllowed


def keys(*arguments: str) -> str:
    command = [*COMMAND, "keys", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout


def client_with(node: RunningNode, token: str) -> Connecting:
    context = node.context
    assert context.tls_root is not None
    return weft.connect(list(context.nodes), token=token, tls=weft.TlsFiles(Path(context.tls_root), None, None))


@pytest.mark.req("SEC-05")
async def test_a_key_has_no_more_than_its_quota(tmp_path: Path) -> None:
    data = tmp_path / "node"

    with up(data) as node:
        made = keys(
            *("create", "--data", str(data), "--name", "small", "--publish", "a.>", "--subscribe", "a.>", "--json"),
            *("--group", "g*"),
            *("--quota", "topics=2", "--quota", "subscriptions=1", "--quota", "groups=1"),
        )
        key = json.loads(made)
        assert key["quota"] == {"topics": 2, "groups": 1, "subscriptions": 1}
        (listed,) = [
            each for each in json.loads(keys("list", "--data", str(data), "--json")) if each["id"] == key["id"]
        ]
        assert listed["quota"] == key["quota"]
        async with client_with(node, key["key"]) as small, node.client() as other:
            await small.publish("a.1", b"x")
            await small.publish("a.2", b"x")
            with pytest.raises(NotAllowed, match="as many topics as it may") as caught:
                await small.publish("a.3", b"x")
            assert caught.value.facts["limit"] == "2" and caught.value.facts["name"] == "a.3"
            await other.publish("a.3", b"x")
            await small.publish("a.3", b"it is there by now")
            async with small.subscribe("a.>", group="g1", member="m", start="earliest") as events:
                assert (await anext(events)).payload
                with pytest.raises(NotAllowed, match="as many subscriptions as it may"):
                    await small.subscribe("a.>").opened()
            with pytest.raises(NotAllowed, match="as many groups as it may"):
                await small.seek("g2", "a.>", "earliest")
        node.end_quietly()


@pytest.mark.req("SEC-05")
async def test_a_key_that_publishes_too_fast_gets_there_later(tmp_path: Path) -> None:
    """The SDK waits and tries again: nothing is lost, and the refusals are counted."""
    data = tmp_path / "node"

    with up(data) as node:
        rights = ("--publish", "a.>", "--quota", "events_per_s=5")
        made = keys("create", "--data", str(data), "--name", "slow", *rights, "--json")
        async with client_with(node, json.loads(made)["key"]) as slow:
            for number in range(8):
                await slow.publish("a.t", b"%d" % number)
        assert 'weft_refused_total{code="ERROR_BUSY"}' in node.metrics()
        node.end_quietly()
