"""Batches read by hand: what nodes write, and nothing that protobuf would read otherwise."""

from __future__ import annotations

import pytest

from weft.limits import OFFSET_MAX
from weft.model import Epoch, NodeId, Stream, Topic
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.deliveries import DeliveredBatch, read_delivery_untrusted, read_fetched_untrusted

REF = pb.StreamRef(topic="t", origin="a", epoch=3).SerializeToString()
STREAM = b"\x0a" + bytes([len(REF)]) + REF
OFFSET = b"\x18\x05"
BATCH = b"\x12\x03abc"


def message(*batches: bytes) -> bytes:
    body = b"".join(b"\x0a" + bytes([len(batch)]) + batch for batch in batches)
    return b"\x12" + bytes([len(body)]) + body


def test_batches_are_read_with_their_places() -> None:
    stream, epoch = Stream(Topic("t"), NodeId("a"), 0), Epoch(3)
    one, two = DeliveredBatch(stream, epoch, b"abc", 5, 0), DeliveredBatch(stream, epoch, b"abc", 300, 7)
    data = message(STREAM + OFFSET + BATCH, STREAM + b"\x18\xac\x02" + b"\x20\x07" + BATCH)
    assert read_delivery_untrusted(data) == [one, two]
    assert pb.SubscribeReply.FromString(data).delivery.batches[1].first_offset == 300


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("nothing", b""),
        ("another reply", pb.SubscribeReply(withdrawn=pb.Withdrawn(offset=3)).SerializeToString()),
        ("plain events", pb.SubscribeReply(delivery=pb.Delivery(events=pb.StreamEvents(tries=1))).SerializeToString()),
        ("more behind it", message(STREAM + OFFSET + BATCH) + b"\x18\x00"),
        ("cut off", message(STREAM + OFFSET + BATCH)[:-1]),
        ("a batch beyond its message", b"\x12\x04\x0a\x7f\x0a\x00"),
        ("without a stream", message(OFFSET + BATCH)),
        ("without an offset", message(STREAM + BATCH)),
        ("without a batch", message(STREAM + OFFSET)),
        ("in another order", message(STREAM + BATCH + OFFSET)),
        ("a field twice", message(STREAM + OFFSET + BATCH + BATCH)),
        ("a later version's field", message(STREAM + OFFSET + BATCH + b"\x38\x01")),
        ("a number without an end", message(STREAM + b"\x18" + b"\xff" * 12 + BATCH)),
        ("an offset out of range", message(STREAM + b"\x18" + b"\xff" * 9 + b"\x01" + BATCH)),
        ("no stream", message(b"\x0a\x02\x0a\x00" + OFFSET + BATCH)),
        ("no protobuf", message(b"\x0a\x02\xff\xff" + OFFSET + BATCH)),
        ("tries out of range", message(STREAM + OFFSET + b"\x20\xff\xff\xff\xff\x7f" + BATCH)),
    ],
)
def test_whatever_looks_otherwise_is_left_to_protobuf(what: str, data: bytes) -> None:
    assert read_delivery_untrusted(data) is None, what


def test_the_greatest_offset_is_read() -> None:
    greatest = message(STREAM + b"\x18" + b"\xff" * 8 + b"\x7f" + BATCH)
    read = read_delivery_untrusted(greatest)
    assert read is not None and read[0].first_offset == OFFSET_MAX
    assert pb.SubscribeReply.FromString(greatest).delivery.batches[0].first_offset == OFFSET_MAX


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("nothing", b""),
        ("an error", pb.FetchReply(error=pb.Error(message="no")).SerializeToString()),
        ("columns", pb.FetchReply(fetched=pb.FetchedBatches(batches=[b"a"], first_offsets=[3])).SerializeToString()),
        ("more behind it", pb.FetchReply(fetched=pb.FetchedBatches(batches=[b"a"]), range=1).SerializeToString()),
        ("cut off", pb.FetchReply(fetched=pb.FetchedBatches(batches=[b"abc"])).SerializeToString()[:-1]),
        ("a batch beyond its message", b"\x0a\x03\x0a\x05a"),
        ("numbers beyond their field", b"\x0a\x05\x1a\x01\xff\x20\x01"),
        ("ranges twice", b"\x0a\x06\x1a\x01\x00\x1a\x01\x00"),
        ("a range out of range", b"\x0a\x07\x1a\x05\xff\xff\xff\xff\x7f"),
    ],
)
def test_whatever_looks_otherwise_of_a_fetch_is_left_to_protobuf(what: str, data: bytes) -> None:
    assert read_fetched_untrusted(data) is None, what
