"""What goes into the core of a node and what comes out: inputs and effects.

Clients and links are numbered by the runtime: a ``request`` is one batch of one publisher, a ``subscription`` one
subscriber's stream. A peer is its node id: there is one link per peer (PL-01). Everything here has been checked at the
border; ``weft.transport`` turns the messages of ``mesh.proto`` and ``peerlink.proto`` into these and back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from weft.core.call_messages import CallEffect, CallInput, SendCall
from weft.core.policy import GroupPolicy
from weft.errors import StorageError, WeftError
from weft.log import Appended
from weft.membership import NodeState
from weft.model import Batch, Epoch, EventId, NodeId, Pattern, Position, Receipt, Stream, Topic
from weft.routing import Summary

StreamKey: TypeAlias = tuple[Stream, Epoch]

# --- values ----------------------------------------------------------------------------------------------------------


class Edge(Enum):
    """Where a subscription begins, when that is not a time or a place."""

    OWN = "own"  # where its group stands; the latest where it has no position, and without a group
    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class FromTime:
    """At the first event of every stream at or after this time."""

    timestamp_us: int


@dataclass(frozen=True, slots=True)
class FromPositions:
    """At these positions. Streams that are not named begin at the first event at or after ``otherwise_us``, or without
    that at their earliest one."""

    positions: tuple[Position, ...]
    otherwise_us: int | None = None


Start: TypeAlias = Edge | FromTime | FromPositions


@dataclass(frozen=True, slots=True)
class Copy:
    """A batch on its way to a peer.

    ``follows``: where the sender's batch before this one ended; offsets in between exist no more. ``expired``:
    retention took what the receiver lacks before this batch. ``latest``: the end of the stream when the sender heard of
    the receiver's interest; who subscribed to what comes from now on begins there. ``late_us``: the receiver's copy
    begins with this batch, for nobody there wants what came before this time.
    """

    stream: Stream
    epoch: Epoch
    batch: Batch
    follows: int
    expired: bool = False
    keep: bool = False
    latest: int = 0
    late_us: int | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """A copy begins here, although there is nothing of it yet: so the receiver knows what is new, whatever happens to
    the link. ``late_us`` and ``latest`` as in ``Copy``."""

    position: Position
    late_us: int
    latest: int


@dataclass(frozen=True, slots=True)
class PastRequest:
    """What a copy that begins at ``until`` lacks: all from ``first`` on; or, to begin with, what came since a time or
    from an offset on, whichever is earlier."""

    stream: Stream
    epoch: Epoch
    until: int
    first: int | None = None
    offset: int | None = None
    since_us: int | None = None


@dataclass(frozen=True, slots=True)
class Past:
    """A piece of it: all there is from ``first`` up to, not including, ``end``. ``late_us``: what came before this time
    is not in it; None: the stream begins there."""

    stream: Stream
    epoch: Epoch
    first: int
    end: int
    batches: tuple[Batch, ...]
    late_us: int | None = None


class PeerFault(StrEnum):
    """Why something that a peer brought is not taken (SEC-06). The values are labels of a metric."""

    UNASKED = "unasked"  # events of an origin that another peer was asked for
    OFFSET = "offset"  # an offset that no stream comes to
    GAP = "gap"  # a gap that nobody's retention leaves
    DIFFERS = "differs"  # other events than those that are kept under the same offsets
    AHEAD = "ahead"  # it says that it has events of ours that we never had


class Holder(Protocol):
    """Who answers for the memory of what is read for a subscriber, until that is on its way to it."""

    @property
    def is_full(self) -> bool:
        """Nothing more is to be read; ``AddCredit`` follows once that changes."""

    def take(self, size: int) -> None: ...


class Unbounded:
    """A holder with room for everything."""

    is_full = False

    def take(self, size: int) -> None:
        pass


UNBOUNDED: Final = Unbounded()


class Delivered(Struct, weakref=True):
    """A stored batch for subscribers; its events before ``first_offset`` are not meant. All who get it get this object:
    ``encoded`` (as a part of a message) and ``message`` (all of one) are for whoever sends it, so that a small one is
    encoded once. ``tries``: how often they have failed."""

    stream: Stream
    epoch: Epoch
    data: bytes
    first_offset: int
    tries: int = 0
    encoded: bytes = b""
    message: bytes = b""


@dataclass(frozen=True, slots=True)
class PlainEvent:
    """An event as the design document's four messages know it."""

    topic: Topic
    offset: int
    payload: bytes
    headers: Mapping[str, str]


# --- inputs: publishers ----------------------------------------------------------------------------------------------


class Publish(Struct, frozen=True):
    """``copies``: hold the receipt until so many nodes, this one included, have the batch synced.

    A struct: one is made for every batch, in a tenth of the time.
    """

    request: int
    topic: Topic
    partition: int
    batch: Batch
    copies: int = 0


class PublishAll(Struct, frozen=True):
    """What came together, of whichever publishers. Small batches of one stream are kept as one."""

    publishes: Sequence[Publish]


@dataclass(frozen=True, slots=True)
class PublishAsOne:
    """Batches of different streams, without producers, that are kept in one write: after a crash all or none."""

    publishes: Sequence[Publish]


class Synced(Struct, frozen=True):
    """A sync is done: all tickets up to this one are durable, and these streams up to these offsets."""

    ticket: int
    advanced: Mapping[StreamKey, int]


# --- inputs: subscribers ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Subscribe:
    """``credit_bytes``: how much may be on its way to the subscriber; it grows with ``AddCredit``. ``window``: a member
    that acknowledges by hand has so many events in hand at most; 0: it says only how far it has come. ``policy``: for a
    group that has none yet. ``with_history``: it goes on in archive tables where the log ends."""

    subscription: int
    pattern: Pattern
    start: Start
    credit_bytes: int
    group: str = ""
    member: str = ""
    holder: Holder = field(default=UNBOUNDED, repr=False)
    owner: str = ""  # of the member: nobody else can take its place
    window: int = 0
    policy: GroupPolicy | None = None
    with_history: bool = False


@dataclass(frozen=True, slots=True)
class AddCredit:
    """Also tells that the subscriber's holder has room again."""

    subscription: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Handled:
    """Everything before these positions is handled. ``generation``: the last assignment the member has taken over."""

    subscription: int
    positions: tuple[Position, ...]
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Acked:
    """Events of one stream that a member has handled."""

    stream: Stream
    epoch: Epoch
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Nacked:
    """An event that a member could not handle. ``delay_s`` None: as the group's policy has it."""

    stream: Stream
    epoch: Epoch
    offset: int
    delay_s: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Settled:
    """What a member that acknowledges by hand has done, event by event. ``generation`` as in ``Handled``."""

    subscription: int
    acks: tuple[Acked, ...]
    nacks: tuple[Nacked, ...] = ()
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """``died``: it did not say goodbye. What it had in hand may be what killed it."""

    subscription: int
    died: bool = False


class HistoryPlace(NamedTuple):
    """Where a stream begins in the archive table for who asked. None: it has nothing that is wanted."""

    stream: Stream
    epoch: Epoch
    begin: int | None


@dataclass(frozen=True, slots=True)
class HistoryFound:
    """Some of what ``LookHistory`` asked for. ``error``: the table cannot be asked."""

    subscription: int
    places: tuple[HistoryPlace, ...] = ()
    more: bool = False
    error: WeftError | None = None


@dataclass(frozen=True, slots=True)
class HistoryRead:
    """What ``ReadHistory`` asked for: stored batches, the first with the offset ``first``. None of them: why not
    (``error``), or which offset comes next (``goes_on``: those in between are gone by compaction); neither of them: the
    table has no more of a stream that the log does not have."""

    subscription: int
    stream: Stream
    epoch: Epoch
    first: int
    batches: tuple[bytes, ...] = ()
    goes_on: int | None = None
    error: WeftError | None = None


@dataclass(frozen=True, slots=True)
class MoveGroup:
    """Put a group's positions elsewhere, back or forth."""

    request: int
    group: str
    positions: tuple[Position, ...]


@dataclass(frozen=True, slots=True)
class SetGroup:
    """Have a group treat failures in this way from now on."""

    request: int
    group: str
    policy: GroupPolicy


@dataclass(frozen=True, slots=True)
class DropDead:
    """These dead letters of a group are done with, by the identities of their events."""

    request: int
    group: str
    events: tuple[EventId, ...]


@dataclass(frozen=True, slots=True)
class DropGroup:
    """End a group, all over the mesh."""

    request: int
    group: str


# --- inputs: peers ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LinkUp:
    """``plain``: the peer knows only the four messages of the design document. ``past``: it knows of copies that begin
    in the middle."""

    peer: NodeId
    plain: bool = False
    calls: bool = False  # it knows of requests and replies
    past: bool = False


@dataclass(frozen=True, slots=True)
class LinkDown:
    peer: NodeId


@dataclass(frozen=True, slots=True)
class ReceivedCopies:
    peer: NodeId
    copies: tuple[Copy, ...]


@dataclass(frozen=True, slots=True)
class ReceivedAcks:
    """Everything before these positions is synced at the peer. ``differing``: from there on it keeps other events."""

    peer: NodeId
    positions: tuple[Position, ...]
    differing: tuple[Position, ...] = ()


@dataclass(frozen=True, slots=True)
class ReceivedResume:
    """A child says which origins' streams it wants from us, and what it has of them. Without origins: in these streams
    it lacks what comes from these positions on. ``begins``: of copies that begin in the middle, where they do."""

    peer: NodeId
    origins: tuple[NodeId, ...]
    positions: tuple[Position, ...]
    leave: tuple[NodeId, ...] = ()
    more: bool = False
    begins: tuple[Position, ...] = ()


@dataclass(frozen=True, slots=True)
class ReceivedBegins:
    peer: NodeId
    begins: tuple[Begin, ...]


@dataclass(frozen=True, slots=True)
class ReceivedPastRequest:
    peer: NodeId
    request: PastRequest


@dataclass(frozen=True, slots=True)
class ReceivedPast:
    peer: NodeId
    past: Past


@dataclass(frozen=True, slots=True)
class ReceivedPlain:
    peer: NodeId
    event: PlainEvent


@dataclass(frozen=True, slots=True)
class ReceivedPlainAck:
    peer: NodeId
    topic: Topic
    offset: int


@dataclass(frozen=True, slots=True)
class FramesDropped:
    """The link's queue was full for too long and frames to this peer were thrown away (PL-02)."""

    peer: NodeId


@dataclass(frozen=True, slots=True)
class MemberKnown:
    """Membership has something new of a node, this one included."""

    state: NodeState


@dataclass(frozen=True, slots=True)
class MemberForgotten:
    node_id: NodeId


@dataclass(frozen=True, slots=True)
class Tick:
    """The time of ``Broker.get_timer`` has come."""


Input: TypeAlias = (
    PublishAll
    | PublishAsOne
    | Synced
    | Subscribe
    | AddCredit
    | Handled
    | Settled
    | Unsubscribe
    | HistoryFound
    | HistoryRead
    | MoveGroup
    | SetGroup
    | DropDead
    | DropGroup
    | LinkUp
    | LinkDown
    | ReceivedCopies
    | ReceivedAcks
    | ReceivedResume
    | ReceivedBegins
    | ReceivedPastRequest
    | ReceivedPast
    | ReceivedPlain
    | ReceivedPlainAck
    | FramesDropped
    | MemberKnown
    | MemberForgotten
    | Tick
    | CallInput
)

# --- effects ---------------------------------------------------------------------------------------------------------


class Receipted(NamedTuple):
    """A batch is safe on so many nodes. ``repeated``: it was in the log already; this is its first receipt.

    A tuple: there is one per batch.
    """

    request: int
    place: Appended
    copies: int

    @property
    def repeated(self) -> bool:
        return self.place.repeated

    @property
    def receipt(self) -> Receipt:
        place = self.place
        return Receipt(place.stream, place.epoch, place.first_offset, place.count, self.copies)


@dataclass(frozen=True, slots=True)
class BucketsFound:
    """The log has entries of buckets: somebody has to follow them."""


class Receipts(Struct, frozen=True):
    """What one sync made safe."""

    receipts: tuple[Receipted, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    request: int
    error: WeftError


@dataclass(frozen=True, slots=True)
class GroupMoved:
    """What ``MoveGroup``, ``SetGroup``, ``DropGroup`` or ``DropDead`` asked for is durable."""

    request: int


@dataclass(frozen=True, slots=True)
class Opened:
    """Where each stream that is known begins for this subscription. ``more``: this is only some of them."""

    subscription: int
    positions: tuple[Position, ...]
    more: bool = False


class Deliver(Struct, frozen=True):
    """These batches are for each of these subscriptions: those who stand at the same place are served together."""

    subscriptions: Sequence[int]
    batches: tuple[Delivered, ...]


@dataclass(frozen=True, slots=True)
class HeldUp:
    """There is more for this subscription, and its holder is full: ``AddCredit`` has to follow when it is not."""

    subscription: int


@dataclass(frozen=True, slots=True)
class LookHistory:
    """Where do these streams begin in the archive table, or where is the first event since a time? ``HistoryFound``
    answers, in several pieces if there are many."""

    subscription: int
    pattern: Pattern
    since_us: int | None


@dataclass(frozen=True, slots=True)
class ReadHistory:
    """Read on in the archive table, up to ``end``, where the log has it. ``HistoryRead`` answers."""

    subscription: int
    stream: Stream
    epoch: Epoch
    first: int
    end: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class Assigned:
    """All streams that this member of a group has from now on, and where each begins."""

    subscription: int
    generation: int
    positions: tuple[Position, ...]


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The answer to a ``Nacked``. ``rest``: everything of the stream behind it comes again, after it."""

    subscription: int
    stream: Stream
    epoch: Epoch
    offset: int
    rest: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """The subscription cannot go on; nothing more comes for it."""

    subscription: int
    error: WeftError


@dataclass(frozen=True, slots=True)
class SendCopies:
    peer: NodeId
    copies: tuple[Copy, ...]


@dataclass(frozen=True, slots=True)
class SendAcks:
    peer: NodeId
    positions: tuple[Position, ...]
    differing: tuple[Position, ...] = ()


@dataclass(frozen=True, slots=True)
class SendResume:
    peer: NodeId
    origins: tuple[NodeId, ...]
    positions: tuple[Position, ...]
    leave: tuple[NodeId, ...] = ()
    more: bool = False
    begins: tuple[Position, ...] = ()


@dataclass(frozen=True, slots=True)
class SendBegins:
    peer: NodeId
    begins: tuple[Begin, ...]


@dataclass(frozen=True, slots=True)
class SendPastRequest:
    peer: NodeId
    request: PastRequest


@dataclass(frozen=True, slots=True)
class SendPast:
    peer: NodeId
    past: Past


@dataclass(frozen=True, slots=True)
class SendPlain:
    peer: NodeId
    events: tuple[PlainEvent, ...]


@dataclass(frozen=True, slots=True)
class SendPlainAck:
    peer: NodeId
    topic: Topic
    offset: int


@dataclass(frozen=True, slots=True)
class DropLink:
    """The peer broke the protocol, or a plain peer has to send again what is missing: close the link and say why."""

    peer: NodeId
    reason: str


@dataclass(frozen=True, slots=True)
class DamageFound:
    """Events that others were to have are damaged or gone in this log. That stream goes no further from here."""

    error: StorageError


@dataclass(frozen=True, slots=True)
class EventsGone:
    """A plain peer has lost events before we had them: those from ``first`` up to, not including, ``end``."""

    peer: NodeId
    topic: Topic
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class PeerRefused:
    """Something that a peer brought was not taken, so many times; ``what`` says the first of it, for people."""

    peer: NodeId
    fault: PeerFault
    what: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class TellInterest:
    """Give this to membership (``SetInterest``): what this node wants, aggregated, and since when."""

    patterns: tuple[Pattern, ...]
    capped: bool
    summary: Summary | None = None
    since_us: tuple[int, ...] = ()


Effect: TypeAlias = (
    Receipts
    | BucketsFound
    | Refused
    | GroupMoved
    | Opened
    | Deliver
    | HeldUp
    | LookHistory
    | ReadHistory
    | Assigned
    | Withdrawn
    | Ended
    | SendCopies
    | SendAcks
    | SendResume
    | SendBegins
    | SendPastRequest
    | SendPast
    | SendPlain
    | SendPlainAck
    | DropLink
    | DamageFound
    | EventsGone
    | PeerRefused
    | TellInterest
    | CallEffect
    | SendCall
)
