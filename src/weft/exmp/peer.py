"""One connection with the other end: calls to it, and handlers for calls from it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Final, TypeAlias, assert_never

from weft.errors import UsageError, WeftError
from weft.limits import EXMP_LINGER_S, EXMP_OP_SHOWN_CHARS
from weft.transport.tcp import Answer, BadAnswer, ExmpConnection, LinkLost, ReceivedRequest
from weft.transport.tcp.link import words
from weft.wire.exmp import Closed, InvalidRequestReceived, JsonObject, Outcome, Success
from weft.wire.exmp import Failure as FailureOutcome

LOG: Final = logging.getLogger("weft.exmp")
# Codes of failures, as nodes have them as well.
INVALID_REQUEST: Final = "invalid_request"
UNKNOWN_OPERATION: Final = "unknown_operation"
INTERNAL_ERROR: Final = "internal_error"

Handler: TypeAlias = Callable[[JsonObject], Awaitable[JsonObject | None]]
OnRequest: TypeAlias = "Callable[[Peer, str, JsonObject | None], None]"
_PEER: ContextVar[Peer] = ContextVar("weft.exmp.peer")


class Failure(WeftError):
    """An answer that says no. ``code`` is for programs, ``description`` for people, ``data`` whatever goes with it."""

    def __init__(self, code: str | None, description: str, data: JsonObject | None = None) -> None:
        super().__init__(description if code is None else f"{description} [{code}]")
        self.code = code
        self.description = description
        self.data = data


class NotSent(LinkLost):
    """The connection ended before the request was sent, so sending it again is safe."""


def current_peer() -> Peer:
    """The peer that asked; for handlers. UsageError anywhere else."""
    peer = _PEER.get(None)
    if peer is None:
        raise UsageError("there is a current peer only inside a handler")
    return peer


class Peer:
    """Made by ``connect`` and ``serve``. Requests are handled one at a time and in order (EXM-06), so a handler that
    calls back to its own peer must not wait for an answer that comes behind its own."""

    def __init__(
        self, link: ExmpConnection, handlers: Mapping[str, Handler], on_request: OnRequest | None = None
    ) -> None:
        self._link = link
        self._handlers = handlers
        self._on_request = on_request
        self._slots = asyncio.Semaphore(link.pending_max)
        self._loop = asyncio.get_running_loop()
        self._queue: deque[ReceivedRequest] = deque()
        self._room = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[None] = self._loop.create_future()

    # --- for programs --------------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """Host and port at the other end."""
        return str(self._link.peer_address)

    @property
    def certificate(self) -> bytes | None:
        """The certificate of the other side, in DER; None if it showed none, or there is no TLS."""
        tls = self._link.tls
        return None if tls is None else tls.getpeercert(binary_form=True)

    async def call(self, op: str, data: JsonObject | None = None) -> JsonObject | None:
        """Return the answer's data. Raise Failure if the answer is a refusal, BadAnswer if it is not valid, LinkLost if
        none comes."""
        await self._slots.acquire()
        answered: asyncio.Future[Answer] = self._loop.create_future()

        def settle(answer: Answer) -> None:
            self._slots.release()
            if not answered.done():
                answered.set_result(answer)

        try:
            if self._link.end is not None:
                raise NotSent(f"the connection has ended: {words(self._link.end)}")
            self._link.request(op, data, settle)
        except WeftError:
            self._slots.release()
            raise
        return _result_of(await answered)

    async def close(self) -> None:
        """Say bye. Calls without an answer end with LinkLost: wait for them first."""
        self._link.close()
        await self.wait_closed()

    async def wait_closed(self) -> None:
        """Wait until the connection is gone and no handler is running."""
        await self._link.gone.wait()
        if self._worker is not None and self._worker is not asyncio.current_task():
            await asyncio.gather(self._worker, return_exceptions=True)

    async def wait_opened(self) -> None:
        """Until the handshake is done; raise LinkLost if it fails."""
        await self._opened

    # --- LinkUser ------------------------------------------------------------------------------------------------

    def opened(self) -> None:
        self._link.prove()  # who it is, is the business of handlers
        if not self._opened.done():
            self._opened.set_result(None)

    def requested(self, requests: Sequence[ReceivedRequest]) -> None:
        self._queue.extend(requests)
        if self._worker is None or self._worker.done():
            self._worker = self._loop.create_task(self._work(), name="weft exmp handlers")

    def writable(self) -> None:
        self._room.set()

    def closed(self, closed: Closed) -> None:
        if not self._opened.done():
            self._opened.set_exception(LinkLost(f"no handshake: {words(closed)}"))
            self._opened.exception()  # callers that wait are told; nobody has to wait
        self._room.set()
        if self._worker is not None and not self._worker.done():
            # What was asked before the end is still handled, though nobody hears the answers; not for ever.
            self._loop.call_later(EXMP_LINGER_S, self._worker.cancel)

    # --- handlers ------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        _PEER.set(self)
        while self._queue:
            while self._link.is_congested and self._link.end is None:
                self._room.clear()
                await self._room.wait()
            request = self._queue.popleft()
            self._respond(request.id, await self._outcome(request))

    async def _outcome(self, request: ReceivedRequest) -> Outcome:
        if isinstance(request, InvalidRequestReceived):
            return FailureOutcome(request.reason, INVALID_REQUEST)
        operation = request.operation
        if self._on_request is not None:
            self._on_request(self, operation.op, operation.data)
        handler = self._handlers.get(operation.op)
        if handler is None:
            return FailureOutcome(f"there is no operation {operation.op[:EXMP_OP_SHOWN_CHARS]!r}", UNKNOWN_OPERATION)
        try:
            return Success(await handler(operation.data or {}))
        except Failure as failure:
            return FailureOutcome(failure.description, failure.code, failure.data)
        except Exception:
            LOG.exception("the handler of %r has failed", operation.op)
            return FailureOutcome("the operation has failed; the other side's log says why", INTERNAL_ERROR)

    def _respond(self, request_id: int, outcome: Outcome) -> None:
        try:
            self._link.respond(request_id, outcome)
        except UsageError as error:  # no JSON, or too long
            LOG.error("an answer cannot be sent: %s", error)
            self._link.respond(request_id, FailureOutcome(f"the answer cannot be sent: {error}", INTERNAL_ERROR))


def _result_of(answer: Answer) -> JsonObject | None:
    match answer:
        case Success(data):
            return data
        case FailureOutcome(description, code, data):
            raise Failure(code, description, data)
        case LinkLost() | BadAnswer():
            raise answer
        case _:
            assert_never(answer)
