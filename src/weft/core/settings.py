"""The knobs of the core, with the defaults of ``weft.limits``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from weft import limits
from weft.core.groups import GroupSettings
from weft.core.history import Archived, nothing_archived
from weft.model import Pattern, Topic, parse_pattern

INTEREST_OWN_PATTERNS_MAX: Final = 32  # of INTEREST_PATTERNS_MAX, for topics of the mesh itself: groups and inboxes
EVERYTHING: Final = parse_pattern(">")


def one_copy(topic: Topic) -> int:
    """Only the origin's own."""
    return 1


@dataclass(frozen=True, slots=True)
class InterestSettings:
    """``patterns_max``: how many of its users' patterns a node announces one by one. If there are more, it announces
    wider ones and a filter of at most ``filter_bytes_max`` bytes (0: none), which says which topics below them are
    meant."""

    patterns_max: int = limits.INTEREST_PATTERNS_MAX - INTEREST_OWN_PATTERNS_MAX
    filter_bytes_max: int = 32 * limits.KIB  # 18,000 patterns with 0.3 % false positives


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """``copies_of``: how many nodes must have a topic's events before the receipt, whatever the publisher asks.

    ``plain_patterns``: what peers get that know only the design document's four messages.
    """

    window_bytes: int = limits.LINK_WINDOW_BYTES
    ack_timeout_s: float = limits.LINK_ACK_TIMEOUT_S
    copies_timeout_s: float = 10.0  # longer than a link needs to come back, shorter than publishers wait
    copies_of: Callable[[Topic], int] = one_copy
    plain_patterns: tuple[Pattern, ...] = (EVERYTHING,)
    late_copies: bool = True  # a copy begins where somebody wants it; otherwise at the first event there is
    past_timeout_s: float = 600.0  # how long to ask peers for events whose origin is away, before they count as lost
    archived: Archived = nothing_archived  # which topics have an archive table that goes on where the log ends
    interest: InterestSettings = field(default_factory=InterestSettings)
    groups: GroupSettings = field(default_factory=GroupSettings)
