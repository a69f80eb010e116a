"""Coaty's events on topics of the mesh: ``coaty.<namespace>.<event>[.<filter>]`` (COA-12). Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from weft.wire.coaty import EventType

PREFIX: Final = "coaty"
# For Spark, before anything is decoded: topics of Advertise and Deadvertise events, and some that only look like it.
ADVERTISING: Final = rf"^{PREFIX}\..+\.({EventType.ADVERTISE}|{EventType.DEADVERTISE})(\.|$)"

_CODES: Final = frozenset(EventType)


class CoatyTopic(NamedTuple):
    """What a topic says of its events. The filter is left out: the payload says it better."""

    namespace: str
    event: EventType


def parse_mesh_topic(topic: str) -> CoatyTopic | None:
    """None for topics that are not of Coaty. Namespaces may have dots; the first event code after one ends it."""
    prefix, *tokens = topic.split(".")
    if prefix != PREFIX:
        return None
    for place, token in enumerate(tokens[1:], 1):
        if token in _CODES:
            return CoatyTopic(".".join(tokens[:place]), EventType(token))
    return None
