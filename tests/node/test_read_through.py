"""Reading on in an archive table where retention has cut the log: every event once, in order, and no gap untold."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.docs.blocks import blocks_for
from tests.lake.archived import Archive, key_of
from tests.node.read_through import (
    OLD_US,
    WAIT_S,
    client_of,
    config_of,
    cut,
    events,
    filled,
    fresh,
    lines_of,
    old,
    publish,
    read,
    until,
)
from tests.pipelines.s3 import S3, SECRET_KEY, s3
from tests.up import RunningNode, up
from weft.client import Client, HistoryAway, LogCorrupt, NotAllowed, Options, PositionExpired, TlsFiles, connect
from weft.lake.settings import TableFormat
from weft.model import Event, Position

pytestmark = pytest.mark.req("LAK-04")

__all__ = ["s3"]


@asynccontextmanager
async def reading(tmp_path: Path, archive: Archive, **settings: object) -> AsyncIterator[tuple[RunningNode, Client]]:
    """A node that has this table, and a client of it."""
    config = config_of(tmp_path / "weft.toml", archive.settings, **settings)  # type: ignore[arg-type]
    with up(tmp_path / "data", "--insecure", "--config", str(config)) as node:
        async with client_of(node) as client:
            yield node, client
        node.end_quietly()


@pytest.mark.parametrize("kind", list(TableFormat))
async def test_subscribers_fetches_and_positions_go_over_the_seam(tmp_path: Path, kind: TableFormat) -> None:
    archive = Archive(tmp_path / "lake", kind)

    async with reading(tmp_path, archive) as (node, client):
        stream, epoch = await filled(client, archive)
        (found,) = await client.positions("plant.>")
        assert (found.first_offset, found.earliest_offset, found.latest_offset) == (0, 10, 20)
        assert (found.history, found.only_history) == (((0, 10),), False)
        assert await read(client, "plant.>", 20, start="earliest") == events(20)
        assert await read(client, "plant.>", 17, start=[Position(stream, epoch, 3)]) == events(17, 3)
        assert await read(client, "plant.>", 15, start=5) == events(15, 5)
        sixth = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=OLD_US + 6)
        assert await read(client, "plant.>", 14, start=sixth) == events(14, 6)
        fetched = [event async for batch in await client.fetch(stream, epoch, 2, 18) for event in batch.events()]
        assert [(event.offset, event.payload.decode()) for event in fetched] == events(16, 2)
        (topic,) = await client.topics("plant.>")
        assert (topic.events, topic.history_events, topic.history_since_us) == (10, 10, OLD_US)
        names: dict[str, object] = {}
        (block,) = [each for each in blocks_for("docs/lake.md", __file__) if each.language == "python"]
        exec(compile(block.code, block.place, "exec"), names)
        seen = await names["everything"]([node.grpc], 20)  # type: ignore[operator]
        assert seen == [text.encode() for _, text in events(20)]
        metrics = node.metrics()
        assert f'weft_history_up{{table="{archive.settings.path}"}} 1.0' in metrics
        assert f'weft_history_files{{table="{archive.settings.path}"}} 1.0' in metrics
        assert "history_ready" in {line["event"] for line in node.logged()}


async def test_streams_of_nodes_that_are_gone_for_good_are_read_too(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "lake")
    gone = key_of("plant.temp", "long-gone", epoch=3)
    archive.write((gone, 5, old(10, 5)), (key_of("other.topic", "long-gone", epoch=3), 0, old(2)))

    async with reading(tmp_path, archive) as (_node, client):
        key, _ = await publish(client, "plant.temp", fresh(3, 0))
        assert sorted(await read(client, "plant.>", 13, start="earliest")) == sorted([*events(10, 5), *events(3)])
        found = {str(each.stream.origin): each for each in await client.positions("plant.>")}
        there = found["long-gone"]
        assert (there.history, there.only_history, there.latest_offset) == (((5, 15),), True, 15)
        assert not found[key[0].origin].history
        fetched = [event async for batch in await client.fetch(*gone, 7) for event in batch.events()]
        assert [event.offset for event in fetched] == list(range(7, 15))
        topics = {each.topic: each for each in await client.topics()}
        assert (topics["other.topic"].events, topics["other.topic"].history_events) == (0, 2)
        assert topics["plant.temp"].streams == 2


async def test_a_hole_between_table_and_log_is_told_with_where_it_goes_on(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "lake")

    async with reading(tmp_path, archive) as (_node, client):
        key, _ = await publish(client, "plant.temp", old(10))
        archive.write((key, 0, old(4)), (key, 6, old(2, 6)))
        await cut(client, "plant.temp", 10)
        await publish(client, "plant.temp", fresh(2, 10))
        (found,) = await client.positions("plant.>")
        assert found.history == ((0, 4), (6, 8))
        for first, end, goes_on in ((0, 4, 6), (6, 8, 10)):
            place = [Position(*key, first)]
            seen: list[int] = []
            with pytest.raises(PositionExpired) as failure:
                async with client.subscribe("plant.>", start=place) as subscription:
                    async for event in subscription:
                        seen.append(event.offset)
            assert (seen, failure.value.facts["earliest"]) == (list(range(first, end)), str(goes_on))
            with pytest.raises(PositionExpired):
                async for _ in await client.fetch(*key, first):
                    pass
        assert await read(client, "plant.>", 2, start=[Position(*key, 10)]) == events(2, 10)


async def test_a_table_that_is_away_is_told_and_holds_up_nobody_else(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "lake")
    place = Path(archive.settings.path)
    away = tmp_path / "away"

    async with reading(tmp_path, archive) as (node, client):
        key = await filled(client, archive)
        assert (await client.positions("plant.>"))[0].history == ((0, 10),), "the index is made, no event is read"
        place.rename(away)
        waiting = asyncio.create_task(read(client, "plant.>", 20, start="earliest"))
        with pytest.raises(HistoryAway, match="there is no Delta table"):
            async for _ in await client.fetch(*key, 0, 5):
                pass
        assert await read(client, "plant.>", 10, start=10) == events(10, 10), "who needs no table goes on"
        assert (await client.node_positions("plant.>")).history_problem
        assert not waiting.done()

        async def is_logged() -> bool:
            return bool(lines_of(node, "history_away"))

        await until(is_logged)
        away.rename(place)
        assert await waiting == events(20), "the client has come back by itself"
        assert lines_of(node, "history_back")


async def test_a_damaged_file_is_told_with_what_is_lost(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "lake")
    bytes_of_all_kinds = bytes(range(256))

    async with reading(tmp_path, archive) as (_node, client):
        damaged = [Event(bytes_of_all_kinds, OLD_US)] * 5
        key, _ = await publish(client, "plant.temp", [*old(5), *damaged, *old(5, 10)])
        for first, some in ((0, old(5)), (5, damaged), (10, old(5, 10))):
            archive.write((key, first, some))
        await cut(client, "plant.temp", 15)
        (found,) = await client.positions("plant.>")
        assert found.history == ((0, 15),), "the index knows all files"
        damage(archive, bytes_of_all_kinds[100:140])
        assert await read(client, "plant.>", 5, start="earliest") == events(5)
        with pytest.raises(LogCorrupt, match="a file of the table is damaged") as failure:
            async for _ in await client.fetch(*key, 5):
                pass
        assert (failure.value.facts["first"], failure.value.facts["end"]) == ("5", "10")
        assert await read(client, "plant.>", 5, start=[Position(*key, 10)]) == events(5, 10)


def damage(archive: Archive, there: bytes) -> None:
    """Flip a bit of these bytes, in whichever file of the table has them."""
    for each in archive.table.files():
        file = Path(archive.settings.path) / each.path
        data = bytearray(file.read_bytes())
        if (at := data.find(there)) > 0:
            data[at] ^= 0x40
            file.write_bytes(data)
            return
    raise AssertionError("no file has them")


async def test_a_node_that_is_killed_while_a_table_is_read_loses_and_repeats_nothing(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "lake")
    config = config_of(tmp_path / "weft.toml", archive.settings)
    count = 3000

    async def story(port: str) -> list[tuple[int, str]]:
        async with connect(port, insecure=True, options=Options(credit_bytes=4096)) as client:
            found: list[tuple[int, str]] = []
            async with asyncio.timeout(WAIT_S), client.subscribe("plant.>", start="earliest") as subscription:
                async for event in subscription:
                    found.append((event.offset, event.payload.decode()))
                    if len(found) == 200:
                        await asyncio.to_thread(restart)
                    if len(found) == count + 10:
                        break
            return found

    nodes: list[RunningNode] = []
    with up(tmp_path / "data", "--insecure", "--config", str(config)) as node:
        async with client_of(node) as client:
            key, _ = await publish(client, "plant.temp", old(count))
            for first in range(0, count, 500):
                archive.write((key, first, old(500, first)))
            await cut(client, "plant.temp", count)
            await publish(client, "plant.temp", fresh(10, count))
        again = ("--insecure", "--config", str(config), "--listen", node.grpc)
        with ExitStack() as stack:

            def restart() -> None:
                node.end(signal.SIGKILL)
                nodes.append(stack.enter_context(up(tmp_path / "data", *again)))

            assert await story(node.grpc) == events(count + 10)
            nodes[0].end_quietly()


async def test_a_group_that_has_fallen_behind_goes_on_in_the_table(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "lake")

    async with reading(tmp_path, archive) as (_node, client):
        key = await filled(client, archive)
        assert await read(client, "plant.>", 10, start="earliest", group="new") == events(10, 10)
        for group in ("auto", "manual"):
            await client.seek(group, "plant.>", "earliest")
            (found,) = await client.positions("plant.>", group)
            assert found.group_offset == 0
            async with asyncio.timeout(WAIT_S), client.subscribe("plant.>", group=group, commit=group) as subscription:
                seen = []
                async for event in subscription:
                    seen.append(event.offset)
                    await subscription.ack(event) if group == "manual" else None
                    if len(seen) == 20:
                        break
            assert seen == list(range(20))
        await client.commit("auto", [Position(*key, 3)])
        assert (await read(client, "plant.>", 17, group="auto")) == events(17, 3)


async def test_history_is_read_with_the_rights_of_the_topic(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "lake")
    secret = key_of("plant.secret", "gone", epoch=3)
    archive.write((secret, 0, old(5)), (key_of("plant.open", "gone", epoch=3), 0, old(5)))
    config = config_of(tmp_path / "weft.toml", archive.settings)
    with up(tmp_path / "data", "--config", str(config)) as node:
        await _with_rights(node, secret[0], secret[1])
        node.end_quietly()


async def _with_rights(node: RunningNode, stream: object, epoch: int) -> None:
    async with node.client() as admin:
        assert len(await read(admin, "plant.secret", 5, start="earliest")) == 5
        key = (await admin.create_key("reader", subscribe=["plant.open"])).key
    context = node.context
    assert context.tls_root and context.tls_certificate and context.tls_key
    tls = TlsFiles(Path(context.tls_root), Path(context.tls_certificate), Path(context.tls_key))
    async with connect(node.grpc, token=key, tls=tls) as reader:
        assert await read(reader, "plant.open", 5, start="earliest") == events(5)
        with pytest.raises(NotAllowed):
            await read(reader, "plant.secret", 1, start="earliest")
        with pytest.raises(NotAllowed):
            async for _ in await reader.fetch(stream, epoch, 0):  # type: ignore[arg-type]
                pass
        with pytest.raises(NotAllowed):
            await reader.positions("plant.secret")
        assert [each.topic for each in await reader.topics()] == ["plant.open"]


async def test_a_table_in_an_object_store(tmp_path: Path, s3: S3) -> None:
    archive = Archive(s3.bucket(), access=s3.access)

    async with reading(tmp_path, archive) as (node, client):
        await filled(client, archive)
        assert await read(client, "plant.>", 20, start="earliest") == events(20)
        assert SECRET_KEY not in node.said() + node.metrics()


async def test_two_tables_each_have_their_topics(tmp_path: Path) -> None:
    plant, rest = Archive(tmp_path / "plant"), Archive(tmp_path / "rest")
    one, other = key_of("plant.temp", "gone", epoch=3), key_of("office.temp", "gone", epoch=3)
    plant.write((one, 0, old(3)), (other, 0, [Event(b"of the wrong table", OLD_US)]))
    rest.write((other, 0, old(2)), (one, 0, [Event(b"of the wrong table", OLD_US)]))
    file = config_of(tmp_path / "weft.toml", plant.settings, patterns=["plant.>"])
    file.write_text(file.read_text() + f'\n[[history]]\npath = "{rest.settings.path}"\n')

    with up(tmp_path / "data", "--insecure", "--config", str(file)) as node:
        async with client_of(node) as client:
            assert sorted(await read(client, ">", 5, start="earliest")) == sorted([*events(3), *events(2)])
            assert [each.topic for each in await client.topics()] == ["office.temp", "plant.temp"]
        node.end_quietly()
