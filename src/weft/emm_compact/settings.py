"""What can be set about an EMM-C node, each setting with a default and checked when it is made."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Final
from uuid import UUID

from weft.errors import UsageError
from weft.limits import (
    CLOCK_SKEW_S_MAX,
    DATAGRAM_EVENTS_MAX,
    DATAGRAM_HEARTBEAT_INTERVAL_S,
    DATAGRAM_RATE_PER_S_MAX,
    DATAGRAM_RATE_PER_S_MIN,
    DATAGRAM_RELATIONSHIPS_MIN,
)
from weft.wire.emm_compact import TTL_DEFAULT
from weft.wire.emm_compact.numbering import EPOCHS, TICK_S

EMC_RELATIONSHIPS_MAX: Final = 63  # a join tells it in six bits
EMC_STATUS_BYTES_MAX: Final = 142  # what a join's other fields leave of its 255 bytes
DATAGRAM_SEEN_S: Final = 300.0  # EMC-13
HEARTBEAT_INTERVAL_S_MAX: Final = 255  # a join tells it in one byte
TTL_MAX: Final = 255


class Epochs(Enum):
    """What the epoch of a received packet says about its age."""

    CLOCK = "clock"  # ticks since 1970: what is older than the seen cache remembers is refused, so nothing comes twice
    ANY = "any"  # nothing, for nodes that count from their start: what was recorded can be replayed after the cache


@dataclass(frozen=True, slots=True)
class Settings:
    """Defaults are for a node among others on a local network."""

    relationships_max: int = 32  # unless set: an event goes out as often, and any mesh holds together with fewer
    preferred: Collection[UUID] = ()  # nodes that get a place before others (EMC-11)
    heartbeat_interval_s: int = DATAGRAM_HEARTBEAT_INTERVAL_S  # EMC-15
    ttl: int = TTL_DEFAULT  # of the node's own events (EMC-12)
    status: bytes = b""  # what joins say for the application (EMC-09); 142 bytes at most
    seen_s: float = DATAGRAM_SEEN_S  # EMC-13
    seen_max: int = 1 << 18  # 300 s at 870 events/s, 50 MiB; oldest go first
    skew_s_max: float = CLOCK_SKEW_S_MAX  # how far ahead of ours another node's clock may be
    tick_s: float = TICK_S  # EMC-04
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
        if len(self.status) > EMC_STATUS_BYTES_MAX:
            raise UsageError("status is too long for a join", have=len(self.status), limit=EMC_STATUS_BYTES_MAX)
        if self.epochs is Epochs.CLOCK and self.seen_s + self.skew_s_max >= EPOCHS * self.tick_s / 2:
            raise UsageError(
                "epochs come round too soon to tell old packets from new ones",
                seen_s=self.seen_s,
                skew_s_max=self.skew_s_max,
                round_s=EPOCHS * self.tick_s,
            )
