"""Retention and compaction by the configuration, in rounds of their own."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.node.running import config_of
from weft.log import Log, open_log
from weft.log.errors import DiskFull, StoreCorrupt
from weft.model import Batch, Epoch, NodeId, Stream, Topic
from weft.node import maintenance as room
from weft.node.logs import node_logger
from weft.node.maintenance import BucketTidying, LaterTidying, Maintenance
from weft.node.wiring import TopicSettings, retention_rules

OLD_US = 1_000_000
TOPICS = """
[[topics]]
pattern = "plant.latest"
compact = true
[[topics]]
pattern = ">"
retention_age_s = 60
"""


def fill(log: Log, topic: str, timestamp_us: int) -> None:
    """Three events with one key."""
    stream = Stream(Topic(topic), NodeId("a"), 0)
    for number in range(3):
        log.append(stream, Batch.from_columns([b"%d" % number], timestamp_us, [b"key"]))


def to_tables(log: Log) -> None:
    """Only what is in table files is ever taken."""
    before = log.flushed_segment
    log.sync()
    log.begin_segment()
    while log.flushed_segment == before:
        log.sync()


@pytest.fixture
def maintained(tmp_path: Path) -> tuple[Log, Maintenance]:
    file = tmp_path / "weft.toml"
    file.write_text(TOPICS)
    config = config_of(tmp_path / "data", file=file)
    log = open_log(tmp_path / "data", lambda: Epoch(1))
    calls: list[None] = []
    return log, Maintenance(
        log,
        retention_rules(config),
        TopicSettings(config).compact,
        BucketTidying(log, config.kv.settings(), lambda topic, gone: None, node_logger("a")),
        LaterTidying(log, NodeId("a"), lambda cut: None),
        interval_s=3600.0,
        on_changed=lambda: calls.append(None),
        logger=node_logger("a"),
    )


def left(log: Log, topic: str) -> list[bytes]:
    stream = Stream(Topic(topic), NodeId("a"), 0)
    info = log.info(stream, Epoch(1))
    stored = log.read(stream, Epoch(1), info.start)
    return [event.payload for data in stored for event in Batch.read_stored(data)]


def test_each_topic_gets_what_is_configured_and_the_mesh_its_own(maintained: tuple[Log, Maintenance]) -> None:
    log, maintenance = maintained
    now_us = time.time_ns() // 1000
    for topic in ("plant.latest", "plant.old", "weft.groups.billing", "weft.inbox.client"):
        fill(log, topic, OLD_US)
    fill(log, "plant.new", now_us)
    to_tables(log)
    maintenance.round()
    assert left(log, "plant.old") == []
    assert left(log, "plant.new") == [b"0", b"1", b"2"]
    assert left(log, "plant.latest") == [b"2"]
    assert left(log, "weft.groups.billing") == [b"2"], "groups are compacted and never expire"
    assert left(log, "weft.inbox.client") == [], "an inbox is kept for an hour, whatever is configured"
    log.close()


@pytest.mark.parametrize("error", [DiskFull("no room"), StoreCorrupt("a bad block")])
def test_a_round_that_fails_is_not_the_last(
    maintained: tuple[Log, Maintenance], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    log, maintenance = maintained
    fill(log, "plant.latest", OLD_US)
    fill(log, "plant.old", OLD_US)
    to_tables(log)

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(room, "retain", fail)
        patch.setattr(room, "compact", fail)
        maintenance.round()
    maintenance.round()
    assert (left(log, "plant.latest"), left(log, "plant.old")) == ([b"2"], [])
    log.close()


def test_the_thread_ends_when_it_is_told_to(maintained: tuple[Log, Maintenance]) -> None:
    log, maintenance = maintained
    maintenance.start()
    maintenance.stop()
    log.close()
