"""Events for later, and schedules, in a real mesh: two nodes as users start them, secured (CON-03)."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

import weft
from tests.mesh.test_kv import tls_of
from tests.mesh.watching import until
from tests.node.secured import key_for, token_from
from tests.up import RunningNode, up
from weft.client import BadRequest, Client, Connecting, NotAllowed, Received
from weft.errors import UsageError
from weft.model.later import DONE_SUFFIX

pytestmark = pytest.mark.req("CON-03")


@dataclass
class Mesh:
    """``a`` has the CA. ``b`` is the one that dies and comes back. ``shop`` and ``other`` are two keys."""

    directory: Path
    stack: ExitStack
    a: RunningNode
    b: RunningNode
    tls: weft.TlsFiles
    shop: str
    other: str
    shop_id: str
    looker: str  # may look at what the mesh keeps for itself

    def client(self, node: RunningNode, key: str, *, learns: bool = False) -> Connecting:
        return weft.connect(node.grpc, tls=self.tls, token=key, learns=learns)

    def kill_b(self) -> None:
        self.b.end(signal.SIGKILL)

    def restart_b(self) -> None:
        ca = ("--ca", f"https://{self.a.ready['ca']}")
        self.b = self.stack.enter_context(up(self.directory / "b", "--peer", self.a.grpc, *ca))


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    directory = tmp_path_factory.mktemp("later")
    with ExitStack() as stack:
        a = stack.enter_context(up(directory / "a", "--node-id", "a", "--ca-listen", "127.0.0.1:0"))
        ca = ("--ca", f"https://{a.ready['ca']}", "--token", "-")
        b = stack.enter_context(up(directory / "b", "--peer", a.grpc, *ca, stdin=token_from(directory / "a", "b")))
        shop_id, shop = key_for(directory / "a", time.time(), publish=("shop.>",), subscribe=("shop.>",), name="shop")
        _, other = key_for(directory / "a", time.time(), publish=("shop.>",), subscribe=("shop.>",), name="other")
        _, looker = key_for(directory / "a", time.time(), subscribe=("weft.>",), name="looker")
        yield Mesh(directory, stack, a, b, tls_of(a), shop, other, shop_id, looker)


async def connected(connecting: Connecting) -> Client:
    """Once the node knows the key, which was made at another one."""
    client = await connecting
    while True:
        try:
            await client.owner()
            return client
        except weft.client.Unauthenticated:
            await asyncio.sleep(0.1)


def from_now(more: timedelta) -> datetime:
    return datetime.fromtimestamp(time.time(), UTC) + more


def check_in_time(event: Received, due: float) -> None:
    assert event.timestamp_us / 1e6 >= due, "never early"
    assert time.time() >= due


async def test_an_event_comes_when_it_is_due_at_another_node_and_once(mesh: Mesh) -> None:
    async with await connected(mesh.client(mesh.b, mesh.shop)) as here, mesh.client(mesh.a, mesh.shop) as there:
        events = there.subscribe("shop.>", start="earliest")
        async with events:
            begin = time.time()
            receipt = await here.publish("shop.reminders", "pay", key="k", headers={"n": "1"}, delay=1.0)
            await here.publish("shop.reminders", "now")
            past = await here.publish("shop.reminders", "past", deliver_at=from_now(-timedelta(hours=1)))
            found = {event.payload: event for event in [await anext(events) for _ in range(3)]}
            assert set(found) == {b"pay", b"now", b"past"}
            pay = found[b"pay"]
            check_in_time(pay, begin + 1.0)
            assert pay.key == b"k" and pay.headers == {"n": "1", "weft-later": str(receipt.first)}
            assert found[b"past"].headers == {"weft-later": str(past.first)}
            await here.publish("shop.reminders", "end")
            assert (await anext(events)).payload == b"end", "nothing comes twice"


async def test_what_waits_is_seen_and_cancelled_from_every_node_by_its_owner(mesh: Mesh) -> None:
    async with (
        await connected(mesh.client(mesh.b, mesh.shop)) as b,
        mesh.client(mesh.a, mesh.shop, learns=True) as a,
        mesh.client(mesh.a, mesh.other, learns=True) as other,
        mesh.a.client() as admin,
    ):
        due = from_now(timedelta(days=2))
        first = await b.publish("shop.orders", "x", deliver_at=due, key="k", headers={"n": "1"})
        second = await b.publish("shop.orders", "y", deliver_at=due + timedelta(days=20))
        found = await a.later()
        assert [(each.id, each.topic, each.event.payload) for each in found] == [
            (first.first, "shop.orders", b"x"),
            (second.first, "shop.orders", b"y"),
        ]
        assert abs(found[0].due - due) < timedelta(milliseconds=1)
        assert await other.later() == [] and [each.id for each in await admin.later()] == [
            first.first,
            second.first,
        ]
        with pytest.raises(BadRequest, match="no such event waits here for you"):
            await other.cancel_later(first.first)
        assert (await a.cancel_later(str(first.first))).event.payload == b"x"
        with pytest.raises(BadRequest, match="it was delivered or cancelled"):
            await a.cancel_later(first.first)
        await admin.cancel_later(second.first)
        assert await b.later() == []
        with pytest.raises(NotAllowed, match='not allowed to publish to "secret'):
            await b.publish("secret.x", "y", delay=1)
        with pytest.raises(BadRequest, match="too far ahead"):
            await b.publish("shop.orders", "y", deliver_at=from_now(timedelta(days=400)))
        with pytest.raises(UsageError, match="either deliver_at or delay"):
            await b.publish("shop.orders", "y", deliver_at=due, delay=1)
        with pytest.raises(NotAllowed, match="belong to the mesh"):
            await admin.publish(first.stream.topic, "forged")
        hidden = await b.publish("shop.orders", "hidden", deliver_at=due)
        await admin.kv("settings").put("x", "1")
        async with await connected(mesh.client(mesh.b, mesh.looker)) as looker:
            async with looker.subscribe("weft.>", start="earliest") as own:
                async for event in own:
                    assert not event.topic.startswith("weft.later"), "nobody reads what waits"
                    if event.topic == "weft.kv.settings":
                        break
            with pytest.raises(NotAllowed, match="not allowed to subscribe"):
                await anext(await looker.fetch(hidden.stream, hidden.epoch, 0))


async def test_a_node_that_is_killed_delivers_what_waited_once_when_it_is_back(mesh: Mesh) -> None:
    async def publish() -> list[str]:
        async with await connected(mesh.client(mesh.b, mesh.shop)) as b:
            receipts = [await b.publish("shop.late", f"{n}", delay=n * 0.5) for n in range(6)]
            return [str(each.first) for each in receipts]

    ids = await publish()
    mesh.kill_b()
    mesh.restart_b()
    async with mesh.client(mesh.a, mesh.shop) as client, client.subscribe("shop.late", start="earliest") as events:
        found = [await anext(events) for _ in ids]
        assert sorted((each.headers or {})["weft-later"] for each in found) == sorted(ids)
        await client.publish("shop.late", "end")
        assert (await anext(events)).payload == b"end"
    assert "weft_later_pending" in mesh.b.metrics()


async def test_one_node_fires_a_schedule_and_it_stops_with_its_key(mesh: Mesh) -> None:
    async with (
        await connected(mesh.client(mesh.b, mesh.shop)) as b,
        mesh.client(mesh.a, mesh.other) as other,
        mesh.a.client() as admin,
    ):
        async with b.subscribe("shop.tick") as ticks:
            first = await b.add_schedule("tick", "* * * * *", "shop.tick", "t", headers={"h": "1"})
            assert first is not None
            with pytest.raises(BadRequest, match="there is a schedule of that name already"):
                await b.add_schedule("tick", "* * * * *", "shop.tick", "t")
            with pytest.raises(NotAllowed, match='not allowed to publish to "secret'):
                await b.add_schedule("x", "* * * * *", "secret.x", "t")
            with pytest.raises(BadRequest, match="not a cron expression"):
                await b.add_schedule("x", "often", "shop.tick", "t")
            assert await other.schedules() == []
            with pytest.raises(BadRequest, match="no schedule of that name for you"):
                await other.remove_schedule("tick")
            await b.add_schedule("nightly", "0 3 * * *", "shop.night", "n", zone="Europe/Berlin", catch_up="none")
            await b.pause_schedule("nightly")
            assert (await b.schedule("nightly")).next is None
            resumed = await b.resume_schedule("nightly")
            assert resumed is not None and resumed.minute == 0
            await b.remove_schedule("nightly")
            assert [each.name for each in await b.schedules()] == ["tick"]
            event = await anext(ticks)
            times = {(event.headers or {})["weft-schedule-time"]}
            assert event.payload == b"t" and (event.headers or {})["weft-schedule"] == "tick"
            assert times == {first.strftime("%Y-%m-%dT%H:%M:%SZ")}
            assert event.timestamp_us / 1e6 >= first.timestamp(), "never early"
            await b.publish("shop.tick", "end")
            assert (await anext(ticks)).payload == b"end", "the other node does not fire it"
        while [each.last for each in await admin.schedules()] != [first]:
            await asyncio.sleep(0.1)  # until the first node has heard of it
        await admin.revoke_key(mesh.shop_id)
        while not (await admin.schedule("tick")).stopped:
            await asyncio.sleep(0.1)
    mesh.a.end_quietly()
    mesh.b.end_quietly()


LITTLE: Final = """
[later]
pending_of_key_max = 3
schedules_of_key_max = 1
ahead_s_max = 3600
[storage]
maintenance_interval_s = 1
"""


async def test_limits_are_told_and_what_is_delivered_leaves_the_disk(tmp_path: Path) -> None:
    file = tmp_path / "weft.toml"
    file.write_text(LITTLE)

    def tidied(node: RunningNode) -> int:
        """How many waiting events were cut off. They are in two slots if a slot ends within the hour."""
        cuts = [each for each in node.logged() if each["event"] == "later_tidied" and DONE_SUFFIX not in each["stream"]]
        return sum({each["stream"]: each["end"] for each in cuts}.values())

    with up(tmp_path / "a", "--config", str(file)) as node:
        async with node.client() as client:
            waiting = [await client.publish("shop.x", f"secret {n}", delay=3000) for n in range(3)]
            with pytest.raises(NotAllowed, match=r"later[.]pending_of_key_max .*limit 3.*waiting 3"):
                await client.publish("shop.x", "one too many", delay=1)
            with pytest.raises(BadRequest, match=r"too far ahead .*limit 3600"):
                await client.publish("shop.x", "x", delay=3700)
            for receipt in waiting[:2]:
                await client.cancel_later(receipt.first)
            await client.publish("shop.x", "secret 4", delay=0.01)
            await client.cancel_later(waiting[2].first)
            await client.add_schedule("one", "@daily", "shop.x", "x")
            with pytest.raises(NotAllowed, match=r"later[.]schedules_of_key_max"):
                await client.add_schedule("two", "@daily", "shop.x", "x")
            await client.remove_schedule("one")
            await until(lambda: "weft_later_pending 0.0" in node.metrics())
            await until(lambda: tidied(node) == 4)
        node.end_quietly()
