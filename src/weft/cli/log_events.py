"""How ``weft log cat`` shows an event: a line for people, an object for programs."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

from weft.cli.tables import human_time
from weft.log import StreamInfo
from weft.model import Event

HEX_BYTES_SHOWN: Final = 32  # of a key or payload that is no text; all of it with --json


def event_line(info: StreamInfo, offset: int, event: Event) -> str:
    """One event, one line, nothing that could move the cursor."""
    parts = [f"{info.stream}:e{info.epoch}:{offset}", human_time(event.timestamp_us)]
    if event.key is not None:
        parts.append(f"key={_shown(event.key)}")
    parts += [f"{_visible(name)}={_visible(value)}" for name, value in (event.headers or {}).items()]
    parts.append(_shown(event.payload))
    return "  ".join(parts)


def event_document(info: StreamInfo, offset: int, event: Event) -> dict[str, Any]:
    return {
        "topic": info.stream.topic,
        "origin": info.stream.origin,
        "epoch": info.epoch,
        "partition": info.stream.partition,
        "offset": offset,
        "timestamp": human_time(event.timestamp_us),
        **({"key": None} if event.key is None else _text_or_base64("key", event.key)),
        "headers": dict(event.headers or {}),
        **_text_or_base64("payload", event.payload),
    }


def _text_or_base64(name: str, data: bytes) -> dict[str, str]:
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(data).decode()}


def _shown(data: bytes) -> str:
    try:
        return _visible(data.decode())
    except UnicodeDecodeError:
        more = "" if len(data) <= HEX_BYTES_SHOWN else f" ... {len(data):,} bytes"
        return f"0x{data[:HEX_BYTES_SHOWN].hex()}{more}"


def _visible(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
