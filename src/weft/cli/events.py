"""How commands show an event: a line for people, an object for programs."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final, Protocol

from weft.cli.tables import human_time
from weft.model import Epoch, Stream
from weft.visible import visible

HEX_BYTES_SHOWN: Final = 32  # of a key or payload that is no text; all of it with --json


class Content(Protocol):
    """What an event says, wherever it is."""

    @property
    def timestamp_us(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def headers(self) -> Mapping[str, str] | None: ...
    @property
    def payload(self) -> bytes: ...


def event_line(stream: Stream, epoch: Epoch, offset: int, event: Content) -> str:
    """One event, one line, and all of it can be seen."""
    parts = [f"{stream}:e{epoch}:{offset}", human_time(event.timestamp_us)]
    if event.key is not None:
        parts.append(f"key={_shown(event.key)}")
    parts += [f"{name}={value}" for name, value in (event.headers or {}).items()]
    parts.append(_shown(event.payload))
    return visible("  ".join(parts))


def event_document(stream: Stream, epoch: Epoch, offset: int, event: Content) -> dict[str, Any]:
    return {
        "topic": stream.topic,
        "origin": stream.origin,
        "epoch": epoch,
        "partition": stream.partition,
        "offset": offset,
        "timestamp": human_time(event.timestamp_us),
        **({"key": None} if event.key is None else text_or_base64("key", event.key)),
        "headers": dict(event.headers or {}),
        **text_or_base64("payload", event.payload),
    }


def text_or_base64(name: str, data: bytes) -> dict[str, str]:
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(data).decode()}


def _shown(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        more = "" if len(data) <= HEX_BYTES_SHOWN else f" ... {len(data):,} bytes"
        return f"0x{data[:HEX_BYTES_SHOWN].hex()}{more}"
