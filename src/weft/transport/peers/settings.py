"""The knobs of peer links, with their ranges (PL-07), and what they mean for a connection."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from weft import limits
from weft.errors import UsageError
from weft.transport.grpc.channel import ChannelSettings
from weft.transport.http2.endpoint import EndpointSettings
from weft.wire.http2 import CLIENT_SETTINGS


class DropPolicy(Enum):
    """What goes when a queue was full for too long. Nothing is lost: the log is behind it (PL-02)."""

    OLDEST = "oldest"
    NEWEST = "newest"


# Knob -> least, most.
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
    """How links are kept. The defaults and their reasons are in ``weft.limits``."""

    queue_frames_max: int = limits.LINK_QUEUE_FRAMES_MAX
    queue_bytes_max: int = limits.LINK_QUEUE_BYTES_MAX
    send_timeout_s: float = limits.LINK_SEND_TIMEOUT_S
    drop_policy: DropPolicy = DropPolicy.NEWEST
    max_message_bytes: int = limits.PEER_FRAME_BYTES_MAX
    backoff_s_min: float = limits.LINK_BACKOFF_S_MIN
    backoff_s_max: float = limits.LINK_BACKOFF_S_MAX
    backoff_jitter: float = limits.LINK_BACKOFF_JITTER
    dial_timeout_s: float = limits.LINK_DIAL_TIMEOUT_S
    handshake_timeout_s: float = limits.LINK_HANDSHAKE_TIMEOUT_S
    drain_timeout_s: float = limits.LINK_DRAIN_TIMEOUT_S
    keepalive_s: float = limits.LINK_KEEPALIVE_S
    keepalive_timeout_s: float = limits.LINK_KEEPALIVE_TIMEOUT_S
    compression: bool = False

    def __post_init__(self) -> None:
        for knob, (least, most) in RANGES.items():
            value = getattr(self, knob)
            if not least <= value <= most:  # written so that NaN fails too
                raise UsageError(f"{knob} of peer links is out of range", value=value, least=least, most=most)
        if self.backoff_s_min > self.backoff_s_max:
            raise UsageError(
                "backoff_s_min of peer links is above backoff_s_max", least=self.backoff_s_min, most=self.backoff_s_max
            )


def channel_settings(settings: LinkSettings) -> ChannelSettings:
    """For a connection to a peer."""
    return ChannelSettings(
        EndpointSettings(
            replace(CLIENT_SETTINGS, message_bytes_max=settings.max_message_bytes),
            settings.keepalive_s,
            settings.keepalive_timeout_s,
        ),
        connect_timeout_s=settings.dial_timeout_s,
    )
