"""Fuzz targets of weft.model: batches, names and the texts of streams and positions."""

from __future__ import annotations

from collections.abc import Callable

from tests.model import forge
from weft.model import (
    BadBatch,
    BadName,
    BadPattern,
    BadTopic,
    Batch,
    Event,
    Pattern,
    covers,
    matches,
    parse_event_id,
    parse_node_id,
    parse_pattern,
    parse_position,
    parse_stream,
    parse_topic,
)


def read_batch(data: bytes) -> None:
    """Any bytes. Nearly all die of the checksum; the next target is for the rest."""
    try:
        batch = Batch.read_untrusted(data)
    except BadBatch:
        return
    check_batch(batch)


def read_resealed_batch(data: bytes) -> None:
    """Any bytes with length and checksum put right: what a hostile peer sends."""
    read_batch(forge.reseal(data))


def check_batch(batch: Batch) -> None:
    events = list(batch)
    assert len(events) == len(batch) == batch.record_batch.num_rows
    assert min(event.timestamp_us for event in events) == batch.timestamp_us_min
    stored = Batch.read_stored(batch.with_base_offset(1).data)
    assert stored.intact
    assert stored.events_from(0) == events
    rebuilt = Batch.from_events(events, producer=batch.producer, sequence=batch.sequence)
    assert Batch.read_untrusted(rebuilt.data).events_from(0) == events


def parse_names(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    try:
        topic = parse_topic(text)
    except BadTopic:
        pass
    else:
        assert matches(Pattern(topic), topic)
        assert parse_pattern(topic) == str(topic)
    try:
        pattern = parse_pattern(text)
    except BadPattern:
        pass
    else:
        assert covers(pattern, pattern)
        assert covers(Pattern(">"), pattern)


def parse_places(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    parsers: tuple[Callable[[str], object], ...] = (parse_node_id, parse_stream, parse_position, parse_event_id)
    for parse in parsers:
        try:
            value = parse(text)
        except BadName:
            continue
        assert str(value) == text


def example_batches() -> list[bytes]:
    events = [
        Event(b"one", 3, key=b"k", headers={"trace": "abc", "größe": "12"}),
        Event(b"", -1, headers={}),
        Event(b"three" * 20, 2, key=b""),
    ]
    return [
        Batch.from_events([Event(b"payload", 1_700_000_000_000_000)]).data,
        Batch.from_events(events, producer=b"p" * 16, sequence=9).data,
        Batch.from_events(events * 10, compression="lz4").data,
        Batch.from_events(events * 10, compression="zstd").data,
        forge.THREE.batch(forge.THREE_HEAD),
    ]


TARGETS: dict[str, Callable[[bytes], None]] = {
    "model.batch": read_batch,
    "model.batch.resealed": read_resealed_batch,
    "model.names": parse_names,
    "model.places": parse_places,
}

SEEDS: dict[str, list[bytes]] = {
    "model.batch": example_batches(),
    "model.batch.resealed": example_batches(),
    "model.names": [b"plant.line1.temp", "größe.\u6e29\u5ea6".encode(), b"plant.*.temp", b"plant.>", b"*", b">"],
    "model.places": [
        b"node-a",
        b"plant.line1.temp@node-a/0",
        b"plant.line1.temp@node-a/65535:e7:1234",
        b"a@b@c/1:e1:0",
    ],
}
