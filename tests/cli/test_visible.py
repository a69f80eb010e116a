"""No command prints what others say in a way that acts on a terminal; programs still get it exactly."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.cli.commands import Weft
from tests.cli.test_exmp import in_a_thread
from weft import emm, exmp
from weft.cli import mesh_work
from weft.cli.connection import Notes
from weft.cli.console import show_warnings
from weft.cli.emm import work as emm_work
from weft.cli.events import event_line
from weft.cli.exmp_work import shown_request
from weft.cli.log.output import print_health
from weft.cli.options import Where
from weft.client.admin import GroupInfo, GroupStream, PeerInfo, Recipient, Status, TopicInfo
from weft.exmp import JsonObject
from weft.log.repair import Health
from weft.model import Epoch, Event, NodeId, Position, Stream, Topic
from weft.wire.emm import Verdict
from weft.wire.exmp import Error, encode, frame
from weft.wire.reject import BadPacket, Reject

# The window's title, a line that overwrites another, a second line, text that is turned around, eight-bit controls.
HOSTILE = "a\x1b]0;owned\x07\x1b[1A\x1b[2Kb\nweft: all is well\r\u202ec\x9b2J[red]d[/]"
SHOWN = r"a\x1b]0;owned\x07\x1b[1A\x1b[2Kb\nweft: all is well\r\u202ec\x9b2J[red]d[/]"
WHERE = Where(None, False, None)
HERE = Position(Stream(Topic(HOSTILE), NodeId(HOSTILE), 0), Epoch(1), 5)

GROUP = GroupInfo(HOSTILE, (HOSTILE,), (GroupStream(HERE, 0, 9, HOSTILE, 0),))
VIEWS: dict[str, tuple[Any, Callable[[bool], None]]] = {
    "topics": ([TopicInfo(HOSTILE, 1, 1, 1, 1)], lambda json: mesh_work.show_topics(WHERE, ">", json)),
    "no topics": ([], lambda json: mesh_work.show_topics(WHERE, HOSTILE, json)),
    "peers": (
        [PeerInfo(HOSTILE, (HOSTILE,), HOSTILE, 1, 1, True, True, 1, 1, 1, (HOSTILE,), ())],
        lambda json: mesh_work.show_peers(WHERE, json),
    ),
    "groups": ([GROUP], lambda json: mesh_work.show_groups(WHERE, "", json)),
    "lag": ([GROUP], lambda json: mesh_work.show_lag(WHERE, "", json)),
    "explain": (
        [Recipient(HOSTILE, HOSTILE, (HOSTILE,), HOSTILE)],
        lambda json: mesh_work.show_explanation(WHERE, "t", "", json),
    ),
    "status": (
        Status(HOSTILE, 1, HOSTILE, 1, 1, 1, 1, 1, 1, (HOSTILE,), False),
        lambda json: mesh_work.show_status(WHERE, json),
    ),
}


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that are not folded."""
    for name in ("out", "err"):
        monkeypatch.setattr(f"weft.cli.console.{name}.width", 10_000)


def check(printed: str, lines: int | None = None) -> None:
    assert SHOWN in printed
    assert all(line.isprintable() for line in printed.split("\n")), printed
    if lines is not None:
        assert printed.count("\n") == lines


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("name", VIEWS)
def test_what_a_node_says_of_the_mesh(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reply, show = VIEWS[name]
    monkeypatch.setattr(mesh_work, "with_client", lambda where, work: reply)
    show(False)
    captured = capsys.readouterr()
    check(captured.out + captured.err)
    if reply:
        show(True)
        assert HOSTILE in set(texts(json.loads(capsys.readouterr().out))), "programs get what was said"


def texts(value: Any) -> Iterator[str]:
    """All strings of a document."""
    match value:
        case str():
            yield value
        case dict():
            yield from texts(list(value.values()))
        case list():
            for each in value:
                yield from texts(each)
        case _:
            pass


@pytest.mark.usefixtures("wide")
def test_sub_and_log_cat() -> None:
    event = Event(HOSTILE.encode(), 0, HOSTILE.encode(), {HOSTILE: HOSTILE})
    line = event_line(HERE.stream, HERE.epoch, 0, event)
    assert line.isprintable()
    assert line.count(SHOWN) == 6


@pytest.mark.usefixtures("wide")
def test_emm_listen(capsys: pytest.CaptureFixture[str]) -> None:
    source = ("127.0.0.1", 1)
    event = emm.Event(HOSTILE, (HOSTILE, {"x": HOSTILE}), UUID(int=1), 1, 1, True, Verdict.VERIFIED, source, 64)
    emm_work._print_event(event, json=False)
    check(capsys.readouterr().out, lines=1)
    emm_work._print_refusal(emm.Refusal(b"", source, BadPacket(Reject.TRUNCATED, HOSTILE)), json=False)
    check(capsys.readouterr().out, lines=1)


@pytest.mark.usefixtures("wide")
def test_log_check(capsys: pytest.CaptureFixture[str]) -> None:
    print_health(Health(None, 0, 0, 0, (), (), HOSTILE))
    check(capsys.readouterr().out)


@pytest.mark.usefixtures("wide")
def test_notes_about_a_node(capsys: pytest.CaptureFixture[str]) -> None:
    Notes().on_disconnected("127.0.0.1:1", HOSTILE, "publish", HOSTILE)
    check(capsys.readouterr().err, lines=1)


@pytest.mark.usefixtures("wide")
def test_what_libraries_log_while_a_command_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "lastResort", None)
    show_warnings()
    assert logging.lastResort is not None
    record = logging.LogRecord("weft.exmp", logging.WARNING, "", 0, "no connection: %s", (HOSTILE,), None)
    logging.lastResort.handle(record)
    check(capsys.readouterr().err, lines=1)


@pytest.mark.usefixtures("wide")
def test_packet_decode(weft: Weft) -> None:
    message = frame(encode(Error(1, HOSTILE)), 1 << 16)
    check(weft("packet", "decode", message.hex()).out)
    assert HOSTILE in set(texts(weft("packet", "decode", "--json", message.hex()).document))


@pytest.mark.usefixtures("wide")
def test_keys_list(weft: Weft, tmp_path: Path) -> None:
    """A name that could act is refused when the key is made, and a file that has one is told of."""
    made = weft("keys", "create", "--data", tmp_path, "--name", HOSTILE, "--publish", "a")
    assert (made.status, made.err) == (1, "weft: a key's name has 1 to 64 visible characters\n")
    assert weft("keys", "create", "--data", tmp_path, "--name", "plain", "--publish", "a").status == 0
    (file,) = [each for each in tmp_path.rglob("*") if each.is_file() and b"plain" in each.read_bytes()]
    file.write_text(file.read_text().replace("plain", "\\u001b[2J"))
    listed = weft("keys", "list", "--data", tmp_path)
    assert all(line.isprintable() for line in (listed.out + listed.err).split("\n"))
    assert r"\x1b[2J" in listed.out or listed.status == 1


@pytest.mark.usefixtures("wide")
def test_exmp_call(weft: Weft) -> None:
    async def refuse(data: JsonObject) -> None:
        raise exmp.Failure(HOSTILE, HOSTILE)

    async def say(data: JsonObject) -> JsonObject:
        return {"x": HOSTILE}

    servers: list[exmp.Server] = []

    async def start() -> str:
        servers.append(exmp.serve({"refuse": refuse, "say": say}, port=0))
        await servers[0].open()
        return str(servers[0].address)

    async def stop() -> None:
        await servers[0].close()

    with in_a_thread(start, stop) as address:
        check(weft("exmp", "call", address, "refuse").err, lines=1)
        answer = weft("exmp", "call", address, "say")
        assert all(line.isprintable() for line in answer.out.split("\n"))
        assert answer.document == {"x": HOSTILE}, "and it is still the same JSON"
        assert weft("exmp", "call", address, "say", "--json").document["data"] == {"x": HOSTILE}


def test_exmp_serve() -> None:
    line = shown_request("127.0.0.1:1", HOSTILE, {"x": "\u202e\x9b"})
    assert line == f'127.0.0.1:1 {SHOWN} {{"x":"\\u202e\\x9b"}}'
