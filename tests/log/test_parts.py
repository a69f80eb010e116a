"""Copies that begin in the middle and get their past later, in both stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.log.laboratory import LABORATORIES, Laboratory, Readout, batch, laboratory, read_out, settle, stream
from weft.errors import UsageError
from weft.log import Log
from weft.log.errors import GapInCopy, PositionExpired
from weft.log.records import INDEX_BYTES
from weft.log.retention import RetentionRule, retain
from weft.model import Epoch, parse_pattern

COPY, THEIRS = stream("plant.temp", "node-b"), Epoch(5)
NUMBERS = {offset: str(offset).encode() for offset in range(200)}


@pytest.fixture(params=LABORATORIES)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Laboratory]:
    made = laboratory(request.param, tmp_path)
    yield made
    made.close()


def late_copy(log: Log) -> None:
    """It has 10 and 11 of a stream, and everything since the time 110."""
    log.begin_late(COPY, THEIRS, 10, 110)
    log.append_copy(COPY, THEIRS, batch(b"10", b"11", base=10, at_us=110))
    log.sync()


def place(log: Log) -> tuple[int, int, int | None]:
    info = log.info(COPY, THEIRS)
    return info.start, info.end, info.late_us


def between(first: int, end: int) -> Readout:
    return Readout({offset: NUMBERS[offset] for offset in range(first, end)})


@pytest.mark.req("MSH-03")
def test_that_a_copy_began_in_the_middle_is_remembered(lab: Laboratory) -> None:
    late_copy(lab.log)
    for log in lab.lives():
        assert place(log) == (10, 12, 110)
        assert read_out(log, COPY, THEIRS) == between(10, 12)
        with pytest.raises(PositionExpired, match="earliest 10"):
            log.read(COPY, THEIRS, 9)


@pytest.mark.req("MSH-03")
def test_a_past_counts_once_it_reaches_the_copy(lab: Laboratory) -> None:
    late_copy(lab.log)
    log = lab.log
    log.begin_past(COPY, THEIRS, 0, None)
    log.append_past(COPY, THEIRS, [batch(b"0", b"1", b"2", at_us=100)], 3)
    log.sync()
    for log in lab.lives():
        assert place(log) == (10, 12, 110)
        assert log.past_end(COPY, THEIRS) == 3
    log.append_past(COPY, THEIRS, [batch(*(NUMBERS[at] for at in range(3, 12)), base=3, at_us=105)], 12)
    assert place(log) == (10, 12, 110), "it is not durable yet"
    log.append_copy(COPY, THEIRS, batch(b"12", base=12, at_us=120))
    assert log.sync() == log.appended
    for log in lab.lives():
        assert place(log) == (0, 13, None)
        assert log.past_end(COPY, THEIRS) is None
        assert read_out(log, COPY, THEIRS) == between(0, 13)
        assert log.read(COPY, THEIRS, 5, 8) != []
        assert [log.seek(COPY, THEIRS, at_us) for at_us in (0, 101, 110, 120, 121)] == [0, 3, 10, 12, 13]


@pytest.mark.req("MSH-03")
def test_a_past_may_have_a_past(lab: Laboratory) -> None:
    late_copy(lab.log)
    lab.log.begin_past(COPY, THEIRS, 7, 107)
    lab.log.append_past(COPY, THEIRS, [batch(b"7", b"8", b"9", base=7)], 10)
    lab.log.sync()
    for log in lab.lives():
        assert place(log) == (7, 12, 107)
    log.begin_past(COPY, THEIRS, 2, None)
    log.append_past(COPY, THEIRS, [batch(b"2", b"3", b"4", base=2)], 7)  # 5 and 6 are no more
    log.sync()
    for log in lab.lives():
        assert place(log) == (2, 12, None)
        assert read_out(log, COPY, THEIRS) == Readout({at: NUMBERS[at] for at in (2, 3, 4, 7, 8, 9, 10, 11)})


def test_a_past_without_events_says_that_there_is_none(lab: Laboratory) -> None:
    late_copy(lab.log)
    lab.log.begin_past(COPY, THEIRS, 10, None)
    lab.log.sync()
    for log in lab.lives():
        assert place(log) == (10, 12, None)
        assert read_out(log, COPY, THEIRS) == between(10, 12)


def test_readers_pass_over_a_past_whose_end_is_gone(lab: Laboratory) -> None:
    log = lab.log
    late_copy(log)
    log.begin_past(COPY, THEIRS, 0, None)
    log.append_past(COPY, THEIRS, [batch(b"0")], 10)
    log.sync()
    assert read_out(log, COPY, THEIRS) == Readout({0: b"0", 10: b"10", 11: b"11"})
    assert log.read(COPY, THEIRS, 4) == log.read(COPY, THEIRS, 10)
    assert log.read(COPY, THEIRS, 4, 9) == []


def test_what_is_no_past_is_refused(log_with_copy: Log) -> None:
    log = log_with_copy
    with pytest.raises(UsageError, match="no past of"):
        log.begin_past(COPY, THEIRS, 11, None)
    with pytest.raises(UsageError, match="was begun"):
        log.append_past(COPY, THEIRS, [], 3)
    log.begin_past(COPY, THEIRS, 3, None)
    log.append_past(COPY, THEIRS, [batch(b"3", b"4", base=3)], 5)
    with pytest.raises(GapInCopy):
        log.append_past(COPY, THEIRS, [batch(b"4", base=4)], 5)
    with pytest.raises(UsageError, match="no past"):
        log.begin_past(COPY, THEIRS, 4, None)
    log.begin_past(COPY, THEIRS, 8, None)  # its source no longer has 5 to 7
    log.append_past(COPY, THEIRS, [batch(b"8", b"9", base=8)], 10)
    log.sync()
    assert read_out(log, COPY, THEIRS) == between(8, 12)
    with pytest.raises(UsageError, match="there is a copy"):
        log.begin_late(COPY, THEIRS, 20, 5)


@pytest.fixture
def log_with_copy(lab: Laboratory) -> Log:
    late_copy(lab.log)
    return lab.log


@pytest.mark.req("LOG-04", "LOG-07")
def test_retention_takes_the_past_first(lab: Laboratory) -> None:
    """By size, of both together; and what is before the beginning has then expired."""
    log = lab.log
    large = b"." * INDEX_BYTES
    log.begin_late(COPY, THEIRS, 2, 100)
    log.append_copy(COPY, THEIRS, batch(large, base=2, at_us=100))
    log.append_copy(COPY, THEIRS, batch(large, base=3, at_us=101))
    log.begin_past(COPY, THEIRS, 0, None)
    for base in range(2):
        log.append_past(COPY, THEIRS, [batch(large, base=base, at_us=base)], base + 1)
    settle(log)
    for kept, start in ((4, 0), (3, 1), (2, 2), (1, 3)):
        rule = RetentionRule(parse_pattern(">"), stream_bytes_max=kept * INDEX_BYTES)
        retain(log, [rule], 0)
        assert place(log) == (start, 4, None)
        assert log.info(COPY, THEIRS).bytes < kept * (INDEX_BYTES + 2000)
    for log in lab.lives():
        assert place(log) == (3, 4, None)


def test_retention_lets_go_of_a_past_that_will_never_reach_its_copy(lab: Laboratory) -> None:
    log = lab.log
    log.begin_late(COPY, THEIRS, 10, 100)
    for base in (10, 11):
        log.append_copy(COPY, THEIRS, batch(b"." * INDEX_BYTES, base=base))
    log.begin_past(COPY, THEIRS, 0, None)
    log.append_past(COPY, THEIRS, [batch(b"0")], 1)
    settle(log)
    retain(log, [RetentionRule(parse_pattern(">"), stream_bytes_max=INDEX_BYTES)], 0)
    for log in lab.lives():
        assert place(log) == (11, 12, None)
        log.sync()
    settle(log)
    assert read_out(log, COPY, THEIRS).events.keys() == {11}


def test_a_copy_that_was_overtaken_forgets_its_past(lab: Laboratory) -> None:
    late_copy(lab.log)
    lab.log.begin_past(COPY, THEIRS, 0, None)
    lab.log.append_past(COPY, THEIRS, [batch(*(NUMBERS[at] for at in range(10)))], 10)
    lab.log.sync()
    lab.log.restart_copy(COPY, THEIRS, 40)
    lab.log.append_copy(COPY, THEIRS, batch(b"40", base=40))
    lab.log.sync()
    for log in lab.lives():
        assert place(log) == (40, 41, None)
        assert read_out(log, COPY, THEIRS) == between(40, 41)
