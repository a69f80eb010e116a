"""JSON from peers and for peers: bounded reading and writing, and equality as JavaScript has it."""

from __future__ import annotations

import math
import re
from array import array
from itertools import accumulate
from typing import Any, Final, TypeAlias

import msgspec

from weft.errors import UsageError
from weft.limits import COATY_JSON_DEPTH_MAX
from weft.wire.coaty.errors import BadCoatyMessage

COATY_JSON_CONTAINERS_MAX: Final = 200_000  # arrays and objects in a payload: 0.2 s to read, and six per small object


# None, bool, int, float, str, or lists and dicts of them. Spelled out, the type would force a cast on every caller.
Json: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]

# Possessive, so that a string of megabytes costs no memory for ways back.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_NOT_A_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_STEP = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # as signed bytes: one level down, one level up


def structure(text: bytes) -> array[int]:
    """The brackets of a JSON text outside of its strings: 1 where an array or object begins, -1 where one ends."""
    return array("b", _STRING.sub(b"", text).translate(_STEP, _NOT_A_BRACKET))


def depth_of(steps: array[int]) -> int:
    return max(accumulate(steps, initial=0))


def decode_json_untrusted(text: bytes, what: str, bytes_max: int) -> Json:
    """One JSON value in UTF-8; raise only BadCoatyMessage."""
    if len(text) > bytes_max:
        raise BadCoatyMessage(f"{what} is too long", have=len(text), limit=bytes_max)
    # Before parsing, because the parser recurses. Up to the first mistake in the text, scan and parser see the same
    # strings, so the parser never gets deeper than the scan. Few brackets need no scan.
    if text.count(b"[") + text.count(b"{") > COATY_JSON_DEPTH_MAX:
        steps = structure(text)
        if len(steps) > 2 * COATY_JSON_CONTAINERS_MAX:
            raise BadCoatyMessage(f"{what} has too many arrays and objects", limit=COATY_JSON_CONTAINERS_MAX)
        if depth_of(steps) > COATY_JSON_DEPTH_MAX:
            raise BadCoatyMessage(f"{what} is nested too deep", limit=COATY_JSON_DEPTH_MAX)
    try:
        return msgspec.json.decode(text)
    except UnicodeDecodeError as error:
        raise BadCoatyMessage(f"{what} is not UTF-8", at=error.start) from None
    except msgspec.MsgspecError as error:
        raise BadCoatyMessage(f"{what} is not JSON: {error}") from None


def encode_json(value: Json, what: str, bytes_max: int) -> bytes:
    """JSON in UTF-8 without blanks, refusing what JSON has no word for instead of bending it."""
    require_json(value, what)
    try:
        text = msgspec.json.encode(value)
    except UnicodeEncodeError:
        raise UsageError(f"{what} holds half of a surrogate pair, which UTF-8 cannot carry") from None
    except (TypeError, ValueError) as error:  # a subclass of a plain type; an integer of thousands of digits
        raise UsageError(f"{what} cannot be written as JSON: {error}") from None
    if len(text) > bytes_max:
        raise UsageError(f"{what} is too long", have=len(text), limit=bytes_max)
    return text


def require_json(value: object, what: str, depth_left: int = COATY_JSON_DEPTH_MAX) -> None:
    """Raise UsageError for a value that is not JSON, or deeper than peers accept. The encoder itself would write NaN as
    null, and bytes as base64.
    """
    match value:
        case None | bool() | int() | str():
            pass
        case float():
            if not math.isfinite(value):
                raise UsageError(f"{what} holds a number that JSON does not have", got=value)
        case list() | tuple() | dict() if depth_left == 0:
            raise UsageError(f"{what} is nested too deep", limit=COATY_JSON_DEPTH_MAX)
        case list() | tuple():
            for item in value:
                require_json(item, what, depth_left - 1)
        case dict():
            for name, item in value.items():
                if not isinstance(name, str):
                    raise UsageError(f"{what} has a member whose name is not a string", got=type(name).__name__)
                require_json(item, what, depth_left - 1)
        case _:
            raise UsageError(f"{what} holds a value that is not JSON", got=type(value).__name__)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def same(a: Json, b: Json) -> bool:
    """Deep equality in which, unlike in Python, true is not 1. Never goes deeper than the shallower value."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(value, b[name]) for name, value in a.items())
    if isinstance(a, list | tuple):
        return isinstance(b, list | tuple) and len(a) == len(b) and all(map(same, a, b))
    return bool(a == b) and (type(a) is bool) == (type(b) is bool)


def count_nodes(value: Json, limit: int) -> int:
    """How many values a JSON value consists of, counted up to one past ``limit``."""
    count, pending = 0, [value]
    while pending and count <= limit:
        count += 1
        match pending.pop():
            case list() | tuple() as items:
                pending += items
            case dict() as members:
                pending += members.values()
            case _:
                pass
    return count
