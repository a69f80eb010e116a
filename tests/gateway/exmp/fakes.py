"""A node that does nothing by itself, for parts of the gateway one at a time."""

from __future__ import annotations

from collections.abc import Sequence

from weft.core.messages import AddCredit, Delivered, Handled, Receipted, Start
from weft.errors import WeftError
from weft.log import Appended
from weft.model import Batch, Epoch, NodeId, Pattern, Position, Stream, Topic
from weft.port.held import HeldBytes, Holding
from weft.port.node import ClientLimits, PublishClient, SubscribeClient
from weft.port.quotas import Quotas
from weft.port.schemas import EventChecks, NoChecks
from weft.security.quota import Quota

EPOCH = Epoch(7)
ME = NodeId("me")


class FakeMesh:
    """``MeshNode`` as far as the gateway uses it; everything it is told is kept."""

    def __init__(self) -> None:
        self.limits = ClientLimits(10, 10, 1 << 24, 1 << 24, 1 << 24, 1 << 20, 1 << 20)
        self.held = HeldBytes(1 << 24, 1 << 24)
        self.quotas = Quotas(Quota())
        self.checks: EventChecks = NoChecks()
        self.published: list[tuple[int, Topic, Batch]] = []
        self.places: list[tuple[int, int]] = []  # partition and copies of each
        self.publishers: list[PublishClient] = []
        self.subscriber: SubscribeClient
        self.told: list[AddCredit | Handled] = []
        self.unsubscribed: list[int] = []
        self.refusals: list[WeftError] = []
        self._ends: dict[Topic, int] = {}

    def join(self, publisher: PublishClient) -> None:
        self.publishers.append(publisher)

    def leave(self, publisher: PublishClient) -> None:
        if publisher in self.publishers:
            self.publishers.remove(publisher)

    def publish(
        self, publisher: PublishClient, request: int, topic: Topic, partition: int, batch: Batch, copies: int
    ) -> None:
        self.published.append((request, topic, batch))
        self.places.append((partition, copies))

    def receipts(self) -> list[tuple[int, Receipted]]:
        """For all that was published so far."""
        made = []
        for request, topic, batch in self.published:
            first = self._ends.get(topic, 0)
            self._ends[topic] = first + len(batch)
            made.append((request, Receipted(request, Appended(stream(topic), EPOCH, first, len(batch), 0), 1)))
        self.published.clear()
        return made

    def begin_trace(self, gateway: str, topic: Topic, events: int) -> None:
        return None

    def count_refusal(self, error: WeftError) -> None:
        self.refusals.append(error)

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
    ) -> int:
        self.subscriber = subscriber
        self.holding = holding
        return 42

    def tell(self, event: AddCredit | Handled) -> None:
        self.told.append(event)

    def unsubscribe(self, subscription: int) -> None:
        self.unsubscribed.append(subscription)


def stream(topic: str) -> Stream:
    return Stream(Topic(topic), ME, 0)


def delivered(topic: str, first: int, payloads: Sequence[bytes], skip: int = 0) -> Delivered:
    """A stored batch; the reader is behind ``skip`` of its events."""
    batch = Batch.from_columns(list(payloads), 1000).with_base_offset(first)
    return Delivered(stream(topic), EPOCH, batch.data, first + skip)


def position(topic: str, offset: int) -> Position:
    return Position(stream(topic), EPOCH, offset)
