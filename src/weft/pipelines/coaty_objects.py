"""Which Coaty objects exist: those that were advertised and not deadvertised since. Pure.

Events come in any order and more than once (an object is advertised under its core type and under its object type, and
several bridges may hear it). So the newest Advertise and the newest Deadvertise of each object are kept, and the later
of the two decides whether the object exists. The result does not depend on the order or on repetitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from weft.errors import UsageError
from weft.limits import COATY_RECEIVED_BYTES_MAX
from weft.pipelines.coaty_topics import parse_mesh_topic
from weft.wire.coaty import (
    Advertise,
    BadCoatyMessage,
    CoatyObject,
    Deadvertise,
    EventType,
    Message,
    decode_payload_untrusted,
)
from weft.wire.coaty.jsonvalues import encode_json


class Version(Struct, frozen=True, order=True, array_like=True):
    """When something was said about an object, and in which event. The greater version counts.

    Of two events in the same microsecond, a Deadvertise counts as the later one. Between two of the same kind, the
    offset decides within a stream. Between streams there is no true order, but the answer is the same each time.
    """

    at_us: int
    gone: bool
    epoch: int
    offset: int
    topic: str
    origin: str
    partition: int


class Facts(Struct, frozen=True):
    """An object as it was advertised."""

    core_type: str
    object_type: str
    name: str
    parent_object_id: str | None
    external_id: str | None
    source_id: str  # the agent that advertised it
    object: str  # all of it, as JSON


class Change(Struct, frozen=True):
    """An object exists (with its facts) or is gone (without)."""

    namespace: str
    object_id: str
    version: Version
    facts: Facts | None


class Known(Struct, frozen=True):
    """What is stored about one object. ``facts`` are from the event ``advertised``, if they are kept."""

    advertised: Version | None = None
    facts: Facts | None = None
    deadvertised: Version | None = None
    revision: int = 0  # how many changes of it were shown

    @property
    def is_there(self) -> bool:
        if self.advertised is None:
            return False
        return self.deadvertised is None or self.deadvertised < self.advertised


_KNOWN: Final = msgspec.msgpack.Decoder(Known)


def encode_known(known: Known) -> bytes:
    return msgspec.msgpack.encode(known)


def decode_known(data: bytes) -> Known:
    return _KNOWN.decode(data)


def merge(known: Known, changes: Iterable[Change]) -> Known:
    """What is known after these changes; their order does not matter."""
    for change in changes:
        version = change.version
        if change.facts is None:
            if known.deadvertised is None or version > known.deadvertised:
                known = replace(known, deadvertised=version)
        elif known.advertised is None or version > known.advertised:
            known = replace(known, advertised=version, facts=change.facts)
    return known


def step(known: Known, changes: Iterable[Change], *, marks: bool) -> tuple[Known, Known | None]:
    """Return what to keep after these changes, and what to show, or None if that has not changed.

    ``marks``: objects that are gone are still shown, in their last state. Otherwise they are not shown, and only their
    versions are kept, so that older events about them are ignored.
    """
    merged = merge(known, changes)
    if marks:
        is_news = merged.advertised is not None and merged != known
    elif merged.is_there:
        is_news = merged.advertised != known.advertised
    else:
        is_news = known.is_there
    merged = replace(merged, revision=merged.revision + is_news)
    kept = merged
    if not marks:
        kept = replace(merged, facts=None, advertised=merged.advertised if merged.is_there else None)
    return kept, merged if is_news else None


def read_changes_untrusted(
    topic: str, payload: bytes, *, at_us: int, origin: str, epoch: int, partition: int, offset: int
) -> list[Change]:
    """What an event of the mesh says about objects; empty for other kinds of events. Raise only BadCoatyMessage."""
    place = parse_mesh_topic(topic)
    if place is None or place.event not in (EventType.ADVERTISE, EventType.DEADVERTISE):
        return []
    message = decode_payload_untrusted(place.event, payload)
    gone = place.event is EventType.DEADVERTISE
    version = Version(at_us, gone, epoch, offset, topic, origin, partition)
    match message.data:
        case Advertise(object=published):
            return [Change(place.namespace, published["objectId"], version, _facts(message, published))]
        case Deadvertise(object_ids=object_ids):
            return [Change(place.namespace, object_id, version, None) for object_id in dict.fromkeys(object_ids)]
        case _:
            raise AssertionError("the event type decides what the data is")


def _facts(message: Message, published: CoatyObject) -> Facts:
    try:
        text = encode_json(published, "object", COATY_RECEIVED_BYTES_MAX).decode()
    except UsageError as error:  # values that JSON allows but that cannot be stored
        raise BadCoatyMessage(error.what, **error.facts) from None
    return Facts(
        core_type=published["coreType"],
        object_type=published["objectType"],
        name=published["name"],
        parent_object_id=published.get("parentObjectId"),
        external_id=published.get("externalId"),
        source_id=message.source_id,
        object=text,
    )
