"""Event data in its envelope: vectors in both directions, what is refused, and where events are published."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft.wire.coaty as coaty
from tests.wire.coaty.samples import AGENT, CORRELATION, json_values, motor, uuid, vectors
from tests.wire.coaty.test_objects import changed
from weft.errors import UsageError
from weft.limits import COATY_PAYLOAD_BYTES_MAX, COATY_RECEIVED_BYTES_MAX
from weft.wire.coaty import (
    Advertise,
    Associate,
    BadCoatyMessage,
    Call,
    CallError,
    Channel,
    Complete,
    ContextFilter,
    Deadvertise,
    Discover,
    EventType,
    IoValue,
    JoinCondition,
    Message,
    ObjectFilter,
    Query,
    Resolve,
    Retrieve,
    Return,
    Topic,
    Update,
    decode_event_untrusted,
    decode_external_io_value_untrusted,
    decode_payload_untrusted,
    encode_payload,
    observed_filter,
    parse_topic_untrusted,
    response_problem,
    topics_of,
    type_filters,
)
from weft.wire.coaty.filters import Combine, Condition, Operator, Order, OrderBy
from weft.wire.coaty.two_way import COATY_TYPES_MAX

WIRE = vectors("wire.json")
CAPTURE = vectors("js_capture.json")
VALIDITY = vectors("validity.json")


def meaning(vector: dict[str, Any]) -> Message:
    """The message that a vector describes."""
    fields = dict(vector["fields"])
    if "object_filter" in fields:
        fields["object_filter"] = ObjectFilter(**filter_fields(fields["object_filter"]))
    if "filter" in fields:
        fields["filter"] = ContextFilter(**filter_fields(fields["filter"]))
    if "object_join_conditions" in fields:
        fields["object_join_conditions"] = tuple(JoinCondition(*args) for args in fields["object_join_conditions"])
    if "error" in fields:
        fields["error"] = CallError(*fields["error"])
    return Message(WIRE["source_id"], getattr(coaty, vector["type"])(**fields), vector["correlation_id"])


def filter_fields(described: dict[str, Any]) -> dict[str, Any]:
    fields = dict(described)
    fields["conditions"] = tuple(
        Condition(tuple(path), Operator[operator], tuple(operands)) for path, operator, operands in fields["conditions"]
    )
    if "combine" in fields:
        fields["combine"] = Combine(fields["combine"])
    if "order_by" in fields:
        fields["order_by"] = tuple(OrderBy(tuple(path), Order(order)) for path, order in fields["order_by"])
    return fields


@pytest.mark.req("COA-05")
@pytest.mark.parametrize("vector", WIRE["messages"], ids=lambda vector: vector["type"])
def test_vectors_both_ways(vector: dict[str, Any]) -> None:
    payload = bytes.fromhex(vector["hex"])
    assert payload == vector["text"].encode()
    assert decode_payload_untrusted(EventType(vector["event"]), payload) == meaning(vector)
    assert encode_payload(meaning(vector)) == payload


@pytest.mark.req("COA-03")
@pytest.mark.parametrize("vector", WIRE["messages"], ids=lambda vector: vector["type"])
def test_where_vectors_are_published(vector: dict[str, Any]) -> None:
    topics = topics_of(WIRE["namespace"], meaning(vector), vector.get("name"))
    assert [str(topic) for topic in topics] == vector["topics"]
    for topic in topics:
        assert decode_event_untrusted(topic, bytes.fromhex(vector["hex"])) == meaning(vector)


def test_every_event_type_has_a_vector() -> None:
    assert {vector["event"] for vector in WIRE["messages"]} == set(EventType)


@pytest.mark.req("COA-05")
@pytest.mark.parametrize(
    "event", [event for event in CAPTURE["events"] if event["event"] != "Raw"], ids=lambda event: event["event"]
)
def test_payloads_of_the_reference(event: dict[str, Any]) -> None:
    payload = bytes.fromhex(event["payload"])
    message = decode_event_untrusted(parse_topic_untrusted(event["topic"]), payload)
    written = encode_payload(message)
    assert json.loads(written) == json.loads(payload)
    if b'"take"' not in payload:  # there the application chose an order of members that we do not keep
        assert written == payload


@pytest.mark.req("COA-05", "COA-06")
@pytest.mark.parametrize("number", range(len(VALIDITY["unchanged"])))
def test_the_reference_accepts_the_same_data(number: int) -> None:
    sample = VALIDITY["unchanged"][number]
    event = EventType(sample["event"])
    assert accepts(event, sample["data"]) == sample["reference"]
    for change in VALIDITY["events"]:
        if change["sample"] == number:
            assert accepts(event, changed(sample["data"], change)) == change.get("ours", change["reference"]), change


def accepts(event: EventType, data: Any) -> bool:
    try:
        decode_payload_untrusted(event, envelope(event, data))
    except BadCoatyMessage:
        return False
    return True


def envelope(event: EventType, data: Any) -> bytes:
    members = {"sourceId": AGENT, "data": data}
    if event.is_two_way:
        members["correlationId"] = CORRELATION
    return json.dumps(members).encode()


def payload(**members: Any) -> bytes:
    return json.dumps({"sourceId": AGENT, "data": {"objectIds": []}} | members).encode()


@pytest.mark.req("COA-05", "COA-06")
@pytest.mark.parametrize(
    ("event", "text", "complaint"),
    [
        ("DAD", b"[]", "payload is not a JSON object"),
        ("DAD", b'"\xff"', "payload is not UTF-8"),
        ("DAD", b"{" * 65, "nested too deep"),
        ("DAD", b" " * (COATY_RECEIVED_BYTES_MAX + 1), "payload is too long"),
        ("DAD", b'{"data":{"objectIds":[]}}', "sourceId is missing"),
        ("DAD", b'{"sourceId":"%s"}' % AGENT.encode(), "data is missing"),
        ("DAD", payload(sourceId=None), "sourceId is not a lower-case UUID"),
        ("DAD", payload(sourceId=AGENT.upper()), "sourceId is not a lower-case UUID"),
        ("DAD", payload(sourceId=5), "sourceId is not a lower-case UUID"),
        ("DAD", payload(data=None), "data is not a JSON object"),
        ("DAD", payload(data=[]), "data is not a JSON object"),
        ("DAD", payload(data={}), "objectIds is missing"),
        ("DAD", payload(data={"objectIds": None}), "objectIds is null"),
        ("DAD", payload(correlationId=CORRELATION), "one-way events carry no correlation id"),
        ("DAD", payload(correlationId=None), "correlationId is null"),
        ("DSC", payload(data={"objectId": uuid(1)}), "correlationId is not a lower-case UUID"),
        ("DSC", payload(data={"objectId": uuid(1)}, correlationId="x"), "correlationId is not a lower-case UUID"),
        ("RTN", payload(data={"result": 1}), "correlationId is not a lower-case UUID"),
        ("ADV", payload(data={"object": motor(name=None)}), r"object: Expected `str`, got `null` - at `\$.name`"),
        ("ADV", payload(data={"object": motor(), "privateData": None}), "privateData is null"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_refused(event: str, text: bytes, complaint: str) -> None:
    with pytest.raises(BadCoatyMessage, match=complaint):
        decode_payload_untrusted(EventType(event), text)


@pytest.mark.req("COA-03", "COA-05")
def test_topic_and_payload_must_agree() -> None:
    answer = encode_payload(Message(AGENT, Return(result=1), CORRELATION))
    assert decode_event_untrusted(Topic("a", EventType.RETURN, correlation_id=CORRELATION), answer).data == Return(1)
    with pytest.raises(BadCoatyMessage, match="correlation ids of topic and payload differ"):
        decode_event_untrusted(Topic("a", EventType.RETURN, correlation_id=uuid(7)), answer)


@pytest.mark.req("COA-05")
def test_unknown_members_are_left_aside() -> None:
    text = payload(data={"objectIds": [uuid(1)], "future": {}}, future=None)
    assert decode_payload_untrusted(EventType.DEADVERTISE, text) == Message(AGENT, Deadvertise([uuid(1)]))


@pytest.mark.req("COA-05")
def test_raw_io_values_have_no_envelope() -> None:
    assert encode_payload(Message(AGENT, IoValue(b"\x00\xff"))) == b"\x00\xff"
    assert decode_external_io_value_untrusted(b'{"celsius":21.5}') == IoValue({"celsius": 21.5})
    with pytest.raises(BadCoatyMessage, match="IO value is not JSON"):
        decode_external_io_value_untrusted(b"\x00")
    with pytest.raises(UsageError, match="too long"):
        encode_payload(Message(AGENT, IoValue(bytes(COATY_PAYLOAD_BYTES_MAX + 1))))


@pytest.mark.req("COA-05")
@given(json_values)
def test_any_json_can_be_an_io_value(value: Any) -> None:
    message = Message(AGENT, IoValue(value))
    assert decode_payload_untrusted(EventType.IO_VALUE, encode_payload(message)) == message


@pytest.mark.req("COA-05", "COA-06")
@pytest.mark.parametrize(
    "build",
    [
        lambda: Message("no uuid", Deadvertise([])),
        lambda: Message(AGENT, Deadvertise([]), CORRELATION),
        lambda: Message(AGENT, Return(1)),
        lambda: Deadvertise(["x"]),
        Channel,
        lambda: Channel(motor(), [motor()]),
        lambda: Associate(uuid(1), uuid(2), ""),
        lambda: Associate(uuid(1), uuid(2), "coaty/1/a/DAD"),
        lambda: Associate(uuid(1), uuid(2), "coaty/1/a/IOV/"),
        Discover,
        lambda: Discover(object_types=["a"], core_types=["Task"]),
        lambda: Query(core_types=["Robot"]),
        lambda: Query(core_types=["Task"] * (COATY_TYPES_MAX + 1)),
        lambda: Discover(object_types=["a"] * (COATY_TYPES_MAX + 1)),
        Return,
        lambda: Return(1, CallError(1, "m")),
        lambda: Call(parameters="x"),
        lambda: Advertise(motor(objectType="a/b")),
        lambda: encode_payload(Message(AGENT, Advertise(motor(speed=float("nan"))))),
        lambda: encode_payload(Message(AGENT, Channel(motor(blob="x" * COATY_PAYLOAD_BYTES_MAX)))),
        lambda: topics_of("a", Message(AGENT, Advertise(motor())), "Task"),
        lambda: topics_of("a", Message(AGENT, Channel(motor()))),
        lambda: topics_of("a", Message(AGENT, Deadvertise([])), "x"),
    ],
)
def test_mistakes_of_our_caller(build: Any) -> None:
    with pytest.raises(UsageError):
        build()


@pytest.mark.req("COA-03")
def test_type_filters() -> None:
    assert type_filters(motor()) == ["CoatyObject", ":com.example.Motor"]
    assert type_filters(motor(objectType="coaty.CoatyObject")) == ["CoatyObject"]
    assert type_filters(motor(objectType="coaty.Task")) == ["CoatyObject", ":coaty.Task"]


@pytest.mark.req("COA-03")
@pytest.mark.parametrize(
    ("object_type", "observed"),
    [
        ("com.example.Motor", ":com.example.Motor"),
        ("coaty.Task", "Task"),
        ("coaty.Robot", ":coaty.Robot"),
        ("Task", ":Task"),
    ],
)
def test_observed_filters(object_type: str, observed: str) -> None:
    assert observed_filter(object_type) == observed


FITTING: list[tuple[Any, Any, bool]] = [
    (Discover(object_id=uuid(1)), Resolve(motor()), True),
    (Discover(object_id=uuid(2)), Resolve(motor()), False),
    (Discover(object_id=uuid(2)), Resolve(related_objects=[motor()]), True),
    (Discover(external_id="e"), Resolve(motor(externalId="e")), True),
    (Discover(external_id="e"), Resolve(motor()), False),
    (Discover(core_types=["Task"]), Resolve(motor()), False),
    (Discover(object_types=["com.example.Motor"]), Resolve(motor()), True),
    (Query(core_types=["CoatyObject"]), Retrieve([motor(), motor()]), True),
    (Query(core_types=["CoatyObject"]), Retrieve([]), True),
    (Query(object_types=["x"]), Retrieve([motor()]), False),
    (Update(motor()), Complete(motor(name="new")), True),
    (Update(motor()), Complete(motor(objectId=uuid(2))), False),
    (Call(), Return(None), True),
    (Call(), Resolve(motor()), False),
    (Update(motor()), Return(1), False),
    (Query(core_types=["CoatyObject"]), Resolve(motor()), False),
]


@pytest.mark.req("COA-05")
@pytest.mark.parametrize(("request_data", "response", "fits"), FITTING)
def test_answers_fit_their_questions(request_data: Any, response: Any, fits: bool) -> None:
    assert (response_problem(request_data, response) is None) == fits


@pytest.mark.req("COA-05")
@settings(max_examples=200)
@given(st.sampled_from(list(EventType)), st.binary(max_size=40) | json_values.map(lambda v: json.dumps(v).encode()))
def test_any_bytes_are_a_message_or_refused(event: EventType, text: bytes) -> None:
    try:
        message = decode_payload_untrusted(event, text)
    except BadCoatyMessage:
        return
    assert decode_payload_untrusted(event, encode_payload(message)) == message


@pytest.mark.req("COA-05")
@settings(max_examples=200)
@given(st.sampled_from(WIRE["messages"]), st.sampled_from(["to", "gone"]), st.integers(0, 50), json_values)
def test_any_change_of_a_member_is_a_message_or_refused(
    vector: dict[str, Any], kind: str, position: int, value: Any
) -> None:
    members = json.loads(vector["text"])
    if not isinstance(members["data"], dict):
        return
    names = list(members["data"])
    change = {"at": f"data.{names[position % len(names)]}"} | ({"to": value} if kind == "to" else {})
    event = EventType(vector["event"])
    try:
        message = decode_payload_untrusted(event, json.dumps(changed(members, change)).encode())
    except BadCoatyMessage:
        return
    assert decode_payload_untrusted(event, encode_payload(message)) == message
