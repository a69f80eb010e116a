"""What can be seen of links: the figures of each, and the listeners that are told what happens to them (PL-06)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from weft.core.call_messages import ReceivedCall
from weft.core.messages import (
    FramesDropped,
    ReceivedAcks,
    ReceivedBegins,
    ReceivedCopies,
    ReceivedPast,
    ReceivedPastRequest,
    ReceivedPlain,
    ReceivedPlainAck,
    ReceivedResume,
)
from weft.errors import PeerError
from weft.limits import LINK_LATENCIES_KEPT
from weft.membership import Message
from weft.model import NodeId
from weft.security.key_exchange import KeyTalk
from weft.wire.mesh.features import Feature, Hello
from weft.wire.mesh.lives import Life

LinkInput: TypeAlias = (
    ReceivedCopies
    | ReceivedAcks
    | ReceivedResume
    | ReceivedBegins
    | ReceivedPastRequest
    | ReceivedPast
    | ReceivedPlain
    | ReceivedPlainAck
    | FramesDropped
    | ReceivedCall
)


@dataclass(frozen=True, slots=True)
class LinkView:
    """A link as people see it, or an address that is dialled and has none. The figures are those of this connection."""

    peer: NodeId | None
    address: str
    connected: bool
    dialled_by_us: bool
    plain: bool = False
    features: frozenset[Feature] = frozenset()
    since_s: float = 0.0  # by the loop's clock
    queue_frames: int = 0
    queue_bytes: int = 0
    drops: int = 0
    messages_sent: int = 0
    messages_received: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    send_latency_s_p50: float = 0.0
    send_latency_s_p95: float = 0.0
    trouble: str = ""  # why there is no link


class LinkListener(Protocol):
    """The user of the links. It is called on the event loop, and never from within a call to PeerLinks.

    ``received`` has to pass the event to the core at once: after FramesDropped, the core must send the affected streams
    again before it sends anything new.
    """

    def link_up(self, peer: NodeId, hello: Hello, plain: bool) -> None: ...

    def link_down(self, peer: NodeId, reason: str) -> None: ...

    def peer_leaves(self, peer: NodeId, incarnation: int) -> None:
        """The peer says goodbye; ``link_down`` follows. ``incarnation``: the one that the peer named in its hello."""

    def received(self, event: LinkInput) -> None: ...

    def received_member(self, peer: NodeId, message: Message) -> None: ...

    def twin_found(self, life: Life, told_by: str) -> None:
        """Another node runs with our own id: it has proved that it has the key of our certificate, and that it lives
        now."""

    def received_keys(self, peer: NodeId, talk: KeyTalk) -> None: ...


class LinkObserver(Protocol):
    """For metrics and logs. ``address`` is where we dialled, or where the peer came from."""

    def link_up(self, peer: NodeId, address: str, dialled_by_us: bool, features: Iterable[Feature]) -> None: ...

    def link_down(self, peer: NodeId, reason: str) -> None: ...

    def link_refused(self, address: str, error: PeerError) -> None:
        """A node that dialled us was turned away, or one that we dialled has an invalid certificate."""

    def twins_seen(self, peer: NodeId, address: str) -> None:
        """Two living nodes said hello as this peer; the one at this address did so last."""

    def dialling(self, address: str, peer: NodeId | None) -> None:
        """An attempt begins; ``peer`` is the node that was there last time."""

    def gossip_refused(self, peer: NodeId, what: str) -> None:
        """The peer passed on something that a node is supposed to have said about itself, but that node has not signed
        it."""

    def dial_failed(self, address: str, reason: str, retry_s: float) -> None:
        """There is no link, or no longer one; the next attempt comes after ``retry_s``."""

    def sent(self, peer: NodeId, size_bytes: int, latency_s: float) -> None:
        """One frame was sent, ``latency_s`` after it was handed in."""

    def received(self, peer: NodeId, size_bytes: int) -> None: ...

    def dropped(self, peer: NodeId, frames: int) -> None: ...


class Traffic:
    """Figures of one connection."""

    def __init__(self) -> None:
        self.messages_sent = 0
        self.messages_received = 0
        self.bytes_sent = 0
        self.bytes_received = 0
        self._latencies_s: deque[float] = deque(maxlen=LINK_LATENCIES_KEPT)

    def sent(self, size_bytes: int, latency_s: float) -> None:
        self.messages_sent += 1
        self.bytes_sent += size_bytes
        self._latencies_s.append(latency_s)

    def received(self, size_bytes: int) -> None:
        self.messages_received += 1
        self.bytes_received += size_bytes

    def latency_s(self, share: float) -> float:
        """The latency that this share of the last frames did not exceed; 0 before the first frame."""
        ordered = sorted(self._latencies_s)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0
