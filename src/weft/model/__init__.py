"""Values: what everything else is made of. Pure: nothing here does I/O, reads a clock or uses chance.

Read in this order:

- ``topic``: names of topics, the patterns that select them, and the definition of matching.
- ``stream``: where an event is: stream, epoch, position, event identity; and which partition a key belongs to.
- ``event`` and ``receipt``: what a publisher sends and gets back.
- ``batch``: events of one stream that were accepted together, the unit in which everything is moved and stored. These
  files describe its format from the outside in: ``batch_header`` (64 bytes), ``batch_compression``, ``batch_message``
  and ``batch_metadata`` (Arrow IPC, and how much of it we trust) and ``batch_schema`` (columns and bounds);
  ``batch_columns`` makes the columns. A few small events do without Arrow (``batch_few``), which is loaded when it is
  first needed (``batch_arrow``).

Text and bytes from outside become values only through ``parse_*`` and ``Batch.read_untrusted``. Topics, node ids and
epochs are plain ``str`` and ``int`` at run time; the type checker makes sure that they were parsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.model.batch import COLUMNS, Batch, Compression
from weft.model.batch_header import BadBatch
from weft.model.event import Event, Receipt
from weft.model.stream import (
    BadName,
    Epoch,
    EventId,
    NodeId,
    Position,
    Stream,
    parse_event_id,
    parse_node_id,
    parse_position,
    parse_stream,
    partition_of,
)
from weft.model.topic import (
    BadPattern,
    BadTopic,
    Pattern,
    Topic,
    covers,
    matches,
    overlaps,
    parse_pattern,
    parse_topic,
)

if TYPE_CHECKING:
    from weft.model.batch_schema import SCHEMA

__all__ = [
    "COLUMNS",
    "SCHEMA",
    "BadBatch",
    "BadName",
    "BadPattern",
    "BadTopic",
    "Batch",
    "Compression",
    "Epoch",
    "Event",
    "EventId",
    "NodeId",
    "Pattern",
    "Position",
    "Receipt",
    "Stream",
    "Topic",
    "covers",
    "matches",
    "overlaps",
    "parse_event_id",
    "parse_node_id",
    "parse_pattern",
    "parse_position",
    "parse_stream",
    "parse_topic",
    "partition_of",
]


def __getattr__(name: str) -> Any:
    """``SCHEMA`` needs Arrow, which is loaded at the first access."""
    if name != "SCHEMA":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from weft.model.batch_schema import SCHEMA

    return SCHEMA
