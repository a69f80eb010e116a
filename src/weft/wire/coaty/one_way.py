"""Data of the one-way events: Advertise, Deadvertise, Channel, Associate, IoValue.

Each checks itself when created. Members that are None stay out of the JSON. Where a member holds JSON (objects, private
data), it is the caller's, and not copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.errors import UsageError
from weft.wire.coaty.jsonvalues import Json, JsonObject, is_number
from weft.wire.coaty.names import require_uuid, shown
from weft.wire.coaty.objects import CoatyObject, require_object, require_objects
from weft.wire.coaty.topics import require_filter, require_io_route


@dataclass(frozen=True, slots=True)
class Advertise:
    """An object, announced to observers of its core type or its object type."""

    object: CoatyObject
    private_data: JsonObject | None = None

    def __post_init__(self) -> None:
        require_published_object(self.object)
        require_private_data(self.private_data)


@dataclass(frozen=True, slots=True)
class Deadvertise:
    """Objects that are no longer there: withdrawn, or gone with their agent."""

    object_ids: Sequence[str]

    def __post_init__(self) -> None:
        require_strings(self.object_ids, "objectIds")
        for object_id in self.object_ids:
            require_uuid(object_id, "objectIds member")


@dataclass(frozen=True, slots=True)
class Channel:
    """One object or several, for observers of the channel."""

    object: CoatyObject | None = None
    objects: Sequence[CoatyObject] | None = None
    private_data: JsonObject | None = None

    def __post_init__(self) -> None:
        if (self.object is None) == (self.objects is None):
            raise UsageError("Channel carries either object or objects")
        if self.object is not None:
            require_object(self.object, "object")
        if self.objects is not None:
            require_objects(self.objects, "objects")
        require_private_data(self.private_data)


@dataclass(frozen=True, slots=True)
class Associate:
    """An IO source is to feed an IO actor over a route; without a route, it is to stop."""

    io_source_id: str
    io_actor_id: str
    associating_route: str | None = None
    update_rate: float | None = None  # milliseconds between two values

    def __post_init__(self) -> None:
        require_uuid(self.io_source_id, "ioSourceId")
        require_uuid(self.io_actor_id, "ioActorId")
        if self.associating_route is not None:
            require_strings([self.associating_route], "associatingRoute")
            require_io_route(self.associating_route)
        if self.update_rate is not None and not is_number(self.update_rate):
            raise UsageError("updateRate is not a number", got=shown(self.update_rate))


@dataclass(frozen=True, slots=True)
class IoValue:
    """A value of an IO source: JSON, or bytes if the source is configured for raw values."""

    value: Json | bytes


def require_published_object(value: CoatyObject) -> None:
    """An object whose object type becomes part of a topic."""
    require_object(value, "object")
    require_filter(value["objectType"], "objectType")


def require_private_data(value: JsonObject | None) -> None:
    if value is not None and not isinstance(value, dict):
        raise UsageError("privateData is not a JSON object", got=shown(value))


def require_strings(value: object, what: str) -> None:
    """A list of non-empty strings."""
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) and item for item in value):
        raise UsageError(f"{what} is not a list of non-empty strings", got=shown(value))
