"""Messages: event data in its envelope ``{sourceId, correlationId?, data}``, as bytes and back (COA-05)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Final, TypeAlias

from msgspec import UNSET

from weft.errors import UsageError
from weft.limits import COATY_PAYLOAD_BYTES_MAX, COATY_RECEIVED_BYTES_MAX
from weft.wire.coaty.errors import BadCoatyMessage, blaming_peer
from weft.wire.coaty.filters import ContextFilter, ObjectFilter, read_context_filter, read_object_filter
from weft.wire.coaty.joins import JoinCondition, read_join_conditions
from weft.wire.coaty.jsonvalues import Json, JsonObject, decode_json_untrusted, encode_json
from weft.wire.coaty.names import require_uuid, shown
from weft.wire.coaty.objects import CORE_TYPES, OBJECT_TYPE_PREFIX, CoatyObject
from weft.wire.coaty.one_way import Advertise, Associate, Channel, Deadvertise, IoValue
from weft.wire.coaty.topics import EventType, Topic
from weft.wire.coaty.two_way import (
    Call,
    CallError,
    Complete,
    Discover,
    Query,
    Resolve,
    Retrieve,
    Return,
    Update,
)

EventData: TypeAlias = (
    Advertise
    | Deadvertise
    | Channel
    | Associate
    | IoValue
    | Discover
    | Resolve
    | Query
    | Retrieve
    | Update
    | Complete
    | Call
    | Return
)

DATA_TYPES: Final[Mapping[EventType, type[EventData]]] = {
    EventType.ADVERTISE: Advertise,
    EventType.DEADVERTISE: Deadvertise,
    EventType.CHANNEL: Channel,
    EventType.ASSOCIATE: Associate,
    EventType.IO_VALUE: IoValue,
    EventType.DISCOVER: Discover,
    EventType.RESOLVE: Resolve,
    EventType.QUERY: Query,
    EventType.RETRIEVE: Retrieve,
    EventType.UPDATE: Update,
    EventType.COMPLETE: Complete,
    EventType.CALL: Call,
    EventType.RETURN: Return,
}

_EVENT_TYPES: Final = {data_type: event for event, data_type in DATA_TYPES.items()}


def event_type_of(data: EventData) -> EventType:
    return _EVENT_TYPES[type(data)]


@dataclass(frozen=True, slots=True)
class Message:
    """An event: its sender, its content, and for two-way events the id that links answers to their question."""

    source_id: str
    data: EventData
    correlation_id: str | None = None

    def __post_init__(self) -> None:
        require_uuid(self.source_id, "sourceId")
        if self.event.is_two_way:
            require_uuid(self.correlation_id, "correlationId")
        elif self.correlation_id is not None:
            raise UsageError("one-way events carry no correlation id", event=self.event)

    @property
    def event(self) -> EventType:
        return event_type_of(self.data)


def encode_payload(message: Message) -> bytes:
    """What is published for a message; for a raw IO value, just its bytes."""
    if isinstance(message.data, IoValue) and isinstance(message.data.value, bytes):
        if len(message.data.value) > COATY_PAYLOAD_BYTES_MAX:
            raise UsageError("raw IO value is too long", limit=COATY_PAYLOAD_BYTES_MAX)
        return message.data.value
    envelope: JsonObject = {"sourceId": message.source_id}
    if message.correlation_id is not None:
        envelope["correlationId"] = message.correlation_id
    envelope["data"] = _write_data(message.data)
    return encode_json(envelope, "payload", COATY_PAYLOAD_BYTES_MAX)


def decode_payload_untrusted(event: EventType, payload: bytes) -> Message:
    """A message of a known event type; raise only BadCoatyMessage.

    Not for raw IO values: there the payload itself is the value, and subscribers know that.
    """
    envelope = decode_json_untrusted(payload, "payload", COATY_RECEIVED_BYTES_MAX)
    if not isinstance(envelope, dict):
        raise BadCoatyMessage("payload is not a JSON object", got=shown(envelope))
    for name in ("sourceId", "data"):
        if name not in envelope:
            raise BadCoatyMessage(f"{name} is missing")
    if "correlationId" in envelope and envelope["correlationId"] is None:
        raise BadCoatyMessage("correlationId is null")
    with blaming_peer():
        return Message(envelope["sourceId"], _read_data(event, envelope["data"]), envelope.get("correlationId"))


def decode_event_untrusted(topic: Topic, payload: bytes) -> Message:
    """A message that came on this topic, which must agree with it; raise only BadCoatyMessage."""
    message = decode_payload_untrusted(topic.event, payload)
    if topic.event.is_response and message.correlation_id != topic.correlation_id:
        raise BadCoatyMessage("correlation ids of topic and payload differ", topic=str(topic))
    return message


def decode_external_io_value_untrusted(payload: bytes) -> IoValue:
    """A JSON value on an external IO route, where no envelope is around it; raise only BadCoatyMessage."""
    return IoValue(decode_json_untrusted(payload, "IO value", COATY_RECEIVED_BYTES_MAX))


def topics_of(namespace: str, message: Message, name: str | None = None) -> list[Topic]:
    """Where a message is published. ``name`` is the channel, operation or IO context, where the event needs one.

    Advertise and Update are published for observers of the core type and for observers of the object type.
    """
    match message.data:
        case Advertise(object=published) | Update(object=published):
            if name is not None:
                raise UsageError("the object of this event says where it goes", event=message.event)
            return [Topic(namespace, message.event, type_filter) for type_filter in type_filters(published)]
        case _:
            correlation_id = message.correlation_id if message.event.is_response else None
            return [Topic(namespace, message.event, name, correlation_id)]


def type_filters(published: CoatyObject) -> list[str]:
    """Filters under which an object is advertised or updated: its core type, and its object type if that says more."""
    core_type, object_type = published["coreType"], published["objectType"]
    if object_type == OBJECT_TYPE_PREFIX + core_type:
        return [core_type]
    return [core_type, ":" + object_type]


def observed_filter(object_type: str) -> str:
    """The filter for observing Advertise or Update events of an object type.

    One that is a mere core type has no filter of its own; of the objects under its core type, some are of other types.
    """
    core_type = object_type.removeprefix(OBJECT_TYPE_PREFIX)
    return core_type if core_type != object_type and core_type in CORE_TYPES else ":" + object_type


def _write_data(data: EventData) -> Json:
    """Members in the order of the fields, which is the reference's, so that equal events are equal bytes."""
    if isinstance(data, IoValue):
        return data.value
    members = {}
    for name, member, _ in _MEMBERS[type(data)]:
        value = getattr(data, name)
        if value is not None and name in _WRITERS:
            value = _WRITERS[name](value)
        if value is not UNSET and (value is not None or name in _NULLABLE):
            members[member] = value
    return members


def _read_data(event: EventType, data: Json) -> EventData:
    data_type = DATA_TYPES[event]
    if data_type is IoValue:
        return IoValue(data)
    if not isinstance(data, dict):
        raise UsageError("data is not a JSON object", got=shown(data))
    values: dict[str, Any] = {}
    for name, member, is_required in _MEMBERS[data_type]:
        if member not in data:
            if is_required:
                raise UsageError(f"{member} is missing", event=event)
            continue
        value = data[member]
        if value is None and name not in _NULLABLE:
            raise UsageError(f"{member} is null", event=event)
        values[name] = _READERS[name](value) if name in _READERS else value
    return data_type(**values)


def _read_call_error(value: Json) -> CallError:
    match value:
        case {"code": code, "message": message}:
            return CallError(code, message)
        case _:
            raise UsageError("error lacks code or message", got=shown(value))


def _write_call_error(error: CallError) -> Json:
    return {"code": error.code, "message": error.message}


def _write_join_conditions(conditions: tuple[JoinCondition, ...]) -> Json:
    return [condition.to_json() for condition in conditions] or None


_NULLABLE: Final = frozenset({"result", "execution_info"})  # where null is a value like any other

_READERS: Final[Mapping[str, Callable[[Json], Any]]] = {
    "object_filter": read_object_filter,
    "object_join_conditions": read_join_conditions,
    "filter": read_context_filter,
    "error": _read_call_error,
}

_WRITERS: Final[Mapping[str, Callable[[Any], Json]]] = {
    "object_filter": ObjectFilter.to_json,
    "object_join_conditions": _write_join_conditions,
    "filter": ContextFilter.to_json,
    "error": _write_call_error,
}


def _members(data_type: type[EventData]) -> list[tuple[str, str, bool]]:
    """Field name, JSON member, and whether it must be there, of each field of a data type."""
    members = []
    for field in fields(data_type):
        first, *others = field.name.split("_")
        members.append((field.name, first + "".join(map(str.title, others)), field.default is MISSING))
    return members


_MEMBERS: Final = {data_type: _members(data_type) for data_type in DATA_TYPES.values()}
