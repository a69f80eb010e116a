"""The calls of ``Mesh`` about events that wait for a later time (CON-03). They are published through ``Publish``, in
batches.

A waiting event belongs to its publisher. The owner can see and cancel it, and so can administrators.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from weft.errors import UsageError, WeftError
from weft.limits import MIB
from weft.model import EventId, parse_event_id
from weft.model.later import Waiting
from weft.port.access import Caller
from weft.port.later import LaterStore, WaitsElsewhere
from weft.port.node import MeshNode
from weft.wire.mesh import mesh_pb2 as pb

PAGE_BYTES: Final = 1 * MIB  # of events in one reply
TOKEN_BYTES_MAX: Final = 512  # of a page: the text of an event's identity


class LaterCalls:
    def __init__(self, node: MeshNode, store: LaterStore) -> None:
        self._node = node
        self._store = store

    async def list(self, request: pb.LaterRequest, caller: Caller) -> pb.LaterReply:
        after = _read_token_untrusted(request.page.token)
        found, has_more = await self._store.waiting(_whose(caller), after, PAGE_BYTES)
        reply = pb.LaterReply(
            events=map(waiting_message, found), node_id=self._node.node_id, addresses=self._node.addresses()
        )
        if has_more and found:
            reply.next_page = str(found[-1].id).encode()
        return reply

    async def cancel(self, request: pb.CancelLaterRequest, caller: Caller) -> pb.CancelLaterReply:
        event = parse_event_id(request.event)
        try:
            found = await self._store.cancel(event, _whose(caller))
        except WaitsElsewhere:
            return pb.CancelLaterReply(elsewhere=event.stream.origin, addresses=self._node.addresses())
        return pb.CancelLaterReply(event=waiting_message(found))


def _whose(caller: Caller) -> str | None:
    """Whose events a caller may see; None means everybody's."""
    caller.check()
    return None if caller.acl.admin else caller.owner


def waiting_message(waiting: Waiting) -> pb.WaitingEvent:
    event = waiting.event
    return pb.WaitingEvent(
        event=str(waiting.id),
        due_us=waiting.due_us,
        topic=waiting.topic,
        partition=waiting.partition,
        key=event.key,
        headers=event.headers or {},
        payload=event.payload,
    )


def _read_token_untrusted(token: bytes) -> EventId | None:
    if not token:
        return None
    with suppress(WeftError, UnicodeDecodeError):
        return parse_event_id(token[:TOKEN_BYTES_MAX].decode())
    raise UsageError("not the token of a page: send the one that came with the page before")
