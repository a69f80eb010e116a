"""The knobs of the core, with the defaults of ``weft.limits``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from weft import limits
from weft.core.groups import GroupSettings
from weft.model import Pattern, Topic, parse_pattern

EVERYTHING: Final = parse_pattern(">")


def one_copy(topic: Topic) -> int:
    """The origin's own."""
    return 1


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """``copies_of``: on how many nodes events of a topic have to be before their receipt, whatever the publisher asks.

    ``plain_patterns``: what peers get that know only the four messages of the design document.
    """

    window_bytes: int = limits.LINK_WINDOW_BYTES
    ack_timeout_s: float = limits.LINK_ACK_TIMEOUT_S
    copies_timeout_s: float = 10.0  # longer than a link needs to come back, shorter than publishers wait
    copies_of: Callable[[Topic], int] = one_copy
    plain_patterns: tuple[Pattern, ...] = (EVERYTHING,)
    groups: GroupSettings = field(default_factory=GroupSettings)
