"""Fuzz targets of what clients say to a node."""

from __future__ import annotations

from weft.errors import PeerError, UsageError
from weft.limits import BATCH_BYTES_MAX
from weft.model import Batch
from weft.model.batch_header import HEADER_BYTES
from weft.port.topics import read_topic_untrusted
from weft.transport.clients.values import (
    check_size,
    parse_untrusted,
    read_batch_untrusted,
    read_pattern_untrusted,
    read_positions_untrusted,
    read_start_untrusted,
)
from weft.wire.mesh import mesh_pb2 as pb

_PLACE = pb.StreamPosition(stream=pb.StreamRef(topic="a.b", origin="n1", epoch=1), next_offset=7)


def publish(data: bytes) -> None:
    try:
        message = parse_untrusted(pb.PublishRequest, data)
        topic = read_topic_untrusted(message.batch.topic)
        check_size(len(message.batch.batch), BATCH_BYTES_MAX)
        batch = read_batch_untrusted(message.batch.batch, _known_as)
    except (UsageError, PeerError):
        return
    assert topic == message.batch.topic
    assert batch.data[HEADER_BYTES:] == message.batch.batch[HEADER_BYTES:]
    assert Batch.read_untrusted(batch.data) == batch, "what the log keeps is a batch, too"


def _known_as(producer: bytes) -> bytes:
    return producer[::-1]


def subscribe(data: bytes) -> None:
    try:
        message = parse_untrusted(pb.SubscribeRequest, data)
        read_pattern_untrusted(message.open.pattern)
        read_start_untrusted(message.open.start)
        read_positions_untrusted(message.handled.positions)
    except (UsageError, PeerError):
        return


TARGETS = {"service-publish": publish, "service-subscribe": subscribe}
SEEDS = {
    "service-publish": [
        pb.PublishRequest(
            batch=pb.PublishBatch(request=1, topic="a.b", batch=Batch.from_columns([b"x", b"y"], 5).data)
        ).SerializeToString(),
        pb.PublishRequest(open=pb.PublishOpen(producer_id=bytes(16))).SerializeToString(),
    ],
    "service-subscribe": [
        pb.SubscribeRequest(
            open=pb.SubscribeOpen(
                pattern="a.*.>", group="g", start=pb.Start(positions=pb.Positions(positions=[_PLACE]))
            )
        ).SerializeToString(),
        pb.SubscribeRequest(handled=pb.Handled(positions=[_PLACE], generation=3)).SerializeToString(),
    ],
}
