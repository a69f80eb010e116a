"""Types of events, and topics: ``coaty/1/<namespace>/<event><filter>[/<correlation id>]``, and raw topics beside them
(COA-03, COA-05)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from weft.errors import UsageError
from weft.limits import FLOODSUB_TOPIC_BYTES_MAX
from weft.wire.coaty.errors import blaming_peer
from weft.wire.coaty.names import FORBIDDEN_CHARACTERS, is_unicode, require_namespace, require_uuid, shown

COATY_TOPIC_BYTES_MAX: Final = FLOODSUB_TOPIC_BYTES_MAX
PROTOCOL_PREFIX: Final = "coaty/"
VERSION: Final = "1"


class EventType(StrEnum):
    """An event type; the value is its code in a topic."""

    ADVERTISE = "ADV"
    DEADVERTISE = "DAD"
    CHANNEL = "CHN"
    ASSOCIATE = "ASC"
    IO_VALUE = "IOV"
    DISCOVER = "DSC"
    RESOLVE = "RSV"
    QUERY = "QRY"
    RETRIEVE = "RTV"
    UPDATE = "UPD"
    COMPLETE = "CPL"
    CALL = "CLL"
    RETURN = "RTN"

    @property
    def has_filter(self) -> bool:
        """Whether the topic names a type, channel, operation or IO context behind the code."""
        return self in FILTERED

    @property
    def is_request(self) -> bool:
        return self in RESPONSE_TO

    @property
    def is_response(self) -> bool:
        return self in REQUEST_OF

    @property
    def is_two_way(self) -> bool:
        """Whether events of this type carry a correlation id."""
        return self.is_request or self.is_response


FILTERED: Final = frozenset(
    {EventType.ADVERTISE, EventType.CHANNEL, EventType.ASSOCIATE, EventType.UPDATE, EventType.CALL}
)

RESPONSE_TO: Final = {
    EventType.DISCOVER: EventType.RESOLVE,
    EventType.QUERY: EventType.RETRIEVE,
    EventType.UPDATE: EventType.COMPLETE,
    EventType.CALL: EventType.RETURN,
}

REQUEST_OF: Final = {response: request for request, response in RESPONSE_TO.items()}

_CODE_CHARS = 3
_CODES = frozenset(EventType)


@dataclass(frozen=True, slots=True)
class Topic:
    """Where an event is published. ``filter`` and ``correlation_id`` are there exactly if the event type has them."""

    namespace: str
    event: EventType
    filter: str | None = None
    correlation_id: str | None = None

    def __post_init__(self) -> None:
        require_namespace(self.namespace)
        if self.event.has_filter:
            require_filter(self.filter, f"filter of {self.event}")
        elif self.filter is not None:
            raise UsageError("topics of this event have no filter", event=self.event, filter=shown(self.filter))
        if self.event.is_response:
            require_uuid(self.correlation_id, "correlation id")
        elif self.correlation_id is not None:
            raise UsageError("only topics of responses carry a correlation id", event=self.event)
        if len(str(self).encode()) > COATY_TOPIC_BYTES_MAX:
            raise UsageError("topic is too long", limit=COATY_TOPIC_BYTES_MAX)

    def __str__(self) -> str:
        topic = f"{PROTOCOL_PREFIX}{VERSION}/{self.namespace}/{self.event}{self.filter or ''}"
        return f"{topic}/{self.correlation_id}" if self.correlation_id else topic


def parse_topic_untrusted(text: str) -> Topic:
    """A Coaty topic taken apart; raise only BadCoatyMessage."""
    with blaming_peer():
        return _parse(text)


def _parse(text: str) -> Topic:
    if len(text) > COATY_TOPIC_BYTES_MAX:
        raise UsageError("topic is too long", limit=COATY_TOPIC_BYTES_MAX)
    match text.split("/"):
        case ["coaty", version, namespace, event, *rest] if len(rest) <= 1:
            pass
        case _:
            raise UsageError("topic is not coaty/<version>/<namespace>/<event>", topic=shown(text))
    if version != VERSION:
        raise UsageError("topic is of another protocol version", version=shown(version), known=VERSION)
    code, event_filter = event[:_CODE_CHARS], event[_CODE_CHARS:]
    if code not in _CODES:
        raise UsageError("event type is unknown", event=shown(code))
    return Topic(namespace, EventType(code), event_filter or None, rest[0] if rest else None)


def in_namespace(topic: str, namespace: str) -> bool:
    """Whether a topic, valid or not, lies in a namespace: a peer that subscribes to such a topic belongs to it."""
    return topic.startswith(f"{PROTOCOL_PREFIX}{VERSION}/{namespace}/")


def require_filter(text: str | None, what: str) -> None:
    """Refuse what cannot follow the event code: filters of types, channels, operations, IO contexts."""
    if not text:
        raise UsageError(f"{what} is missing or empty")
    if not FORBIDDEN_CHARACTERS.isdisjoint(text) or not is_unicode(text):
        raise UsageError(f"{what} contains NUL, #, +, / or half of a surrogate pair", got=shown(text))


def is_coaty_topic(text: str) -> bool:
    return text.startswith(PROTOCOL_PREFIX)


def require_raw_topic(text: str) -> None:
    """Refuse a topic that Raw events and external IO routes cannot use (COA-05)."""
    if not text:
        raise UsageError("raw topic is empty")
    if is_coaty_topic(text):
        raise UsageError("raw topics do not start with coaty/", topic=shown(text))
    if not is_unicode(text) or len(text.encode()) > COATY_TOPIC_BYTES_MAX:
        raise UsageError("raw topic is too long or not Unicode", topic=shown(text), limit=COATY_TOPIC_BYTES_MAX)


def require_io_route(text: str) -> None:
    """Refuse a route on which IO values cannot travel: they have a topic of their own, or an external one."""
    if not is_coaty_topic(text):
        require_raw_topic(text)
    elif _parse(text).event is not EventType.IO_VALUE:
        raise UsageError("IO route is a topic of other events", route=shown(text))
