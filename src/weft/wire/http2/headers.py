"""Header blocks: encoding them without tables, decoding them with tables, and checking the fields.

We write every field as a literal that is added to no table (RFC 7541, 6.2.2). That costs a few bytes for each request,
but our encoder needs no state, so encoded fields can be cached and joined. Peers may use the tables, so the ``hpack``
package decodes what they send.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from hpack import Decoder, HPACKError, OversizedHeaderListError

from weft.wire.http2.frames import BadHttp2, BadStream, ErrorCode
from weft.wire.http2.settings import (
    CONTINUATIONS_MAX,
    HEADER_BLOCK_BYTES_MAX,
    HEADER_FIELDS_MAX,
    HEADER_LIST_BYTES_MAX,
)

Headers = Sequence[tuple[str, str]]

# hpack logs every field, including API keys: silence it.
logging.getLogger("hpack").setLevel(logging.CRITICAL + 1)

LITERAL: Final = b"\x00"  # a field that is not added to the table
NEVER: Final = b"\x10"  # a field that proxies on the way must not add to a table either
EMPTY_TABLE: Final = b"\x20"  # sets our table's size to 0, in the first block after the peer changed it (4.2, 6.3)
SIZE_UPDATE_MASK: Final = 0xE0  # if the first three bits are 001, this is not a field but a change of the table's size
SIZE_UPDATE: Final = 0x20
SIZE_UPDATES_MAX: Final = 2  # at the beginning of a block (4.2); hpack would accept thousands
SECRETS: Final = frozenset({"authorization", "cookie", "proxy-authorization"})
WHOLE: Final = {  # fields that are in the static table with their values, so one byte encodes each
    (":status", "200"): b"\x88",
    (":method", "POST"): b"\x83",
    (":scheme", "http"): b"\x86",
    (":scheme", "https"): b"\x87",
}
ENCODED_KEPT_MAX: Final = 1024  # cached fields, shared by all connections
ENCODED_KEPT_BYTES_MAX: Final = 256
BLOCKS_KEPT_MAX: Final = 32  # cached blocks of one connection: callers send the same ones again and again
BLOCK_KEPT_BYTES_MAX: Final = 1024
BLOCK_KEPT_FIELDS_MAX: Final = 32  # so 10 KiB for each block at most, and 320 KiB for a connection

NAME: Final = re.compile(r":?[!#$%&'*+\-.^_`|~0-9a-z]+")  # a token in lower case (RFC 9113, 8.2.1)
BAD_VALUE: Final = re.compile(r"[\x00\r\n]|^[ \t]|[ \t]$")
STATUS: Final = re.compile("[1-5][0-9][0-9]")
CONTENT_LENGTH: Final = re.compile("[0-9]{1,18}")
CONNECTION_FIELDS: Final = frozenset({"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"})
LOOKED_AT: Final = CONNECTION_FIELDS | {"te", "host"}
REQUEST_PSEUDO: Final = frozenset({":method", ":scheme", ":path", ":authority"})
REQUEST_NEEDS: Final = frozenset({":method", ":scheme", ":path"})
RESPONSE_PSEUDO: Final = frozenset({":status"})
NO_PSEUDO: Final[frozenset[str]] = frozenset()


# --- writing ---------------------------------------------------------------------------------------------------------


def encode_block(headers: Iterable[tuple[str, str]]) -> bytes:
    return b"".join(
        [
            _encode_short(name, value)
            if len(value) <= ENCODED_KEPT_BYTES_MAX and name not in SECRETS
            else _encode_field(name, value)
            for name, value in headers
        ]
    )


def _encode_field(name: str, value: str) -> bytes:
    """Encode a field without looking into the cache."""
    return (NEVER if name in SECRETS else LITERAL) + _string(name) + _string(value)


@lru_cache(ENCODED_KEPT_MAX)
def _encode_short(name: str, value: str) -> bytes:
    return WHOLE.get((name, value)) or _encode_field(name, value)


def _string(text: str) -> bytes:
    data = text.encode("latin-1")
    return _length(len(data)) + data


def _length(value: int) -> bytes:
    """Encode an integer with a prefix of seven bits (RFC 7541, 5.1)."""
    if value < 0x7F:
        return bytes([value])
    digits = bytearray([0x7F])
    value -= 0x7F
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)


# --- reading ---------------------------------------------------------------------------------------------------------


class OpenBlock:
    """A header block that may still lack some CONTINUATION frames."""

    __slots__ = ("_bytes", "_parts", "ends", "stream")

    def __init__(self, stream: int, ends: bool, first: bytes) -> None:
        self.stream = stream
        self.ends = ends
        self._parts = [first]
        self._bytes = len(first)

    def add(self, part: bytes) -> None:
        """Add a CONTINUATION; raise BadHttp2 if the block becomes too long."""
        self._parts.append(part)
        self._bytes += len(part)
        if self._bytes > HEADER_BLOCK_BYTES_MAX:
            raise BadHttp2(
                ErrorCode.ENHANCE_YOUR_CALM,
                "a header block is too long",
                bytes=self._bytes,
                limit=HEADER_BLOCK_BYTES_MAX,
            )
        if len(self._parts) > CONTINUATIONS_MAX + 1:
            raise BadHttp2(ErrorCode.ENHANCE_YOUR_CALM, "too many CONTINUATIONs of a block", limit=CONTINUATIONS_MAX)

    def whole(self) -> bytes:
        return b"".join(self._parts)


class BlockReader:
    """Decodes the blocks that one peer sends. Every block has to be read, in the order in which it came, even one for a
    stream that is gone: it may change the table."""

    def __init__(self) -> None:
        self._decoder = Decoder(HEADER_LIST_BYTES_MAX)
        # Blocks that were read while the table was empty, and left it empty. They mean the same again as long as the
        # table is empty and its size has not changed.
        self._kept: dict[bytes, Headers] = {}

    def read_untrusted(self, block: bytes) -> Headers:
        """Decode a block; raise only BadHttp2. Bytes beyond ASCII are read as Latin-1."""
        table = self._decoder.header_table.dynamic_entries
        if not table and (known := self._kept.get(block)) is not None:
            return known
        if block and block[0] & SIZE_UPDATE_MASK == SIZE_UPDATE:
            _check_size_updates(block)
            self._kept.clear()
            return self._decode(block)
        headers = self._decode(block)
        if not table and len(block) <= BLOCK_KEPT_BYTES_MAX and len(headers) <= BLOCK_KEPT_FIELDS_MAX:
            if len(self._kept) >= BLOCKS_KEPT_MAX:
                self._kept.clear()
            self._kept[block] = headers
        return headers

    def _decode(self, block: bytes) -> Headers:
        try:
            fields = self._decoder.decode(block, raw=True)
        except OversizedHeaderListError:
            raise BadHttp2(
                ErrorCode.ENHANCE_YOUR_CALM, "a list of headers is too long", limit=HEADER_LIST_BYTES_MAX
            ) from None
        except (HPACKError, IndexError, ValueError) as error:
            # The text of hpack's error may repeat the whole block, so it is cut.
            raise BadHttp2(
                ErrorCode.COMPRESSION_ERROR, f"a header block cannot be read: {str(error)[:64]}", bytes=len(block)
            ) from None
        headers = tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields])
        if len(headers) > HEADER_FIELDS_MAX:
            raise BadHttp2(
                ErrorCode.ENHANCE_YOUR_CALM, "too many headers", fields=len(headers), limit=HEADER_FIELDS_MAX
            )
        return headers


def _check_size_updates(block: bytes) -> None:
    """Check that a block does not begin with more changes of the table's size than it may. The decoder reads their
    values."""
    at = count = 0
    while at < len(block) and block[at] & SIZE_UPDATE_MASK == SIZE_UPDATE:
        count += 1
        if count > SIZE_UPDATES_MAX:
            raise BadHttp2(ErrorCode.COMPRESSION_ERROR, "too many changes of the table's size", limit=SIZE_UPDATES_MAX)
        has_digits = block[at] & 0x1F == 0x1F
        at += 1
        while has_digits and at < len(block):  # in the last byte of the number, the first bit is 0 (5.1)
            has_digits = bool(block[at] & 0x80)
            at += 1


def check_request(headers: Headers) -> None:
    """Check the headers of a request; raise BadStream. A proxy could read a malformed request differently than we
    do."""
    seen = _check(headers, REQUEST_PSEUDO)
    if not seen.keys() >= REQUEST_NEEDS or not seen[":path"]:
        raise _malformed("a request needs :method, :scheme and :path")
    host = seen.get("host")
    if host is not None and host.lower() != seen.get(":authority", host).lower():
        raise _malformed("host is not :authority", host=host[:64])


def check_response(headers: Headers) -> int:
    """Check the headers of a response and return its status; raise BadStream."""
    status = _check(headers, RESPONSE_PSEUDO).get(":status", "")
    if not STATUS.fullmatch(status) or status == "101":  # HTTP/2 does not have status 101 (8.6)
        raise _malformed("a response needs a :status", status=status[:16])
    return int(status)


def check_trailers(headers: Headers) -> None:
    _check(headers, NO_PSEUDO)


def content_length(headers: Headers) -> int | None:
    """The length that the sender announced, or None; raise BadStream if it is not a number, or there are two different
    ones."""
    found = {value for name, value in headers if name == "content-length"}
    if not found:
        return None
    value = found.pop()
    if found or not CONTENT_LENGTH.fullmatch(value):
        raise _malformed("content-length is not one number")
    return int(value)


def _check(headers: Headers, pseudo: frozenset[str]) -> dict[str, str]:
    """Check all fields, and return the pseudo-headers and ``host``; raise BadStream."""
    seen: dict[str, str] = {}
    regular = False
    for name, value in headers:
        if not NAME.fullmatch(name) or BAD_VALUE.search(value):
            raise _malformed("a field is malformed", name=name[:64])
        if name[0] == ":":
            if regular or name not in pseudo or name in seen:
                raise _malformed("a pseudo-header is out of place, unknown or repeated", name=name[:64])
            seen[name] = value
            continue
        regular = True
        if name not in LOOKED_AT:
            continue
        if name in CONNECTION_FIELDS or (name == "te" and value != "trailers"):
            raise _malformed("a field of HTTP/1.1 does not belong here", name=name)
        if name == "host" and seen.setdefault(name, value) != value:
            raise _malformed("two hosts", name=name)
    return seen


def _malformed(what: str, **facts: object) -> BadStream:
    return BadStream(ErrorCode.PROTOCOL_ERROR, what, **facts)
