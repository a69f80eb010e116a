"""What the services for clients need from a node, and what the node tells the clients' streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from weft.core.groups import Groups
from weft.core.messages import AddCredit, Delivered, Handled, Receipted, Settled, Start
from weft.core.policy import GroupPolicy
from weft.errors import WeftError
from weft.log import Log
from weft.membership import NodeState
from weft.model import Batch, EventId, NodeId, Pattern, Position, Topic
from weft.model.traces import SpanRef
from weft.port.held import HeldBytes, Holding
from weft.port.history import History
from weft.port.quotas import Quotas
from weft.port.schemas import EventChecks
from weft.security.quota import UNLIMITED, Quota


class Moment(NamedTuple):
    """When something happened, in µs since 1970: at ``at_us`` at the latest, and not before ``not_before_us``. The two
    are the same for recent events."""

    at_us: int
    not_before_us: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event was delivered to a subscriber: a member of a group, or a subscriber with this pattern."""

    pattern: str
    group: str
    member: str
    when: Moment


@dataclass(frozen=True, slots=True)
class Way:
    """The way of one event, as far as a node remembers it (``weft trace``).

    ``stored``: when the event became durable here; None: unknown. ``sources``: the peers from which this node now gets
    the events of that origin. ``acked_by``: peers that got the event from here, and where it is durable. The node
    remembers nothing from before ``since_us``.
    """

    stored: Moment | None
    sources: tuple[NodeId, ...]
    acked_by: tuple[NodeId, ...]
    deliveries: tuple[Delivery, ...]
    since_us: int


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """What clients may ask for; ``weft.node.config`` documents each of these."""

    streams_max: int
    subscriptions_max: int
    batch_bytes_max: int
    held_bytes_max: int
    caller_bytes_max: int
    credit_bytes_max: int
    reply_bytes_max: int
    quota: Quota = UNLIMITED  # of callers without their own quota


class Part(NamedTuple):
    """One of several batches that are stored in one write. ``request`` is the publisher's own number."""

    request: int
    topic: Topic
    partition: int
    batch: Batch


class PublishClient(Protocol):
    """A client's publish stream. ``request`` is the client's own number."""

    def receipts(self, receipts: Sequence[tuple[int, Receipted]]) -> None: ...

    def refused(self, request: int, error: WeftError) -> None: ...

    def drain(self) -> None:
        """Accept no more; end once everything owed has been sent."""


class SubscribeClient(Protocol):
    """A client's subscribe stream."""

    def opened(self, positions: Sequence[Position], more: bool) -> None:
        """Where streams begin. ``more``: another call with further positions follows before anything is delivered."""

    def deliver(self, batches: Sequence[Delivered]) -> None: ...

    def assigned(self, generation: int, positions: Sequence[Position]) -> None: ...

    def withdrawn(self, event: EventId, rest: bool) -> None:
        """The refusal of this event was accepted. ``rest``: everything that was delivered behind it in its stream comes
        again."""

    def ended(self, error: WeftError) -> None:
        """Nothing more comes; the error is the last message."""


class MeshNode(Protocol):
    """The node as its clients' streams see it. All methods are called on the event loop."""

    @property
    def node_id(self) -> NodeId: ...

    @property
    def log(self) -> Log: ...

    @property
    def groups(self) -> Groups:
        """For reading only."""

    @property
    def limits(self) -> ClientLimits: ...

    @property
    def held(self) -> HeldBytes: ...

    @property
    def quotas(self) -> Quotas: ...

    @property
    def history(self) -> History | None:
        """Archive tables with what the log no longer has; None: there are none."""

    @property
    def checks(self) -> EventChecks:
        """The checks that every protocol asks before it publishes anything."""

    def addresses(self) -> list[str]:
        """The addresses that clients may use: this node first, then other nodes that are alive."""

    def members(self) -> list[NodeState]:
        """The other nodes of the mesh, including those that are down or have left: they may have events that no other
        node has."""

    def check_open(self) -> None:
        """Raise ShuttingDown if this node accepts nothing more."""

    def count_refusal(self, error: WeftError) -> None:
        """Note for the metrics that a client got this refusal."""

    def join(self, publisher: PublishClient) -> None:
        """A publish stream begins. Raise Busy if there are too many, ShuttingDown if no more are accepted."""

    def leave(self, publisher: PublishClient) -> None: ...

    def serves(self, publisher: PublishClient) -> bool:
        """Whether it has joined, and has not left."""

    def publish(
        self, publisher: PublishClient, request: int, topic: Topic, partition: int, batch: Batch, copies: int
    ) -> None: ...

    def begin_trace(self, gateway: str, topic: Topic, events: int) -> SpanRef | None:
        """Begin the span in which a gateway publishes these events; None: they are not traced."""

    def way_of(self, event: EventId) -> Way:
        """What this node remembers of how an event came and where it went."""

    def publish_as_one(self, publisher: PublishClient, parts: Sequence[Part]) -> None:
        """Batches of different streams in one write: after a crash all of them are there, or none is."""

    def subscribe(
        self,
        subscriber: SubscribeClient,
        pattern: Pattern,
        start: Start,
        credit_bytes: int,
        group: str,
        member: str,
        holding: Holding,
        owner: str = "",
        *,
        window: int = 0,
        policy: GroupPolicy | None = None,
        with_history: bool = False,
    ) -> int:
        """Return the number of the subscription. Raise Busy or ShuttingDown as ``join`` does. ``owner``: the owner of
        the member. ``with_history``: events that the log no longer has are read in archive tables.

        Batches that are read for the subscription count in ``holding``. The subscriber gives the bytes back when the
        batches have left, and closes ``holding`` at the end.
        """

    def tell(self, event: AddCredit | Handled | Settled) -> None:
        """Tell the core something new about a subscription."""

    def unsubscribe(self, subscription: int, *, died: bool = False) -> None:
        """``died``: the subscriber left without a goodbye."""

    async def move_group(self, group: str, positions: tuple[Position, ...]) -> None:
        """Durable when this returns."""

    async def set_group(self, group: str, policy: GroupPolicy) -> None:
        """Durable when this returns."""

    async def drop_dead(self, group: str, events: tuple[EventId, ...]) -> None:
        """Drop the dead letters of these events. Durable when this returns."""

    def dead_topic(self, group: str) -> Topic:
        """The topic of a group's dead letters. Raise UsageError if this is not a group's name."""

    async def drop_group(self, group: str) -> None:
        """Durable when this returns. Raise UsageError if there is no such group."""
