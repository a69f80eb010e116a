"""Stored batches as nodes send them, read without protobuf: there may be a message for each event, and protobuf copies
a large batch twice, into memory that is fresh each time.

Only the shapes are read here that nodes write: a ``SubscribeReply`` with nothing but a ``Delivery`` of batches, and a
``FetchReply`` with nothing but batches and of which ranges they are. Whatever looks different is protobuf's to judge.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from weft.limits import OFFSET_MAX
from weft.model.stream import Epoch, Stream
from weft.wire.mesh.checks import BadMeshMessage
from weft.wire.mesh.mesh_pb2 import StreamRef
from weft.wire.mesh.streams import read_stream_untrusted

# Tags of fields in mesh.proto: number << 3 | kind, where 2 is bytes and 0 a varint.
DELIVERY_TAG: Final = 2 << 3 | 2  # SubscribeReply.delivery
BATCHES_TAG: Final = 1 << 3 | 2  # Delivery.batches
STREAM_TAG: Final = 1 << 3 | 2  # StreamBatch.stream
BATCH_TAG: Final = 2 << 3 | 2  # StreamBatch.batch
FIRST_OFFSET_TAG: Final = 3 << 3 | 0  # StreamBatch.first_offset
TRIES_TAG: Final = 4 << 3 | 0  # StreamBatch.tries
FETCHED_TAG: Final = 1 << 3 | 2  # FetchReply.fetched
FETCHED_BATCH_TAG: Final = 1 << 3 | 2  # FetchedBatches.batches
FETCHED_RANGES_TAG: Final = 3 << 3 | 2  # FetchedBatches.ranges, packed
FETCHED_DONE_TAG: Final = 4 << 3 | 0  # FetchedBatches.ranges_done
VARINT_BYTES_MAX: Final = 9  # of numbers below 1 << 63; protobuf handles longer ones
UINT32_MAX: Final = (1 << 32) - 1  # what tries and numbers of ranges may be
STREAMS_KEPT: Final = 4096  # about 1 MiB


class DeliveredBatch(NamedTuple):
    """``batch`` is as it came: nothing of it is checked yet."""

    stream: Stream
    epoch: Epoch
    batch: bytes
    first_offset: int
    tries: int


class Fetched(NamedTuple):
    """As FetchedBatches has them, without columns."""

    batches: list[bytes]
    ranges: list[int]
    ranges_done: int
    first_offsets: tuple[int, ...] = ()


def read_delivery_untrusted(data: bytes) -> list[DeliveredBatch] | None:
    """The batches of a reply; None if it is something else, or looks otherwise than nodes write it."""
    end = len(data)
    try:
        if data[0] != DELIVERY_TAG:
            return None
        size, at = _varint(data, 1)
        if at + size != end:
            return None
        found: list[DeliveredBatch] = []
        while at < end:
            if data[at] != BATCHES_TAG:
                return None
            size, at = _varint(data, at + 1)
            batch = _read_batch(data, at, at + size) if at + size <= end else None
            if batch is None:
                return None
            found.append(batch)
            at += size
    except (IndexError, BadMeshMessage, DecodeError):
        return None
    return found


def _read_batch(data: bytes, at: int, end: int) -> DeliveredBatch | None:
    """In the order in which nodes write the fields: the stream, the offset, the tries if there are any, the batch."""
    if data[at] != STREAM_TAG:
        return None
    size, at = _varint(data, at + 1)
    stream, epoch = _stream_of(data[at : at + size])
    at += size
    if data[at] != FIRST_OFFSET_TAG:
        return None
    first_offset, at = _varint(data, at + 1)
    tries = 0
    if data[at] == TRIES_TAG:
        tries, at = _varint(data, at + 1)
    if data[at] != BATCH_TAG:
        return None
    size, at = _varint(data, at + 1)
    if at + size != end or first_offset > OFFSET_MAX or tries > UINT32_MAX:
        return None
    return DeliveredBatch(stream, epoch, data[at:end], first_offset, tries)


def read_fetched_untrusted(data: bytes) -> Fetched | None:
    """The batches of a reply to a fetch; None if it is something else, or looks otherwise than nodes write it."""
    end = len(data)
    batches: list[bytes] = []
    ranges: list[int] | None = None
    done: int | None = None
    try:
        if data[0] != FETCHED_TAG:
            return None
        size, at = _varint(data, 1)
        if at + size != end:
            return None
        while at < end:
            tag = data[at]
            number, at = _varint(data, at + 1)
            if tag == FETCHED_DONE_TAG and done is None and number <= UINT32_MAX:
                done = number
                continue
            stop = at + number
            if stop > end:
                return None
            if tag == FETCHED_BATCH_TAG:
                batches.append(data[at:stop])
            elif tag == FETCHED_RANGES_TAG and ranges is None:
                ranges = _varints(data, at, stop)
            else:
                return None
            at = stop
    except IndexError:
        return None
    if ranges and max(ranges) > UINT32_MAX:
        return None
    return Fetched(batches, ranges or [], done or 0)


def _varints(data: bytes, at: int, end: int) -> list[int]:
    """Numbers one behind the other; raise IndexError if they do not end there."""
    found = []
    while at < end:
        number, at = _varint(data, at)
        found.append(number)
    if at != end:
        raise IndexError("a number that is too long")
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends; raise IndexError if that is not what it is."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    for place in range(at + 1, at + VARINT_BYTES_MAX):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    raise IndexError("a number that is too long")


@lru_cache(STREAMS_KEPT)
def _stream_of(reference: bytes) -> tuple[Stream, Epoch]:
    """The same ones are named over and over; raise BadMeshMessage or DecodeError."""
    return read_stream_untrusted(StreamRef.FromString(reference))
