"""JSON under the rules of application data: UTF-8, no byte-order mark, bounded depth, and one error for all of it."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec

from weft.wire.exmp.messages import BadMessage, ErrorCode

EXMP_JSON_DEPTH_MAX: Final = 64  # nesting of `data`; far below where encoding it again would recurse too deep
REASON_CHARACTERS_MAX: Final = 200  # the JSON library quotes what it refuses, and that may be long

SHALLOW_BYTES: Final = 2 * EXMP_JSON_DEPTH_MAX  # each level opens and closes a bracket: no shorter text is too deep

T = TypeVar("T")


def decode_json_untrusted(decoder: msgspec.json.Decoder[T], text: bytes, code: ErrorCode) -> T:
    """What ``decoder`` reads; raise only BadMessage, with ``code``. The depth of the result is not judged here."""
    if not text.isascii():
        # The library would not look into fields that it skips.
        if text.startswith(BOM_UTF8):
            raise BadMessage(code, "JSON begins with a byte-order mark", at=0)
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise BadMessage(code, "JSON is not UTF-8", at=error.start) from error
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadMessage(code, str(error)[:REASON_CHARACTERS_MAX]) from error


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
