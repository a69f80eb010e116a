"""``weft pub`` and ``weft sub`` against a node that runs as a process of its own."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.commands import Outcome, Weft
from tests.up import RunningNode
from weft.cli import sub_work
from weft.cli.pub_work import read_lines
from weft.client import Received
from weft.errors import UsageError
from weft.limits import EVENT_PAYLOAD_BYTES_MAX
from weft.model import Epoch, NodeId, Receipt, Stream, parse_topic

EVENT_FIELDS = ["topic", "origin", "epoch", "partition", "offset", "timestamp", "key", "headers", "payload"]


def sub(weft: Weft, node: RunningNode, pattern: str, count: int, *flags: str) -> Outcome:
    """Events from the start; the time is a bound for a test that fails, not what it waits for."""
    return weft("sub", pattern, "--from", "earliest", "--count", str(count), "--timeout", "60", *node.flags, *flags)


# --- one event ---------------------------------------------------------------------------------------------------


@pytest.mark.req("MSH-01", "SDK-01")
def test_an_event_is_published_and_comes(weft: Weft, node: RunningNode) -> None:
    published = weft(
        "pub", "one.a", "grüß", "--key", "k1", "--header", "unit=C", "--header", "eq=a=b", "--json", *node.flags
    )
    receipt = published.document
    assert (receipt["topic"], receipt["origin"], receipt["partition"]) == ("one.a", "node-a", 0)
    assert (receipt["offset"], receipt["count"], receipt["copies"]) == (0, 1, 1)
    (event,) = sub(weft, node, "one.*", 1, "--json").documents
    assert list(event) == EVENT_FIELDS
    assert event["epoch"] == receipt["epoch"]
    assert (event["key"], event["payload"], event["headers"]) == ("k1", "grüß", {"unit": "C", "eq": "a=b"})
    assert len(event["timestamp"]) == len("2026-01-31T12:00:00.000000Z") and event["timestamp"].endswith("Z")


def test_a_receipt_for_people(weft: Weft, node: RunningNode) -> None:
    outcome = weft("pub", "one.people", "x", *node.flags)
    assert outcome.status == 0
    assert outcome.out.startswith("one.people@node-a/0:e")
    assert outcome.out.endswith(":0+1 synced\n")


def test_what_is_no_text_is_base64(weft: Weft, node: RunningNode, tmp_path: Path) -> None:
    (tmp_path / "event").write_bytes(b"\xff\x00\n")
    assert weft("pub", "one.bytes", "--file", tmp_path / "event", *node.flags).status == 0
    (event,) = sub(weft, node, "one.bytes", 1, "--json").documents
    assert base64.b64decode(event["payload_base64"]) == b"\xff\x00\n"
    assert "payload" not in event and event["key"] is None


def test_standard_input_is_one_event_without_lines(weft: Weft, node: RunningNode) -> None:
    assert weft("pub", "one.stdin", "--file", "-", *node.flags, stdin=b"a\nb\n").status == 0
    assert sub(weft, node, "one.stdin", 1, "--json").documents[0]["payload"] == "a\nb\n"


def test_a_line_for_people_cannot_move_the_cursor(weft: Weft, node: RunningNode) -> None:
    weft("pub", "one.escape", "\x1b[2Jhello\n", *node.flags)
    line = sub(weft, node, "one.escape", 1).out
    assert line.endswith("  \\x1b[2Jhello\\n\n")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("t",), 2, "there is nothing to publish"),
        (("t", "x", "--lines"), 2, "PAYLOAD is one event"),
        (("t", "x", "--file", "-"), 2, "PAYLOAD is one event"),
        (("t", "x", "--header", "novalue"), 2, "--header novalue is not NAME=VALUE"),
        (("t", "x", "--header", "=v"), 2, "--header =v is not NAME=VALUE"),
        (("t", "x", "--copies", "-1"), 2, "--copies"),
        (("a.>", "x"), 1, '">" is only allowed in patterns'),
        (("t", "--file", "/absent/file"), 1, "cannot read /absent/file"),
        (("t", "--lines", "--file", "/absent/file"), 1, "cannot read /absent/file"),
    ],
)
def test_mistakes_of_pub_are_told(
    weft: Weft, node: RunningNode, arguments: tuple[str, ...], status: int, message: str
) -> None:
    outcome = weft("pub", *arguments, *node.flags)
    assert outcome.status == status
    assert message in outcome.err
    assert outcome.out == ""


def test_a_file_that_is_too_large_for_an_event_is_refused(weft: Weft, node: RunningNode, tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(EVENT_PAYLOAD_BYTES_MAX + 1)
    outcome = weft("pub", "one.large", "--file", tmp_path / "large", *node.flags)
    assert (outcome.status, "too large for an event" in outcome.err) == (1, True)
    piped = weft("pub", "one.large", "--file", "-", *node.flags, stdin=bytes(EVENT_PAYLOAD_BYTES_MAX + 1))
    assert piped.err.startswith("weft: standard input is too large for an event")


# --- lines -------------------------------------------------------------------------------------------------------


@pytest.mark.req("SDK-01")
def test_every_line_is_an_event_in_order(weft: Weft, node: RunningNode) -> None:
    lines = [f"line {number}" for number in range(20_000)]
    summary = weft("pub", "lines.many", "--lines", "--json", *node.flags, stdin="\n".join(lines).encode()).document
    assert (summary["events"], summary["bytes"]) == (20_000, sum(map(len, lines)))
    (stream,) = summary["streams"]
    assert (stream["topic"], stream["first"], stream["last"]) == ("lines.many", 0, 19_999)
    events = sub(weft, node, "lines.many", 20_000, "--json").documents
    assert [event["payload"] for event in events] == lines
    assert [event["offset"] for event in events] == list(range(20_000))


def test_a_summary_for_people(weft: Weft, node: RunningNode) -> None:
    outcome = weft("pub", "lines.few", "--lines", *node.flags, stdin=b"a\n\nc\n")
    first, second = outcome.out.splitlines()
    assert first.startswith("3 events, 2 B, ")
    assert second.startswith("lines.few@node-a/0:e") and second.endswith(":0 to 2")


def test_no_lines_are_no_error(weft: Weft, node: RunningNode) -> None:
    summary = weft("pub", "lines.none", "--lines", "--json", *node.flags)
    assert (summary.status, summary.document["events"], summary.document["streams"]) == (0, 0, [])


def lines_of(data: bytes) -> list[bytes]:
    async def story() -> list[bytes]:
        return [line async for lines in read_lines(io.BytesIO(data)) for line in lines]

    return asyncio.run(story())


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\n\nb", [b"a", b"", b"b"]),
        (b"x" * 1_000_000 + b"\nb", [b"x" * 1_000_000, b"b"]),
    ],
)
def test_lines_end_where_they_end(data: bytes, lines: list[bytes]) -> None:
    assert lines_of(data) == lines


def test_an_endless_line_is_refused() -> None:
    with pytest.raises(UsageError, match="too long for an event"):
        lines_of(b"x" * (EVENT_PAYLOAD_BYTES_MAX + 1))


class Failing(io.BytesIO):
    """A disk that gives up after the first line."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell():
            raise OSError(5, "Input/output error")
        return super().read(6)


async def test_a_file_that_cannot_be_read_on_is_told() -> None:
    lines = read_lines(Failing(b"first\nsecond\n"))
    assert await anext(lines) == [b"first"]
    with pytest.raises(UsageError, match="cannot read on: Input/output error"):
        await anext(lines)


def test_what_was_published_before_an_error_is_told(weft: Weft, node: RunningNode) -> None:
    data = b"a\n" * 1000 + b"x" * (EVENT_PAYLOAD_BYTES_MAX + 1)
    outcome = weft("pub", "lines.broken", "--lines", "--json", *node.flags, stdin=data)
    assert (outcome.status, "too long for an event" in outcome.err) == (1, True)
    assert outcome.document["events"] == 1000


async def test_lines_come_before_the_input_ends() -> None:
    """Somebody types, or `tail -f` waits: a line is published when it is there."""

    async def story(source: int, end: int) -> None:
        with os.fdopen(source, "rb", buffering=0) as stream:
            lines = read_lines(stream)
            os.write(end, b"first\nsec")
            assert await anext(lines) == [b"first"]
            os.write(end, b"ond\n")
            assert await anext(lines) == [b"second"]
            os.close(end)
            assert [each async for each in lines] == []

    await story(*os.pipe())


# --- subscribing -------------------------------------------------------------------------------------------------


def fill(weft: Weft, node: RunningNode, topic: str, count: int) -> None:
    data = "".join(f"{number}\n" for number in range(count)).encode()
    assert weft("pub", topic, "--lines", *node.flags, stdin=data).status == 0


@pytest.mark.req("LOG-06")
def test_beginning_at_an_offset_and_at_a_time(weft: Weft, node: RunningNode) -> None:
    for payload in ("old", "middle", "new"):
        weft("pub", "from.here", payload, *node.flags)
    middle = sub(weft, node, "from.here", 2, "--json").documents[1]
    for begin in ("1", middle["timestamp"]):
        events = weft("sub", "from.here", "--from", begin, "--count", "2", "--timeout", "60", "--json", *node.flags)
        assert [event["payload"] for event in events.documents] == ["middle", "new"]


def test_a_group_goes_on_where_it_was(weft: Weft, node: RunningNode) -> None:
    fill(weft, node, "group.topic", 5)
    first = sub(weft, node, "group.topic", 3, "--json", "--group", "g1")
    again = weft("sub", "group.topic", "--group", "g1", "--count", "2", "--timeout", "60", "--json", *node.flags)
    assert [event["payload"] for event in first.documents + again.documents] == ["0", "1", "2", "3", "4"]


class Silent:
    """A subscription, and the client that made it: so many events, then nothing for ever."""

    def __init__(self, count: int) -> None:
        self._left = count
        self.asked: dict[str, object] = {}
        self.handled_offsets: list[int] = []

    def subscribe(self, pattern: str, **options: object) -> Silent:
        self.asked = {"pattern": pattern, **options}
        return self

    async def opened(self) -> None: ...

    async def __aenter__(self) -> Silent:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    def __aiter__(self) -> Silent:
        return self

    async def __anext__(self) -> Received:
        if not self._left:
            await asyncio.Event().wait()
        self._left -= 1
        stream = Stream(parse_topic("t"), NodeId("node-a"), 0)
        return Received(stream, Epoch(1), self._left, 0, None, None, b"x")

    async def handled(self, event: Received) -> None:
        self.handled_offsets.append(event.offset)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Silent:
    client = Silent(2)
    monkeypatch.setattr(sub_work, "with_client", lambda where, work: asyncio.run(work(client)))
    return client


def test_fewer_events_than_asked_for_is_an_error(weft: Weft, silent: Silent) -> None:
    outcome = weft("sub", "t", "--count", "3", "--timeout", "0.01")
    assert outcome.status == 1
    assert len(outcome.out.splitlines()) == 2
    assert "2 of 3 events came within 0.01 s" in outcome.err


def test_the_end_of_the_time_is_no_error_by_itself(weft: Weft, silent: Silent) -> None:
    outcome = weft("sub", "t", "--timeout", "0.01")
    assert (outcome.status, len(outcome.out.splitlines())) == (0, 2)


def test_enough_events_end_it_before_the_time(weft: Weft, silent: Silent) -> None:
    outcome = weft("sub", "t", "--count", "2", "--timeout", "3600")
    assert (outcome.status, len(outcome.out.splitlines()), outcome.err) == (0, 2, "")
    assert silent.asked == {"pattern": "t", "group": "", "start": None, "commit": "auto"}
    assert silent.handled_offsets == []


def test_for_a_group_what_is_printed_is_handled_the_last_too(weft: Weft, silent: Silent) -> None:
    assert weft("sub", "t", "--count", "2", "--group", "g", "--from", "latest").status == 0
    assert silent.asked == {"pattern": "t", "group": "g", "start": "latest", "commit": "manual"}
    assert silent.handled_offsets == [1, 0]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("t", "--from", "yesterday"), 2, "--from yesterday is not earliest, latest, an offset or a time"),
        (("t", "--from", "2026-01-31T12:00:00"), 2, "needs a time zone"),
        (("t", "--from", "9999999999999999999"), 2, "beyond the largest possible offset"),
        (("t", "--count", "0"), 2, "--count"),
        (("t", "--timeout", "-1"), 2, "--timeout"),
        (("a.>.b",), 1, '">" is only allowed as the last token'),
    ],
)
def test_mistakes_of_sub_are_told(
    weft: Weft, node: RunningNode, arguments: tuple[str, ...], status: int, message: str
) -> None:
    outcome = weft("sub", *arguments, *node.flags)
    assert (outcome.status, outcome.out) == (status, "")
    assert message in outcome.err


def test_a_position_that_is_not_there_is_an_error(weft: Weft, node: RunningNode) -> None:
    fill(weft, node, "beyond.end", 2)
    outcome = weft("sub", "beyond.end", "--from", "77", "--count", "1", "--timeout", "60", *node.flags)
    assert (outcome.status, outcome.out) == (1, "")
    assert "77" in outcome.err


MAIN = (sys.executable, "-c", "from weft.cli.main import main; main()")


def test_ctrl_c_while_the_input_is_silent(weft: Weft, node: RunningNode) -> None:
    """What was published until then is told. The third line is not sent before the first two have their receipts."""
    command = [*MAIN, "pub", "lines.interrupted", "--lines", "--json", *node.flags]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        rescue = threading.Timer(60, process.kill)
        rescue.start()
        try:
            assert process.stdin is not None
            for lines, count in (("a\nb\n", 2), ("c\n", 3)):
                process.stdin.write(lines)
                process.stdin.flush()
                assert sub(weft, node, "lines.interrupted", count).status == 0
            process.send_signal(signal.SIGINT)
            assert process.wait() == 130
            assert process.stdout is not None and json.loads(process.stdout.read())["events"] in (2, 3)
        finally:
            rescue.cancel()
            process.kill()


def test_events_come_as_they_are_published_and_a_closed_pipe_is_no_drama(weft: Weft, node: RunningNode) -> None:
    fill(weft, node, "pipe.topic", 1)
    command = [*MAIN, "sub", "pipe.topic", "--from", "earliest", "--json", *node.flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        rescue = threading.Timer(60, process.kill)
        rescue.start()
        try:
            assert process.stdout is not None and process.stderr is not None
            assert json.loads(process.stdout.readline())["payload"] == "0"
            weft("pub", "pipe.topic", "second", *node.flags)
            assert json.loads(process.stdout.readline())["payload"] == "second"
            process.stdout.close()
            weft("pub", "pipe.topic", "third", *node.flags)
            assert process.wait() == 141
            assert process.stderr.read() == ""
        finally:
            rescue.cancel()
            process.kill()


def test_a_refused_subscription_is_one_line(weft: Weft, node: RunningNode) -> None:
    outcome = weft("sub", "refused.topic", "--group", "not a name", *node.flags)
    assert outcome.status == 1
    assert outcome.err.startswith('weft: "not a name" is not a name for a group') and outcome.err.count("\n") == 1


def test_a_wait_for_copies_is_told(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    @contextmanager
    def noted(what: str) -> Iterator[None]:
        said.append(what)
        yield

    stored = Receipt(Stream(parse_topic("a"), NodeId("node-a"), 0), Epoch(1), 0, 1, 2)
    monkeypatch.setattr("weft.cli.pub_work.working", noted)
    monkeypatch.setattr("weft.cli.pub_work.with_client", lambda where, work: stored)
    assert weft("pub", "a", "x", "--copies", "1").status == 0
    assert said == []
    assert weft("pub", "a", "x", "--copies", "2").status == 0
    assert said == ["waiting for 2 copies"]
