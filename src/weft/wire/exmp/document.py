"""EXMP messages as a JSON document, for tools, and back to bytes.

    {"protocol": "exmp", "messages": [{"type": "hello", "version": 1},
                                      {"type": "request", "id": 1, "data": {"op": "publish"}}]}

Turning bytes into a document and the document into bytes gives the same bytes, as long as unused bytes are zero.
Application data appears as ``data`` when writing that value as compact JSON gives the very same text, otherwise as
``data_text``, and as ``data_hex`` when it is not even UTF-8. A document may carry application data that no peer
accepts: tools want to send that, too.
"""

from __future__ import annotations

from typing import Any, Final, Literal, assert_never

import msgspec
from msgspec import UNSET, UnsetType

from weft.errors import UsageError
from weft.limits import EXMP_MESSAGE_BYTES_MAX
from weft.wire.exmp.codec import encode
from weft.wire.exmp.framing import frame, messages_untrusted
from weft.wire.exmp.json_text import decode_json_untrusted, is_too_deep
from weft.wire.exmp.messages import (
    BadMessage,
    Bye,
    Error,
    Hello,
    Message,
    Ping,
    Pong,
    Request,
    Response,
)


# The forms an entry of the document can have. The class name gives the value of the field "type".
class _Entry(msgspec.Struct, tag_field="type", tag=lambda name: name[1:].lower(), forbid_unknown_fields=True):
    pass


class _Hello(_Entry):
    version: int


class _Bye(_Entry):
    pass


class _Ping(_Entry):
    """``body_hex``: a ping should have none."""

    body_hex: str | UnsetType = UNSET


class _Pong(_Entry):
    pass


class _Error(_Entry):
    code: int
    description: str


class _Exchange(_Entry):
    """``data`` or one of its substitutes."""

    id: int
    data: Any = UNSET
    data_text: str | UnsetType = UNSET
    data_hex: str | UnsetType = UNSET


class _Request(_Exchange):
    pass


class _Response(_Exchange):
    pass


_AnyEntry = _Hello | _Bye | _Ping | _Pong | _Error | _Request | _Response


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    protocol: Literal["exmp"]
    messages: list[_AnyEntry]


_ANY_JSON: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()


def to_document_untrusted(data: bytes) -> dict[str, Any]:
    """The messages in ``data``, each with its length before it; raise only BadMessage."""
    entries = [_to_entry(message) for _, _, message in messages_untrusted(data, EXMP_MESSAGE_BYTES_MAX)]
    document: dict[str, Any] = msgspec.to_builtins(_Document("exmp", entries))
    return document


def _to_entry(message: Message) -> _AnyEntry:
    match message:
        case Hello(version):
            return _Hello(version)
        case Bye():
            return _Bye()
        case Ping(body):
            return _Ping(body.hex() or UNSET)
        case Pong():
            return _Pong()
        case Error(code, description):
            return _Error(code, description)
        case Request(request_id, text):
            return _Request(request_id, **_to_data_field(text))
        case Response(request_id, text):
            return _Response(request_id, **_to_data_field(text))
        case _:
            assert_never(message)


def _to_data_field(text: bytes) -> dict[str, Any]:
    try:
        value = decode_json_untrusted(_ANY_JSON, text)
        if not is_too_deep(text, value) and msgspec.json.encode(value) == text:
            return {"data": value}
    except BadMessage:
        pass  # the text is shown as it is
    try:
        return {"data_text": text.decode()}
    except UnicodeDecodeError:
        return {"data_hex": text.hex()}


def from_document(document: dict[str, Any]) -> bytes:
    """The bytes that the document describes; UsageError names the field that is wrong."""
    try:
        entries = msgspec.convert(document, _Document).messages
    except msgspec.ValidationError as error:
        raise UsageError(f"not an EXMP document: {error}") from error
    frames: list[bytes] = []
    for index, entry in enumerate(entries):
        try:
            frames.append(frame(encode(_from_entry(entry)), EXMP_MESSAGE_BYTES_MAX))
        except UsageError as error:
            raise UsageError(f"messages[{index}]: {error.what}", **error.facts) from error
    return b"".join(frames)


def _from_entry(entry: _AnyEntry) -> Message:
    match entry:
        case _Hello():
            return Hello(entry.version)
        case _Bye():
            return Bye()
        case _Ping():
            return Ping(_from_hex(entry.body_hex))
        case _Pong():
            return Pong()
        case _Error():
            return Error(entry.code, entry.description)
        case _Request():
            return Request(entry.id, _from_data_field(entry))
        case _Response():
            return Response(entry.id, _from_data_field(entry))
        case _:
            assert_never(entry)


def _from_hex(text: str | UnsetType) -> bytes:
    if text is UNSET:
        return b""
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise UsageError(f"body_hex cannot be written: {error}") from error


def _from_data_field(entry: _Exchange) -> bytes:
    given = [name for name in ("data", "data_text", "data_hex") if getattr(entry, name) is not UNSET]
    if len(given) != 1:
        raise UsageError("exactly one of data, data_text and data_hex is needed", given=", ".join(given) or "none")
    try:
        if entry.data_text is not UNSET:
            return entry.data_text.encode()
        if entry.data_hex is not UNSET:
            return bytes.fromhex(entry.data_hex)
        return msgspec.json.encode(entry.data)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"{given[0]} cannot be written: {error}") from error
