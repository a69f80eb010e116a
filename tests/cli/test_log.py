"""``weft log``: every command on a good log, beside a running node, on damage, and on mistakes."""

from __future__ import annotations

import io
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.commands import Outcome
from weft.cli.main import main
from weft.cli.progress import working
from weft.log import Log, RocksStore, keys, open_log
from weft.log.store import Space
from weft.model import Batch, Epoch, Event, NodeId, Stream, parse_topic

NODE = NodeId("node-a")
TEMP = Stream(parse_topic("plant.line1.temp"), NODE, 0)
STATE = Stream(parse_topic("plant.line1.state"), NODE, 0)
NOON_US = 1_577_880_000_000_000  # 2020-01-01T12:00:00Z
SECOND_US = 1_000_000


Weft = Callable[..., Outcome]


@pytest.fixture
def weft(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Weft:
    """Run the command in this process, with ``stdin`` as its standard input."""

    def run(*arguments: str | Path, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["weft", "log", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as caught:
            main()
        captured = capsys.readouterr()
        return Outcome(int(caught.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Log]:
    """A log that a node has open: 30 readings, one a second from noon on, and 4 states of two machines."""
    os.umask(0o077)  # a node's; ``umask`` takes it back
    log = open_log(tmp_path / "data", lambda: Epoch(7))
    for first in range(0, 30, 10):
        readings = [
            Event(b'{"t": %d}' % n, NOON_US + n * SECOND_US, headers={"unit": "C"}) for n in range(first, first + 10)
        ]
        log.append(TEMP, Batch.from_events(readings))
    states = [
        Event(payload, NOON_US, key) for key, payload in [(b"m1", b"on"), (b"m2", b"on"), (b"m1", b"off"), (b"m2", b"")]
    ]
    log.append(STATE, Batch.from_events(states))
    log.sync()
    yield log
    log.close()


@pytest.fixture
def data(node: Log, tmp_path: Path) -> Path:
    """The same log on its own, as a kill of the node would leave it."""
    return crashed(tmp_path)


def crashed(tmp_path: Path) -> Path:
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "data", copy)
    return copy


def without_wal(path: Path) -> Path:
    for wal in (path / "db").glob("*.log"):
        wal.unlink()
    return path


# --- looking -----------------------------------------------------------------------------------------------------


def test_ls_shows_offsets_bytes_and_times(weft: Weft, data: Path) -> None:
    shown = weft("ls", "--data", data)
    assert shown.status == 0
    heading, state, temp = (line.split() for line in shown.out.splitlines())
    assert heading == ["stream", "epoch", "start", "end", "offsets", "bytes", "last", "event"]
    assert state[:5] == ["plant.line1.state@node-a/0", "7", "0", "4", "4"]
    assert temp[:5] == ["plant.line1.temp@node-a/0", "7", "0", "30", "30"]
    assert temp[-1] == "2020-01-01T12:00:29.000000Z"


def test_ls_as_json_and_by_pattern(weft: Weft, data: Path) -> None:
    (temp,) = weft("ls", "*.line1.temp", "--data", data, "--json").document
    size = temp.pop("bytes")
    assert temp == {
        "topic": "plant.line1.temp",
        "origin": "node-a",
        "epoch": 7,
        "partition": 0,
        "start": 0,
        "end": 30,
        "offsets": 30,
        "last_time": "2020-01-01T12:00:29.000000Z",
    }
    assert size > 3 * 64, "three batches have three headers"
    nothing = weft("ls", "office.>", "--data", data)
    assert (nothing.status, nothing.out, nothing.err) == (0, "", "no stream matches office.>\n")


@pytest.mark.parametrize("command", [("ls",), ("cat", ">"), ("stats",), ("check",)])
def test_looking_works_beside_a_running_node(weft: Weft, node: Log, tmp_path: Path, command: tuple[str, ...]) -> None:
    before = files(tmp_path / "data")
    assert weft(*command, "--data", tmp_path / "data").status == 0
    after = files(tmp_path / "data")
    after["db/LOG"] = before["db/LOG"]  # the diary of the node, which keeps it as it likes
    assert after == before, "looking changes nothing"
    node.append(TEMP, Batch.from_columns([b"later"], NOON_US))
    node.sync()
    assert "sound" in weft("check", "--data", tmp_path / "data").out


def files(path: Path) -> dict[str, int]:
    return {str(file.relative_to(path)): file.stat().st_size for file in path.rglob("*") if file.is_file()}


def test_cat_prints_a_line_per_event(weft: Weft, data: Path) -> None:
    shown = weft("cat", "plant.line1.temp@node-a/0", "--data", data)
    lines = shown.out.splitlines()
    assert lines[12] == 'plant.line1.temp@node-a/0:e7:12  2020-01-01T12:00:12.000000Z  unit=C  {"t": 12}'
    assert len(lines) == 30


def test_cat_of_a_pattern_goes_stream_after_stream(weft: Weft, data: Path) -> None:
    documents = weft("cat", "plant.>", "--data", data, "--json").documents
    assert [(each["topic"], each["offset"]) for each in documents] == [
        *((STATE.topic, offset) for offset in range(4)),
        *((TEMP.topic, offset) for offset in range(30)),
    ]
    assert documents[3] == {
        "topic": "plant.line1.state",
        "origin": "node-a",
        "epoch": 7,
        "partition": 0,
        "offset": 3,
        "timestamp": "2020-01-01T12:00:00.000000Z",
        "key": "m2",
        "headers": {},
        "payload": "",
    }
    assert documents[4]["key"] is None
    assert documents[4]["headers"] == {"unit": "C"}


@pytest.mark.parametrize(
    ("begin", "first"),
    [
        ("earliest", 0),
        ("17", 17),
        ("2020-01-01T12:00:17Z", 17),
        ("2020-01-01T13:00:16.5+01:00", 17),
        ("1999-01-01T00:00:00Z", 0),
    ],
)
@pytest.mark.req("LOG-06")
def test_cat_begins_where_it_is_told(weft: Weft, data: Path, begin: str, first: int) -> None:
    documents = weft("cat", "plant.line1.temp", "--data", data, "--from", begin, "--json").documents
    assert [each["offset"] for each in documents] == list(range(first, 30))


def test_cat_behind_the_last_time_prints_nothing(weft: Weft, data: Path) -> None:
    assert weft("cat", ">", "--data", data, "--from", "2030-01-01T00:00:00Z") == Outcome(0, "", "")


def test_cat_counts_over_all_streams(weft: Weft, data: Path) -> None:
    documents = weft("cat", "plant.>", "--data", data, "--count", "6", "--json").documents
    assert [each["offset"] for each in documents] == [0, 1, 2, 3, 0, 1]


def test_cat_of_one_epoch(weft: Weft, node: Log, tmp_path: Path) -> None:
    node.append_copy(TEMP, Epoch(5), Batch.from_columns([b"old"], NOON_US))
    node.sync()
    path = crashed(tmp_path)
    assert len(weft("cat", str(TEMP), "--data", path, "--json").documents) == 31
    (old,) = weft("cat", str(TEMP), "--data", path, "--epoch", "5", "--json").documents
    assert (old["payload"], old["epoch"]) == ("old", 5)
    several = weft("cat", str(TEMP), "--data", path, "--from", "0")
    assert several.status == 1
    assert "an offset belongs to one stream, and 2 are meant" in several.err


def test_bytes_that_are_no_text(weft: Weft, node: Log, tmp_path: Path) -> None:
    node.append(STATE, Batch.from_columns([b"\xff" * 40, b"a\x1b[2Jb"], NOON_US, [b"\xfe", "ключ".encode()]))
    node.sync()
    path = crashed(tmp_path)
    lines = weft("cat", str(STATE), "--data", path, "--from", "4").out.splitlines()
    assert lines[0].endswith(f"key=0xfe  0x{'ff' * 32} ... 40 bytes")
    assert lines[1].endswith("key=ключ  a\\x1b[2Jb"), "nothing moves the cursor"
    first, second = weft("cat", str(STATE), "--data", path, "--from", "4", "--json").documents
    assert (first["key_base64"], first["payload_base64"]) == ("/g==", "/////" + "/" * 48 + "w==")
    assert "payload" not in first
    assert second["payload"] == "a\x1b[2Jb"


def test_a_topic_that_looks_like_a_stream(weft: Weft, node: Log, tmp_path: Path) -> None:
    odd = Stream(parse_topic("a@b/0"), NODE, 0)
    node.append(odd, Batch.from_columns([b"odd"], NOON_US))
    node.sync()
    (event,) = weft("cat", "a@b/0", "--data", tmp_path / "data", "--json").documents
    assert event["payload"] == "odd"


def test_stats(weft: Weft, data: Path) -> None:
    stats = weft("stats", "--data", data, "--json").document
    assert (stats["epoch"], stats["streams"], stats["offsets"]) == (7, 2, 34)
    assert [(topic["topic"], topic["offsets"]) for topic in stats["topics"]] == [(TEMP.topic, 30), (STATE.topic, 4)]
    sizes = files(data)
    assert stats["disk"]["bytes"] == sum(sizes.values())
    assert stats["disk"]["promised_bytes"] == sizes["promised"]
    assert stats["disk"]["wal_bytes"] == sum(size for name, size in sizes.items() if name.endswith(".log")) > 0
    assert stats["segments"] == {"in_tables": 0, "current": 1}
    shown = weft("stats", "--data", data).out
    assert "streams          2 of 2 topics\n" in shown
    assert "times that" in shown
    assert "plant.line1.state" in shown


def test_stats_of_a_log_without_streams(weft: Weft, tmp_path: Path) -> None:
    open_log(tmp_path / "data", lambda: Epoch(7)).close()
    shown = weft("stats", "--data", tmp_path / "data")
    assert shown.status == 0
    assert "offsets          0, 0 B" in shown.out


# --- damage ------------------------------------------------------------------------------------------------------


def test_check_of_a_sound_log(weft: Weft, data: Path) -> None:
    shown = weft("check", "--data", data)
    assert (shown.status, shown.err) == (0, "")
    assert shown.out.startswith("sound: epoch 7, 2 streams, 34 events, ")
    assert weft("check", "--data", data, "--json").document["sound"] is True


@pytest.mark.req("LOG-01")
def test_check_names_what_is_lost(weft: Weft, data: Path) -> None:
    shown = weft("check", "--data", without_wal(data))
    assert shown.status == 1
    rows = [line.split() for line in shown.out.splitlines() if " lost " in line]
    assert ["plant.line1.temp@node-a/0", "lost", "7", "0", "29", "30"] in rows
    assert ["plant.line1.state@node-a/0", "lost", "7", "0", "3", "4"] in rows
    document = weft("check", "--data", data, "--json")
    assert document.status == 1
    assert {(each["topic"], each["first"], each["end"]) for each in document.document["lost"]} == {
        (TEMP.topic, 0, 30),
        (STATE.topic, 0, 4),
    }


def settle(log: Log) -> None:
    """Move everything to table files."""
    log.begin_segment()
    while log.store.is_flushing():
        pass
    log.sync()


@pytest.fixture
def flipped(node: Log, tmp_path: Path) -> Path:
    """A log in which the second batch of readings is there, but not as it was stored."""
    settle(node)
    path = crashed(tmp_path)
    with closing(RocksStore(path)) as store:
        key = keys.batch_key(1, 1, 10)
        stored = bytearray(store.get(Space.BATCHES, key) or b"")
        stored[-1] ^= 1
        store.put_batches([(key, bytes(stored))])
    return path


@pytest.mark.req("LOG-01")
def test_a_batch_that_is_not_what_was_stored(weft: Weft, flipped: Path) -> None:
    shown = weft("check", "--data", flipped)
    assert shown.status == 1
    rows = [line.split() for line in shown.out.splitlines()]
    assert ["plant.line1.temp@node-a/0", "lost", "7", "10", "19", "10"] in rows
    assert ["plant.line1.temp@node-a/0", "damaged", "7", "10"] in rows
    compacted = weft("compact", ">", "--data", flipped, "--json")
    assert (compacted.status, [each["topic"] for each in compacted.document]) == (1, [STATE.topic])
    assert "compaction found the log damaged there (first 10" in compacted.err
    read = weft("cat", str(TEMP), "--data", flipped, "--json")
    assert read.status == 1, "what is damaged is not skipped silently"
    assert [each["offset"] for each in read.documents] == [*range(10), *range(20, 30)]
    assert "first 10, end 20" in read.err


@pytest.mark.req("LOG-01")
def test_what_is_cut_on_opening_is_said(weft: Weft, data: Path) -> None:
    with closing(RocksStore(data)) as store:
        store.put_batches([(keys.batch_key(1, 1, 30), b"a batch that a power cut has torn")])
    looked = weft("ls", "--data", data, "--json")
    assert [each["end"] for each in looked.document] == [4, 30]
    shown = weft("compact", str(STATE.topic), "--data", data)
    assert shown.status == 0
    assert "never promised and is incomplete: plant.line1.temp@node-a/0:e7 offsets 30 to 30" in shown.err
    assert weft("check", "--data", data).status == 0


@pytest.mark.req("LOG-01")
def test_a_log_that_does_not_open(weft: Weft, node: Log, tmp_path: Path) -> None:
    settle(node)
    path = without_wal(crashed(tmp_path))
    for table in (path / "db").glob("*.sst"):
        table.unlink()
    before = files(path)
    shown = weft("check", "--data", path)
    assert shown.status == 1
    assert "trouble: " in shown.out
    rows = [line.split() for line in shown.out.splitlines()]
    assert ["plant.line1.temp@node-a/0", "lost", "7", "0", "29", "30"] in rows
    assert files(path) == before
    repaired = weft("repair", "--data", path, "--yes")
    assert repaired.status == 0
    assert "0 events in 2 streams left" in repaired.out
    assert weft("check", "--data", path).status == 0


@pytest.mark.parametrize("command", [("ls",), ("cat", ">"), ("stats",), ("compact", ">")])
def test_a_log_that_lost_events_is_not_opened_as_if_nothing_were(
    weft: Weft, data: Path, command: tuple[str, ...]
) -> None:
    shown = weft(*command, "--data", without_wal(data))
    assert (shown.status, shown.out) == (1, "")
    assert "lost: plant.line1.temp@node-a/0:e7 offsets 0 to 29 (30 events)" in shown.err
    assert "weft log repair" in shown.err


def test_repair_asks_and_takes_no_for_an_answer(weft: Weft, data: Path) -> None:
    before = files(without_wal(data))
    for answer in ("n\n", ""):
        shown = weft("repair", "--data", data, stdin=answer)
        assert shown.status == 1
        assert "lost" in shown.out
        assert "nothing was changed" in shown.err
    assert files(data) == before


@pytest.mark.req("LOG-01")
def test_repair_says_what_it_gave_up_and_the_new_epoch(weft: Weft, data: Path) -> None:
    shown = weft("repair", "--data", without_wal(data), stdin="y\n")
    assert shown.status == 0
    assert "given up: plant.line1.temp@node-a/0:e7 offsets 0 to 29 (30 events)" in shown.out
    epoch = weft("stats", "--data", data, "--json").document["epoch"]
    assert epoch > 7
    assert f"the new epoch {epoch}" in shown.out
    assert weft("check", "--data", data).status == 0


def test_repair_of_a_sound_log_does_nothing(weft: Weft, data: Path) -> None:
    before = files(data)
    shown = weft("repair", "--data", data, "--yes")
    assert (shown.status, shown.err) == (0, "")
    assert shown.out.startswith("sound: ")
    assert files(data) == before


# --- shrinking ---------------------------------------------------------------------------------------------------


@pytest.mark.req("LOG-07")
def test_compact_keeps_the_latest_of_each_key(weft: Weft, data: Path) -> None:
    shown = weft("compact", "*.*.state", "--data", data)
    assert shown.status == 0
    assert shown.out.splitlines()[1].split()[:5] == ["plant.line1.state@node-a/0", "7", "4", "3", "1"]
    (left,) = weft("cat", str(STATE), "--data", data, "--json").documents
    assert (left["offset"], left["payload"]) == (2, "off"), "m2 ended in a tombstone, which is older than a day"
    again = weft("compact", "*.*.state", "--data", data)
    assert (again.status, again.out, again.err) == (0, "", "nothing was appended since the last round\n")


def test_compact_as_json(weft: Weft, data: Path) -> None:
    (done,) = weft("compact", str(STATE.topic), "--data", data, "--json").document
    assert (done["topic"], done["end"], done["events_removed"], done["events_kept"]) == (STATE.topic, 4, 3, 1)


@pytest.mark.req("LOG-07")
def test_retain_by_size(weft: Weft, data: Path) -> None:
    shown = weft("retain", "*.*.temp", "--bytes", "0", "--data", data)
    assert shown.status == 0
    assert shown.out.splitlines()[1].split()[:5] == ["plant.line1.temp@node-a/0", "7", "0", "29", "30"]
    state, temp = weft("ls", "--data", data, "--json").document
    assert (state["start"], state["end"]) == (0, 4)
    assert (temp["start"], temp["end"], temp["bytes"]) == (30, 30, 0)


@pytest.mark.req("LOG-07")
def test_retain_by_age(weft: Weft, data: Path) -> None:
    young = weft("retain", ">", "--age", "5200w", "--data", data)
    assert (young.status, young.out, young.err) == (0, "", "nothing is older or larger than that\n")
    expired = weft("retain", ">", "--age", "1s", "--data", data, "--json").document
    assert [(each["topic"], each["first"], each["end"]) for each in expired] == [
        (STATE.topic, 0, 4),
        (TEMP.topic, 0, 30),
    ]


@pytest.mark.parametrize("command", [("compact", ">"), ("retain", ">", "--bytes", "0"), ("repair", "--yes")])
def test_changing_is_refused_beside_a_running_node(
    weft: Weft, node: Log, tmp_path: Path, command: tuple[str, ...]
) -> None:
    shown = weft(*command, "--data", tmp_path / "data")
    assert shown.status == 1
    assert "another process has this log open" in shown.err
    assert len(node.read(TEMP, node.epoch, 0)) == 3


# --- mistakes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["ls", "cat >", "stats", "check", "repair --yes", "compact >", "retain > --age 1d"])
@pytest.mark.parametrize("kind", ["nowhere", "empty", "hollow", "file"])
def test_a_place_without_a_log(weft: Weft, tmp_path: Path, command: str, kind: str) -> None:
    place = tmp_path / kind
    if kind == "empty":
        place.mkdir()
    elif kind == "hollow":
        (place / "db").mkdir(parents=True)
    elif kind == "file":
        place.write_text("not a log")
    before = sorted(tmp_path.rglob("*"))
    shown = weft(*command.split(), "--data", place)
    assert (shown.status, shown.out) == (1, "")
    assert shown.err.count("\n") == 1
    assert str(place) in shown.err
    assert sorted(tmp_path.rglob("*")) == before, "looking for a log must not make one"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("ls a..b", "token 2 is empty"),
        ("cat nobody.here", "no stream is or matches 'nobody.here'"),
        ("cat nobody@here/0", "no stream is or matches 'nobody@here/0'"),
        ("cat plant.line1.temp --epoch 6", "no stream is or matches 'plant.line1.temp' in epoch 6"),
        ("cat a..b", "token 2 is empty"),
        ("cat plant.line1.temp --from 31", "has no offset 31 yet (earliest 0, latest 30)"),
        ("cat plant.line1.temp --from yesterday", "'yesterday' is not 'earliest', an offset or a time like"),
        ("cat plant.line1.temp --from 2020-01-01T12:00:00", "needs a time zone"),
        ("retain >", "there is no limit: give --age, --bytes, or both"),
        ("retain > --age week", "'week' is not an age like 7d"),
        ("retain > --age 5y", "'5y' is not an age like 7d"),
        ("retain > --bytes -5", "'-5' is not a size like 10GiB"),
        ("retain > --bytes 5furlongs", "'5furlongs' is not a size like 10GiB"),
        ("compact a.>.b", "is only allowed as the last token"),
    ],
)
def test_mistakes_get_one_clear_line(weft: Weft, data: Path, command: str, message: str) -> None:
    shown = weft(*command.split(), "--data", data)
    assert (shown.status, shown.out) == (1, "")
    assert message in shown.err
    assert shown.err.count("\n") == 1


# --- progress ----------------------------------------------------------------------------------------------------


def test_long_work_says_how_far_it_is() -> None:
    said: list[str] = []
    told = threading.Event()

    def say(line: str) -> None:
        said.append(line)
        if line.endswith(" s, 5.0 MiB"):
            told.set()

    with working("checking", say, every_s=0.001) as progress:
        progress(5 << 20)
        assert told.wait(60), said
    assert said[0].startswith("checking: 0 s")


def test_short_work_says_nothing() -> None:
    said: list[str] = []
    with working("checking", said.append):
        pass
    assert said == []
