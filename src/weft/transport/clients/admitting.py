"""Finds out who makes a call, by the key in its metadata (``authorization: Bearer weft_...``) and its connection."""

from __future__ import annotations

import re
from typing import Final

from weft.limits import API_KEY_CHARS_MAX
from weft.port.access import Access, Caller, Shown
from weft.security import Refused, Secret
from weft.transport.clients.failing import failure_of
from weft.transport.grpc.calls import ServerCall
from weft.wire.rpc import Metadata, metadata_value

SCHEME: Final = re.compile(r"bearer +(\S+)", re.IGNORECASE)


async def admitted(access: Access, call: ServerCall) -> Caller:
    """Return the caller, which may send as much as other clients from now on; or end the call."""
    try:
        shown = Shown(call.host, key_untrusted(call.metadata), call.certificate, call.port)
        caller = await access.admit_untrusted(shown)
    except Refused as error:
        raise failure_of(error) from None
    call.widen()
    return caller


def key_untrusted(metadata: Metadata) -> Secret[str] | None:
    """The API key of a call; None if there is none."""
    value = metadata_value(metadata, "authorization")
    if not isinstance(value, str) or len(value) > 2 * API_KEY_CHARS_MAX:
        return None
    found = SCHEME.fullmatch(value)
    return None if found is None else Secret(found[1])
