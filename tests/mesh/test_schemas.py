"""Schemas of topics in a real mesh: two nodes as users start them, secured (LAK-02)."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

import weft
from tests.mesh.test_kv import tls_of
from tests.mesh.test_later import connected
from tests.mesh.watching import until
from tests.node.secured import key_for, token_from
from tests.up import RunningNode, up
from weft.client import BadRequest, Client, Connecting, IncompatibleSchema, NotAllowed, SchemaBroken
from weft.model import Batch

pytestmark = pytest.mark.req("LAK-02")
DDL = "id BIGINT NOT NULL, temp DOUBLE"
GOOD, BAD = '{"id": 7, "temp": 21.5}', '{"id": "seven"}'


@dataclass
class Mesh:
    """``a`` has the CA. Both nodes die and come back."""

    directory: Path
    stack: ExitStack
    a: RunningNode
    b: RunningNode
    tls: weft.TlsFiles
    admin: str
    plant: str  # may publish and read below plant., and nothing else

    def client(self, node: RunningNode, key: str | None = None) -> Connecting:
        return weft.connect(node.grpc, tls=self.tls, token=key or self.admin, learns=False)

    def kill(self, name: str) -> None:
        (self.a if name == "a" else self.b).end(signal.SIGKILL)

    def start_a(self) -> None:
        ports = ("--listen", self.a.grpc, "--ca-listen", str(self.a.ready["ca"]))
        self.a = self.stack.enter_context(up(self.directory / "a", "--node-id", "a", *ports))

    def start_b(self) -> None:
        ca = ("--ca", f"https://{self.a.ready['ca']}")
        self.b = self.stack.enter_context(up(self.directory / "b", "--peer", self.a.grpc, *ca))


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    directory = tmp_path_factory.mktemp("schemas")
    with ExitStack() as stack:
        a = stack.enter_context(up(directory / "a", "--node-id", "a", "--ca-listen", "127.0.0.1:0"))
        ca = ("--ca", f"https://{a.ready['ca']}", "--token", "-")
        b = stack.enter_context(up(directory / "b", "--peer", a.grpc, *ca, stdin=token_from(directory / "a", "b")))
        _, admin = key_for(directory / "a", time.time(), publish=(">",), subscribe=(">",), admin=True, name="admin")
        _, plant = key_for(directory / "a", time.time(), publish=("plant.>",), subscribe=("plant.>",), name="plant")
        yield Mesh(directory, stack, a, b, tls_of(a), admin, plant)


async def is_refused(client: Client, topic: str, payload: str = BAD) -> bool:
    try:
        await client.publish(topic, payload)
    except SchemaBroken:
        return True
    return False


async def mode_at(client: Client, pattern: str) -> str | None:
    return next((each.mode for each in await client.schemas.list() if each.pattern == pattern), None)


async def test_what_is_set_at_one_node_holds_at_all(mesh: Mesh) -> None:
    async with await connected(mesh.client(mesh.a)) as a, await connected(mesh.client(mesh.b)) as b:
        set_to = await a.schemas.set("plant.*.temp", DDL, kind="ddl", mode="reject")
        assert (set_to.version, set_to.mode, set_to.compatibility) == (1, "reject", "backward")
        assert set_to.latest.by.startswith("key ")
        assert await is_refused(a, "plant.line1.temp"), "at once where it was set"
        await until(lambda: is_refused(b, "plant.line1.temp"))
        await b.publish("plant.line1.temp", GOOD)
        await b.publish("plant.line1.other", BAD)
        with pytest.raises(SchemaBroken) as refused:
            await b.publish("plant.line1.temp", "no json")
        assert refused.value.fault.reason.startswith("the payload is not JSON")
        assert (refused.value.facts["schema"], refused.value.facts["version"]) == ("plant.*.temp", "1")
        assert 'weft_schema_faults_total{schema="plant.*.temp"}' in mesh.b.metrics()


@pytest.mark.req("MSH-01")
async def test_events_behind_a_refused_one_stay_behind_it(mesh: Mesh) -> None:
    """The rest of its batch is sent again, while batches behind it are under way already."""

    options = weft.Options(batch_bytes=1_000)
    connecting = weft.connect(mesh.a.grpc, tls=mesh.tls, token=mesh.admin, learns=False, options=options)
    async with await connected(connecting) as client:
        await client.schemas.set("lines.>", DDL, kind="ddl", mode="reject")
        payloads = [BAD if number % 40 == 7 else f'{{"id": {number}}}' for number in range(200)]
        tickets = [client.publish_nowait("lines.one", payload) for payload in payloads]
        outcomes = await asyncio.gather(*tickets, return_exceptions=True)
        good = [payload.encode() for payload in payloads if payload != BAD]
        assert sum(isinstance(each, SchemaBroken) for each in outcomes) == len(payloads) - len(good)
        async with client.subscribe("lines.one", start="earliest") as events:
            assert [(await anext(events)).payload for _ in good] == good


async def test_versions_rules_and_modes(mesh: Mesh) -> None:
    async with await connected(mesh.client(mesh.a)) as client:
        schemas = client.schemas
        await schemas.set("mill.>", DDL, kind="ddl")
        assert not await is_refused(client, "mill.a"), "a new schema only warns"
        with pytest.raises(IncompatibleSchema, match=r"id: .*BIGINT.*backward"):
            await schemas.set("mill.>", "id STRING", kind="ddl")
        tried = await schemas.set("mill.>", f"{DDL}, note STRING", kind="ddl", dry_run=True)
        assert tried.version == 2 and (await schemas.get("mill.>")).version == 1
        await schemas.set("mill.>", f"{DDL}, note STRING", kind="ddl")
        await schemas.set("mill.>", mode="reject")
        found = await schemas.get("mill.>")
        assert [each.number for each in found.versions] == [1, 2] and found.mode == "reject"
        await schemas.set("mill.north.*", "other STRING NOT NULL", kind="ddl", mode="reject")
        assert await is_refused(client, "mill.north.a", GOOD), "the more specific pattern counts"
        assert not await is_refused(client, "mill.south.a", GOOD)
        of_topic = await schemas.of_topic("mill.north.a")
        assert of_topic is not None and of_topic.pattern == "mill.north.*"
        await schemas.remove("mill.north.*")
        assert not await is_refused(client, "mill.north.a", GOOD)
        with pytest.raises(BadRequest, match="no schema is set"):
            await schemas.remove("mill.north.*")
        with pytest.raises(BadRequest, match="belong to the mesh"):
            await schemas.set("weft.>", DDL, kind="ddl")
        warned = [each for each in mesh.a.logged() if each["event"] == "schema_broken"]
        assert warned and warned[0]["schema"] == "mill.>" and warned[0]["field"] == "id"


async def test_only_those_who_administer_set_and_others_see_their_own(mesh: Mesh) -> None:
    async with await connected(mesh.client(mesh.a)) as admin:
        await admin.schemas.set("plant.*.temp", DDL, kind="ddl", mode="reject")
        await admin.schemas.set("secret.>", DDL, kind="ddl")
    async with await connected(mesh.client(mesh.a, mesh.plant)) as plant:
        assert [each.pattern for each in await plant.schemas.list()] == ["plant.*.temp"]
        assert (await plant.schemas.get("plant.*.temp")).latest.text == DDL
        assert await plant.schemas.of_topic("plant.x.temp") is not None
        for refused in (
            plant.schemas.set("plant.*.temp", mode="off"),
            plant.schemas.remove("plant.*.temp"),
            plant.schemas.of_topic("secret.a"),
        ):
            with pytest.raises(NotAllowed):
                await refused
        with pytest.raises(BadRequest, match="none that you may see"):
            await plant.schemas.get("secret.>")


async def test_one_bad_event_does_not_harm_others(mesh: Mesh) -> None:
    async with await connected(mesh.client(mesh.a)) as client:
        await client.schemas.set("many.>", DDL, kind="ddl", mode="reject")
        payloads = [f'{{"id": {n}}}' if n % 10 else f'{{"id": "{n}"}}' for n in range(500)]
        tickets = [client.publish_nowait("many.a", payload) for payload in payloads]
        outcomes = await asyncio.gather(*map(_ended, tickets))
        assert [n for n, outcome in enumerate(outcomes) if isinstance(outcome, SchemaBroken)] == list(range(0, 500, 10))
        assert sorted(each for each in outcomes if isinstance(each, int)) == list(range(450))
        large = Batch.from_columns([b'{"id": 1}'] * 20_000 + [BAD.encode()], 0)
        with pytest.raises(SchemaBroken) as refused:
            await client.publish_batch("many.b", large)
        assert refused.value.facts["event"] == "20000"
        await client.publish_batch("many.b", Batch.from_columns([b'{"id": 1}'] * 20_000, 0))
        (place,) = await client.positions("many.b")
        assert place.latest_offset == 20_000


async def _ended(ticket: weft.client.Published) -> int | SchemaBroken:
    try:
        return (await ticket).first_offset
    except SchemaBroken as broken:
        return broken


async def test_events_for_later_and_schedules_are_checked(mesh: Mesh) -> None:
    async with await connected(mesh.client(mesh.a)) as client:
        await client.schemas.set("soon.>", DDL, kind="ddl", mode="reject")
        with pytest.raises(SchemaBroken):
            await client.publish("soon.a", BAD, delay=3600)
        receipt = await client.publish("soon.a", GOOD, delay=3600)
        await client.cancel_later(receipt.first)
        with pytest.raises(SchemaBroken):
            await client.add_schedule("bad", "0 3 * * *", "soon.a", BAD)
        await client.add_schedule("good", "0 3 * * *", "soon.a", GOOD)
        await client.remove_schedule("good")


async def test_the_last_events_are_looked_at_wherever_they_are(mesh: Mesh) -> None:
    async with await connected(mesh.client(mesh.a)) as a, await connected(mesh.client(mesh.b)) as b:
        await a.publish("look.a", '{"id": 1, "temp": 20}')
        await b.publish("look.b", '{"id": 2, "temp": 20.5, "note": "x"}')
        await b.publish("look.b", BAD)
    async with weft.connect([mesh.a.grpc, mesh.b.grpc], tls=mesh.tls, token=mesh.admin) as client:
        inferred = await client.schemas.infer("look.*", last=2)
        assert inferred.events == 2
        report = await client.schemas.check("look.*", weft_schema(DDL), last=100)
        assert (report.events, report.checked, len(report.faults)) == (3, 3, 1) and not report.unreached
        ((event, fault),) = report.faults
        assert event.payload == BAD.encode() and fault.field == "id"
        assert (await client.schemas.check("look.*")).checked == 0, "no schema is set for them"


def weft_schema(text: str) -> weft.schema.Schema:
    from weft.schema import Kind, parse_schema

    return parse_schema(Kind.DDL, text)


async def test_no_event_slips_through_after_a_crash(mesh: Mesh) -> None:
    async with await connected(mesh.client(mesh.a)) as a, await connected(mesh.client(mesh.b)) as b:
        await a.schemas.set("kept.>", DDL, kind="ddl", mode="reject")
        await until(lambda: is_refused(b, "kept.a"))
    mesh.kill("b")
    mesh.start_b()
    async with await connected(mesh.client(mesh.b)) as client:
        assert await is_refused(client, "kept.a"), "from its first event on"
        await client.publish("kept.a", GOOD)


async def test_both_sides_of_a_split_come_to_the_later_writing(mesh: Mesh) -> None:
    """Each node sets it while the other one is down: neither has heard of the other's writing."""

    async def set_at(node: RunningNode, mode: str) -> None:
        async with await connected(mesh.client(node)) as client:
            await client.schemas.set("split.>", mode=mode)  # type: ignore[arg-type]
            assert await mode_at(client, "split.>") == mode

    async def _is_at(client: Client, mode: str) -> bool:
        return await mode_at(client, "split.>") == mode

    async with await connected(mesh.client(mesh.a)) as a, await connected(mesh.client(mesh.b)) as b:
        await a.schemas.set("split.>", DDL, kind="ddl", mode="warn")
        await until(lambda: _is_at(b, "warn"))
    mesh.kill("a")
    await set_at(mesh.b, "reject")
    mesh.kill("b")
    mesh.start_a()
    await set_at(mesh.a, "off")
    mesh.start_b()
    for node in (mesh.a, mesh.b):
        async with await connected(mesh.client(node)) as client:
            await until(lambda client=client: _is_at(client, "off"))  # type: ignore[misc]
