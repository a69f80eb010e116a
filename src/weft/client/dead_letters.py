"""Dead letters of a group: listed, sent again, dropped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Protocol

from weft.client.admin import pages_of
from weft.client.errors import BadNode
from weft.client.nodes import Nodes
from weft.errors import UsageError
from weft.model import Event, EventId, Receipt, parse_event_id
from weft.model.dead_letters import REPLAY_HEADER, DeadLetter
from weft.model.event import check_timestamp_us
from weft.wire.mesh import mesh_pb2 as pb

DROPPED_AT_ONCE: Final = 500  # letters in one request


class PublishAgain(Protocol):
    def __call__(
        self, topic: str, payload: bytes, *, key: bytes | None, headers: Mapping[str, str]
    ) -> Awaitable[Receipt]: ...


class DeadLetters:
    def __init__(self, nodes: Nodes, publish: PublishAgain) -> None:
        self._nodes = nodes
        self._publish = publish

    async def list(self, group: str, event: EventId | None = None) -> list[DeadLetter]:
        request = pb.DeadLettersRequest(group=group, event="" if event is None else str(event))
        replies = await pages_of(self._nodes, "/weft.mesh.v1.Mesh/DeadLetters", request, pb.DeadLettersReply)
        found = [_read_letter_untrusted(group, each) for reply in replies for each in reply.letters]
        return sorted(found, key=lambda each: (each.died_us, each.id))

    async def replay(self, group: str, letters: Iterable[DeadLetter], told: Callable[[DeadLetter], None]) -> None:
        """Publish these events again and drop their letters. Each letter is dropped after its event was published, so
        an interruption in between may leave an event twice, but never loses one."""
        for letter in letters:
            if letter.is_lost:
                raise UsageError("nothing is left of this event to send again", event=str(letter.id))
            event = letter.event
            headers = {**(event.headers or {}), REPLAY_HEADER: str(letter.id)}
            await self._publish(letter.id.stream.topic, event.payload, key=event.key, headers=headers)
            await self.drop(group, [letter.id])
            told(letter)

    async def drop(self, group: str, events: Iterable[EventId]) -> None:
        texts = list(map(str, events))
        for first in range(0, len(texts), DROPPED_AT_ONCE):
            request = pb.DropDeadLettersRequest(group=group, events=texts[first : first + DROPPED_AT_ONCE])
            await self._nodes.call("/weft.mesh.v1.Mesh/DropDeadLetters", request, pb.DropDeadLettersReply)


def _read_letter_untrusted(group: str, found: pb.DeadLetter) -> DeadLetter:
    try:
        check_timestamp_us(found.timestamp_us)
        event = Event(
            found.payload, found.timestamp_us, found.key if found.HasField("key") else None, dict(found.headers) or None
        )
        return DeadLetter(
            parse_event_id(found.event),
            group,
            found.tries,
            found.reason,
            event,
            found.died_us,
            found.lost,
            found.left_out,
        )
    except UsageError as error:
        raise BadNode(f"the node tells of a dead letter that is none: {error}") from None
