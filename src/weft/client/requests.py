"""Requests and replies over topics.

A request is an event with the headers ``weft-reply-to`` (the asker's inbox topic) and ``weft-correlation-id``; a reply
is an event on that topic with the same correlation id. Both are ordinary events: durable and traced. An inbox is read
by its owner only. Who was asked can write to it; the correlation id is random, so they can answer nothing but what they
were asked (SEC-03).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from weft.client.background import begin
from weft.client.errors import NoReply
from weft.client.received import Received
from weft.client.subscription import Subscription
from weft.errors import UsageError
from weft.model import Receipt
from weft.model.owned import OwnedKind, read_owned

CLIENT_REQUESTS_MAX: Final = 65_536  # requests without a reply, per client
REPLY_TO: Final = "weft-reply-to"
CORRELATION: Final = "weft-correlation-id"
CORRELATION_BYTES: Final = 16

Publish = Callable[[str, bytes | str, Mapping[str, str]], Awaitable[Receipt]]


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was received; answer it with ``reply``."""

    event: Received
    _publish: Publish

    @property
    def payload(self) -> bytes:
        return self.event.payload

    async def reply(self, payload: bytes | str, *, headers: Mapping[str, str] | None = None) -> Receipt:
        """Send an answer and wait until it is durable. More than one is sent as well; the asker takes the first."""
        asked = self.event.headers or {}
        if REPLY_TO not in asked or CORRELATION not in asked:
            raise UsageError("this event does not ask for a reply", event=self.event.id, header=REPLY_TO)
        inbox = read_owned(asked[REPLY_TO])
        if inbox is None or inbox.kind is not OwnedKind.INBOX:
            # Whoever asks may name any topic: an answer there would be published with the rights of who answers.
            raise UsageError("replies go to inboxes only", event=self.event.id, reply_to=asked[REPLY_TO][:64])
        return await self._publish(asked[REPLY_TO], payload, {**(headers or {}), CORRELATION: asked[CORRELATION]})


async def requests_in(subscription: Subscription, publish: Publish) -> AsyncIterator[Request]:
    """The events of a subscription as requests; the subscription ends with the iteration."""
    async with subscription:
        async for event in subscription:
            yield Request(event, publish)


class Requester:
    """Asks, and gives each reply that comes into the inbox to whoever waits for it."""

    def __init__(
        self, make_inbox: Callable[[], Awaitable[str]], publish: Publish, subscribe: Callable[[str], Subscription]
    ) -> None:
        self._make_inbox = make_inbox
        self._inbox: str | None = None
        self._making = asyncio.Lock()
        self._publish = publish
        self._subscribe = subscribe
        self._waiting: dict[str, asyncio.Future[Received]] = {}
        self._subscription: Subscription | None = None
        self._task: asyncio.Task[None] | None = None

    async def request(
        self, topic: str, payload: bytes | str, headers: Mapping[str, str] | None, timeout_s: float
    ) -> Received:
        if len(self._waiting) >= CLIENT_REQUESTS_MAX:
            raise UsageError("too many requests wait for their replies", limit=CLIENT_REQUESTS_MAX)
        number = secrets.token_hex(CORRELATION_BYTES)
        reply: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
        self._waiting[number] = reply
        try:
            async with asyncio.timeout(timeout_s):
                inbox = await self._listen()
                await self._publish(topic, payload, {**(headers or {}), REPLY_TO: inbox, CORRELATION: number})
                return await reply
        except TimeoutError:
            raise NoReply("nobody answered in time", topic=topic, waited_s=timeout_s) from None
        finally:
            del self._waiting[number]

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _listen(self) -> str:
        """Open the inbox, once, and return it. Replies are looked for from before the first request on."""
        async with self._making:
            if self._inbox is None:
                self._inbox = await self._make_inbox()
        if self._subscription is None or (self._task is not None and self._task.done()):
            self._subscription = self._subscribe(self._inbox)
            self._task = begin(asyncio.get_running_loop(), self._read(self._subscription), "weft inbox")
        await self._subscription.opened()
        return self._inbox

    async def _read(self, subscription: Subscription) -> None:
        async for event in subscription:
            waiting = self._waiting.get((event.headers or {}).get(CORRELATION, ""))
            if waiting is not None and not waiting.done():
                waiting.set_result(event)
