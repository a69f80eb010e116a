"""The knobs of peer links, with their ranges (PL-07), and what they mean for a connection."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from weft import limits
from weft.errors import UsageError
from weft.limits import MIB
from weft.transport.grpc.channel import ChannelSettings
from weft.transport.http2.endpoint import EndpointSettings
from weft.wire.http2 import CLIENT_SETTINGS


class DropPolicy(Enum):
    """What is dropped when a queue was full for too long. Nothing is lost: the log has it (PL-02)."""

    OLDEST = "oldest"
    NEWEST = "newest"


# Each knob with its smallest and greatest value.
RANGES: Final[dict[str, tuple[float, float]]] = {
    "queue_frames_max": (1, 1 << 20),
    "queue_bytes_max": (limits.BATCH_BYTES_MAX, 1 << 32),  # a batch of any size has to fit
    "send_timeout_s": (0.0, 600.0),
    "max_message_bytes": (limits.PEER_FRAME_BYTES_MAX, 1 << 30),  # below, batches that clients may publish get stuck
    "backoff_s_min": (0.001, 60.0),
    "backoff_s_max": (0.001, 3600.0),
    "backoff_jitter": (0.0, 1.0),
    "dial_timeout_s": (0.1, 600.0),
    "handshake_timeout_s": (0.1, 600.0),
    "drain_timeout_s": (0.0, 600.0),
    "keepalive_s": (1.0, 3600.0),
    "keepalive_timeout_s": (0.1, 600.0),
}


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """How links are kept."""

    queue_frames_max: int = 8192  # batches waiting for one peer; if each has 1 KiB, the window is full earlier
    queue_bytes_max: int = 32 * MIB  # more than a peer may leave unacknowledged, so that honest windows fit
    send_timeout_s: float = 5.0  # a peer that took nothing for so long will probably take nothing soon
    drop_policy: DropPolicy = DropPolicy.NEWEST
    max_message_bytes: int = limits.PEER_FRAME_BYTES_MAX
    backoff_s_min: float = 0.1  # a restarted peer is back after a second or two
    backoff_s_max: float = 30.0  # after a long outage, no link waits longer than this
    backoff_jitter: float = 0.5  # half of a delay, so that a thousand nodes do not come back at once
    dial_timeout_s: float = 10.0  # a connection around the world takes one second, with lost packets several
    handshake_timeout_s: float = 5.0  # both handshakes, a round trip each
    drain_timeout_s: float = 5.0  # for what waits at a shutdown: 32 MiB at 50 Mbit/s
    keepalive_s: float = 10.0  # between HTTP/2 pings; heartbeats notice first, but only that the peer is silent
    keepalive_timeout_s: float = 10.0  # a ping may come behind a frame of 16 MiB
    compression: bool = False

    def __post_init__(self) -> None:
        for knob, (least, most) in RANGES.items():
            value = getattr(self, knob)
            if not least <= value <= most:  # written so that NaN is refused, too
                raise UsageError(f"{knob} of peer links is out of range", value=value, least=least, most=most)
        if self.backoff_s_min > self.backoff_s_max:
            raise UsageError(
                "backoff_s_min of peer links is above backoff_s_max", least=self.backoff_s_min, most=self.backoff_s_max
            )


def channel_settings(settings: LinkSettings) -> ChannelSettings:
    """The settings of the gRPC channel to a peer."""
    return ChannelSettings(
        EndpointSettings(
            replace(CLIENT_SETTINGS, message_bytes_max=settings.max_message_bytes),
            settings.keepalive_s,
            settings.keepalive_timeout_s,
        ),
        connect_timeout_s=settings.dial_timeout_s,
    )
