"""JSON under the rules of application data: UTF-8, no byte-order mark, bounded depth, and one error for all of it."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec

from weft.wire.exmp.messages import BadMessage, ErrorCode, UnfitData

EXMP_JSON_DEPTH_MAX: Final = 64  # nesting of `data`; far below where encoding it again would recurse too deep
REASON_CHARACTERS_MAX: Final = 200  # the JSON library quotes what it refuses, and that may be long

_PROTOCOL: Final = ErrorCode.PROTOCOL
_SYNTAX: Final[msgspec.json.Decoder[msgspec.Raw]] = msgspec.json.Decoder(msgspec.Raw)  # reads without making values

SHALLOW_BYTES: Final = 2 * EXMP_JSON_DEPTH_MAX  # each level opens and closes a bracket: no shorter text is too deep

# An escape that is half of a character: a high surrogate without a low one behind it, or a low one without a high one
# before it. It begins after an even number of backslashes.
LONE_SURROGATE: Final = re.compile(
    rb"(?<!\\)(?:\\\\)*"
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)

T = TypeVar("T")


def decode_json_untrusted(decoder: msgspec.json.Decoder[T], text: bytes) -> T:
    """What ``decoder`` reads. Raise BadMessage if this is no JSON, and UnfitData if it is some that the decoder does
    not take. The depth of the result is not judged here."""
    if not text.isascii():
        # The library would not look into fields that it skips.
        if text.startswith(BOM_UTF8):
            raise BadMessage(_PROTOCOL, "JSON begins with a byte-order mark", at=0)
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise BadMessage(_PROTOCOL, "JSON is not UTF-8", at=error.start) from error
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        _check_syntax_untrusted(text)  # the decoder stops where it does not like a value, whatever comes behind it
        raise UnfitData(_PROTOCOL, _reason(error)) from error
    except (msgspec.DecodeError, RecursionError) as error:
        lone = LONE_SURROGATE.search(text)
        if lone is None:
            raise BadMessage(_PROTOCOL, _reason(error)) from error
        _check_syntax_untrusted(text)
        what = "JSON has half of a surrogate pair, which is not a character"
        raise UnfitData(_PROTOCOL, what, at=lone.start(1)) from error


def without_lone_surrogates(text: bytes) -> bytes:
    """The same JSON with U+FFFD in their places: its grammar allows them, and our strings do not."""
    return LONE_SURROGATE.sub(lambda found: found[0][: -len(found[1])] + rb"\ufffd", text)


def _check_syntax_untrusted(text: bytes) -> None:
    """Whether this is JSON, whatever it says: what only our numbers and strings cannot hold is no mistake of syntax."""
    try:
        _SYNTAX.decode(without_lone_surrogates(text))
    except msgspec.ValidationError:
        pass
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadMessage(_PROTOCOL, _reason(error)) from error


def _reason(error: Exception) -> str:
    return str(error)[:REASON_CHARACTERS_MAX]


def is_too_deep(text: bytes, value: object) -> bool:
    """Whether ``value``, which ``text`` contains, is nested deeper than EXMP_JSON_DEPTH_MAX."""
    # Brackets alone settle almost every message without a walk.
    if len(text) <= SHALLOW_BYTES or text.count(b"{") + text.count(b"[") <= EXMP_JSON_DEPTH_MAX:
        return False
    level = _containers([value])
    for _ in range(EXMP_JSON_DEPTH_MAX):
        level = [
            container
            for parent in level
            for container in _containers(parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return False
    return bool(level)


def _containers(values: Iterable[object]) -> list[dict[str, object] | list[object] | tuple[object, ...]]:
    return [value for value in values if isinstance(value, dict | list | tuple)]  # our own callers may give tuples
