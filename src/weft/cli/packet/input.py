"""Where ``weft packet decode`` gets its bytes: the command line, a file, standard input, or a packet capture."""

from __future__ import annotations

import string
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from weft.cli.console import err
from weft.errors import UsageError
from weft.limits import CAPTURE_BYTES_MAX
from weft.wire import pcap

_HEX_TEXT: Final = frozenset((string.hexdigits + string.whitespace).encode())


@dataclass(frozen=True, slots=True)
class Captured:
    """One message to decode, and where a capture saw it."""

    data: bytes
    origin: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.origin:
            return f"{len(self.data)} bytes"
        return f"{self.origin['source']} to {self.origin['target']}, {len(self.data)} bytes"


def read_input(source: str) -> Iterator[Captured]:
    """Messages from ``HEX|FILE|-``. A word that is no file must be hex."""
    if source == "-":
        yield from _messages(sys.stdin.buffer.read(CAPTURE_BYTES_MAX + 1), "standard input")
    elif _is_file(source):
        yield from _messages(_read_file(Path(source)), source)
    else:
        yield Captured(_parse_hex(source))


def _is_file(source: str) -> bool:
    try:
        return Path(source).is_file()
    except (OSError, ValueError):  # hex can be longer than a file name may be
        return False


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(CAPTURE_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def _messages(data: bytes, name: str) -> Iterator[Captured]:
    if len(data) > CAPTURE_BYTES_MAX:
        raise UsageError(f"{name} is too large", limit=CAPTURE_BYTES_MAX)
    if not data:
        raise UsageError(f"{name} is empty")
    if data[:4] in pcap.CLASSIC_MAGICS or data[:4] == pcap.SECTION_MAGIC:
        yield from _capture(data)
    elif set(data) <= _HEX_TEXT:
        yield Captured(_parse_hex(data.decode()))
    else:
        yield Captured(data)


def _capture(data: bytes) -> Iterator[Captured]:
    skipped: Counter[pcap.Skip] = Counter()
    for packet in pcap.read_untrusted(data, skipped):
        yield Captured(
            packet.payload,
            {
                "timestamp_us": packet.timestamp_us,
                "source": _address(packet.source, packet.source_port),
                "target": _address(packet.target, packet.target_port),
            },
        )
    for reason, count in skipped.items():
        err.print(f"skipped {count} packets of the capture: {reason}")


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _parse_hex(text: str) -> bytes:
    digits = "".join(text.replace("0x", " ").replace(":", " ").replace(",", " ").split())
    try:
        return bytes.fromhex(digits)
    except ValueError:
        shown = text if len(text) <= 40 else text[:40] + "…"
        raise UsageError(f"{shown!r} is neither a file nor hex digits") from None
