"""What a group does with events that its readers cannot handle: how often they come again, when, and where they end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from weft.core.topics import DEAD_PREFIX, is_own
from weft.errors import UsageError, WeftError
from weft.limits import OFFSET_MAX
from weft.model import Topic, parse_topic

DELIVERIES_MAX: Final = 1000  # of one event: with more of them, a stream practically stands still
RETRY_S_MAX: Final = 7 * 86_400.0  # a week: no retention keeps what waits longer
POLICY_BYTES_MAX: Final = 4096  # a topic and some numbers


@dataclass(frozen=True, slots=True)
class GroupPolicy:
    """``max_deliveries``: how often an event is handed out before it becomes a dead letter. ``retry_s_min``: how long
    the first retry waits; each further retry waits twice as long as the one before, up to ``retry_s_max``.
    ``in_order``: the stream waits for the retry; otherwise the event is set aside and the stream goes on.
    ``dead_letter``: the topic of dead letters; empty means ``weft.dead.<group>``."""

    max_deliveries: int = 5
    retry_s_min: float = 1.0
    retry_s_max: float = 60.0
    in_order: bool = True
    dead_letter: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.max_deliveries <= DELIVERIES_MAX:
            raise UsageError("max_deliveries is out of range", value=self.max_deliveries, least=1, most=DELIVERIES_MAX)
        for name, value in (("shortest", self.retry_s_min), ("longest", self.retry_s_max)):
            if not 0 <= value <= RETRY_S_MAX:  # written so that NaN is refused, too
                raise UsageError(f"the {name} time of retry_s is out of range", value=value, least=0, most=RETRY_S_MAX)
        if self.retry_s_min > self.retry_s_max:
            raise UsageError("retry_s is shortest, longest", shortest=self.retry_s_min, longest=self.retry_s_max)
        if self.dead_letter and is_own(parse_topic(self.dead_letter)):
            raise UsageError(
                "dead letters go to a topic of yours, or to the group's own: leave it out for that",
                topic=self.dead_letter,
            )

    def topic_of(self, group: str) -> Topic:
        return parse_topic(self.dead_letter) if self.dead_letter else Topic(DEAD_PREFIX + group)

    def delay_s(self, tries: int) -> float:
        """How long to wait after so many failed deliveries."""
        doublings = min(max(tries - 1, 0), 64)  # more is beyond every bound, and floats stay finite
        return min(self.retry_s_min * 2.0**doublings, self.retry_s_max)


DEFAULT_POLICY: Final = GroupPolicy()


class PolicyAt(msgspec.Struct, frozen=True, order=True):
    """A policy as the mesh knows it. The highest version counts; among policies of the same version, the greater text
    counts."""

    version: int
    text: bytes

    @property
    def policy(self) -> GroupPolicy:
        return read_policy_untrusted(self.text)[0]


class _WirePolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    version: int
    max_deliveries: int
    retry_s: tuple[float, float]
    in_order: bool
    dead_letter: str = ""
    era: int = 0  # of the group, see ``groups.events``


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(_WirePolicy)


def policy_at(policy: GroupPolicy, version: int, era: int = 0) -> PolicyAt:
    wire = _WirePolicy(
        min(version, OFFSET_MAX),
        policy.max_deliveries,
        (policy.retry_s_min, policy.retry_s_max),
        policy.in_order,
        policy.dead_letter,
        era,
    )
    return PolicyAt(wire.version, _ENCODER.encode(wire))


def read_policy_untrusted(payload: bytes) -> tuple[GroupPolicy, int, int]:
    """The policy, its version and its era; raise only UsageError, whatever the bytes."""
    if len(payload) > POLICY_BYTES_MAX:
        raise UsageError("the settings of a group are too large", bytes=len(payload), limit=POLICY_BYTES_MAX)
    try:
        wire = _DECODER.decode(payload)
        if not 1 <= wire.version <= OFFSET_MAX:
            raise UsageError("versions count from 1", version=wire.version, limit=OFFSET_MAX)
        if not 0 <= wire.era <= OFFSET_MAX:
            raise UsageError("the era is out of range", era=wire.era, limit=OFFSET_MAX)
        policy = GroupPolicy(wire.max_deliveries, *wire.retry_s, wire.in_order, wire.dead_letter)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UsageError(f"the settings of a group are not what they should be: {error}") from None
    except WeftError as error:
        raise UsageError(f"the settings of a group are not what they should be: {error}") from None
    return policy, wire.version, wire.era
