"""Commands that ask a node: what they show, and that they ask for the right thing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.cli.commands import Weft
from tests.up import RunningNode
from weft.cli import mesh_work
from weft.client import GroupInfo, GroupStream, PeerInfo, Recipient, Status, TopicInfo
from weft.model import Epoch, NodeId, Position, Stream, parse_topic

NOON_US = 1_577_880_000_000_000  # 2020-01-01T12:00:00Z
TEMP = Stream(parse_topic("plant.temp"), NodeId("node-a"), 0)
LAG = GroupStream(Position(TEMP, Epoch(7), 30), 10, 42, "worker-1", 1_500_000)


class Answers:
    """A client that says what it was given, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.answer: Any = []

    def __getattr__(self, call: str) -> Any:
        async def ask(*arguments: str) -> Any:
            self.asked.append((call, *arguments))
            return self.answer

        return ask


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    client = Answers()
    monkeypatch.setattr(mesh_work, "with_client", lambda where, work: asyncio.run(work(client)))
    return client


def cells(text: str) -> list[list[str]]:
    """A table's rows; columns are at least two blanks apart."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]


def test_topics(weft: Weft, answers: Answers) -> None:
    answers.answer = [TopicInfo("b", 2, 1234, 2048, NOON_US), TopicInfo("a", 1, 0, 0, 0)]
    assert cells(weft("topics", "*").out) == [
        ["topic", "streams", "events", "bytes", "last event"],
        ["a", "1", "0", "0 B"],
        ["b", "2", "1,234", "2.0 KiB", "2020-01-01T12:00:00.000000Z"],
    ]
    none = {"history_events": 0, "history_since": None}
    assert weft("topics", "--json").document == [
        {"topic": "a", "streams": 1, "events": 0, "bytes": 0, "last_time": None} | none,
        {"topic": "b", "streams": 2, "events": 1234, "bytes": 2048, "last_time": "2020-01-01T12:00:00.000000Z"} | none,
    ]
    assert answers.asked == [("topics", "*"), ("topics", ">")]


@pytest.mark.req("LAK-04")
def test_topics_show_how_far_history_reaches_back(weft: Weft, answers: Answers) -> None:
    answers.answer = [TopicInfo("a", 1, 1, 9, NOON_US), TopicInfo("b", 1, 0, 0, 0, 5000, NOON_US)]
    assert cells(weft("topics").out) == [
        ["topic", "streams", "events", "bytes", "last event", "in history", "since"],
        ["a", "1", "1", "9 B", "2020-01-01T12:00:00.000000Z"],
        ["b", "1", "0", "0 B", "5,000", "2020-01-01T12:00:00.000000Z"],
    ]
    found = weft("topics", "--json").document[1]
    assert (found["history_events"], found["history_since"]) == (5000, "2020-01-01T12:00:00.000000Z")


def test_peers(weft: Weft, answers: Answers) -> None:
    linked = PeerInfo("node-b", ("b:7400",), "alive", 3, 7, True, True, 1500, 2, 40, ("node-a",), ("plant.>",))
    behind = PeerInfo("node-c", ("c:7400",), "suspect", 1, 8, False, False, 0, 0, 0, ("node-b",), ())
    answers.answer = [behind, linked]
    assert cells(weft("peers").out) == [
        ["node", "state", "link", "addresses", "neighbours", "rtt", "queue", "lag"],
        ["node-b", "alive", "dialled", "b:7400", "node-a", "1.5 ms", "2", "40"],
        ["node-c", "suspect", "c:7400", "node-b"],
    ]
    first, second = weft("peers", "--json").document
    assert (first["node_id"], first["interest"], first["connected"]) == ("node-b", ["plant.>"], True)
    assert (second["node_id"], second["state"]) == ("node-c", "suspect")


def test_groups_and_lag(weft: Weft, answers: Answers) -> None:
    answers.answer = [GroupInfo("billing", ("worker-1", "worker-2"), (LAG,)), GroupInfo("audit", (), ())]
    assert cells(weft("groups").out) == [
        ["group", "members", "streams", "events behind", "seconds behind"],
        ["audit", "0", "0", "0.0"],
        ["billing", "worker-1, worker-2", "1", "12", "1.5"],
    ]
    assert cells(weft("lag", "billing").out) == [
        ["group", "stream", "member", "epoch", "position", "end", "events behind", "seconds behind"],
        ["billing", "plant.temp@node-a/0", "worker-1", "7", "30", "42", "12", "1.5"],
    ]
    place = {"topic": "plant.temp", "origin": "node-a", "epoch": 7, "partition": 0, "offset": 30}
    stream = {**place, "earliest": 10, "end": 42, "member": "worker-1", "lag_events": 12, "lag_s": 1.5}
    assert weft("lag", "--json").document == [{"group": "billing", **stream}]
    assert weft("groups", "--json").document[1] == {
        "group": "billing", "members": ["worker-1", "worker-2"], "lag_events": 12, "lag_s": 1.5, "policy": None,
        "streams": [stream],
    }  # fmt: skip
    assert answers.asked == [("groups", ""), ("groups", "billing"), ("groups", ""), ("groups", "")]


def test_explain(weft: Weft, answers: Answers) -> None:
    answers.answer = [Recipient("node-c", "plant.>", ("node-a", "node-b", "node-c"), "2 subscribers")]
    assert cells(weft("explain", "plant.temp", "--origin", "node-a").out) == [
        ["node", "because of", "path", "why"],
        ["node-c", "plant.>", "node-a > node-b > node-c", "2 subscribers"],
    ]
    assert weft("explain", "plant.temp", "--json").document == [
        {
            "node_id": "node-c",
            "pattern": "plant.>",
            "path": ["node-a", "node-b", "node-c"],
            "reason": "2 subscribers",
            "serves": False,
        }
    ]
    assert answers.asked == [("explain", "plant.temp", "node-a"), ("explain", "plant.temp", "")]


def test_status(weft: Weft, answers: Answers) -> None:
    answers.answer = Status("node-a", 7, "0.1.0", 3600, 4, 5000, 2048, 2, 3, ("grpc 127.0.0.1:7400",), True)
    assert weft("status").out.splitlines() == [
        "node: node-a",
        "state: draining",
        "version: 0.1.0",
        "uptime: 3,600 s",
        "epoch: 7",
        "log: 4 streams, 5,000 events, 2.0 KiB",
        "mesh: 3 nodes known, 2 linked",
        "listens on: grpc 127.0.0.1:7400",
    ]
    assert weft("status", "--json").document["draining"] is True


@pytest.mark.req("OPS-02")
def test_leave(weft: Weft, answers: Answers) -> None:
    answers.answer = "node-[a]"
    assert weft("leave").out == "node-[a] leaves the mesh: it finishes what is under way and stops\n"
    assert answers.asked == [("leave",)]


@pytest.mark.req("OPS-02")
def test_leave_wants_one_node(weft: Weft, node: RunningNode) -> None:
    """Never the next one, because the first did not answer."""
    outcome = weft("leave", *node.flags, "--node", "127.0.0.1:1")
    assert outcome.status == 1
    assert "name one node only, the one that is to leave" in outcome.err
    assert weft("status", *node.flags).status == 0


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("topics", "a.*"), "no topic that you may read matches a.*"),
        (("peers",), "this node knows no other node"),
        (("groups",), "there are no groups that you may use"),
        (("lag",), "no group that you may use has read anything yet"),
        (
            ("explain", "a.b"),
            "no subscriber would get a.b: no node is interested\nthis node knows nobody who serves requests to a.b",
        ),
    ],
)
def test_nothing_is_said_to_be_nothing(weft: Weft, answers: Answers, command: Sequence[str], message: str) -> None:
    told = weft(*command)
    assert (told.status, told.out, told.err) == (0, "", f"{message}\n")
    assert weft(*command, "--json").document == []


@pytest.mark.parametrize("command", ["groups", "lag"])
def test_a_group_that_is_not_there_is_an_error(weft: Weft, answers: Answers, command: str) -> None:
    outcome = weft(command, "absent")
    assert (outcome.status, outcome.err) == (1, "weft: no group is called 'absent'\n")


def test_names_from_the_mesh_are_not_markup(weft: Weft, answers: Answers) -> None:
    answers.answer = [TopicInfo("[red]x[/]", 1, 0, 0, 0)]
    assert "[red]x[/]" in weft("topics").out


def test_a_real_node_answers_them_all(weft: Weft, node: RunningNode) -> None:
    assert weft("pub", "mesh.real", "x", *node.flags).status == 0
    assert weft("sub", "mesh.real", "--from", "earliest", "--group", "real", "--count", "1", *node.flags).status == 0
    assert "mesh.real" in [each["topic"] for each in weft("topics", "mesh.>", "--json", *node.flags).document]
    assert weft("status", "--json", *node.flags).document["node_id"] == "node-a"
    (group,) = weft("groups", "real", "--json", *node.flags).document
    assert [(each["topic"], each["offset"], each["lag_events"]) for each in group["streams"]] == [("mesh.real", 1, 0)]
    assert weft("lag", "real", "--json", *node.flags).document[0]["group"] == "real"
    assert weft("peers", "--json", *node.flags).status == 0
    assert weft("explain", "mesh.real", "--json", *node.flags).status == 0
