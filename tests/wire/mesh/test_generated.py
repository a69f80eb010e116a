"""The generated code is current, and the four original messages are as the document has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor

from tools.proto import SOURCES, generate
from weft.wire.mesh import peerlink_pb2


def test_generated_code_is_current(tmp_path: Path) -> None:
    generate(tmp_path)
    made = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*_pb2.py*"))
    assert len(made) == 4
    for path in made:
        assert (SOURCES / path).read_text() == (tmp_path / path).read_text(), f"{path} is old: run `make proto`"


# The document's definition, typed off: message -> field -> (number, type, repeated)
STRING, INT32, INT64, BYTES, MESSAGE = (
    FieldDescriptor.TYPE_STRING,
    FieldDescriptor.TYPE_INT32,
    FieldDescriptor.TYPE_INT64,
    FieldDescriptor.TYPE_BYTES,
    FieldDescriptor.TYPE_MESSAGE,
)
DOCUMENT = {
    "PeerMessage": {
        "handshake": (1, MESSAGE, False),
        "event": (2, MESSAGE, False),
        "ack": (3, MESSAGE, False),
        "heartbeat": (4, MESSAGE, False),
    },
    "Handshake": {
        "node_id": (1, STRING, False),
        "protocol_version": (2, INT32, False),
        "features": (3, STRING, True),
    },
    "Event": {
        "topic": (1, STRING, False),
        "offset": (2, INT64, False),
        "payload": (3, BYTES, False),
        "headers": (4, MESSAGE, True),
    },
    "Ack": {"topic": (1, STRING, False), "offset": (2, INT64, False)},
    "Heartbeat": {"timestamp": (1, INT64, False)},
}


@pytest.mark.req("PL-05")
def test_the_documents_messages_are_unchanged() -> None:
    messages = peerlink_pb2.DESCRIPTOR.message_types_by_name
    for name, fields in DOCUMENT.items():
        for field_name, expected in fields.items():
            field = messages[name].fields_by_name[field_name]
            assert (field.number, field.type, field.is_repeated) == expected, f"{name}.{field_name}"
        own = [field.number for field in messages[name].fields if field.name not in fields]
        assert all(number >= 16 for number in own), f"{name}: our fields begin at 16"


@pytest.mark.req("PL-05")
def test_the_method_is_the_documents() -> None:
    assert peerlink_pb2.DESCRIPTOR.package == ""
    method = peerlink_pb2.DESCRIPTOR.services_by_name["PeerLink"].methods_by_name["EventStream"]
    assert method.full_name == "PeerLink.EventStream"
    assert (method.client_streaming, method.server_streaming) == (True, True)
    assert (method.input_type.full_name, method.output_type.full_name) == ("PeerMessage", "PeerMessage")


@pytest.mark.req("PL-05")
@pytest.mark.parametrize(
    ("hex_bytes", "kind", "values"),
    [
        # field 1 (message), 10 bytes: 1="node-a", 2=1
        ("0a 0a 0a06 6e6f64652d61 1001", "handshake", {"node_id": "node-a", "protocol_version": 1}),
        # field 2, 16 bytes: 1="t", 2=5, 3=ff, 4={"k": "v"}
        ("12 10 0a0174 1005 1a01ff 2206 0a016b 120176", "event", {"topic": "t", "offset": 5, "payload": b"\xff"}),
        ("1a 05 0a0174 1007", "ack", {"topic": "t", "offset": 7}),
        ("22 02 082a", "heartbeat", {"timestamp": 42}),
    ],
)
def test_bytes_encoded_by_hand(hex_bytes: str, kind: str, values: dict[str, object]) -> None:
    data = bytes.fromhex(hex_bytes.replace(" ", ""))
    message = peerlink_pb2.PeerMessage.FromString(data)
    assert message.WhichOneof("msg") == kind
    assert {name: getattr(getattr(message, kind), name) for name in values} == values
    assert message.SerializeToString() == data
