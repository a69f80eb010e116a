"""Events for a later time: where they wait, and how they are written (CON-03).

An event that is due later waits in the log of the node that accepted it, in a stream of topic ``weft.later.<owner>``.
Its timestamp says when it is due, and its headers say where it goes. The partition is a slot of six hours, so that a
node need read only what is due soon. The slots cover the longest time ahead with room to spare, and then they are used
again: the slot only says where to look, the event itself says when it is due.

Every event that was delivered or cancelled has a mark in topic ``weft.later.<owner>.done``, in the same partition. A
mark is an event whose payload is an offset, eight bytes. If a log goes on in a new epoch while events wait, their marks
are in the new epoch, and have the old epoch before the offset, sixteen bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Final

from weft.errors import UsageError
from weft.limits import EVENT_HEADERS_MAX, OFFSET_MAX
from weft.model.batch import Batch
from weft.model.event import Event
from weft.model.stream import Epoch, EventId
from weft.model.topic import OWNER, Topic, parse_topic

LATER_PREFIX: Final = "weft.later."
DONE_SUFFIX: Final = ".done"
TOPIC: Final = "weft-later-topic"  # of a waiting event: its destination
PARTITION: Final = "weft-later-partition"
ID: Final = "weft-later"  # of a delivered event: its identity while it waited
OWN_HEADERS: Final = frozenset((TOPIC, PARTITION, ID))
HEADERS_MAX: Final = EVENT_HEADERS_MAX - len(OWN_HEADERS)

SLOT_US: Final = 6 * 3600 * 1_000_000
SLOTS: Final = 2048  # 512 days: the longest time ahead, and 146 days in which a node may be away
AHEAD_S_MAX: Final = 366 * 86_400.0
PAST_US_MAX: Final = 100 * 86_400 * 1_000_000  # the other side of the ring begins 146 days ago
MARK: Final = struct.Struct(">Q")
MARK_BEFORE: Final = struct.Struct(">QQ")  # epoch:u64 offset:u64


@dataclass(frozen=True, slots=True)
class Waiting:
    """An event whose time has not come. ``event`` is as it will be delivered, except for its timestamp."""

    id: EventId
    due_us: int
    topic: Topic
    partition: int
    event: Event

    @property
    def due(self) -> datetime:
        return datetime.fromtimestamp(self.due_us / 1e6, UTC)


def slot_of(due_us: int, now_us: int) -> int:
    """The slot for an event that is due then. An event that was due long ago goes into the current slot, because its
    own slot may be in use again."""
    return (now_us if due_us < now_us - PAST_US_MAX else due_us) // SLOT_US % SLOTS


def slot_begin_us(slot: int, now_us: int) -> int:
    """The earliest time at which an event of a slot can be due. Slots are used again: this is the latest use that does
    not lie too far ahead."""
    last = (now_us + int(AHEAD_S_MAX * 1e6)) // SLOT_US
    return (last - (last - slot) % SLOTS) * SLOT_US


def waiting_topic(owner: str) -> Topic:
    if not OWNER.fullmatch(owner):
        raise UsageError("publishing for later needs an API key, or another identity")
    return Topic(f"{LATER_PREFIX}{owner}")


def done_topic(owner: str) -> Topic:
    return Topic(f"{waiting_topic(owner)}{DONE_SUFFIX}")


def owner_of_waiting(topic: str) -> str | None:
    """The owner whose waiting events a topic has; None if it has none."""
    owner = topic.removeprefix(LATER_PREFIX) if topic.startswith(LATER_PREFIX) else ""
    return owner if OWNER.fullmatch(owner) else None


def waiting_batch(batch: Batch, topic: Topic, partition: int) -> Batch:
    """Make the batch of waiting events, each with its destination. The timestamps already say when they are due.

    It keeps the producer and number of the batch, so that a retry is recognised.
    """
    goes = {TOPIC: str(topic), **({PARTITION: str(partition)} if partition else {})}
    events = list(batch)
    for number, event in enumerate(events):
        if len(event.headers or ()) > HEADERS_MAX:
            raise UsageError(
                "too many headers for later", event=number, have=len(event.headers or ()), limit=HEADERS_MAX
            )
        if event.headers and not OWN_HEADERS.isdisjoint(event.headers):
            raise UsageError(
                "a header has a name that is reserved for the mesh",
                event=number,
                headers=", ".join(sorted(OWN_HEADERS)),
            )
    return Batch.from_columns(
        [event.payload for event in events],
        [event.timestamp_us for event in events],
        [event.key for event in events],
        [{**(event.headers or {}), **goes} for event in events],
        producer=batch.producer,
        sequence=batch.sequence,
    )


def read_waiting(event_id: EventId, event: Event) -> Waiting:
    """Read a waiting event from this node's own log, which wrote it. Raise UsageError if it is none."""
    headers = dict(event.headers or {})
    try:
        topic, partition = parse_topic(headers.pop(TOPIC)), int(headers.pop(PARTITION, "0"))
    except (KeyError, ValueError):
        raise UsageError("this event does not wait for anything", event=str(event_id)) from None
    delivered = Event(event.payload, event.timestamp_us, event.key, {**headers, ID: str(event_id)})
    return Waiting(event_id, event.timestamp_us, topic, partition, delivered)


def mark(offset: int, before: Epoch | None = None) -> bytes:
    """Make the mark for a waiting event that was delivered or cancelled. ``before``: the epoch in which it waits, if
    that is an earlier one."""
    return MARK.pack(offset) if before is None else MARK_BEFORE.pack(before, offset)


def mark_batch(marks: Iterable[bytes], now_us: int) -> Batch:
    return Batch.from_columns(list(marks), now_us)


def read_marks(batches: Iterable[Batch], before: Epoch | None = None) -> list[int]:
    """The offsets in the marks for events of the same epoch, or of the epoch ``before``."""
    payloads = chain.from_iterable(
        batch.payloads.to_pylist() if batch.few is None else batch.few.payloads for batch in batches
    )
    if before is None:
        return [MARK.unpack(each)[0] for each in payloads if len(each) == MARK.size]
    pairs = (MARK_BEFORE.unpack(each) for each in payloads if len(each) == MARK_BEFORE.size)
    return [offset for epoch, offset in pairs if epoch == before]


def check_due_us(due_us: int, now_us: int, ahead_s_max: float) -> None:
    """Raise UsageError for a time for which no node keeps an event."""
    if not 0 <= due_us <= min(now_us + int(ahead_s_max * 1e6), OFFSET_MAX):
        ahead_s = round((due_us - now_us) / 1e6, 3)
        raise UsageError("this time is too far ahead", ahead_s=ahead_s, limit_s=ahead_s_max)
