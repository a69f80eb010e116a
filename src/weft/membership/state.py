"""What is known about a node, and which of two pieces of knowledge counts.

What a node says about itself is numbered (incarnation, version) and always complete. Others say only how alive it is in
one incarnation. ``join`` combines two pieces of knowledge: the higher incarnation wins as a whole; within one
incarnation, the content of the higher version counts, and the worse liveness stays. So nodes that heard the same
things, in any order and any number of times, know the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final, NamedTuple

from weft.errors import UsageError
from weft.limits import (
    INCARNATION_MAX,
    INTEREST_PATTERNS_MAX,
    OFFSET_MAX,
    ORIGIN_BYTES_MAX,
    PEER_ADDRESSES_MAX,
    PEER_NAME_CHARS_MAX,
    TOPIC_BYTES_MAX,
)
from weft.model import Epoch, NodeId, Pattern
from weft.routing import Summary
from weft.wire.mesh.checks import Signature

NEIGHBOURS_MAX: Final = 1024  # links that one node announces, enough for a hub; 67 KiB of gossip at worst


# Of a state or digest, each with its tag: incarnation (6, as ms since 1970), version (2), liveness (1), epoch and
# whether interest is capped (1 each), what was said about groups (4), and the length of it all (3).
NUMBERS_BYTES: Final = 25


SINCE_BYTES: Final = 9  # for a time in microseconds since 1970
SUMMARY_BYTES: Final = 80  # of a summary without its bits: tags and lengths of the shapes, and the hashes


class Liveness(IntEnum):
    """How alive a node is: the higher, the worse. Within an incarnation, liveness never gets better. The numbers are
    those on the wire."""

    ALIVE = 1
    SUSPECT = 2  # does not answer; still treated as alive, so that it can refute
    DEAD = 3
    LEFT = 4  # the node said so itself

    @property
    def gone(self) -> bool:
        return self >= Liveness.DEAD


class Signed(NamedTuple):
    """What a node said about itself, with its signature. Code that makes one of these for another node has checked the
    signature."""

    content: bytes
    signature: Signature

    @property
    def size_bytes(self) -> int:
        return len(self.content) + len(self.signature.signature) + len(self.signature.chain_pem)


class Digest(NamedTuple):
    """What a node knows about another, in short. It is a tuple because hundreds are made and compared in every
    exchange."""

    node_id: NodeId
    incarnation: int
    version: int
    liveness: Liveness

    def has_content_of(self, other: Digest) -> bool:
        """Whether this has at least as new a statement by the node itself as ``other``."""
        return (self.incarnation, self.version) >= (other.incarnation, other.version)

    def covers(self, other: Digest) -> bool:
        """Whether ``other`` adds nothing to this."""
        if self.incarnation != other.incarnation:
            return self.incarnation > other.incarnation
        return self.version >= other.version and self.liveness >= other.liveness


def unknown(node_id: NodeId) -> Digest:
    """The digest of a node about which nothing is known: a peer that gets it sends what it has."""
    return Digest(node_id, 0, 0, Liveness.ALIVE)


@dataclass(frozen=True, slots=True)
class NodeState:
    """All that is known about a node, as that node said it. ``liveness`` may also be what others found out."""

    node_id: NodeId
    incarnation: int
    version: int
    epoch: Epoch
    liveness: Liveness = Liveness.ALIVE
    addresses: tuple[str, ...] = ()
    neighbours: tuple[NodeId, ...] = ()
    interest: tuple[Pattern, ...] = ()
    interest_capped: bool = False
    interest_summary: Summary | None = None  # if given, topics have to pass both the patterns and this
    interest_since_us: tuple[int, ...] = ()  # since when each pattern is wanted; empty: all since ever
    talked: int = 0  # events about groups that the node had published by then; nodes with fewer are behind
    signed: Signed | None = field(default=None, repr=False, compare=False)  # all of this, signed by the node itself
    # Both are computed from the rest, and kept because every exchange needs them.
    digest: Digest = field(init=False, repr=False, compare=False)
    size_bytes: int = field(init=False, repr=False, compare=False)  # estimated, as protobuf

    def __post_init__(self) -> None:
        _check_range("incarnation", self.incarnation, INCARNATION_MAX)
        _check_range("version", self.version, OFFSET_MAX)
        _check_range("epoch", self.epoch, OFFSET_MAX)
        _check_range("talk", self.talked + 1, OFFSET_MAX)
        texts_bytes = (
            _checked_bytes("node ids", (self.node_id,), 1, ORIGIN_BYTES_MAX)
            + _checked_bytes("addresses", self.addresses, PEER_ADDRESSES_MAX, PEER_NAME_CHARS_MAX)
            + _checked_bytes("neighbours", self.neighbours, NEIGHBOURS_MAX, ORIGIN_BYTES_MAX)
            + _checked_bytes("patterns", self.interest, INTEREST_PATTERNS_MAX, TOPIC_BYTES_MAX)
        )
        if len(self.interest_since_us) not in (0, len(self.interest)):
            times, patterns = len(self.interest_since_us), len(self.interest)
            raise UsageError("times of interest do not fit the patterns", times=times, patterns=patterns)
        if self.interest_since_us and not 0 <= min(self.interest_since_us) <= max(self.interest_since_us) <= OFFSET_MAX:
            raise UsageError("a time of interest in the state of a node is out of range", limit=OFFSET_MAX)
        digest = Digest(self.node_id, self.incarnation, self.version, self.liveness)
        object.__setattr__(self, "digest", digest)
        summary_bytes = 0 if self.interest_summary is None else SUMMARY_BYTES + self.interest_summary.size_bytes
        signed_bytes = 0 if self.signed is None else self.signed.size_bytes
        said_bytes = texts_bytes + summary_bytes + SINCE_BYTES * len(self.interest_since_us)
        object.__setattr__(self, "size_bytes", NUMBERS_BYTES + max(said_bytes, signed_bytes))

    def wants_as(self, other: NodeState) -> bool:
        """Whether this node wants the same as the other one."""
        return (self.interest, self.interest_summary) == (other.interest, other.interest_summary)

    def found(self, liveness: Liveness) -> NodeState:
        """The same node, found to be in this state or a worse one."""
        return self if liveness <= self.liveness else replace(self, liveness=liveness)


def join(one: NodeState, other: NodeState) -> NodeState:
    """Combine two states. Commutative, associative, idempotent; returns ``one`` itself if ``other`` adds nothing."""
    assert one.node_id == other.node_id, "only what is known of one and the same node can be joined"
    if one is other or one.digest.covers(other.digest):
        return one
    if one.incarnation != other.incarnation:
        return other
    newer = other if other.version > one.version else one
    return newer.found(max(one.liveness, other.liveness))


def _check_range(name: str, value: int, limit: int) -> None:
    if not 1 <= value <= limit:
        raise UsageError(f"the {name} of a node is out of range", value=value, least=1, limit=limit)


def _checked_bytes(name: str, texts: tuple[str, ...], count_max: int, bytes_max: int) -> int:
    """The bytes that these texts take, each with its tag and length."""
    if len(texts) > count_max:
        raise UsageError(f"too many {name} in the state of a node", count=len(texts), limit=count_max)
    sizes = [len(text.encode()) for text in texts]
    for size in sizes:
        if not 1 <= size <= bytes_max:
            raise UsageError(f"{name} have 1 to {bytes_max} bytes", have=size)
    return sum(sizes) + 3 * len(sizes)
