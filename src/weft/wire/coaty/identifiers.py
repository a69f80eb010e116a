"""Names that come in a fixed form: UUIDs of objects, agents and requests (COA-06), ids of libp2p peers."""

from __future__ import annotations

import re
from typing import Final

from weft.errors import UsageError

COATY_PEER_ID_CHARS_MAX: Final = 128  # base58; the longest in use has 53


# RFC 4122 version 4: the third group begins with the version, the fourth with the variant bits 10; lower case only.
_UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_BASE58 = re.compile(rf"[1-9A-HJ-NP-Za-km-z]{{1,{COATY_PEER_ID_CHARS_MAX}}}")
_SHOWN_CHARS = 48


def is_uuid(value: object) -> bool:
    """Whether this is a UUID of version 4 in lower case (COA-06)."""
    return isinstance(value, str) and _UUID4.fullmatch(value) is not None


def is_peer_id(value: object) -> bool:
    """Whether this can be the id of a libp2p peer; whether it is one, only the peer's key can tell."""
    return isinstance(value, str) and _BASE58.fullmatch(value) is not None


def require_uuid(value: object, what: str) -> None:
    if not is_uuid(value):
        raise UsageError(f"{what} is not a lower-case UUID of version 4", got=shown(value))


def require_peer_id(value: object, what: str) -> None:
    if not is_peer_id(value):
        raise UsageError(f"{what} is not a peer id in base58", got=shown(value))


def shown(value: object) -> str:
    """A value as an error message can bear it: short, and in ASCII."""
    match value:
        case str():
            return ascii(value) if len(value) <= _SHOWN_CHARS else ascii(value[:_SHOWN_CHARS]) + "..."
        case None | bool() | float():
            return repr(value)
        case _:
            return type(value).__name__
