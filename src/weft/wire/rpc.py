"""gRPC's part of HTTP/2 headers: statuses, metadata, timeouts (gRPC over HTTP2, the protocol's own document).

Everything here is values and text; ``weft.wire.http2`` carries it.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from math import ceil
from typing import Final
from urllib.parse import quote, unquote

from weft.errors import PeerError, WeftError
from weft.wire.http2 import ErrorCode, Headers

Metadata = Sequence[tuple[str, str | bytes]]

CONTENT_TYPE: Final = "application/grpc"
RESPONSE: Final[Headers] = ((":status", "200"), ("content-type", CONTENT_TYPE))
NOT_GRPC: Final[Headers] = ((":status", "415"),)
RESERVED: Final = frozenset({"te", "content-type", "content-length", "user-agent"})
RESERVED_PREFIX: Final = "grpc-"
BINARY: Final = "-bin"
NAME: Final = re.compile("[0-9a-z_.-]+")
VALUE: Final = re.compile("[ -~]*")
TIMEOUT: Final = re.compile("([0-9]{1,8})([HMSmun])")
UNITS_S: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
TIMEOUT_DIGITS_MAX: Final = 99_999_999
DETAILS_BYTES_MAX: Final = 2048  # three times as long when quoted, and gRPC takes 8 KiB of headers without being asked
MESSAGE_UNQUOTED: Final = "".join(chr(c) for c in range(0x20, 0x7F) if c != ord("%"))


class StatusCode(IntEnum):
    """How a call ended."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class RpcError(WeftError):
    """A call that did not end well: what a handler raises, and what a caller gets."""

    def __init__(self, status: StatusCode, details: str = "", metadata: Metadata = ()) -> None:
        super().__init__(details or status.name)
        self.status = status
        self.details = details
        self.metadata = metadata  # that came or goes with the status


class BadCall(PeerError):
    """Headers that are no gRPC call, or no answer to one."""


OF_RESET: Final[Mapping[int, StatusCode]] = {
    ErrorCode.REFUSED_STREAM: StatusCode.UNAVAILABLE,
    ErrorCode.CANCEL: StatusCode.CANCELLED,
    ErrorCode.ENHANCE_YOUR_CALM: StatusCode.RESOURCE_EXHAUSTED,
    ErrorCode.INADEQUATE_SECURITY: StatusCode.PERMISSION_DENIED,
    ErrorCode.CONNECT_ERROR: StatusCode.UNAVAILABLE,  # ours, for a connection that is gone
}
OF_HTTP: Final[Mapping[int, StatusCode]] = {
    400: StatusCode.INTERNAL,
    401: StatusCode.UNAUTHENTICATED,
    403: StatusCode.PERMISSION_DENIED,
    404: StatusCode.UNIMPLEMENTED,
    429: StatusCode.UNAVAILABLE,
    502: StatusCode.UNAVAILABLE,
    503: StatusCode.UNAVAILABLE,
    504: StatusCode.UNAVAILABLE,
}


def status_of_reset(code: int) -> StatusCode:
    """Of a stream that its peer reset."""
    return OF_RESET.get(code, StatusCode.INTERNAL)


def status_of_http(code: int) -> StatusCode:
    """Of an answer that is not gRPC's: a proxy's, say."""
    return OF_HTTP.get(code, StatusCode.UNKNOWN)


# --- requests ---------------------------------------------------------------------------------------------------------


def request_headers(
    path: str, authority: str, scheme: str, user_agent: str, timeout_s: float | None, metadata: Metadata
) -> Headers:
    headers = [
        (":method", "POST"),
        (":scheme", scheme),
        (":path", path),
        (":authority", authority),
        ("te", "trailers"),
        ("content-type", CONTENT_TYPE),
        ("user-agent", user_agent),
    ]
    if timeout_s is not None:
        headers.append(("grpc-timeout", timeout_text(timeout_s)))
    return headers + written_metadata(metadata)


def is_grpc(headers: Mapping[str, str]) -> bool:
    content_type = headers.get("content-type", "")
    return content_type == CONTENT_TYPE or content_type.startswith((f"{CONTENT_TYPE}+", f"{CONTENT_TYPE};"))


def timeout_text(timeout_s: float) -> str:
    """Eight digits at most, so a coarser unit for a longer time; rounded up."""
    for unit, per_s in (("u", 1e6), ("m", 1e3), ("S", 1.0)):
        if timeout_s * per_s <= TIMEOUT_DIGITS_MAX:
            return f"{max(ceil(timeout_s * per_s), 1)}{unit}"
    return f"{TIMEOUT_DIGITS_MAX}S"


def read_timeout_untrusted(text: str) -> float:
    """In seconds; raise BadCall."""
    found = TIMEOUT.fullmatch(text)
    if found is None:
        raise BadCall("grpc-timeout cannot be read", text=text[:32])
    return int(found[1]) * UNITS_S[found[2]]


# --- metadata ---------------------------------------------------------------------------------------------------------


def written_metadata(metadata: Metadata) -> list[tuple[str, str]]:
    """Names and values that HTTP can carry are the caller's business; a bad one is a defect here."""
    written = []
    for name, value in metadata:
        # HTTP takes no blanks around a value, and gRPC does not keep them.
        text = value.strip(" ") if isinstance(value, str) else b64encode(value).rstrip(b"=").decode()
        assert NAME.fullmatch(name) and VALUE.fullmatch(text), f"metadata {name} is not text for HTTP"
        assert name.endswith(BINARY) == isinstance(value, bytes), (
            f"metadata {name}: names that end in -bin take bytes, other names take text"
        )
        written.append((name, text))
    return written


def read_metadata_untrusted(headers: Headers) -> Metadata:
    """What the other side sent along; raise BadCall."""
    read: list[tuple[str, str | bytes]] = []
    for name, value in headers:
        if name in RESERVED or name.startswith((":", RESERVED_PREFIX)):
            continue
        if not name.endswith(BINARY):
            read.append((name, value))
            continue
        for part in value.split(","):  # a proxy may have joined two fields
            text = part.strip(" ")
            try:
                read.append((name, b64decode(text + "=" * (-len(text) % 4), validate=True)))
            except ValueError:  # binascii's error is one, and so is the one for letters beyond ASCII
                raise BadCall("binary metadata is not base64", name=name[:64]) from None
    return read


# --- statuses ---------------------------------------------------------------------------------------------------------


def trailers(status: StatusCode, details: str, metadata: Metadata) -> Headers:
    fields = [("grpc-status", str(int(status)))]
    if details:
        fields.append(("grpc-message", _quoted(details)))
    return fields + written_metadata(metadata)


def _quoted(details: str) -> str:
    """Percent-encoded, and not longer than others take. HTTP takes no blank at either end."""
    text = quote(details.encode(errors="replace")[:DETAILS_BYTES_MAX], safe=MESSAGE_UNQUOTED)
    return re.sub("^ | $", "%20", text)


def read_trailers_untrusted(headers: Headers) -> RpcError | None:
    """How the call ended, as the server says; None if all is well. Raise BadCall."""
    fields = dict(headers)
    text = fields.get("grpc-status")
    if text is None:
        raise BadCall("the call ended without a status")
    if not re.fullmatch("[0-9]{1,3}", text):
        raise BadCall("grpc-status is not a number", text=text[:16])
    code = int(text)
    if code == StatusCode.OK:
        return None
    status = StatusCode(code) if code <= max(StatusCode) else StatusCode.UNKNOWN
    return RpcError(status, unquote(fields.get("grpc-message", ""), errors="replace"), read_metadata_untrusted(headers))


def metadata_value(metadata: Iterable[tuple[str, str | bytes]], name: str) -> str | bytes | None:
    """The last of that name."""
    return dict(metadata).get(name)
