"""From the mesh to the namespace: what is published on ``coaty.<namespace>.<event>[.<filter>]`` reaches Coaty agents.

All bridges of a mesh to one namespace are members of one group, so each event goes out once, and what was published
while a bridge was down goes out when it is back: unless it is a question or an answer, for which nobody waits any more.
Answers to questions that went out are brought back for a while.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from structlog.stdlib import BoundLogger

from weft.coaty.settling import Publication
from weft.core.messages import Delivered
from weft.errors import PeerError, UsageError
from weft.gateway.coaty.inbound import BRIDGE_HEADER
from weft.gateway.coaty.objects import Objects
from weft.gateway.coaty.topics import coaty_topic
from weft.limits import COATY_PAYLOAD_BYTES_MAX
from weft.model import Batch, Event
from weft.model import Topic as MeshTopic
from weft.wire.coaty import (
    RESPONSE_TO,
    Advertise,
    Message,
    Topic,
    Update,
    decode_payload_untrusted,
    topics_of,
)

COATY_QUESTION_S: Final = 60.0  # for how long answers are brought back to the mesh; agents wait for seconds
COATY_QUESTIONS_MAX: Final = 1024  # each is a subscription that neighbours keep, too
US_PER_S = 1_000_000


@dataclass(slots=True)
class OutFigures:
    """Counts since the start; changed in place."""

    published: int = 0
    echoes: int = 0  # events that came from the namespace, and therefore do not go back
    rejected: int = 0  # no Coaty events
    stale: int = 0  # questions and answers that are too old


class Questions:
    """Correlation ids whose answers are awaited, each with a subscription to its topic. Oldest go first."""

    def __init__(self, subscribe: Callable[[str], Callable[[], None]]) -> None:
        self._subscribe = subscribe
        self._leave: OrderedDict[str, Callable[[], None]] = OrderedDict()
        self._until_s: dict[str, float] = {}

    def asked(self, topic: Topic, now_s: float) -> None:
        text = str(topic)
        self.forget(now_s)
        if text in self._leave:
            return
        if len(self._leave) >= COATY_QUESTIONS_MAX:
            self._drop(next(iter(self._leave)))
        self._leave[text] = self._subscribe(text)
        self._until_s[text] = now_s + COATY_QUESTION_S

    def forget(self, now_s: float) -> None:
        while self._leave and self._until_s[oldest := next(iter(self._leave))] <= now_s:
            self._drop(oldest)

    def _drop(self, text: str) -> None:
        del self._until_s[text]
        self._leave.pop(text)()

    def __len__(self) -> int:
        return len(self._leave)


class Outbound:
    """``say`` publishes in the namespace; ``read_clock`` tells Unix time in microseconds."""

    def __init__(
        self,
        namespace: str,
        say: Callable[[Publication], Awaitable[None]],
        questions: Questions,
        objects: Objects,
        read_clock: Callable[[], int],
        logger: BoundLogger,
    ) -> None:
        self.figures = OutFigures()
        self._namespace = namespace
        self._say = say
        self._questions = questions
        self._objects = objects
        self._read_clock = read_clock
        self._logger = logger

    async def take(self, delivered: Delivered) -> None:
        batch = Batch.read_stored(delivered.data)
        for event in batch.events_from(delivered.first_offset):
            await self._take_event(delivered.stream.topic, event)

    async def _take_event(self, topic: MeshTopic, event: Event) -> None:
        if event.headers is not None and BRIDGE_HEADER in event.headers:
            self.figures.echoes += 1
            return
        try:
            found = self._read_untrusted(topic, event.payload)
        except (PeerError, UsageError) as error:
            self.figures.rejected += 1
            self._logger.warning("coaty_publication_rejected", topic=topic, reason=str(error))
            return
        if found is None:
            return
        targets, message = found
        if message.correlation_id is not None and self._is_stale(event):
            self.figures.stale += 1
            return
        if message.event in RESPONSE_TO:
            answers = Topic(self._namespace, RESPONSE_TO[message.event], correlation_id=message.correlation_id)
            self._questions.asked(answers, asyncio.get_running_loop().time())
        for target in targets:
            await self._say(Publication(str(target), event.payload))
        self._objects.happened(message)
        self.figures.published += 1

    def _read_untrusted(self, topic: MeshTopic, payload: bytes) -> tuple[list[Topic], Message] | None:
        """Clients of the mesh can publish anything here; agents get what is a Coaty event."""
        if len(payload) > COATY_PAYLOAD_BYTES_MAX:
            raise UsageError("payload is too long for Coaty", have=len(payload), limit=COATY_PAYLOAD_BYTES_MAX)
        probe = coaty_topic(self._namespace, topic, correlation_id=PLACEHOLDER)
        if probe is None:
            return None
        message = decode_payload_untrusted(probe.event, payload)
        target = coaty_topic(self._namespace, topic, message.correlation_id)
        assert target is not None, "the same topic"
        return _everywhere(target, message), message

    def _is_stale(self, event: Event) -> bool:
        return event.timestamp_us < self._read_clock() - int(COATY_QUESTION_S * US_PER_S)


def _everywhere(target: Topic, message: Message) -> list[Topic]:
    """What is published under its core type is for those as well who observe the object type, as among agents."""
    if isinstance(message.data, Advertise | Update):
        topics = topics_of(target.namespace, message)
        if target == topics[0]:
            return topics
    return [target]


PLACEHOLDER = "00000000-0000-4000-8000-000000000000"  # a correlation id, until the payload has said which
