"""Groups end: dropped by whoever has the right, everywhere and for good, or forgotten when nobody uses them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from pathlib import Path

import pytest

import weft
from tests.mesh.test_under_weft_up import pair
from tests.node.secured import key_for
from tests.security.attacks.test_somebody_with_few_rights import connect, key_of
from tests.up import COMMAND, END_TIMEOUT_S, RunningNode, up
from weft.client import Client, Connecting, NotAllowed
from weft.errors import UsageError
from weft.security.quota import Quota


def weft_groups(node: RunningNode, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "WEFT_CONFIG_DIR": str(node.config)}
    command = [*COMMAND, "groups", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=END_TIMEOUT_S, env=environ, check=False)


async def names(client: Client) -> list[str]:
    return [each.group for each in await client.groups()]


@pytest.mark.req("SEC-03")
async def test_whoever_has_the_right_drops_a_group_and_its_members_are_told(tmp_path: Path) -> None:
    with up(tmp_path / "a") as node:
        some = ("orders.>",)
        keys = {
            "billing": key_of(tmp_path / "a", "billing", publish=some, subscribe=some, groups=("billing",)),
            "spy": key_of(tmp_path / "a", "spy", subscribe=some, groups=("spy*",)),
        }
        async with (
            asyncio.timeout(END_TIMEOUT_S),
            connect(node, keys["billing"]) as honest,
            connect(node, keys["spy"]) as spy,
        ):
            for payload in (b"1", b"2"):
                await honest.publish("orders.new", payload)
            with pytest.raises(NotAllowed, match='not allowed to use group "billing"'):
                await spy.drop_group("billing")
            async with honest.subscribe("orders.>", group="billing", member="m", start="earliest") as events:
                assert [(await anext(aiter(events))).payload for _ in range(2)] == [b"1", b"2"]
                await honest.drop_group("billing")
                with pytest.raises(UsageError, match="the group was dropped: join again to start over"):
                    await anext(aiter(events))
            with pytest.raises(UsageError, match="there is no group billing"):
                await honest.drop_group("billing")
            assert await names(honest) == []
            async with honest.subscribe("orders.>", group="billing", member="m", start="earliest") as events:
                assert (await anext(aiter(events))).payload == b"1", "it begins anew"
        dropped = weft_groups(node, "drop", "billing")
        assert (dropped.returncode, dropped.stdout) == (0, "group billing is dropped\n"), dropped.stderr
        assert json.loads(weft_groups(node, "--json").stdout) == []
        gone = weft_groups(node, "drop", "billing")
        assert gone.returncode == 1 and "there is no group billing" in gone.stderr
        assert "no group is called 'billing'" in weft_groups(node, "billing").stderr
        node.end_quietly()


async def use(client: Client) -> None:
    await client.publish("orders.new", b"1")
    async with client.subscribe("orders.>", group="billing", member="m", start="earliest") as events:
        await events.handled(await anext(aiter(events)))


async def until_stands(client: Client, somewhere: bool) -> None:
    """Whether the group has a position in any stream. It may have one in a stream of which it handled nothing."""
    while any(info.streams for info in await client.groups()) != somewhere:
        await asyncio.sleep(0.05)


@pytest.mark.req("SEC-03")
async def test_a_group_is_dropped_at_every_node_also_at_one_that_was_down(tmp_path: Path) -> None:
    """It does not come back with old positions when a node returns that has not heard of its end."""

    async def gone(a: RunningNode, b: RunningNode) -> None:
        async with asyncio.timeout(END_TIMEOUT_S), a.client() as at_a, at_second(tmp_path, a, b) as at_b:
            await until_stands(at_b, False)
            await until_stands(at_a, False)
            await use(at_b)
            await until_stands(at_a, True)

    with pair(tmp_path) as (a, b):
        async with asyncio.timeout(END_TIMEOUT_S), a.client() as at_a, at_second(tmp_path, a, b) as at_b:
            await use(at_a)
            await until_stands(at_b, True)
        b.end_quietly()
        async with asyncio.timeout(END_TIMEOUT_S), a.client() as at_a:
            await at_a.drop_group("billing")
            await until_stands(at_a, False)
        with up(tmp_path / "b", "--peer", a.grpc, "--ca", f"https://{a.ready['ca']}") as again:
            await gone(a, again)
            again.end_quietly()
        a.end_quietly()


def at_second(directory: Path, a: RunningNode, b: RunningNode) -> Connecting:
    root = a.context.tls_root
    assert root is not None, "of a secured node"
    _, key = key_for(directory / "b", time.time(), publish=(">",), subscribe=(">",), admin=True)
    return weft.connect(b.grpc, tls=weft.TlsFiles(Path(root)), token=key)


@pytest.mark.req("SEC-05")
async def test_groups_that_nobody_uses_are_not_used_up_for_good(tmp_path: Path) -> None:
    """Each Commit could make a group that nothing ever forgot, a restart included, until there was room for no more."""
    settings = tmp_path / "weft.toml"
    settings.write_text("[groups]\nexpire_after_s = 2\n")
    flags = ("--config", str(settings))

    async def fill(node: RunningNode, key: str) -> None:
        async with asyncio.timeout(END_TIMEOUT_S), connect(node, key) as client, node.client() as admin:
            await client.publish("orders.new", b"1")
            for group in ("g1", "g2"):
                await client.seek(group, "orders.>", "earliest")
            with pytest.raises(NotAllowed, match="as many groups as it may"):
                await client.seek("g3", "orders.>", "earliest")
            while await names(admin):
                await asyncio.sleep(0.05)
            await client.seek("g3", "orders.>", "earliest")

    with up(tmp_path / "a", *flags) as node:
        rights = {"publish": ("orders.>",), "subscribe": ("orders.>",), "groups": ("g*",), "quota": Quota(groups=2)}
        await fill(node, key_of(tmp_path / "a", "many", **rights))
        node.end_quietly()
    with up(tmp_path / "a", *flags) as node:
        async with asyncio.timeout(END_TIMEOUT_S), node.client() as admin:
            while await names(admin):
                await asyncio.sleep(0.05)
        node.end_quietly()
