"""The thirteen event types of Coaty, which of them have a filter in their topic, and which answer which (COA-03)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


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
