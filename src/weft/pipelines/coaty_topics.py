"""Coaty's events on topics of the mesh: ``coaty.<namespace>.<event>[.<filter>]`` (COA-12). Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from weft.wire.coaty import EventType

PREFIX: Final = "coaty"
RAW: Final = "RAW"  # in place of an event code: bytes from any topic that is not Coaty's own
# A filter for Spark, before decoding: matches topics of Advertise and Deadvertise events, and some that look similar.
ADVERTISING: Final = rf"^{PREFIX}\..+\.({EventType.ADVERTISE}|{EventType.DEADVERTISE})(\.|$)"

_CODES: Final = frozenset(EventType)


class CoatyTopic(NamedTuple):
    """What a topic says of its events. The filter is left out: the payload says it better."""

    namespace: str
    event: EventType


def parse_mesh_topic(topic: str) -> CoatyTopic | None:
    """Parse a topic; None for topics that are not of Coaty, and for raw ones. A namespace may have dots: it ends at the
    first event code, or at ``RAW``."""
    prefix, *tokens = topic.split(".")
    if prefix != PREFIX:
        return None
    for place, token in enumerate(tokens[1:], 1):
        if token == RAW:
            return None
        if token in _CODES:
            return CoatyTopic(".".join(tokens[:place]), EventType(token))
    return None
