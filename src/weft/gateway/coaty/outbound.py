"""From the mesh to the namespace: what is published on ``coaty.<namespace>.<event>[.<filter>]`` reaches Coaty agents.

All bridges of a mesh on one island of a namespace are members of one group, so each event goes out once. What was
published while a bridge was down goes out when it is back, except questions and answers, for which nobody waits any
longer. Answers to questions that went out are carried back for a while. What agents of one island said goes out on the
others. If an agent joins two islands, the one whose name comes first speaks, and the other waits until it has heard
that.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from structlog.stdlib import BoundLogger

from weft.coaty.settling import Publication
from weft.core.messages import Delivered
from weft.errors import PeerError, UsageError
from weft.gateway.coaty.inbound import BRIDGE_HEADER, ISLAND_HEADER, NOWHERE
from weft.gateway.coaty.memory import IDENTITY_HEADER, Remembered
from weft.gateway.coaty.objects import Objects
from weft.gateway.coaty.sharing import marked, said_of
from weft.gateway.coaty.topics import coaty_topic, raw_topic
from weft.limits import COATY_PAYLOAD_BYTES_MAX
from weft.model import Batch, Event
from weft.model import Topic as MeshTopic
from weft.wire.coaty import (
    RESPONSE_TO,
    Advertise,
    EventType,
    Message,
    Topic,
    Update,
    decode_payload_untrusted,
    topics_of,
)

COATY_QUESTION_S: Final = 60.0  # for how long answers are carried back to the mesh; agents wait for seconds
COATY_PATIENCE_S: Final = 1.0  # for what another island is about to say: an agent passes it on within milliseconds
COATY_IMPATIENCE_S: Final = 30.0  # after it waited in vain: the other island is slow, or gone
COATY_QUESTIONS_MAX: Final = 1024  # each is a subscription that neighbours keep, too
US_PER_S = 1_000_000


@dataclass(slots=True)
class OutFigures:
    """Counts since the start; changed in place."""

    published: int = 0
    echoes: int = 0  # events that came from the namespace, so they do not go back
    repeated: int = 0  # a bridge of our mesh has sent them already
    rejected: int = 0  # no Coaty events
    stale: int = 0  # questions and answers that are too old


class Questions:
    """Correlation ids that wait for answers, each with a subscription to its topic. The oldest go first."""

    def __init__(self, subscribe: Callable[[str], Callable[[], None]], count_max: int) -> None:
        self._subscribe = subscribe
        self._count_max = count_max
        self._leave: OrderedDict[str, Callable[[], None]] = OrderedDict()
        self._until_s: dict[str, float] = {}
        self._said: set[str] = set()

    def asked(self, text: str, now_s: float) -> None:
        """``text`` is the topic of the answers."""
        self.forget(now_s)
        if text in self._leave:
            return
        if len(self._leave) >= self._count_max:
            self._drop(next(iter(self._leave)))
        self._leave[text] = self._subscribe(text)
        self._until_s[text] = now_s + COATY_QUESTION_S

    def said(self, text: str) -> None:
        """This bridge asks: a near one may do it instead."""
        if text in self._leave:
            self._said.add(text)

    def has_said(self, text: str) -> bool:
        return text in self._said

    def forget(self, now_s: float) -> None:
        while self._leave and self._until_s[oldest := next(iter(self._leave))] <= now_s:
            self._drop(oldest)

    def _drop(self, text: str) -> None:
        del self._until_s[text]
        self._said.discard(text)
        self._leave.pop(text)()

    def __len__(self) -> int:
        return len(self._leave)


class Outbound:
    """``say`` publishes in the namespace; ``island`` returns our part of it, and ``near`` the other islands that are
    also heard on ours, for a topic; ``heard`` has what was heard there, ``said`` what bridges of our mesh said there,
    and ``news`` is set when one of them has more; ``read_clock`` returns Unix time in microseconds."""

    def __init__(
        self,
        namespace: str,
        mark: bytes,
        say: Callable[[Publication], Awaitable[None]],
        island: Callable[[], str],
        near: Callable[[str], frozenset[str]],
        heard: Remembered,
        said: Remembered,
        news: asyncio.Event,
        questions: Questions,
        objects: Objects,
        read_clock: Callable[[], int],
        logger: BoundLogger,
    ) -> None:
        self.figures = OutFigures()
        self._namespace = namespace
        self._mark = mark
        self._say = say
        self._island = island
        self._near = near
        self._heard = heard
        self._said = said
        self._news = news
        self._impatient_until_s = 0.0
        self._questions = questions
        self._objects = objects
        self._read_clock = read_clock
        self._logger = logger

    async def take(self, delivered: Delivered) -> None:
        batch = Batch.read_stored(delivered.data)
        first = max(delivered.first_offset, batch.base_offset)
        stream = delivered.stream
        place = f"{stream.topic}\0{stream.origin}\0{stream.partition}\0{delivered.epoch}"
        for offset, event in enumerate(batch.events_from(first), first):
            await self._take_event(stream.topic, event, f"{place}\0{offset}")

    async def _take_event(self, topic: MeshTopic, event: Event, place: str) -> None:
        headers = event.headers or {}
        if BRIDGE_HEADER in headers and not self._is_from_elsewhere(headers):
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
        answers = ""
        if message is not None and message.correlation_id is not None:
            if self._is_stale(event):
                self.figures.stale += 1
                return
            if message.event in RESPONSE_TO:
                answers = str(Topic(self._namespace, RESPONSE_TO[message.event], correlation_id=message.correlation_id))
                self._questions.asked(answers, asyncio.get_running_loop().time())
        if BRIDGE_HEADER in headers and await self._is_heard(headers, targets):
            self.figures.echoes += 1
            return
        publications = [self._publication(target, event.payload, place) for target in targets]
        fresh = [each for each in publications if not await self._is_said(each)]
        if fresh:
            self._questions.said(answers)
        for publication in fresh:
            await self._say(publication)
        if message is not None and BRIDGE_HEADER not in headers:
            self._objects.happened(message)
        if fresh:
            self.figures.published += 1
        else:
            self.figures.repeated += 1

    async def _is_said(self, publication: Publication) -> bool:
        """Whether a bridge of our mesh has said it; if one of a near island goes first, we wait for it."""
        assert publication.seqno is not None, "what a bridge says is marked"
        said, islands = said_of(publication.seqno), self._near(publication.topic)
        return await self._comes_true(lambda: said in self._said, min(islands, default="") < self._island(), islands)

    async def _is_heard(self, headers: Mapping[str, str], targets: Sequence[str]) -> bool:
        """Whether what was said on a near island has come, or is coming, to ours through the agent between the two."""
        identity, islands = headers.get(IDENTITY_HEADER), self._near(targets[0])
        return await self._comes_true(lambda: identity in self._heard, headers.get(ISLAND_HEADER) in islands, islands)

    async def _comes_true(self, holds: Callable[[], bool], is_awaited: bool, islands: Collection[str]) -> bool:
        """Whether it is true now, or becomes true within a short wait. An island that was waited for without success is
        not waited for again.
        """
        loop = asyncio.get_running_loop()
        if not is_awaited or not islands or loop.time() < self._impatient_until_s:
            return holds()
        until_s = loop.time() + COATY_PATIENCE_S
        while not holds() and loop.time() < until_s:
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until_s):
                    await self._news.wait()
        if not holds():
            self._impatient_until_s = loop.time() + COATY_IMPATIENCE_S
        return holds()

    def _publication(self, target: str, payload: bytes, place: str) -> Publication:
        return Publication(target, payload, marked(self._mark, f"{place}\0{target}"))

    def _is_from_elsewhere(self, headers: Mapping[str, str]) -> bool:
        """Whether it comes from agents of another island, which agents on ours cannot hear."""
        island = headers.get(ISLAND_HEADER, NOWHERE)
        return island not in (NOWHERE, self._island()) and headers.get(IDENTITY_HEADER) not in self._heard

    def _read_untrusted(self, topic: MeshTopic, payload: bytes) -> tuple[list[str], Message | None] | None:
        """Clients of the mesh can publish anything here; agents get only Coaty events."""
        if len(payload) > COATY_PAYLOAD_BYTES_MAX:
            raise UsageError("payload is too long for Coaty", have=len(payload), limit=COATY_PAYLOAD_BYTES_MAX)
        raw = raw_topic(self._namespace, topic)
        if raw is not None:
            return [raw], None
        probe = coaty_topic(self._namespace, topic, correlation_id=PLACEHOLDER)
        if probe is None:
            return None
        if probe.event is EventType.IO_VALUE:
            return [str(probe)], None  # JSON in an envelope, or bytes: actors can tell
        message = decode_payload_untrusted(probe.event, payload)
        target = coaty_topic(self._namespace, topic, message.correlation_id)
        assert target is not None, "the same topic"
        return [str(each) for each in _everywhere(target, message)], message

    def _is_stale(self, event: Event) -> bool:
        return event.timestamp_us < self._read_clock() - int(COATY_QUESTION_S * US_PER_S)


def _everywhere(target: Topic, message: Message) -> list[Topic]:
    """What is published under its core type is also for observers of the object type, as among agents."""
    if isinstance(message.data, Advertise | Update):
        topics = topics_of(target.namespace, message)
        if target == topics[0]:
            return topics
    return [target]


PLACEHOLDER = "00000000-0000-4000-8000-000000000000"  # a correlation id, until the payload has named one
