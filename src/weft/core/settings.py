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
    """The default: only the origin's own copy."""
    return 1


@dataclass(frozen=True, slots=True)
class InterestSettings:
    """``patterns_max``: how many of its users' patterns a node announces one by one. If there are more, it announces
    wider patterns, and a filter of at most ``filter_bytes_max`` bytes (0: no filter), which says which of the topics
    that they select are meant."""

    patterns_max: int = limits.INTEREST_PATTERNS_MAX - INTEREST_OWN_PATTERNS_MAX
    filter_bytes_max: int = 32 * limits.KIB  # 18,000 patterns with 0.3 % false positives


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """``copies_of``: how many nodes must have a topic's events before the receipt, even if the publisher asks for
    fewer.

    ``plain_patterns``: what the peers get that know only the four messages of the design document.
    """

    window_bytes: int = limits.LINK_WINDOW_BYTES
    ack_timeout_s: float = limits.LINK_ACK_TIMEOUT_S
    copies_timeout_s: float = 10.0  # longer than a link takes to come back, shorter than publishers wait
    copies_of: Callable[[Topic], int] = one_copy
    plain_patterns: tuple[Pattern, ...] = (EVERYTHING,)
    late_copies: bool = True  # False: copies always begin at the first event there is, not where somebody wants them to
    past_timeout_s: float = 600.0  # how long to ask peers for events of an absent origin before they count as lost
    archived: Archived = nothing_archived  # which topics have an archive table, with events from before the log begins
    interest: InterestSettings = field(default_factory=InterestSettings)
    groups: GroupSettings = field(default_factory=GroupSettings)
