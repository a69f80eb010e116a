"""What goes into the core of a node and what comes out: inputs and effects.

The runtime gives out the numbers: a ``request`` is one batch of one publisher, a ``subscription`` is one subscriber's
stream of deliveries. A peer is its node id: there is one link per peer (PL-01). Everything here has been checked at the
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
    """Where a subscription begins, when neither a time nor a position says so."""

    OWN = "own"  # at its group's position; without a position or a group, at the latest
    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class FromTime:
    """At the first event of every stream at or after this time."""

    timestamp_us: int


@dataclass(frozen=True, slots=True)
class FromPositions:
    """At these positions. Other streams begin at the first event at or after ``otherwise_us`` or, without that, at
    their earliest event."""

    positions: tuple[Position, ...]
    otherwise_us: int | None = None


Start: TypeAlias = Edge | FromTime | FromPositions


@dataclass(frozen=True, slots=True)
class Copy:
    """A batch on its way to a peer.

    ``follows``: where the sender's batch before this one ended; the offsets in between no longer exist. ``expired``:
    retention has deleted the events before this batch that the receiver lacks. ``latest``: the end of the stream when
    the sender heard of the receiver's interest; subscribers that want only new events begin there. ``late_us``: if
    given, the receiver's copy begins with this batch, because nobody there wants what came before this time. ``lost``:
    a repair has given up the offsets between ``follows`` and the batch, so readers are to be told.
    """

    stream: Stream
    epoch: Epoch
    batch: Batch
    follows: int
    expired: bool = False
    keep: bool = False
    latest: int = 0
    late_us: int | None = None
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Begin:
    """Tells the receiver where its copy begins, before it gets the first events. So it knows which events are new,
    whatever happens to the link. ``late_us`` and ``latest`` are as in ``Copy``."""

    position: Position
    late_us: int
    latest: int


@dataclass(frozen=True, slots=True)
class PastRequest:
    """What a copy that begins at ``until`` lacks: everything from ``first`` on. The first request asks for events since
    a time or from an offset on, whichever is earlier."""

    stream: Stream
    epoch: Epoch
    until: int
    first: int | None = None
    offset: int | None = None
    since_us: int | None = None


@dataclass(frozen=True, slots=True)
class Past:
    """A piece of a past: everything from ``first`` up to but not including ``end``. ``late_us``: events before this
    time are not in it; None: the stream begins there. ``lost``: a repair has given up what is before the first batch.
    """

    stream: Stream
    epoch: Epoch
    first: int
    end: int
    batches: tuple[Batch, ...]
    late_us: int | None = None
    lost: bool = False


class PeerFault(StrEnum):
    """Why something that a peer brought is refused (SEC-06). The values are labels of a metric."""

    UNASKED = "unasked"  # events of an origin that we asked another peer for
    OFFSET = "offset"  # an offset that no stream reaches
    GAP = "gap"  # a gap that no retention leaves
    DIFFERS = "differs"  # other events than those that we keep under the same offsets
    AHEAD = "ahead"  # the peer claims to have events of ours that we never had


class Holder(Protocol):
    """Accounts for the memory of what was read for a subscriber and is not yet on its way there."""

    @property
    def is_full(self) -> bool:
        """Whether nothing more is to be read. ``AddCredit`` follows when that changes."""

    def take(self, size: int) -> None: ...


class Unbounded:
    """A holder with unlimited room."""

    is_full = False

    def take(self, size: int) -> None:
        pass


UNBOUNDED: Final = Unbounded()


class Delivered(Struct, weakref=True):
    """A stored batch for subscribers, without its events before ``first_offset``. All its subscribers share this
    object. The sender fills ``encoded`` (a part of a message) and ``message`` (a whole one), so that a small batch is
    encoded only once. ``tries``: how often the events have failed."""

    stream: Stream
    epoch: Epoch
    data: bytes
    first_offset: int
    tries: int = 0
    encoded: bytes = b""
    message: bytes = b""


@dataclass(frozen=True, slots=True)
class PlainEvent:
    """An event as in the four messages of the design document."""

    topic: Topic
    offset: int
    payload: bytes
    headers: Mapping[str, str]


# --- inputs: publishers ----------------------------------------------------------------------------------------------


class Publish(Struct, frozen=True):
    """A batch to publish. ``copies``: hold the receipt until so many nodes, including this one, have synced the batch.

    It is a struct and not a dataclass because one is made for every batch, and a struct takes a tenth of the time.
    """

    request: int
    topic: Topic
    partition: int
    batch: Batch
    copies: int = 0


class PublishAll(Struct, frozen=True):
    """Batches that came together, of any publishers. Small batches of one stream are stored as one."""

    publishes: Sequence[Publish]


@dataclass(frozen=True, slots=True)
class PublishAsOne:
    """Batches of different streams, without producers, that are stored in one write: after a crash, the log has all of
    them or none."""

    publishes: Sequence[Publish]


class Synced(Struct, frozen=True):
    """A sync has ended: all tickets up to this one are durable, and these streams up to these offsets."""

    ticket: int
    advanced: Mapping[StreamKey, int]


# --- inputs: subscribers ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Subscribe:
    """``credit_bytes``: how much may be on its way to the subscriber; ``AddCredit`` adds to it. ``window``: how many
    events a member that acknowledges by hand may have in hand; 0: the member only says how far it has come. ``policy``:
    for a group that has none yet. ``with_history``: the subscriber also gets from archive tables what the log no longer
    has."""

    subscription: int
    pattern: Pattern
    start: Start
    credit_bytes: int
    group: str = ""
    member: str = ""
    holder: Holder = field(default=UNBOUNDED, repr=False)
    owner: str = ""  # of the member: no other owner can take its place
    window: int = 0
    policy: GroupPolicy | None = None
    with_history: bool = False


@dataclass(frozen=True, slots=True)
class AddCredit:
    """More credit for a subscriber. It also says that the subscriber's holder has room again."""

    subscription: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Handled:
    """Everything before these positions is handled. ``generation``: the last assignment that the member has taken
    over."""

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
    """An event that a member could not handle. ``delay_s`` None: the group's policy decides."""

    stream: Stream
    epoch: Epoch
    offset: int
    delay_s: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Settled:
    """What a member that acknowledges by hand has done, event by event. ``generation`` is as in ``Handled``."""

    subscription: int
    acks: tuple[Acked, ...]
    nacks: tuple[Nacked, ...] = ()
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """``died``: it left without a goodbye. What it had in hand may have killed it."""

    subscription: int
    died: bool = False


class HistoryPlace(NamedTuple):
    """Where a stream begins in the archive table for a subscription. ``begin`` is None if the table has nothing of it
    that is wanted."""

    stream: Stream
    epoch: Epoch
    begin: int | None


@dataclass(frozen=True, slots=True)
class HistoryFound:
    """A part of the answer to ``LookHistory``. ``error``: the table cannot be read."""

    subscription: int
    places: tuple[HistoryPlace, ...] = ()
    more: bool = False
    error: WeftError | None = None


@dataclass(frozen=True, slots=True)
class HistoryRead:
    """The answer to ``ReadHistory``: stored batches, read from the offset ``first`` on. Without batches, it says why
    there are none (``error``), or which offset comes next (``goes_on``: compaction deleted those in between). If it
    says neither, the table has no more of the stream, and neither has the log."""

    subscription: int
    stream: Stream
    epoch: Epoch
    first: int
    batches: tuple[bytes, ...] = ()
    goes_on: int | None = None
    error: WeftError | None = None


@dataclass(frozen=True, slots=True)
class MoveGroup:
    """Move a group's positions, back or forth."""

    request: int
    group: str
    positions: tuple[Position, ...]


@dataclass(frozen=True, slots=True)
class SetGroup:
    """From now on, a group treats failures in this way."""

    request: int
    group: str
    policy: GroupPolicy


@dataclass(frozen=True, slots=True)
class DropDead:
    """These dead letters of a group are settled. They are named by the identities of their events."""

    request: int
    group: str
    events: tuple[EventId, ...]


@dataclass(frozen=True, slots=True)
class DropGroup:
    """End a group everywhere in the mesh."""

    request: int
    group: str


# --- inputs: peers ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LinkUp:
    """``plain``: the peer knows only the four messages of the design document. ``past``: the peer knows copies that
    begin in the middle."""

    peer: NodeId
    plain: bool = False
    calls: bool = False  # the peer knows requests and replies
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
    """Everything before these positions is synced at the peer. ``differing``: from these positions on, it keeps other
    events than we."""

    peer: NodeId
    positions: tuple[Position, ...]
    differing: tuple[Position, ...] = ()


@dataclass(frozen=True, slots=True)
class ReceivedResume:
    """A child says which origins' streams it wants from us, and what it has of them. Without origins, the positions say
    from where on it lacks events. ``begins``: where the child's copies begin, if they begin in the middle."""

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
    """The link's queue was full for too long, and frames to this peer were thrown away (PL-02)."""

    peer: NodeId


@dataclass(frozen=True, slots=True)
class MemberKnown:
    """Membership knows something new about a node, perhaps about this one."""

    state: NodeState


@dataclass(frozen=True, slots=True)
class MemberForgotten:
    node_id: NodeId


@dataclass(frozen=True, slots=True)
class Tick:
    """The time that ``Broker.get_timer`` named has come."""


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
    """A batch is safe on so many nodes. ``repeated``: the batch was sent again, the log had it already, and this
    repeats the receipt of the first time.

    It is a tuple because there is one per batch.
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
    """The log has entries of buckets, so the runtime has to begin to follow them."""


class Receipts(Struct, frozen=True):
    """Everything that one sync made safe."""

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
    """Where each known stream begins for this subscription. ``more``: these are only some of them."""

    subscription: int
    positions: tuple[Position, ...]
    more: bool = False


class Deliver(Struct, frozen=True):
    """These batches go to each of these subscriptions. Subscriptions at the same place are served together."""

    subscriptions: Sequence[int]
    batches: tuple[Delivered, ...]


@dataclass(frozen=True, slots=True)
class HeldUp:
    """There is more for this subscription, but its holder is full. Send ``AddCredit`` when it has room again."""

    subscription: int


@dataclass(frozen=True, slots=True)
class LookHistory:
    """Asks where streams begin in the archive table, or where their first event since a time is. ``HistoryFound``
    answers, in several pieces if there are many streams."""

    subscription: int
    pattern: Pattern
    since_us: int | None


@dataclass(frozen=True, slots=True)
class ReadHistory:
    """Asks for the next events in the archive table, up to ``end``; from there on, the log has them. ``HistoryRead``
    answers."""

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
    """The answer to a ``Nacked``. ``rest``: all later events of the stream come again, after the refused one."""

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
    """Close the link and say why: the peer broke the protocol, or is a plain peer that has to send missing events
    again."""

    peer: NodeId
    reason: str


@dataclass(frozen=True, slots=True)
class DamageFound:
    """Events that others should get are damaged or gone in this log. The stream stops there. If a repair has given the
    events up, others are told of the loss, and the stream goes on."""

    error: StorageError


@dataclass(frozen=True, slots=True)
class EventsGone:
    """A plain peer has lost events before we had them: those from ``first`` up to but not including ``end``."""

    peer: NodeId
    topic: Topic
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class PeerRefused:
    """Something that a peer brought was refused, this many times. ``what`` describes the first case, for people."""

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


# An effect concerns a client of this node, a peer, a call, or the runtime itself.
ClientEffect: TypeAlias = (
    Receipts
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
)
PeerEffect: TypeAlias = (
    SendCopies | SendAcks | SendResume | SendBegins | SendPastRequest | SendPast | SendPlain | SendPlainAck | SendCall
)
Effect: TypeAlias = (
    ClientEffect
    | PeerEffect
    | CallEffect
    | BucketsFound
    | DropLink
    | DamageFound
    | EventsGone
    | PeerRefused
    | TellInterest
)
