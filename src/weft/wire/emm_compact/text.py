"""What counts as text: messages, command names and regions are refused when they hold something else.

A plain-text message is UTF-8 without control characters other than tab, line feed and carriage return. That is stricter
than the document, and on purpose: a sender that puts a length byte before the message, as the document's own example
does, gets an error instead of having the byte shown to people (EMC-06).
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from weft.errors import UsageError
from weft.wire.emm_compact.codes import Format
from weft.wire.reject import BadPacket, Reject

# Unicode's category Cc: C0, DEL and C1.
CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
CONTROL_IN_MESSAGE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def label_untrusted(value: bytes, at: int) -> str:
    """A name on one line; ``at`` is where the value begins in the datagram. Raise only BadPacket."""
    return _text(value, at, CONTROL)


def check_message_untrusted(message_format: Format, message: bytes, at: int) -> None:
    """Plain text must be text and JSON must be JSON; everything else is opaque. Raise only BadPacket."""
    if message_format is Format.PLAIN_TEXT:
        _text(message, at, CONTROL_IN_MESSAGE)
    elif message_format is Format.JSON and not is_json(message):
        raise BadPacket(Reject.TLV_VALUE, "message is not JSON in UTF-8", at=at)


def is_json(message: bytes) -> bool:
    """Whether our JSON reader can read it; a number beyond a double's range is therefore no."""
    try:
        msgspec.json.decode(message)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _text(value: bytes, at: int, forbidden: re.Pattern[str]) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise BadPacket(Reject.TLV_VALUE, "text is not UTF-8", at=at + error.start) from None
    found = forbidden.search(text)
    if found:
        before = len(text[: found.start()].encode())
        raise BadPacket(Reject.TLV_VALUE, "control character in text", at=at + before, character=hex(ord(found[0])))
    return text


def encode_text(what: str, text: str) -> bytes:
    """UTF-8 for the wire; a lone surrogate has none."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{what} cannot be written as UTF-8", character=error.start) from None
