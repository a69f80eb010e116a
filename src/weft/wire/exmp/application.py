"""What requests and responses say to each other: JSON objects (EXM-09).

A request is an ``Operation``, ``{op, data?}``. A response is a ``Success``, ``{status, data?}``, or a ``Failure``,
``{status, code?, description, data?}``. Fields beyond these are ignored, and so are ``code`` and ``description`` of a
success. Text is UTF-8 without a byte-order mark, ``data`` is an object wherever it is present (not null), and it
nests at most EXMP_JSON_DEPTH_MAX deep.
"""

from __future__ import annotations

from typing import Any, Final, Literal, assert_never

import msgspec
from msgspec import UNSET, UnsetType

from weft.errors import UsageError
from weft.wire.exmp.json_text import (
    EXMP_JSON_DEPTH_MAX,
    SHALLOW_BYTES,
    decode_json_untrusted,
    is_too_deep,
    without_lone_surrogates,
)
from weft.wire.exmp.messages import BadMessage, ErrorCode, UnfitData

JsonObject = dict[str, Any]


# Structs for the reason given in messages.py.
class Operation(msgspec.Struct, frozen=True, gc=False):
    """What a request asks for."""

    op: str
    data: JsonObject | None = None


class Success(msgspec.Struct, frozen=True, gc=False):
    data: JsonObject | None = None


class Failure(msgspec.Struct, frozen=True):
    """``description`` is for people, ``code`` for programs."""

    description: str
    code: str | None = None
    data: JsonObject | None = None


Outcome = Success | Failure


class _OperationFields(msgspec.Struct):
    """The JSON object as it is written and read; UNSET fields are absent."""

    op: str
    data: JsonObject | UnsetType = UNSET


class _OutcomeFields(msgspec.Struct):
    status: Literal["success", "failure"]
    code: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    data: JsonObject | UnsetType = UNSET


class _OperationName(msgspec.Struct):
    op: str


_OPERATION: Final = msgspec.json.Decoder(_OperationFields)
_OPERATION_NAME: Final = msgspec.json.Decoder(_OperationName)
_OUTCOME: Final = msgspec.json.Decoder(_OutcomeFields)
_ENCODER: Final = msgspec.json.Encoder()

# Looked up once: reading a member off an enum class takes as long as making a value (Python 3.11).
_INVALID_REQUEST: Final = ErrorCode.INVALID_REQUEST
_PROTOCOL: Final = ErrorCode.PROTOCOL


def encode_operation(operation: Operation) -> bytes:
    """Compact JSON; UsageError if the operation is not of the form above."""
    _check_text("op", operation.op)
    return _encode(_OperationFields(operation.op, _to_field(operation.data)))


def encode_outcome(outcome: Outcome) -> bytes:
    """Compact JSON; UsageError if the outcome is not of the form above."""
    match outcome:
        case Success():
            return _encode(_OutcomeFields("success", data=_to_field(outcome.data)))
        case Failure(description, code, data):
            _check_text("description", description)  # EXM-09: a failure has one
            if code is not None:
                _check_text("code", code)
            return _encode(_OutcomeFields("failure", UNSET if code is None else code, description, _to_field(data)))
        case _:
            assert_never(outcome)


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise UsageError(f"{name} must be a string", type=type(value).__name__)


def _to_field(data: JsonObject | None) -> JsonObject | UnsetType:
    if data is None:
        return UNSET
    if not isinstance(data, dict):
        raise UsageError("data must be a dict or None", type=type(data).__name__)
    return data


def _encode(fields: _OperationFields | _OutcomeFields) -> bytes:
    try:
        text = _ENCODER.encode(fields)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"this cannot be written as JSON: {error}") from error
    if len(text) > SHALLOW_BYTES and is_too_deep(text, fields.data):
        raise UsageError("data is nested too deep", limit=EXMP_JSON_DEPTH_MAX)
    return text


def decode_operation_untrusted(text: bytes) -> Operation:
    """Read the application data of a request. Raise only BadMessage: PROTOCOL if it is no JSON, INVALID_REQUEST if it
    is no request, and UnfitData if only its ``data`` is not as it should be (EXM-08)."""
    try:
        fields = decode_json_untrusted(_OPERATION, text)
    except UnfitData:
        try:
            decode_json_untrusted(_OPERATION_NAME, without_lone_surrogates(text))
        except UnfitData as worse:
            raise BadMessage(_INVALID_REQUEST, worse.what) from None
        raise
    return Operation(fields.op, _from_field_untrusted(text, fields.data))


def decode_outcome_untrusted(text: bytes) -> Outcome:
    """Read the application data of a response. Raise only BadMessage, which is UnfitData if it is JSON, but no
    response."""
    fields = decode_json_untrusted(_OUTCOME, text)
    data = _from_field_untrusted(text, fields.data)
    if fields.status == "success":
        return Success(data)
    if fields.description is UNSET:
        raise UnfitData(_PROTOCOL, "a failure without a description")
    return Failure(fields.description, None if fields.code is UNSET else fields.code, data)


def _from_field_untrusted(text: bytes, data: JsonObject | UnsetType) -> JsonObject | None:
    if data is UNSET:
        return None
    if len(text) > SHALLOW_BYTES and is_too_deep(text, data):
        raise UnfitData(_PROTOCOL, "data is nested too deep", limit=EXMP_JSON_DEPTH_MAX)
    return data
