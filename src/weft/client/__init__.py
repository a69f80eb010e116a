"""The SDK: publish to a mesh and subscribe to it, with asyncio (``weft.connect``) or without (``weft.sync.connect``).

docs/sdk.md shows how to use it. How it is built, from the outside in:

- ``client``: the object that applications hold; ``connecting`` makes it. ``admin``: questions to nodes, and their
  answers as values.
- Publishing: ``outbox`` gathers events into batches (``chunk``), and ``in_doubt`` keeps batches that a lost node may
  have stored; both are without I/O. ``link`` is one stream to one node, and ``publisher`` decides which node gets what.
- Subscribing: ``cursors`` and ``intake`` know which events came, which were handed out and which were handled, without
  I/O. ``session`` is one stream from one node; ``subscription`` runs one session after the other.
- Acknowledging by hand: ``by_hand`` knows which events the application has, and which it has settled, without I/O.
  ``failing`` checks the settings for events that fail, and ``dead_letters`` lists events that failed for good.
  ``handling`` calls a function with every event.
- ``fetch`` reads ranges of streams. ``kv`` has keys and values. ``requests`` asks and answers over topics, by the
  stream that ``calls`` has with a node. ``later`` lists and cancels events that wait for their time; ``schedules`` has
  events that repeat. ``schemas`` sets and reads the schemas of topics; ``sampling`` gets it the last events of topics.
- ``blocking`` offers all of this to programs without asyncio.
- ``nodes`` has the channels and says which node to try next; ``backoff`` says when. ``duplex`` is a gRPC call that
  raises our errors.

Nothing here imports the parts of a node: the client knows the mesh only by ``mesh.proto`` and the batch format.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from weft.client.admin import (
    GroupInfo,
    GroupPolicy,
    GroupStream,
    Member,
    NewKey,
    NodePositions,
    PeerInfo,
    Recipient,
    Status,
    StreamPositions,
    TopicInfo,
)
from weft.client.chunk import Published
from weft.client.client import Client
from weft.client.connecting import Connecting, connect
from weft.client.errors import (
    Backpressure,
    BadNode,
    BadRequest,
    Busy,
    Closed,
    CopiesMissing,
    DiskFull,
    HistoryAway,
    LogCorrupt,
    NodeShuttingDown,
    NoReply,
    NoServer,
    NotAllowed,
    NotOwner,
    OutOfSequence,
    PositionExpired,
    PositionUnknown,
    PublishInDoubt,
    RequestFailed,
    RevisionConflict,
    SequenceReused,
    ServerLost,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from weft.client.fetch import FetchRange
from weft.client.hooks import Hooks
from weft.client.kv import ABSENT, Bucket, BucketInfo, KvEntry, KvWatch
from weft.client.options import ClientTls, Options, TlsFiles
from weft.client.received import Received, ReceivedBatch
from weft.client.requests import Reply, Request, Server
from weft.client.schedules import ScheduleInfo
from weft.client.subscription import Subscription
from weft.client.ways import EventDelivery, EventHop, EventWay
from weft.model.dead_letters import DeadLetter
from weft.model.key_info import KeyInfo
from weft.model.later import Waiting
from weft.schema.errors import IncompatibleSchema, SchemaBroken

if TYPE_CHECKING:
    from weft.client.schemas import CheckedEvents, Schemas, SchemaVersion, TopicSchema

__all__ = [
    "ABSENT",
    "Backpressure",
    "BadNode",
    "BadRequest",
    "Bucket",
    "BucketInfo",
    "Busy",
    "CheckedEvents",
    "Client",
    "ClientTls",
    "Closed",
    "Connecting",
    "CopiesMissing",
    "DeadLetter",
    "DiskFull",
    "EventDelivery",
    "EventHop",
    "EventWay",
    "FetchRange",
    "GroupInfo",
    "GroupPolicy",
    "GroupStream",
    "HistoryAway",
    "Hooks",
    "IncompatibleSchema",
    "KeyInfo",
    "KvEntry",
    "KvWatch",
    "LogCorrupt",
    "Member",
    "NewKey",
    "NoReply",
    "NoServer",
    "NodePositions",
    "NodeShuttingDown",
    "NotAllowed",
    "NotOwner",
    "Options",
    "OutOfSequence",
    "PeerInfo",
    "PositionExpired",
    "PositionUnknown",
    "PublishInDoubt",
    "Published",
    "Received",
    "ReceivedBatch",
    "Recipient",
    "Reply",
    "Request",
    "RequestFailed",
    "RevisionConflict",
    "ScheduleInfo",
    "SchemaBroken",
    "SchemaVersion",
    "Schemas",
    "SequenceReused",
    "Server",
    "ServerLost",
    "Status",
    "StreamPositions",
    "Subscription",
    "TlsFiles",
    "TooLarge",
    "TopicInfo",
    "TopicSchema",
    "Unauthenticated",
    "Unavailable",
    "Waiting",
    "connect",
]

_OF_SCHEMAS: Final = ("CheckedEvents", "SchemaVersion", "Schemas", "TopicSchema")


def __getattr__(name: str) -> Any:
    """Schemas are imported when they are used: programs that only publish and subscribe do not load them."""
    if name not in _OF_SCHEMAS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("weft.client.schemas"), name)
