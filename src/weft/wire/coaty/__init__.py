"""Coaty: events between agents, their topics and payloads, object filters, and who is alive. No I/O.

Agents publish and observe **events** of thirteen types. Five are one-way: an object is advertised, deadvertised or put
on a channel; IO sources are associated with IO actors, and send them values. Eight come in pairs of question and
answer, tied by a correlation id: Discover and Resolve, Query and Retrieve, Update and Complete, Call and Return. Beside
them there are Raw events: any bytes on any topic that does not start with ``coaty/``.

What an event is about are **objects**: JSON objects (plain dicts here) with an id, a name, a core type and an object
type. A Query or a Call can carry a **filter** that says which objects, or which agents, are meant.

From values to the wire and back::

    message = Message(agent_id, Advertise({"objectId": ..., "coreType": "CoatyObject", ...}))
    payload = encode_payload(message)
    for topic in topics_of("plant", message):  # one for the core type, one for the object type
        publish(str(topic), payload)

    message = decode_event_untrusted(parse_topic_untrusted(topic), payload)

Values check themselves when they are made, and raise UsageError; whatever a peer sent wrong raises BadCoatyMessage.

- ``topics`` (with the types of events), ``namespaces``, ``identifiers``: the names.
- ``objects``, ``one_way``, ``two_way``, ``messages``: the values, and their JSON.
- ``filters``, ``matching`` (with ``text``), ``joins``: which objects a peer wants.
- ``liveliness``, ``liveliness_messages``: last wills, and when to carry them out. ``io_routes``: IO associations.

The document is ``coaty-libp2p.md``; where it is silent, npm's ``@coaty/core`` 2.4.1 is followed, and tests hold this
room against its answers (``tests/vectors/coaty``).
"""

from weft.wire.coaty.errors import BadCoatyMessage
from weft.wire.coaty.filters import (
    Combine,
    Condition,
    ContextFilter,
    ObjectFilter,
    Operator,
    Order,
    OrderBy,
    path_of,
    where,
)
from weft.wire.coaty.io_routes import IoEffect, IoRoutes, IoState, SubscribeRoute, UnsubscribeRoute
from weft.wire.coaty.joins import JoinCondition, join
from weft.wire.coaty.liveliness import CarryOut, Effect, Liveliness, Ping, Reply, Send
from weft.wire.coaty.liveliness_messages import (
    LIVELINESS_PROTOCOL,
    AnnounceDead,
    AnnounceLastWill,
    LastWill,
    LivelinessMessage,
    PingAlive,
    PingAliveAck,
    decode_liveliness_untrusted,
    encode_liveliness,
)
from weft.wire.coaty.matching import matches, select
from weft.wire.coaty.messages import (
    EventData,
    Message,
    decode_event_untrusted,
    decode_external_io_value_untrusted,
    decode_payload_untrusted,
    encode_payload,
    observed_filter,
    topics_of,
    type_filters,
)
from weft.wire.coaty.names import (
    DEFAULT_NAMESPACE,
    NamespaceProblem,
    check_namespace,
    fits_mdns,
    is_peer_id,
    is_uuid,
    mdns_service_name,
    require_namespace,
)
from weft.wire.coaty.objects import CoatyObject, CoreType, require_object
from weft.wire.coaty.one_way import Advertise, Associate, Channel, Deadvertise, IoValue
from weft.wire.coaty.topics import (
    FILTERED,
    REQUEST_OF,
    RESPONSE_TO,
    EventType,
    Topic,
    in_namespace,
    is_coaty_topic,
    parse_topic_untrusted,
    require_raw_topic,
)
from weft.wire.coaty.two_way import (
    EVERYTHING,
    INVALID_PARAMETERS,
    Call,
    CallError,
    Complete,
    Discover,
    Query,
    Request,
    Resolve,
    Response,
    Retrieve,
    Return,
    Update,
    response_problem,
)

__all__ = [
    "DEFAULT_NAMESPACE",
    "EVERYTHING",
    "FILTERED",
    "INVALID_PARAMETERS",
    "LIVELINESS_PROTOCOL",
    "REQUEST_OF",
    "RESPONSE_TO",
    "Advertise",
    "AnnounceDead",
    "AnnounceLastWill",
    "Associate",
    "BadCoatyMessage",
    "Call",
    "CallError",
    "CarryOut",
    "Channel",
    "CoatyObject",
    "Combine",
    "Complete",
    "Condition",
    "ContextFilter",
    "CoreType",
    "Deadvertise",
    "Discover",
    "Effect",
    "EventData",
    "EventType",
    "IoEffect",
    "IoRoutes",
    "IoState",
    "IoValue",
    "JoinCondition",
    "LastWill",
    "Liveliness",
    "LivelinessMessage",
    "Message",
    "NamespaceProblem",
    "ObjectFilter",
    "Operator",
    "Order",
    "OrderBy",
    "Ping",
    "PingAlive",
    "PingAliveAck",
    "Query",
    "Reply",
    "Request",
    "Resolve",
    "Response",
    "Retrieve",
    "Return",
    "Send",
    "SubscribeRoute",
    "Topic",
    "UnsubscribeRoute",
    "Update",
    "check_namespace",
    "decode_event_untrusted",
    "decode_external_io_value_untrusted",
    "decode_liveliness_untrusted",
    "decode_payload_untrusted",
    "encode_liveliness",
    "encode_payload",
    "fits_mdns",
    "in_namespace",
    "is_coaty_topic",
    "is_peer_id",
    "is_uuid",
    "join",
    "matches",
    "mdns_service_name",
    "observed_filter",
    "parse_topic_untrusted",
    "path_of",
    "require_namespace",
    "require_object",
    "require_raw_topic",
    "response_problem",
    "select",
    "topics_of",
    "type_filters",
    "where",
]
