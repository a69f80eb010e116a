"""Somebody whose key has no right to a group neither joins, moves nor sees it; and nobody takes another's place."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.gateway.exmp.test_under_weft_up import configured, tls_of
from tests.security.attacks.test_somebody_with_few_rights import connect, key_of
from tests.up import COMMAND, END_TIMEOUT_S, RunningNode, up
from weft import exmp
from weft.client import Client, NotAllowed
from weft.errors import UsageError
from weft.security.files import read_private, write_private
from weft.security.key_store import FILE


async def first_of(client: Client, pattern: str, group: str, member: str) -> bytes:
    async with client.subscribe(pattern, group=group, member=member, start="earliest") as events:
        return (await anext(aiter(events))).payload


async def stand(node: RunningNode, group: str) -> list[int]:
    async with node.client() as admin:
        return [each.position.offset for info in await admin.groups(group) for each in info.streams]


@pytest.mark.req("SEC-03")
async def test_a_key_uses_only_groups_that_its_rights_name(tmp_path: Path) -> None:
    """A key for ``pub.>`` joined the group billing as ``billing-1`` and ended the honest member, and ``Commit`` moved
    groups of others."""

    with up(tmp_path / "a", *configured(tmp_path)) as node:
        orders, pub = ("orders.>",), ("pub.>",)
        keys = {
            "billing": key_of(tmp_path / "a", "billing", publish=orders, subscribe=orders, groups=("billing*",)),
            "spy": key_of(tmp_path / "a", "spy", publish=pub, subscribe=pub),
        }
        async with (
            asyncio.timeout(END_TIMEOUT_S),
            connect(node, keys["billing"]) as honest,
            connect(node, keys["spy"]) as spy,
        ):
            await honest.publish("orders.new", b"1")
            receipt = await spy.publish("pub.x", b"forged")
            async with honest.subscribe("orders.>", group="billing", member="billing-1", start="earliest") as events:
                assert (await anext(aiter(events))).payload == b"1"
                refused = 'not allowed to use group "billing" with key k'
                with pytest.raises(NotAllowed, match=refused):
                    await first_of(spy, "pub.>", "billing", "billing-1")
                with pytest.raises(NotAllowed, match=refused):
                    await spy.seek("billing", "pub.>", "earliest")
                with pytest.raises(NotAllowed, match=refused):
                    await spy.positions("pub.>", "billing")
                with pytest.raises(NotAllowed, match=refused):
                    await spy.groups("billing")
                with pytest.raises(NotAllowed, match='not allowed to use group "of-my-own"'):
                    await spy.seek("of-my-own", "pub.>", "earliest")
                await honest.publish("orders.new", b"2")
                assert (await anext(aiter(events))).payload == b"2", "nobody ended it"
            assert await stand(node, "billing") == [1], "the second one was still in hand"
            assert [each.group for each in await honest.groups()] == ["billing"]
            await first_of(honest, "orders.>", "billing-eu.west", "m")
            assert await spy.groups() == [], "none of its business"
            assert receipt.first_offset == 0
            async with exmp.connect(node.gateway("exmps"), tls=tls_of(node, "exmps")) as peer:
                await peer.call("authenticate", {"key": keys["spy"]})
                with pytest.raises(exmp.Failure, match=refused):
                    await peer.call("subscribe", {"pattern": "pub.>", "group": "billing", "member": "billing-1"})
        assert 'weft_refusals_total{cause="group"}' in node.metrics()
        node.end_quietly()


@pytest.mark.req("SEC-03")
async def test_a_member_is_nobody_elses(tmp_path: Path) -> None:
    """Whoever has the right to a group may join it, but not as a member that somebody else is, at any node."""

    async def story(nodes: list[RunningNode], keys: dict[str, str]) -> None:
        async with (
            asyncio.timeout(END_TIMEOUT_S),
            connect(nodes[0], keys["one"]) as one,
            connect(nodes[0], keys["one again"]) as again,
            connect(nodes[0], keys["two"]) as two,
        ):
            await one.publish("orders.new", b"1")
            async with one.subscribe("orders.>", group="billing", member="m", start="earliest") as events:
                assert (await anext(aiter(events))).payload == b"1"
                with pytest.raises(NotAllowed, match="m in group billing is somebody else's member"):
                    await first_of(two, "orders.>", "billing", "m")
                await one.publish("orders.new", b"2")
                assert (await anext(aiter(events))).payload == b"2"
                # Another key of the same name is the same owner: it takes over, as after a crash.
                async with again.subscribe("orders.>", group="billing", member="m") as others:
                    await others.opened()
                    with pytest.raises(UsageError, match="somebody else joined the group as this member"):
                        while True:
                            await anext(aiter(events))
            # The place is free when nobody has it.
            async with two.subscribe("orders.>", group="billing", member="m") as free:
                await free.opened()

    with up(tmp_path / "a") as node:
        both = {"publish": ("orders.>",), "subscribe": ("orders.>",), "groups": ("billing",)}
        keys = {name: key_of(tmp_path / "a", name, **both) for name in ("one", "two")}
        keys["one again"] = key_of(tmp_path / "a", "one", **both)
        await story([node], keys)
        node.end_quietly()


def age(data: Path) -> None:
    """Make all keys as they were before there were rights to groups."""
    document = msgspec.json.decode(read_private(data / FILE) or b"")
    for each in document["keys"]:
        del each["groups"]
    write_private(data / FILE, msgspec.json.encode(document))


@pytest.mark.req("SEC-03")
async def test_an_older_key_uses_groups_of_which_it_may_read_everything(tmp_path: Path) -> None:
    """It goes on with its own, and makes new ones; it does not reach those that read what it may not."""

    with up(tmp_path / "a") as node:
        node.end_quietly()
    rights = {"billing": ("orders.>",), "spy": ("pub.>",)}
    keys = {name: key_of(tmp_path / "a", name, publish=some, subscribe=some) for name, some in rights.items()}
    age(tmp_path / "a")  # while no node runs, which would take them up as they are
    with up(tmp_path / "a", "--listen", node.grpc) as node:
        listed = subprocess.run(
            [*COMMAND, "keys", "list", "--data", str(tmp_path / "a"), "--json"], check=True, capture_output=True
        )
        groups = {each["name"]: each["groups"] for each in json.loads(listed.stdout)}
        assert {name: groups[name] for name in rights} == dict.fromkeys(rights)
        async with (
            asyncio.timeout(END_TIMEOUT_S),
            connect(node, keys["billing"]) as honest,
            connect(node, keys["spy"]) as spy,
        ):
            await honest.publish("orders.new", b"1")
            await spy.publish("pub.x", b"2")
            async with honest.subscribe("orders.>", group="billing", member="m", start="earliest") as events:
                assert (await anext(aiter(events))).payload == b"1"
                with pytest.raises(NotAllowed, match="older than rights to groups"):
                    await first_of(spy, "pub.>", "billing", "n")
            with pytest.raises(NotAllowed, match="older than rights to groups"):
                await spy.seek("billing", "pub.>", "earliest")
            assert await first_of(spy, "pub.>", "pub", "m") == b"2"
            assert await first_of(honest, "orders.>", "orders", "m") == b"1"
            with pytest.raises(NotAllowed, match="older than rights to groups"):
                await honest.positions("orders.>", "pub")
        node.end_quietly()
