"""Events out of a table: the same as went in, once each, in order, and what is missing is told."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lake.archived import DAY_US, NOON_US, ODD_EVENTS, Archive, Written, key_of, plain
from tests.pipelines.s3 import S3
from weft.lake.address import TableError
from weft.lake.event_files import EventFiles, FileGone
from weft.lake.history import Damaged, Found, History, Lacking
from weft.lake.index import Index
from weft.lake.settings import TableFormat
from weft.lake.spans import StreamKey
from weft.limits import MIB, OFFSET_MAX, READ_BYTES_MAX
from weft.model import Event, Pattern

pytestmark = pytest.mark.req("LAK-04")

KEY = key_of()
Stored = dict[StreamKey, dict[int, Event]]


def everything(history: History, key: StreamKey, first: int, end: int, bytes_max: int = MIB) -> dict[int, Event]:
    """All that can be read without a gap, in as many reads as that takes."""
    found: dict[int, Event] = {}
    while first < end:
        answer = history.read(key, first, end, bytes_max)
        if not isinstance(answer, Found):
            return found
        for batch in answer.batches:
            assert batch.base_offset == first, "events follow each other"
            found.update(enumerate(batch, batch.base_offset))
            first = batch.end_offset
    return found


@pytest.mark.parametrize("kind", list(TableFormat))
def test_events_come_back_as_they_were(tmp_path: Path, kind: TableFormat) -> None:
    archive = Archive(tmp_path, kind)
    odd = [
        Event(b"", NOON_US),
        Event(b"x" * 70_000, NOON_US + DAY_US, b"", {}),
        Event(b"\xff\x00", 0, b"key", {"a": "1", "ü": "", "": "ö"}),
        Event(b"far", 253_402_300_799_999_999, None, None),
        Event(b"long ago", -62_135_596_800_000_000, b"k" * 4096, {"b": "x" * 4096}),
    ]
    archive.write((KEY, 40, odd))
    assert everything(archive.history(), KEY, 40, 45) == dict(enumerate(odd, 40))


TOPICS = ("a", "a.b", "plant.temp")
WRITES = st.lists(
    st.tuples(
        st.sampled_from(
            [key_of(topic, origin, 0, epoch) for topic in TOPICS for origin in ("n1", "n2") for epoch in (3, 4)]
        ),
        st.integers(0, 20),
        st.integers(1, 12),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(WRITES, min_size=1, max_size=4), st.data(), st.sampled_from([1, 200, MIB]), st.sampled_from([1, 1 << 28])
)
def test_a_table_reads_as_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[tuple[StreamKey, int, int]]],
    data: st.DataObject,
    bytes_max: int,
    kept_bytes: int,
) -> None:
    """Whatever was archived, in whatever order, twice or not, with times of many days: with row groups that are kept,
    and with those that are too large for it."""
    stored: Stored = {}
    archive = Archive(tmp_path_factory.mktemp("table"))
    for batch in batches:
        written: list[Written] = []
        for key, first, count in batch:
            known = stored.setdefault(key, {})
            events = [known.setdefault(offset, data.draw(ODD_EVENTS)) for offset in range(first, first + count)]
            written.append((key, first, events))
        archive.write(*written)
    history = archive.history(groups_bytes_max=kept_bytes)
    for key, known in stored.items():
        first = min(known)
        end = first
        while end in known:
            end += 1
        wanted = {offset: known[offset] for offset in range(first, end)}
        assert everything(history, key, first, OFFSET_MAX, bytes_max) == wanted
        runs = history.runs(key, 1000)
        pairs = list(zip(runs[::2], runs[1::2], strict=True))
        assert {offset for low, high in pairs for offset in range(low, high)} == known.keys()
        assert all(one[1] < other[0] for one, other in pairwise(pairs)), "each is as long as it can be"
        assert history.runs(key, len(runs) - 1) == [], "it is never a part of them"
        after = history.read(key, end, OFFSET_MAX, bytes_max)
        assert after == Lacking(min((offset for offset in known if offset >= end), default=None))
        at_us = data.draw(st.sampled_from([event.timestamp_us for event in known.values()]))
        late = [offset for offset, event in known.items() if event.timestamp_us >= at_us]
        assert history.first_at(key, at_us) == min(late)
    extents, after_last = history.extents(Pattern(">"), None, 100)
    assert after_last is None
    assert [each.key for each in extents] == sorted(stored)
    assert all((each.first, each.end) == (min(stored[each.key]), max(stored[each.key]) + 1) for each in extents)


@pytest.mark.parametrize("kept_bytes", [1, 1 << 28])
def test_events_with_long_headers_are_read_a_few_at_a_time(tmp_path: Path, kept_bytes: int) -> None:
    """All of them at once would be more than a batch can hold."""
    headers = {f"baggage-{number}": f"{number}" * 4000 for number in range(6)}
    events = [Event(b"%d" % number, NOON_US + number, None, headers) for number in range(800)]
    archive = Archive(tmp_path)
    archive.write((KEY, 0, events[:400]), (KEY, 400, events[400:]))
    history = archive.history(groups_bytes_max=kept_bytes)
    answer = history.read(KEY, 0, len(events), READ_BYTES_MAX)
    assert isinstance(answer, Found)
    assert sum(len(batch.data) for batch in answer.batches) < 2 * READ_BYTES_MAX
    assert everything(history, KEY, 0, len(events), READ_BYTES_MAX) == dict(enumerate(events))


def test_gaps_of_compacted_streams_are_passed_over_only_on_demand(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.write((KEY, 0, plain(3)), (KEY, 5, plain(2)))
    archive.write((KEY, 9, plain(1)))
    history = archive.history()
    assert len(everything(history, KEY, 0, 10)) == 3
    assert history.read(KEY, 3, 10, MIB) == Lacking(5)
    found = history.read(KEY, 0, 10, MIB, with_gaps=True)
    assert isinstance(found, Found)
    assert [(batch.base_offset, len(batch)) for batch in found.batches] == [(0, 3), (5, 2)]
    found = history.read(KEY, 7, 10, MIB, with_gaps=True)
    assert isinstance(found, Found) and found.batches[0].base_offset == 9
    assert history.read(KEY, 10, 20, MIB, with_gaps=True) == Lacking(None)
    assert history.runs(KEY, 100) == [0, 3, 5, 7, 9, 10]


def test_two_different_events_under_one_offset_are_damage(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.write((KEY, 0, plain(4)))
    archive.write((KEY, 2, [Event(b"forged", NOON_US)]))
    history = archive.history()
    assert len(everything(history, KEY, 0, 4)) == 2
    answer = history.read(KEY, 2, 4, MIB)
    assert isinstance(answer, Damaged)
    assert (answer.first, answer.end) == (2, 3)
    assert "different events under one offset" in answer.reason


@pytest.mark.parametrize("place", ["footer", "payload"])
def test_a_damaged_file_is_told_with_what_is_lost(tmp_path: Path, place: str) -> None:
    archive = Archive(tmp_path)
    archive.write((KEY, 0, plain(5)))
    archive.write((KEY, 5, [Event(bytes(range(256)), NOON_US, None, None)] * 5))
    archive.write((KEY, 10, plain(5)))
    archive.history(tmp_path / "index.db")
    (second,) = [each.path for each in archive.table.files() if ".1.0." in each.path]
    file = Path(archive.settings.path) / second
    data = bytearray(file.read_bytes())
    at = len(data) - 6 if place == "footer" else data.find(bytes(range(100, 140)))
    assert at > 0
    data[at] ^= 0x40
    file.write_bytes(data)
    history = archive.history(tmp_path / "index.db")
    assert len(everything(history, KEY, 0, 15)) == 5
    answer = history.read(KEY, 5, 15, MIB)
    assert isinstance(answer, Damaged)
    assert (answer.first, answer.end) == (5, 10)
    assert "damaged" in answer.reason
    assert len(everything(history, KEY, 10, 15)) == 5


def test_a_file_that_went_means_that_the_table_changed(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.write((KEY, 0, plain(5)))
    history = archive.history()
    for file in archive.table.files():
        (Path(archive.settings.path) / file.path).unlink()
    with pytest.raises(FileGone):
        history.read(KEY, 0, 5, MIB)


def test_a_table_that_archive_did_not_write_is_refused(tmp_path: Path) -> None:
    from tests.pipelines.lake.made import made_table, rows, written

    table = made_table(tmp_path, TableFormat.DELTA)
    table.commit(written(table, rows(range(3))), "q", 0)
    files = EventFiles(table.settings.store())
    (file,) = table.files()
    with pytest.raises(TableError, match="it lacks a column of events"):
        list(files.spans(file.path))


def test_in_an_object_store(s3: S3) -> None:
    archive = Archive(s3.bucket(), access=s3.access)
    archive.write((KEY, 0, plain(1000)))
    archive.write((KEY, 1000, plain(1000, 1000)))
    assert everything(archive.history(), KEY, 10, 2000) == dict(enumerate(plain(2000)[10:], 10))


def test_streams_that_are_read_side_by_side_decode_a_group_once(tmp_path: Path) -> None:
    keys = [key_of(f"plant.t{number}") for number in range(50)]
    archive = Archive(tmp_path)
    for batch in range(2):
        archive.write(*((key, 100 * batch, plain(100)) for key in keys))
    files = EventFiles(archive.settings.store())
    index = Index(None, "t")
    listing = archive.table.files()
    for path in index.missing(listing):
        index.add(path, [span for group in files.spans(path) for span in group])
    index.adopt(listing)
    history = History(index, files)
    for first in range(0, 200, 20):
        for key in keys:
            assert isinstance(history.read(key, first, first + 20, MIB), Found)
    assert files.groups_read == 2
