"""Events as messages of their own, for clients that have ``mesh.proto`` and no Arrow: Go, Java, JavaScript, and others.

The mesh knows batches only. Here the events of such a client become batches, and batches become events for it, in
pieces small enough for every gRPC client.
"""

from __future__ import annotations

from typing import Final

from weft.core.messages import Delivered
from weft.errors import UsageError
from weft.limits import KIB
from weft.model import Batch, Event
from weft.model.batch_header import events_from
from weft.port.errors import TooLarge
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.streams import stream_ref

PUBLISH_EVENTS_MAX: Final = 1_000  # in one message: one millisecond of the loop
DELIVERED_EVENTS_MAX: Final = 1_000  # likewise
DELIVERED_BYTES: Final = 256 * KIB  # a message is full at this size: most clients take 4 MiB by default


def read_events_untrusted(message: pb.PublishEvents, producer: bytes, now_us: int) -> Batch:
    """Make a batch of a client's events. ``producer``: the producer id of its stream, empty if it has none."""
    events = message.events
    if not events:
        raise UsageError("there are no events to publish")
    if len(events) > PUBLISH_EVENTS_MAX:
        raise TooLarge("too many events in one message: send several", have=len(events), limit=PUBLISH_EVENTS_MAX)
    if message.HasField("sequence") and not producer:
        raise UsageError("a sequence needs a producer_id in open")
    if (message.HasField("sequence") or message.later) and not all(event.timestamp_us for event in events):
        raise UsageError("events with a sequence, or for a later time, need timestamps")
    return Batch.from_columns(
        [event.payload for event in events],
        [event.timestamp_us or now_us for event in events],
        [event.key if event.HasField("key") else None for event in events],
        [dict(event.headers) or None for event in events],
        producer=producer if message.HasField("sequence") else None,
        sequence=message.sequence,
    )


class Unpacking:
    """A delivery that leaves as plain events, piece by piece."""

    def __init__(self, delivered: Delivered) -> None:
        self._delivered = delivered
        self._batch = Batch.read_stored(delivered.data)
        self._at = max(delivered.first_offset, self._batch.base_offset)
        self._left = events_from(delivered.data, delivered.first_offset)

    @property
    def is_over(self) -> bool:
        return self._left <= 0

    def next_message(self) -> bytes:
        """Encode a SubscribeReply with the next events: at least one, and few enough for one turn of the loop."""
        piece = pb.StreamEvents(
            stream=stream_ref(self._delivered.stream, self._delivered.epoch), tries=self._delivered.tries
        )
        size = 0
        for event in self._batch.events_from(self._at, self._at + DELIVERED_EVENTS_MAX):
            piece.events.append(_plain(event, self._at))
            self._at += 1
            self._left -= 1
            size += len(event.payload)
            if size >= DELIVERED_BYTES:
                break
        if self.is_over:
            piece.credit_bytes = len(self._delivered.data)
        return bytes(pb.SubscribeReply(delivery=pb.Delivery(events=piece)).SerializeToString())


def _plain(event: Event, offset: int) -> pb.PlainEvent:
    return pb.PlainEvent(
        payload=event.payload, key=event.key, headers=event.headers, timestamp_us=event.timestamp_us, offset=offset
    )
