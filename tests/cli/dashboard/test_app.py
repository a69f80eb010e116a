"""The screen, driven by keys; and the command, on a node as users start it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from tests.cli.commands import Weft
from tests.cli.dashboard.answers import answers, group, peer, status, topic
from tests.up import RunningNode
from weft.cli.dashboard.app import Details, Top, duration
from weft.cli.dashboard.board import Answers
from weft.client import Recipient, StreamPositions, Unavailable
from weft.model import Epoch, NodeId, Stream, parse_topic

pytestmark = pytest.mark.req("SEE-02")
HOSTILE = "[red]evil[/] \x1b[2J"


class Answering:
    """A mesh that always answers the same."""

    trouble: Exception | None = None

    async def answers(self) -> Answers:
        if self.trouble is not None:
            raise self.trouble
        return answers(
            statuses=[status("a", 10)],
            peers=[peer("b", "dead"), peer(HOSTILE, "alive")],
            topics={"a": [topic("plant.temp", 10), topic("office.door", 70)]},
            groups=[group("billing", (3, 10))],
        )

    async def streams(self, name: str) -> list[StreamPositions]:
        stream = Stream(parse_topic(name), NodeId("a"), 0)
        return [StreamPositions(stream, Epoch(7), 0, 10, 1_000, 0, 0, None, None)]

    async def recipients(self, name: str) -> list[Recipient]:
        return [Recipient("b", "plant.>", ("a", "b"), "2 subscriptions here")]


@asynccontextmanager
async def on_screen(trouble: Exception | None = None) -> AsyncIterator[tuple[Pilot[None], Top]]:
    mesh = Answering()
    mesh.trouble = trouble
    app = Top(mesh, 3_600)  # type: ignore[arg-type]  # what it asks is answered here
    async with app.run_test(size=(140, 30)) as pilot:
        await until(pilot, lambda: "nodes up" in shown(app, "summary") or "no answer" in shown(app, "summary"))
        yield pilot, app


async def until(pilot: Pilot[None], is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await pilot.pause(0.01)


def shown(app: Top, name: str) -> str:
    return str(app.query_one(f"#{name}", Static).render())


def names(app: Top, kind: str) -> list[str]:
    table: DataTable[Any] = app.query_one(f"#{kind}-table", DataTable)
    return [str(table.get_row_at(place)[0]) for place in range(table.row_count)]


async def test_the_mesh_at_a_glance() -> None:
    async with on_screen() as (_pilot, app):
        assert "1 of 3 nodes up" in shown(app, "summary") and "7 events behind in 1 groups" in shown(app, "summary")
        assert names(app, "nodes") == [r"[red]evil[/] \x1b[2J", "a", "b"], "what others call themselves is only text"


async def test_keys_change_the_table_sort_and_filter() -> None:
    async with on_screen() as (pilot, app):
        await pilot.press("2", "s", "s")
        assert names(app, "topics") == ["office.door", "plant.temp"], "most events first"
        await pilot.press("r")
        assert names(app, "topics") == ["plant.temp", "office.door"]
        await pilot.press("slash", *"plant")
        await until(pilot, lambda: names(app, "topics") == ["plant.temp"])
        await pilot.press("enter", "escape")
        await until(pilot, lambda: len(names(app, "topics")) == 2)


@pytest.mark.parametrize(
    ("key", "words"),
    [("1", "plant.>"), ("2", "2 subscriptions here"), ("3", "t0@a/0")],
    ids=["node", "topic", "group"],
)
async def test_enter_looks_closer_and_escape_goes_back(key: str, words: str) -> None:
    async with on_screen() as (pilot, app):
        await pilot.press(key, "down", "down", "enter")
        await until(pilot, lambda: isinstance(app.screen, Details))
        tables = app.screen.query(DataTable)
        cells = [str(cell) for table in tables for place in range(table.row_count) for cell in table.get_row_at(place)]
        assert words in cells
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, Details))


async def test_a_node_that_does_not_answer_is_said_in_red() -> None:
    async with on_screen(Unavailable("the node is away")) as (_pilot, app):
        assert "no answer: the node is away" in shown(app, "summary")


@pytest.mark.parametrize("keys", [(), ("slash", "a"), ("1", "enter")], ids=["table", "filter", "details"])
async def test_ctrl_c_ends_it_wherever_one_is(keys: tuple[str, ...]) -> None:
    async with on_screen() as (pilot, app):
        await pilot.press(*keys, "ctrl+c")
        await until(pilot, lambda: app.return_code is not None)
        assert app.return_code == 130


def test_durations_are_as_people_say_them() -> None:
    assert [duration(each) for each in (0, 119, 120, 7_199, 7_200, 172_800)] == [
        "0 s",
        "119 s",
        "2 min",
        "119 min",
        "2 h",
        "2 d",
    ]


def test_prints_one_document(weft: Weft, node: RunningNode) -> None:
    weft("pub", *node.flags, "top.json", "21.5")
    found = weft("top", *node.flags, "--json", "--interval", "0.2", "top.>").document
    assert [(each["node"], each["state"]) for each in found["nodes"]] == [("node-a", "up")]
    assert [(each["topic"], each["events"]) for each in found["topics"]] == [("top.json", 1)]
    assert found["refused"] == []


def test_says_that_it_needs_a_terminal(weft: Weft, node: RunningNode) -> None:
    outcome = weft("top", *node.flags)
    assert outcome.status == 1 and "needs a terminal" in outcome.err
