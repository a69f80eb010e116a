"""What an operator may set for a connection. Each side chooses its own settings; nothing is negotiated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.errors import UsageError
from weft.limits import (
    EXMP_HANDSHAKE_TIMEOUT_S,
    EXMP_MESSAGE_BYTES_MAX,
    EXMP_PENDING_MAX,
    EXMP_PING_INTERVAL_S,
    EXMP_PONG_TIMEOUT_S,
    KIB,
    MIB,
)
from weft.wire.exmp.codec import FRAME_BYTES_MAX

MESSAGE_BYTES_MIN: Final = 1 * KIB  # room for every error that we send ourselves, and its reason
POSITIVE: Final = (
    "pending_max",
    "in_work_max",
    "queue_bytes_max",
    "handshake_timeout_s",
    "ping_interval_s",
    "pong_timeout_s",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """``pending_max`` counts unanswered requests in each direction; ``ping_interval_s=None`` sends no pings.

    ``in_work_max``: how many requests the application gets before it has answered the first of them. An application
    that takes more than one answers them in order, and makes sure that none is processed too early (EXM-06).
    """

    message_bytes_max: int = EXMP_MESSAGE_BYTES_MAX
    pending_max: int = EXMP_PENDING_MAX
    in_work_max: int = 1
    queue_bytes_max: int = 16 * MIB  # requests waiting behind the one in work: one of the largest, or many small
    handshake_timeout_s: float = EXMP_HANDSHAKE_TIMEOUT_S
    ping_interval_s: float | None = EXMP_PING_INTERVAL_S
    pong_timeout_s: float = EXMP_PONG_TIMEOUT_S

    def __post_init__(self) -> None:
        if not MESSAGE_BYTES_MIN <= self.message_bytes_max <= FRAME_BYTES_MAX:
            raise UsageError(
                "message_bytes_max is out of range",
                value=self.message_bytes_max,
                first=MESSAGE_BYTES_MIN,
                last=FRAME_BYTES_MAX,
            )
        for name in POSITIVE:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"{name} must be positive", value=value)


DEFAULT_SETTINGS: Final = Settings()
