"""Requests and replies over topics (CON-04), as applications see them.

A request goes to one of the servers of its topic, and its replies come back to the asker and to nobody else. With
``durable``, both are also events in the log. The request is an event on its topic, with the headers ``weft-reply-to``
and ``weft-correlation-id``. Each reply is an event on the topic that ``weft-reply-to`` names: an inbox that only the
asker can read (SEC-03).
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from weft.client.background import begin
from weft.client.calls import Asked, CallLink, ClientCalls, HandedClient
from weft.client.errors import Closed, NodeShuttingDown, NoReply, RequestFailed, ServerLost
from weft.client.hooks import LOG
from weft.errors import UsageError, WeftError
from weft.model import Receipt, parse_pattern, parse_topic
from weft.model.topic import OwnedKind, read_owned
from weft.wire.mesh import mesh_pb2 as pb

REPLY_TO: Final = "weft-reply-to"
CORRELATION: Final = "weft-correlation-id"
CORRELATION_BYTES: Final = 16
END: Final = "weft-end"  # this header marks an event that is not a reply, but says that no more replies follow
TIMEOUT_S_MAX: Final = 86_400.0  # for a request with all its replies; nodes accept no longer ones
CONCURRENCY_MAX: Final = 4096
ERROR_CHARS_MAX: Final = 1024  # of the message from a failed handler to the asker

Publish = Callable[[str, bytes | str, Mapping[str, str]], Awaitable[Receipt]]
Answer: TypeAlias = bytes | str | None
Handler = Callable[["Request"], Any]  # an Answer, or something to await or iterate over that gives answers


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to a request. ``event``: where it is in the log, if the request was durable."""

    payload: bytes
    headers: Mapping[str, str]
    event: str = ""


# --- asking ----------------------------------------------------------------------------------------------------------


class Requester:
    """Asks, and gives each reply to the task that waits for it."""

    def __init__(
        self,
        calls: ClientCalls,
        make_inbox: Callable[[], Awaitable[str]],
        publish: Publish,
        trace: Callable[[Mapping[str, str] | None], Mapping[str, str]],
    ) -> None:
        self._calls = calls
        self._make_inbox = make_inbox
        self._inbox: str | None = None
        self._making = asyncio.Lock()
        self._publish = publish
        self._trace = trace

    async def request(
        self,
        topic: str,
        payload: bytes,
        headers: Mapping[str, str] | None,
        timeout_s: float,
        durable: bool,
        attempts: int,
    ) -> Reply:
        """Return the first reply."""
        _check_timeout("timeout_s", timeout_s)
        if attempts < 1:
            raise UsageError("a request is tried at least once", attempts=attempts)
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        while True:
            left_s = max(deadline_s - asyncio.get_running_loop().time(), 0.001)
            try:
                async with asyncio.timeout_at(deadline_s):
                    asked = await self._ask(topic, payload, headers, left_s, durable)
                    try:
                        answer = await asked.next()
                    finally:
                        self._calls.done(asked)
            except TimeoutError:
                raise NoReply("nobody answered in time", topic=topic, waited_s=timeout_s) from None
            except NodeShuttingDown:
                continue  # no server got the request, so it is safe to ask again
            except ServerLost:
                attempts -= 1
                if not attempts:
                    raise
                continue
            if answer is None or END in answer.headers:
                raise NoReply("the server ended without a reply", topic=topic)
            return _reply_of(answer, topic)

    async def request_many(
        self,
        topic: str,
        payload: bytes,
        headers: Mapping[str, str] | None,
        timeout_s: float,
        total_timeout_s: float,
        durable: bool,
    ) -> AsyncGenerator[Reply, None]:
        """Yield all replies, until the server says that there are no more."""
        _check_timeout("timeout_s", timeout_s)
        _check_timeout("total_timeout_s", total_timeout_s)
        deadline_s = asyncio.get_running_loop().time() + total_timeout_s
        asked: Asked | None = None
        try:
            while True:
                due_s = min(asyncio.get_running_loop().time() + timeout_s, deadline_s)
                try:
                    async with asyncio.timeout_at(due_s):
                        if asked is None:
                            asked = await self._ask(topic, payload, headers, total_timeout_s, durable)
                        answer = await asked.next()
                except TimeoutError:
                    waited_s = total_timeout_s if due_s == deadline_s else timeout_s
                    raise NoReply("the next reply did not come in time", topic=topic, waited_s=waited_s) from None
                if answer is None or END in answer.headers:
                    return
                yield _reply_of(answer, topic)
                self._calls.took(asked)
                if answer.last:
                    return
        finally:
            if asked is not None:
                self._calls.done(asked)

    async def _ask(
        self, topic: str, payload: bytes, headers: Mapping[str, str] | None, timeout_s: float, durable: bool
    ) -> Asked:
        sent = self._trace(headers)
        parse_topic(topic)
        if durable:
            await self._check_served(topic, timeout_s)
            sent = {**sent, REPLY_TO: await self._own_inbox(), CORRELATION: secrets.token_hex(CORRELATION_BYTES)}
            await self._publish(topic, payload, sent)
        return await self._calls.ask(topic, payload, sent, timeout_s, durable=durable, probe=False)

    async def _check_served(self, topic: str, timeout_s: float) -> None:
        """Raise NoServer if nobody serves the topic, so that no request is published in vain."""
        asked = await self._calls.ask(topic, b"", {}, timeout_s, durable=False, probe=True)
        try:
            await asked.next()
        finally:
            self._calls.done(asked)

    async def _own_inbox(self) -> str:
        async with self._making:
            if self._inbox is None:
                self._inbox = await self._make_inbox()
        return self._inbox


def _reply_of(answer: pb.CallsAnswer, topic: str) -> Reply:
    if answer.failed:
        why = answer.payload.decode(errors="replace")[:ERROR_CHARS_MAX]
        raise RequestFailed(f"the server failed: {why}", topic=topic)
    return Reply(answer.payload, dict(answer.headers), answer.event)


def _check_timeout(name: str, value: float) -> None:
    if not 0 < value <= TIMEOUT_S_MAX:
        raise UsageError(f"{name} is out of range", value=value, most=TIMEOUT_S_MAX)


# --- serving ---------------------------------------------------------------------------------------------------------


class Request:
    """A request that this client got: answer it with ``reply``, once or several times, or ``fail``."""

    def __init__(self, handed: pb.CallsHanded, link: CallLink, calls: ClientCalls, publish: Publish) -> None:
        self.topic: str = handed.topic
        self.payload: bytes = handed.payload
        self.headers: Mapping[str, str] = dict(handed.headers)
        self.timeout_s: float = handed.timeout_s  # how long the asker waits for all replies
        self.durable: bool = handed.durable
        self.task: asyncio.Task[None] | None = None  # the task that works on it
        self._handle: int = handed.number
        self._link = link
        self._calls = calls
        self._publish = publish
        self._room = asyncio.Semaphore(link.window)
        self._on_end: Callable[[int], None] = lambda _: None
        self._over = False

    @property
    def is_over(self) -> bool:
        """Whether it has its last reply, or nobody waits for one any longer."""
        return self._over

    async def reply(
        self, payload: bytes | str, *, headers: Mapping[str, str] | None = None, last: bool = True
    ) -> Receipt | None:
        """Send an answer; ``last=False`` if more follow. Returns the receipt of its event if the request is durable."""
        data = payload.encode() if isinstance(payload, str) else bytes(payload)
        self._check_open()
        self._check_size(data)
        receipt = None
        if self.durable:
            receipt = await self._publish(self._inbox(), data, self._reply_headers(headers))
            self._check_open()
        if not last:
            await self._room.acquire()
            self._check_open()
        self._answer(data, headers or {}, last=last, event="" if receipt is None else str(receipt))
        await self._link.room()
        return receipt

    async def end(self) -> None:
        """Say that no more replies follow."""
        if not self._over:
            self._answer(b"", {END: "1"}, last=True)

    async def fail(self, reason: str) -> None:
        """Say that it cannot be done; the asker is told why."""
        self.fail_now(reason)

    def fail_now(self, reason: str) -> None:
        """Do the same at once."""
        if not self._over:
            self._answer(reason[:ERROR_CHARS_MAX].encode(errors="replace"), {}, last=True, failed=True)

    def reply_now(self, payload: bytes) -> None:
        """Send, at once, the only answer to a request that is not durable."""
        self._check_size(payload)
        self._answer(payload, {}, last=True)

    def _answer(
        self, payload: bytes, headers: Mapping[str, str], *, last: bool, failed: bool = False, event: str = ""
    ) -> None:
        answer = pb.CallsAnswer(
            number=self._handle, payload=payload, headers=headers, last=last, failed=failed, event=event
        )
        self._link.say(pb.CallsRequest(answer=answer))
        if last:
            self._over = True
            self._calls.answered(self._handle)
            self._on_end(self._handle)

    def _check_size(self, payload: bytes) -> None:
        if len(payload) > self._link.payload_bytes_max:
            raise UsageError("the reply is too large", have=len(payload), limit=self._link.payload_bytes_max)

    def _check_open(self) -> None:
        if self._over or self._link.lost:
            raise Closed("nobody waits for this reply: the request has its last one, or the asker is gone")

    def _inbox(self) -> str:
        named = self.headers.get(REPLY_TO, "")
        inbox = read_owned(named)
        if inbox is None or inbox.kind is not OwnedKind.INBOX:
            # The asker could name any topic, and the server's answer would be published there with the server's rights.
            raise UsageError("replies go to inboxes only", topic=self.topic, reply_to=named[:64])
        return named

    def _reply_headers(self, headers: Mapping[str, str] | None) -> dict[str, str]:
        return {**(headers or {}), CORRELATION: self.headers.get(CORRELATION, "")}

    # --- called by the server ---

    def watch(self, on_end: Callable[[int], None]) -> None:
        self._on_end = on_end

    def took(self, count: int) -> None:
        for _ in range(count):
            self._room.release()

    def cancel(self) -> None:
        self._over = True
        self._room.release()  # wakes a task that waits for room: it sees that the request is over
        if self.task is not None:
            self.task.cancel()


class Server(HandedClient):
    """Serves requests, by a function (``client.serve``) or one by one (``client.requests``). Close it, or use it with
    ``async with``."""

    def __init__(
        self, calls: ClientCalls, pattern: str, handler: Handler | None, concurrency: int, publish: Publish
    ) -> None:
        if not 1 <= concurrency <= CONCURRENCY_MAX:
            raise UsageError("concurrency is out of range", value=concurrency, least=1, most=CONCURRENCY_MAX)
        self.pattern = parse_pattern(pattern)
        self.slots = concurrency
        self._calls = calls
        self._handler = handler
        self._is_async = inspect.iscoroutinefunction(handler) or inspect.isasyncgenfunction(handler)
        self._publish = publish
        self._loop = asyncio.get_running_loop()
        self._requests: dict[int, Request] = {}
        self._waiting: deque[Request] = deque()  # for somebody who iterates
        self._arrived = asyncio.Event()
        self._idle = asyncio.Event()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self.on_closed: Callable[[Server], None] = lambda _: None
        self._number = calls.serve(self)

    async def opened(self) -> None:
        """Wait until a node knows the server; raise the node's refusal. Other nodes know it a moment later."""
        await asyncio.wait({self._opened})
        self._opened.result()

    async def wait(self) -> None:
        """Wait until it is closed; raise why it cannot go on."""
        await asyncio.wait({self._ended})
        self._ended.result()

    async def close(self, timeout_s: float = 10.0) -> None:
        """Take no more requests, finish those in hand within that time, and close."""
        self._calls.stop(self._number, gone=False)
        if self._handler is not None:
            try:
                async with asyncio.timeout(timeout_s):
                    while self._requests:
                        self._idle.clear()
                        await self._idle.wait()
            except TimeoutError:
                LOG.warning("%d requests to %s are not finished", len(self._requests), self.pattern)
        self._calls.stop(self._number, gone=True)
        self.on_closed(self)
        self.lost()
        if not self._ended.done():
            self._ended.set_result(None)
        if not self._opened.done():
            self._opened.set_result(None)
        self._arrived.set()

    async def __aenter__(self) -> Self:
        await self.opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Request:
        while True:
            while self._waiting:
                request = self._waiting.popleft()
                if not request.is_over:
                    return request
            if self._ended.done():
                self._ended.result()
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()

    # --- called by the stream ---

    def serving(self, error: WeftError | None) -> None:
        if error is None:
            if not self._opened.done():
                self._opened.set_result(None)
            return
        for each in (self._opened, self._ended):
            if not each.done():
                each.set_exception(error)
                each.exception()  # both futures have the error: asyncio must not warn of the one that nobody awaits
        self._arrived.set()

    def handed(self, link: CallLink, handed: pb.CallsHanded) -> None:
        request = Request(handed, link, self._calls, self._publish)
        handle = handed.number
        self._requests[handle] = request
        request.watch(self._done)
        if self._handler is None:
            self._waiting.append(request)
            self._arrived.set()
        else:
            self._begin(request, self._handler)

    def _begin(self, request: Request, handler: Handler) -> None:
        """The result of a plain function is sent in the same turn of the loop; anything else gets a task."""
        result: Any = None
        is_called = not request.durable and not self._is_async
        if is_called:
            try:
                result = handler(request)
                if isinstance(result, bytes | str):
                    if not request.is_over:
                        request.reply_now(result.encode() if isinstance(result, str) else result)
                    return
            except Exception as error:
                self._failed(request, error)
                return
        work = self._work(request, (lambda _: result) if is_called else handler)
        request.task = begin(self._loop, work, f"weft serve {self.pattern}")

    def _failed(self, request: Request, error: Exception) -> None:
        LOG.warning("could not handle a request to %s: %r", request.topic, error)
        request.fail_now(f"{type(error).__name__}: {error}")

    def over(self, handle: int) -> None:
        request = self._requests.get(handle)
        if request is not None:
            request.cancel()
            self._done(handle)

    def took(self, handle: int, count: int) -> None:
        request = self._requests.get(handle)
        if request is not None:
            request.took(count)

    def lost(self) -> None:
        for handle in list(self._requests):
            self.over(handle)

    def _done(self, handle: int) -> None:
        self._requests.pop(handle, None)
        if not self._requests:
            self._idle.set()

    async def _work(self, request: Request, handler: Handler) -> None:
        try:
            await answered(request, handler)
        except Closed:
            LOG.info("nobody waits any longer for the reply to a request to %s", request.topic)
        except Exception as error:
            self._failed(request, error)


async def answered(request: Request, handler: Handler) -> None:
    """Answer with the result of a function: one reply, or several if it is an iterator."""
    result = handler(request)
    if inspect.isawaitable(result):
        result = await result
    if isinstance(result, AsyncIterator):
        try:
            async for each in result:
                await request.reply(_checked(each), last=False)
        finally:
            if isinstance(result, AsyncGenerator):
                await result.aclose()  # now, and not when it is garbage-collected
        await request.end()
    elif isinstance(result, Iterator):
        for each in result:
            await request.reply(_checked(each), last=False)
        await request.end()
    elif not request.is_over:  # otherwise the function has called ``reply`` itself
        await request.reply(_checked(result))


def _checked(answer: object) -> bytes | str:
    match answer:
        case None:
            return b""
        case bytes() | str():
            return answer
        case bytearray() | memoryview():
            return bytes(answer)
        case _:
            raise UsageError(f"a reply is bytes or str, not {type(answer).__name__}")
