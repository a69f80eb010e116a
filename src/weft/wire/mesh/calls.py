"""Requests and replies as nodes tell them to each other and to clients: what is checked of both."""

from __future__ import annotations

from collections.abc import Mapping

from weft.limits import EVENT_HEADER_NAME_BYTES_MAX, EVENT_HEADER_VALUE_BYTES_MAX, EVENT_HEADERS_MAX
from weft.wire.mesh.errors import BadMeshMessage


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise BadMeshMessage for headers that no event may have either."""
    if len(headers) > EVENT_HEADERS_MAX:
        raise BadMeshMessage("too many headers", have=len(headers), limit=EVENT_HEADERS_MAX)
    for name, value in headers.items():
        if len(name.encode()) > EVENT_HEADER_NAME_BYTES_MAX:
            raise BadMeshMessage("header name is too long", size=len(name), limit=EVENT_HEADER_NAME_BYTES_MAX)
        if len(value.encode()) > EVENT_HEADER_VALUE_BYTES_MAX:
            raise BadMeshMessage("header value is too long", size=len(value), limit=EVENT_HEADER_VALUE_BYTES_MAX)
