"""What can be set about an EMM-C node, each setting with a default and checked when it is made."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from weft.errors import UsageError
from weft.limits import (
    DATAGRAM_EVENTS_MAX,
    DATAGRAM_HEARTBEAT_INTERVAL_S,
    DATAGRAM_RATE_PER_S_MAX,
    DATAGRAM_RATE_PER_S_MIN,
    DATAGRAM_RELATIONSHIPS_MIN,
)
from weft.wire.emm_compact import TTL_DEFAULT, Field, FieldType, TopologyHint
from weft.wire.emm_compact.judge import DEFAULT_TERMS, SEEN_MAX, Epochs, Terms

EMC_RELATIONSHIPS_MAX: Final = 63  # a join tells it in six bits
EMC_STATUS_BYTES_MAX: Final = 142  # what a join's other fields leave of its 255 bytes, without region and vendor
HEARTBEAT_INTERVAL_S_MAX: Final = 255  # a join tells it in one byte
TTL_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class Settings:
    """Defaults are for a node among others on a local network."""

    relationships_max: int = 32  # unless set: an event goes out as often, and any mesh holds together with fewer
    preferred: Collection[UUID] = ()  # nodes that get a place before others (EMC-11)
    heartbeat_interval_s: int = DATAGRAM_HEARTBEAT_INTERVAL_S  # EMC-15
    ttl: int = TTL_DEFAULT  # of the node's own events (EMC-12)
    status: bytes = b""  # what joins say for the application (EMC-09); 142 bytes at most
    region: str = ""  # where the node is, in joins and heartbeats (0xAD)
    vendor: UUID | None = None  # who made it, in joins and heartbeats (0xAF)
    seen_s: float = DEFAULT_TERMS.seen_s  # EMC-13
    seen_max: int = SEEN_MAX
    skew_s_max: float = DEFAULT_TERMS.skew_s_max  # how far ahead of ours another node's clock may be
    tick_s: float = DEFAULT_TERMS.tick_s  # EMC-04
    epochs: Epochs = Epochs.CLOCK
    rate_per_s_max: float = DATAGRAM_RATE_PER_S_MAX  # datagrams to one neighbour (EMC-14)
    rate_per_s_min: float = DATAGRAM_RATE_PER_S_MIN
    outbox_max: int = 1024  # waiting for one neighbour, urgent ones apart; they share the bytes: 20 MiB in all
    events_max: int = DATAGRAM_EVENTS_MAX

    def __post_init__(self) -> None:
        for name, least, most in (
            ("relationships_max", DATAGRAM_RELATIONSHIPS_MIN, EMC_RELATIONSHIPS_MAX),
            ("heartbeat_interval_s", 1, HEARTBEAT_INTERVAL_S_MAX),
            ("ttl", 1, TTL_MAX),
            ("seen_max", 1, None),
            ("outbox_max", 1, None),
            ("events_max", 1, None),
        ):
            value: int = getattr(self, name)
            if value < least or (most is not None and value > most):
                raise UsageError(f"{name} is out of range", value=value, least=least, limit=most)
        status_bytes_max = EMC_STATUS_BYTES_MAX - sum(2 + len(each.value) for each in self.told())
        if len(self.status) > status_bytes_max:
            raise UsageError("status is too long for a join", have=len(self.status), limit=max(status_bytes_max, 0))
        self.terms()

    def told(self) -> tuple[Field, ...]:
        """What joins and heartbeats say beside what they must."""
        said = []
        if self.region:
            said.append(Field(FieldType.TOPOLOGY_HINT, TopologyHint(region=self.region).encode()))
        if self.vendor is not None:
            said.append(Field(FieldType.VENDOR_ID, self.vendor.bytes))
        return tuple(said)

    def terms(self) -> Terms:
        """What received packets must be; UsageError if epochs are too short for it."""
        return Terms(self.seen_s, self.skew_s_max, self.tick_s, self.epochs)
