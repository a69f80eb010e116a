"""The columns of packets at each stage: as they come in, as they are judged, and as the two tables keep them.

One schema serves both protocols. A column that only one protocol has is null for the other.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import pyarrow as pa

TIME: Final = pa.timestamp("us", tz="UTC")

# Where a packet was found. A capture's packets are named by file and number: (capture, file, 0, 0, number).
IDENTITY: Final = (
    pa.field("topic", pa.string()),
    pa.field("origin", pa.string()),
    pa.field("epoch", pa.int64()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
)
# ``arrived``: when the packet was received; null if that was not recorded. ``source``: the sender's address.
SIGHTING: Final = (*IDENTITY, pa.field("arrived", TIME), pa.field("source", pa.string()))

# ``problem``: why there is no datagram although something was there (a damaged capture).
INPUT: Final = pa.schema([*SIGHTING, pa.field("datagram", pa.binary()), pa.field("problem", pa.string())])

# The content of a packet. ``int_value`` to ``json_value`` are the first value of each type. ``fields`` has all values
# as JSON, but only if a packet has more than those.
CONTENT: Final = (
    pa.field("protocol", pa.string()),
    pa.field("kind", pa.string()),  # event, hello, heartbeat; notification, command, heartbeat, join
    pa.field("urgent", pa.bool_()),
    pa.field("node_id", pa.string()),
    pa.field("key_id", pa.string()),
    pa.field("message_id", pa.int64()),  # EMM-C: event id << 32 | epoch << 16 | offset
    pa.field("created_at", TIME),
    pa.field("signed_at", TIME),
    pa.field("verdict", pa.string()),
    pa.field("event_name", pa.string()),
    pa.field("priority", pa.string()),
    pa.field("format", pa.string()),
    pa.field("text_value", pa.string()),
    pa.field("int_value", pa.int32()),
    pa.field("float_value", pa.float32()),
    pa.field("binary_value", pa.binary()),
    pa.field("json_value", pa.string()),
    pa.field("fields", pa.string()),
)

# Why a packet is refused: ``reason`` for machines (``weft.wire.reject``, and ``capture``), ``detail`` for people.
REFUSAL: Final = (pa.field("reason", pa.string()), pa.field("detail", pa.string()), pa.field("datagram", pa.binary()))

# What identifies replays. ``seen_at_us`` is the later one of arrival and the packet's own time.
MARKS: Final = (
    pa.field("admitted", pa.bool_()),  # authentic and fresh: it counts for replays
    pa.field("late", pa.bool_()),
    pa.field("hash_high", pa.uint64()),
    pa.field("hash_low", pa.uint64()),
    pa.field("seen_at_us", pa.int64()),
)

JUDGED: Final = pa.schema([*SIGHTING, *CONTENT, *REFUSAL, *MARKS])
EVENTS: Final = pa.schema([*SIGHTING, *CONTENT, pa.field("late", pa.bool_())])
QUARANTINE: Final = pa.schema([*SIGHTING, *CONTENT[:9], *REFUSAL])


class Verdict(StrEnum):
    """What is known of a good packet's sender. The first three are EMM's own (``weft.wire.emm.Verdict``)."""

    VERIFIED = "verified"  # the named node made it
    UNVERIFIED_IDENTITY = "unverified-identity"
    UNSIGNED = "unsigned"
    GROUP = "group"  # EMM-C: some member of the mesh made it


CAPTURE_PROBLEM: Final = "capture"  # the reason for a problem with a file, beside those in ``weft.wire.reject``
