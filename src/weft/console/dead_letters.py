"""Dead letters of a group on a page: listed, published again, dropped; as every client may, with the same checks."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from weft.console.asking import Asker
from weft.console.payloads import PREVIEW_BYTES_MAX, View, event_view
from weft.console.publishing import publish_event
from weft.errors import UsageError
from weft.model import Event, parse_event_id
from weft.model.dead_letters import REPLAY_HEADER
from weft.port.node import MeshNode
from weft.transport.clients.dead_letters import DeadLetterQueries
from weft.wire.mesh import mesh_pb2 as pb

SHOWN_MAX: Final = 100


class WantedEnd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to become of a letter."""

    group: str
    event: str
    do: Literal["replay", "drop"]


class DeadLetterDesk:
    def __init__(self, node: MeshNode) -> None:
        self._node = node
        self._queries = DeadLetterQueries(node)

    async def letters(self, group: str, asker: Asker) -> View:
        """The first of them; raise WeftError."""
        request = pb.DeadLettersRequest(group=group, page=pb.Page(limit=SHOWN_MAX))
        reply = await self._queries.letters(request, asker.caller)
        return {"letters": list(map(_letter_view, reply.letters)), "more": bool(reply.next_page)}

    async def end(self, wanted: WantedEnd, asker: Asker, now_us: int, now_s: float) -> None:
        """A replay publishes the event and then drops the letter. If it stops in between, the event and the letter are
        both there.
        """
        if wanted.do == "replay":
            await self._publish(wanted, asker, now_us, now_s)
        drop = pb.DropDeadLettersRequest(group=wanted.group, events=[wanted.event])
        await self._queries.drop(drop, asker.caller)

    async def _publish(self, wanted: WantedEnd, asker: Asker, now_us: int, now_s: float) -> None:
        request = pb.DeadLettersRequest(group=wanted.group, event=wanted.event, page=pb.Page(limit=1))
        found = (await self._queries.letters(request, asker.caller)).letters
        if not found:
            raise UsageError(f"group {wanted.group} has no dead letter of {wanted.event}")
        letter = found[0]
        if letter.lost:
            raise UsageError("this event is lost, so it cannot be sent again", event=letter.event)
        place = parse_event_id(letter.event)
        headers = {**letter.headers, REPLAY_HEADER: letter.event}
        event = Event(letter.payload, now_us, letter.key if letter.HasField("key") else None, headers)
        await publish_event(self._node, asker.caller, place.stream.topic, event, now_s)


def _letter_view(letter: pb.DeadLetter) -> View:
    key = letter.key if letter.HasField("key") else None
    event = Event(letter.payload, letter.timestamp_us, key, dict(letter.headers) or None)
    view = event_view(parse_event_id(letter.event), event, PREVIEW_BYTES_MAX)
    return view | {"tries": letter.tries, "reason": letter.reason, "died_us": letter.died_us, "lost": letter.lost}
