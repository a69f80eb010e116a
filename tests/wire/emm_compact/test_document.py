"""Documents give back the same bytes, and say what is wrong with them."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.emm_compact.packets import DATAGRAMS, VECTORS, datagrams, mutated
from weft.errors import UsageError
from weft.wire.emm_compact import from_document, to_document_untrusted
from weft.wire.reject import BadPacket

DOCUMENTS: dict[str, Any] = {vector["name"]: vector["document"] for vector in VECTORS["vectors"]}


@given(datagrams())
@settings(max_examples=300)
@pytest.mark.req("EMC-10")
def test_documents_are_exact_inverses(data: bytes) -> None:
    document = to_document_untrusted(data)
    assert from_document(document) == data
    through_json = msgspec.json.decode(msgspec.json.encode(document))
    assert from_document(through_json) == data


@given(mutated())
@settings(max_examples=200)
def test_damaged_packets_have_no_document(data: bytes) -> None:
    try:
        document = to_document_untrusted(data)
    except BadPacket:
        return
    assert from_document(document) == data


def set_at(path: str, value: object) -> Any:
    """How to change the place ``a.1.b`` of a document; a value of ... removes it."""

    def change(document: Any) -> None:
        *parents, last = path.split(".")
        for step in parents:
            document = document[int(step) if step.isdigit() else step]
        if value is ...:
            del document[last]
        else:
            document[int(last) if last.isdigit() else last] = value

    return change


@pytest.mark.parametrize(
    ("name", "path", "value", "words"),
    [
        ("notification-text", "protocol", "emm", "protocol must be 'emm-c'"),
        ("notification-text", "urgent", ..., "document lacks 'urgent'"),
        ("notification-text", "colour", "red", "document has an unknown key 'colour'"),
        ("notification-text", "type", "note", "type must be one of notification, command, heartbeat, join"),
        ("notification-text", "event_id", 65536, "event_id does not fit"),
        ("notification-text", "epoch", "1", "epoch must be int"),
        ("notification-text", "offset", True, "offset must be int"),
        ("notification-text", "urgent", 1, "urgent must be bool"),
        ("notification-text", "signature", "0g", "signature is not hexadecimal"),
        ("notification-text", "signature", "00", "signature has the wrong size"),
        ("notification-text", "body", [], "body must be dict"),
        ("notification-text", "body.priority", "loud", "body.priority must be one of trace"),
        ("notification-text", "body.format", 0x21, "body.format must be str"),
        ("notification-text", "body.message", "hello", "body.message must be dict"),
        ("notification-text", "body.message", {}, "body.message lacks 'text'"),
        ("notification-text", "body.message", {"hex": "00", "text": ""}, "body.message has an unknown key 'text'"),
        ("notification-text", "body.message", {"text": "\ud800"}, "body.message.text cannot be written as UTF-8"),
        ("notification-text", "body.message", {"text": "\x1f"}, "control character"),
        ("notification-text", "body.message", {"text": "x" * 220}, "payload is too long"),
        ("command-node-id", "body.fields", {}, "body.fields must be list"),
        ("command-node-id", "body.fields.1", 5, r"body.fields\[1\] must be dict"),
        ("command-node-id", "body.fields.1.field", "colour", r"body.fields\[1\].field is neither"),
        ("command-node-id", "body.fields.1.field", "0x100", r"body.fields\[1\].field is neither"),
        ("command-node-id", "body.fields.1.field", "0xzz", r"body.fields\[1\].field is neither"),
        ("command-node-id", "body.fields.1.field", "status", "required field is missing.*command-parameters"),
        ("command-node-id", "body.fields.0.value", "x" * 256, r"body.fields\[0\] is too long"),
        ("command-node-id", "body.fields.2.value", "no uuid", r"body.fields\[2\] \(node-id\) is not a UUID"),
        ("command-every-field", "body.fields.2.value", "utf-9", r"\(payload-encoding\) must be one of raw"),
        ("command-every-field", "body.fields.7.value", 32, r"\(compression-level\) is out of range"),
        ("command-every-field", "body.fields.9.value", "cafebabe", "wrong size.*replay-nonce-short"),
        ("heartbeat", "body.fields.1.value", 1 << 32, r"\(uptime\) is out of range"),
        ("heartbeat", "body.fields.3.value.ecn", "no", r"\(rate-signal\).ecn must be one of not-ect"),
        ("heartbeat", "body.fields.3.value.sent", 128, "sent is out of range"),
        ("heartbeat", "body.fields.4.value.hops", 32, "hops is out of range"),
        ("heartbeat", "body.fields.4.value.origin", "00", "origin fingerprint"),
        ("heartbeat-any-order", "body.fields.2.value.1.value", 256, r"\(topology-hint\)\[1\] is out of range"),
        ("heartbeat-any-order", "body.fields.2.value.0.value", "x", r"\(topology-hint\)\[0\] must be list"),
        ("heartbeat-any-order", "body.fields.2.value.3.field", "colour", r"\(topology-hint\)\[3\].field is neither"),
        ("join", "body.fields.1.value", ["notification", "dance"], r"\(supported-types\) must be one of"),
        ("join", "body.fields.1.value", "notification", r"\(supported-types\) must be list"),
    ],
)
def test_wrong_documents_name_the_field(name: str, path: str, value: object, words: str) -> None:
    document = copy.deepcopy(DOCUMENTS[name])
    set_at(path, value)(document)
    with pytest.raises(UsageError, match=words):
        from_document(document)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
ANYTHING = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner))


@given(st.sampled_from(sorted(DOCUMENTS)), st.data())
@settings(max_examples=200)
def test_any_other_value_anywhere_is_taken_or_named(name: str, data: st.DataObject) -> None:
    document = copy.deepcopy(DOCUMENTS[name])
    place = document
    while True:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        if not place[key] or isinstance(place[key], str | int) or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(ANYTHING)
    with suppress(UsageError):
        assert to_document_untrusted(from_document(document))


def test_a_document_is_an_object() -> None:
    with pytest.raises(UsageError, match="document must be dict"):
        from_document([])  # type: ignore[arg-type]


def test_a_known_field_may_be_given_by_number() -> None:
    document = copy.deepcopy(DOCUMENTS["command-node-id"])
    document["body"]["fields"][2] = {"field": "0xa9", "value": VECTORS["node_id"]}
    assert from_document(document) == DATAGRAMS["command-node-id"]
