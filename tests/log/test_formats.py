"""Logs that earlier versions wrote open, and are of this version's format from then on."""

from __future__ import annotations

import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from tests.log.laboratory import batch
from weft.log import Log, open_log, open_read_only, repair
from weft.log.backup import copy_log, format_of
from weft.log.recovery import FORMAT, FORMATS_READ
from weft.model import Batch, Epoch, NodeId, Position, Stream, parse_topic

LOGS = Path(__file__).parent.parent / "vectors" / "log"  # its README says what is in them
OWN, EPOCH = Stream(parse_topic("plant.line1.temp"), NodeId("node-a"), 0), Epoch(1_763_000_000_000)
COPY, COPY_EPOCH = Stream(parse_topic("plant.line2.temp"), NodeId("node-b"), 0), Epoch(7)
FIRST_US = 1_763_000_000_000_000
PRODUCER = bytes(range(16))


@pytest.fixture(params=FORMATS_READ)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    name = f"format-{request.param}"
    with tarfile.open(LOGS / f"{name}.tar.gz") as file:
        file.extractall(tmp_path, filter="data")
    return tmp_path / name


def payloads(log: Log, stream: Stream, epoch: Epoch) -> list[int]:
    stored = map(Batch.read_stored, log.read(stream, epoch, 0))
    return [int(event.payload) for each in stored for event in each.events_from(0)]


def check_events(log: Log) -> None:
    assert payloads(log, OWN, EPOCH) == list(range(50))
    assert payloads(log, COPY, COPY_EPOCH) == list(range(30))
    assert log.positions("billing") == [Position(OWN, EPOCH, 20)]
    assert log.seek(OWN, EPOCH, FIRST_US + 33) <= 33


@pytest.mark.req("OPS-02")
def test_a_log_of_every_format_that_there_was_opens_and_goes_on(old: Path) -> None:
    with closing(open_read_only(old)) as log:
        check_events(log)
    with closing(open_log(old, lambda: Epoch(1))) as log:
        check_events(log)
        assert log.epoch == EPOCH
        assert log.append(OWN, batch(b"50", at_us=FIRST_US + 50)).first_offset == 50
        log.sync()
    assert format_of(old) == FORMAT
    with closing(open_log(old, lambda: Epoch(1))) as log:
        assert payloads(log, OWN, EPOCH) == list(range(51))
    assert repair.check(old).is_sound


@pytest.mark.req("OPS-02")
def test_a_batch_that_an_earlier_version_stored_is_known_when_it_is_sent_again(old: Path) -> None:
    numbers = range(45, 50)
    again = batch(
        *(b"%d" % number for number in numbers),
        at_us=[FIRST_US + number for number in numbers],
        keys=[b"k%d" % (number % 3) for number in numbers],
        producer=PRODUCER,
        sequence=9,
    )
    with closing(open_log(old, lambda: Epoch(1))) as log:
        place = log.append(OWN, again)
    assert place.repeated and place.first_offset == 45


def test_a_copy_of_an_old_log_is_of_the_new_format(old: Path, tmp_path: Path) -> None:
    copy_log(old, tmp_path / "copy")
    assert format_of(tmp_path / "copy") == FORMAT
    with closing(open_log(tmp_path / "copy", lambda: Epoch(1))) as log:
        check_events(log)
