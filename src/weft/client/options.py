"""What can be set on a client. Every default is safe; values are checked when they are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final

from weft.errors import UsageError
from weft.limits import BATCH_BYTES_MAX, MIB

PEM_BEGIN: Final = b"-----BEGIN "


@dataclass(frozen=True, slots=True)
class ClientTls:
    """PEM texts: whom to trust, and who we are (both or neither of the last two)."""

    root: bytes
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise UsageError("a client certificate and its key go together")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The same in files. They are read again for every connection: certificates last a day, and clients run for
    longer."""

    root: Path
    certificate: Path | None = None
    key: Path | None = None

    def read(self) -> ClientTls:
        return ClientTls(
            _pem(self.root),
            None if self.certificate is None else _pem(self.certificate),
            None if self.key is None else _pem(self.key),
        )


def _pem(path: Path) -> bytes:
    try:
        text = path.expanduser().read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if PEM_BEGIN not in text:
        raise UsageError(f"{path} is not a PEM file: it has no line that begins with {PEM_BEGIN.decode()}")
    return text


@dataclass(frozen=True, slots=True)
class Options:
    """Bounds and times of a client, in bytes and seconds."""

    connect_timeout_s: float = 10.0  # until one of the nodes answers
    open_timeout_s: float = 5.0  # for one node to accept a call, before the next node is tried
    call_timeout_s: float = 30.0  # of positions, topics and similar calls, including retries
    close_timeout_s: float = 10.0  # to drain when closing
    backoff_s_min: float = 0.05
    backoff_s_max: float = 5.0
    keepalive_s: float = 20.0  # a host that vanished is noticed after 1.5 times this
    in_doubt_timeout_s: float = 60.0  # by then a killed node is back, or an operator has been called
    batch_bytes: int = MIB  # events are gathered up to this size while earlier ones are under way
    unacknowledged_bytes_max: int = 64 * MIB  # published and without a receipt: half a second at full speed
    credit_bytes: int = 16 * MIB  # what waits in memory for a slow application; at 1 GB/s a node pauses after 16 ms
    handled_interval_s: float = 0.1
    release_timeout_s: float = 30.0  # for the application to finish an event before another member gets its stream

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
                raise UsageError(f"option {each.name} must be a positive number", have=value)
        if self.batch_bytes > BATCH_BYTES_MAX // 2:  # Arrow may need more than we count
            raise UsageError("option batch_bytes is too large", have=self.batch_bytes, limit=BATCH_BYTES_MAX // 2)
        if self.backoff_s_min > self.backoff_s_max:
            raise UsageError("backoff_s_min is above backoff_s_max", min=self.backoff_s_min, max=self.backoff_s_max)


def parse_nodes(nodes: str | Sequence[str]) -> tuple[str, ...]:
    """``host:port`` once or several times, or UsageError."""
    addresses = tuple([nodes] if isinstance(nodes, str) else nodes)
    if not addresses:
        raise UsageError("no node to connect to: pass at least one host:port")
    for address in addresses:
        check_address(address)
    return tuple(dict.fromkeys(addresses))


def check_address(address: str) -> None:
    """Raise UsageError unless this is ``host:port``, an IPv6 host in brackets."""
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not host.isprintable() or " " in host or not host.strip("[]") or (":" in host and not bracketed):
        raise UsageError(f"node {address!r} is not host:port, like 127.0.0.1:7400")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise UsageError(f"node {address!r} has no port between 1 and 65535")
