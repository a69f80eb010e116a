"""Where an event is: streams, epochs, positions and event identities, and how they are written as text.

============  =====================================  ========================================
value         text                                   meaning
============  =====================================  ========================================
``Stream``    ``plant.line1.temp@node-a/0``          topic, origin node, partition
``Position``  ``plant.line1.temp@node-a/0:e7:1234``  the next offset to read, in epoch 7
``EventId``   ``plant.line1.temp@node-a/0:e7:1234``  the event at this offset, in epoch 7
============  =====================================  ========================================

A topic may contain ``@``, ``/`` and ``:``, but a node id may not, so the text is read from its end and has one meaning.
Formatting and parsing are inverse: every value has one text, and no other text (with leading zeros or signs) is
accepted.

The values are ``msgspec.Struct`` because they are keys of tables that a node looks up for every batch, and these hash,
compare and sort in C.
"""

from __future__ import annotations

import re
from typing import Final, NewType

import google_crc32c
from msgspec import Struct

from weft.errors import UsageError
from weft.limits import OFFSET_MAX, ORIGIN_BYTES_MAX, PARTITIONS_MAX
from weft.model.topic import BadTopic, Topic, parse_topic, quoted

NodeId = NewType("NodeId", str)
# Which life of the origin's log an offset belongs to, from 1 up to OFFSET_MAX. Only the log makes them.
Epoch = NewType("Epoch", int)

# ASCII letters, digits, "-", "_" and "."; the first is a letter or digit, so that an id never looks like an option of a
# command or a relative path.
NODE_ID: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{ORIGIN_BYTES_MAX - 1}}}")

NUMBER: Final = r"(0|[1-9][0-9]{0,18})"
STREAM_TEXT: Final = re.compile(rf"(.+)@({NODE_ID.pattern})/{NUMBER}")
PLACE_TEXT: Final = re.compile(rf"(.+):e{NUMBER}:{NUMBER}")
TEXT_CHARACTERS_MAX: Final = 512  # more than the longest topic, node id and three numbers take


class BadName(UsageError):
    """Not a node id, or not the text of a stream, a position or an event."""


class Stream(Struct, frozen=True, order=True, gc=False):
    """The events of a topic that one node accepted into one partition. It is the unit of order."""

    topic: Topic
    origin: NodeId
    partition: int

    def __post_init__(self) -> None:
        if not 0 <= self.partition < PARTITIONS_MAX:
            raise UsageError("no such partition", partition=self.partition, limit=PARTITIONS_MAX - 1)

    def __str__(self) -> str:
        return f"{self.topic}@{self.origin}/{self.partition}"


class Position(Struct, frozen=True, order=True, gc=False):
    """How far a stream has been read: ``offset`` is the next one to read."""

    stream: Stream
    epoch: Epoch
    offset: int

    def __post_init__(self) -> None:
        check_place(self.epoch, self.offset)

    def __str__(self) -> str:
        return f"{self.stream}:e{self.epoch}:{self.offset}"


class EventId(Struct, frozen=True, order=True, gc=False):
    """The identity of an event: the same on every node that has a copy, and never given twice."""

    stream: Stream
    epoch: Epoch
    offset: int

    def __post_init__(self) -> None:
        check_place(self.epoch, self.offset)

    def __str__(self) -> str:
        return f"{self.stream}:e{self.epoch}:{self.offset}"


def check_place(epoch: int, offset: int) -> None:
    """Raise UsageError for an epoch or offset that cannot exist."""
    if not 1 <= epoch <= OFFSET_MAX:
        raise UsageError("epochs count from 1", epoch=epoch, limit=OFFSET_MAX)
    if not 0 <= offset <= OFFSET_MAX:
        raise UsageError("offset out of range", offset=offset, limit=OFFSET_MAX)


def parse_node_id(text: str) -> NodeId:
    """Parse a node id, or raise BadName."""
    if not NODE_ID.fullmatch(text):
        raise BadName(
            f"node id {quoted(text)} is not 1 to {ORIGIN_BYTES_MAX} ASCII letters, digits, '-', '_' or '.' "
            "that begin with a letter or digit"
        )
    return NodeId(text)


def parse_stream(text: str) -> Stream:
    """Parse the text of a stream, or raise BadName."""
    found = STREAM_TEXT.fullmatch(text) if len(text) <= TEXT_CHARACTERS_MAX else None
    if not found:
        raise BadName(f"{quoted(text)} is not a stream: expected topic@node/partition")
    topic, origin, partition = found.groups()
    try:
        return Stream(parse_topic(topic), NodeId(origin), int(partition))
    except BadTopic as error:
        raise BadName(f"{quoted(text)} is not a stream: {error}") from None
    except UsageError:
        raise BadName(
            f"{quoted(text)} is not a stream: partition {partition}, the limit is {PARTITIONS_MAX - 1}"
        ) from None


def parse_position(text: str) -> Position:
    """Parse the text of a position, or raise BadName."""
    return Position(*_parse_place(text, "a position"))


def parse_event_id(text: str) -> EventId:
    """Parse the text of an event identity, or raise BadName."""
    return EventId(*_parse_place(text, "an event"))


def _parse_place(text: str, kind: str) -> tuple[Stream, Epoch, int]:
    found = PLACE_TEXT.fullmatch(text) if len(text) <= TEXT_CHARACTERS_MAX else None
    if not found:
        raise BadName(f"{quoted(text)} is not {kind}: expected topic@node/partition:eEPOCH:offset")
    epoch, offset = int(found[2]), int(found[3])
    try:
        check_place(epoch, offset)
    except UsageError as error:
        raise BadName(f"{quoted(text)} is not {kind}: {error}") from None
    return parse_stream(found[1]), Epoch(epoch), offset


def partition_of(key: bytes | None, partitions: int) -> int:
    """The partition that events with ``key`` go to: CRC-32C of the key modulo ``partitions``.

    It must never change, on any node or in any release, because the order of the events of one key depends on it.
    Events without a key go to partition 0, so that they stay in order too.
    """
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise UsageError("a topic has at least one partition", partitions=partitions, limit=PARTITIONS_MAX)
    return 0 if key is None else int(google_crc32c.value(key)) % partitions
