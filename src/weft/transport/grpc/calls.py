"""The two ends of a gRPC call: reading messages, writing messages, and how the call ended.

A call owns its stream from the first byte to the last. Cancelling ``read`` or ``write`` never harms the call.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from weft.transport.http2.endpoint import Endpoint
from weft.wire import rpc
from weft.wire.http2 import ErrorCode, Headers, Stream
from weft.wire.rpc import BadCall, Metadata, RpcError, StatusCode

UNREAD_BYTES_MAX: Final = 4 << 20  # with more, the peer gets no more window
UNREAD_MESSAGE_BYTES: Final = 64  # what a waiting message costs beside its bytes, roughly
UNSENT_BYTES_MAX: Final = 1 << 20  # of one call; with more, ``write`` waits
UNSENT_OF_CONNECTION_BYTES_MAX: Final = 16 << 20  # of all calls; with more, ``write`` waits until its call has none
DEADLINE_SLACK_S: Final = 0.01  # allowed between two clocks that count in milliseconds
DETAILS_MAX: Final = 1024  # characters of a status: clients take 8 KiB of headers; a character may take 12 bytes there
NO_COMPRESSION: Final = RpcError(
    StatusCode.UNIMPLEMENTED,
    "compressed messages are not understood: send them as they are",
    [("grpc-accept-encoding", "identity")],
)


class Call:
    """What both ends share. ``error`` says how it ended, if it failed."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._stream: Stream
        self._unread: deque[bytes] = deque()
        self._unread_bytes = 0
        self._reader: asyncio.Future[None] | None = None
        self._writers: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.on_sent: Callable[[], None] | None = None  # some unsent bytes are on their way
        self._ended = False  # no more messages will come
        self.error: RpcError | None = None
        self.metadata: Metadata = ()  # what the other side began with

    # --- messages ------------------------------------------------------------------------------------------------

    async def read(self) -> bytes | None:
        """The next message; None at the end; RpcError when the call has failed. One reader at a time."""
        assert self._reader is None, "somebody else reads this call already"
        while not self._unread:
            if self._ended:
                if self.error is not None:
                    raise self._failure()
                return None
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        message = self._unread.popleft()
        self._unread_bytes -= len(message) + UNREAD_MESSAGE_BYTES
        self._release()
        return message

    def deliver_to(self, take: Callable[[bytes], None]) -> None:
        """From now on, ``take`` gets each message as it comes. Use ``read`` only to wait for the end.

        Messages that were not read yet are handed to ``take`` at once; it may call ``hold`` during that."""
        self._stream.deliver = take
        self._unread_bytes = 0
        self._release()
        while self._unread:
            take(self._unread.popleft())

    def hold(self) -> None:
        """With ``deliver_to``: for now, the peer may send only its window."""
        self._stream.hold()

    def release(self) -> None:
        """The peer may send again."""
        self._stream.release()
        self._endpoint.flush_soon()

    def _release(self) -> None:
        """Let the peer send again once half of what waited is read."""
        if self._stream.held and 2 * self._unread_bytes < UNREAD_BYTES_MAX:
            self.release()

    async def write(self, message: bytes) -> None:
        """Send at once; return when there is room for more. Raise RpcError if the call is over."""
        self.write_now(message)
        await self.wait_for_room()

    async def wait_for_room(self) -> None:
        """Wait until there is room for more; RpcError when the call is over."""
        while self.is_full and not self._is_over:
            room = asyncio.get_running_loop().create_future()
            self._writers.append(room)
            await room
        if self._is_over:
            raise self._failure()

    async def wait_sent(self) -> None:
        """Wait until everything written has left for the transport; RpcError when the call is over."""
        while self._stream.waiting_bytes and not self._is_over:
            room = asyncio.get_running_loop().create_future()
            self._writers.append(room)
            await room
        if self._is_over:
            raise self._failure()

    def write_nowait(self, message: bytes | memoryview, head: bytes = b"") -> None:
        """Send without waiting. If the call is over, this does nothing, because the reader gets the error.

        With a ``head``, the message is both together, and ``message`` is not copied, so other calls can send it, too.
        """
        self._stream.send(message, head)
        self._endpoint.flush_soon()

    def write_now(self, message: bytes | memoryview, head: bytes = b"") -> None:
        """Do the same, but send before this returns, and not at the end of this turn of the loop."""
        self._stream.send(message, head)
        self._endpoint.flush_now()

    @property
    def unsent_bytes(self) -> int:
        return self._stream.waiting_bytes

    @property
    def is_full(self) -> bool:
        """Whether too much is unsent, because the peer does not read this call, or many other calls of its
        connection."""
        unsent = self._stream.waiting_bytes
        if unsent > UNSENT_BYTES_MAX:
            return True
        return unsent > 0 and self._endpoint.http2.out.waiting_bytes > UNSENT_OF_CONNECTION_BYTES_MAX

    @property
    def _is_over(self) -> bool:
        """Whether nothing more can be written."""
        return self._stream.closed

    def _failure(self) -> RpcError:
        """The error of the call, as a new object for each caller: an exception remembers where it was raised."""
        if self.error is None:
            return RpcError(StatusCode.CANCELLED, "the call is over")
        return RpcError(self.error.status, self.error.details, self.error.metadata)

    # --- what the stream says ------------------------------------------------------------------------------------

    def on_message(self, message: bytes) -> None:
        self._unread.append(message)
        self._unread_bytes += len(message) + UNREAD_MESSAGE_BYTES
        if self._unread_bytes > UNREAD_BYTES_MAX:
            self._stream.hold()
        if self._reader is not None:
            _wake(self._reader)

    def on_room(self) -> None:
        if self._writers and (self._is_over or not self.is_full):
            self._wake_writers()
        if self.on_sent is not None:
            self.on_sent()
        if self._stream.closed:
            self._stop_timer()

    def on_reset(self, code: int, reason: str) -> None:
        self._fail(RpcError(rpc.status_of_reset(code), reason))

    def _fail(self, error: RpcError) -> None:
        """End the call with this error, unless it has one already."""
        self.error = self.error or error
        self._stop_timer()
        self._read_no_more()
        self._wake_writers()

    def _read_no_more(self) -> None:
        self._ended = True
        if self._reader is not None:
            _wake(self._reader)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake_writers(self) -> None:
        writers, self._writers = self._writers, []
        for writer in writers:
            _wake(writer)

    def _crowded(self, size: int) -> RpcError:
        limit = self._endpoint.http2.settings.assembly_bytes_max
        what = f"messages that are not whole yet take {size} bytes on this connection (limit {limit})"
        return RpcError(StatusCode.RESOURCE_EXHAUSTED, what)

    def _too_large(self, size: int) -> RpcError:
        limit = self._endpoint.http2.settings.message_bytes_max
        return RpcError(StatusCode.RESOURCE_EXHAUSTED, f"a message of {size} bytes is too large (limit {limit})")


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class ClientCall(Call):
    """Our end of a call that we made. ``trailing`` is the metadata that came at the end. ``left_s`` is how much of the
    call's time is left when it begins."""

    def __init__(
        self, endpoint: Endpoint, headers: Headers, timeout_s: float | None, left_s: float | None = None
    ) -> None:
        super().__init__(endpoint)
        self.trailing: Metadata = ()
        self.on_done: Callable[[], None] | None = None
        self.is_refused = False  # the server did not even look at it, so it may be made again (RFC 9113, 8.7)
        self._answered = False
        self._has_status = False
        self._stream = endpoint.http2.open_stream(self, headers)
        self._deadline_s = math.inf
        if timeout_s is not None:
            loop = asyncio.get_running_loop()
            left_s = timeout_s if left_s is None else left_s
            self._deadline_s = loop.time() + left_s
            self._timer = loop.call_later(left_s, self._late, timeout_s)
        endpoint.flush_soon()

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not; messages may still wait to be read."""
        return self._ended

    @property
    def _is_over(self) -> bool:
        return self._ended

    def end(self) -> None:
        """Say that we send nothing more."""
        self._stream.end()
        self._endpoint.flush_soon()

    def cancel(self) -> None:
        self._give_up(RpcError(StatusCode.CANCELLED, "cancelled by this side"))

    def _late(self, timeout_s: float) -> None:
        self._give_up(RpcError(StatusCode.DEADLINE_EXCEEDED, f"no answer within {timeout_s:g} s"))

    def _give_up(self, error: RpcError) -> None:
        if not self._ended:
            self._stream.reset()
            self._endpoint.flush_soon()
            self._fail(error)

    # --- what the stream says ------------------------------------------------------------------------------------

    def on_headers(self, headers: Headers, ended: bool) -> None:
        try:
            if not self._answered:
                self._answered = True
                self._check_answer(headers)
                if not ended:
                    self.metadata = rpc.read_metadata_untrusted(headers)
            if ended:
                self._has_status = True
                self.error = self.error or rpc.read_trailers_untrusted(headers)
                self.trailing = rpc.read_metadata_untrusted(headers)
        except (BadCall, RpcError) as error:
            failure = error if isinstance(error, RpcError) else RpcError(StatusCode.INTERNAL, str(error))
            self._stream.reset()
            self._fail(failure)

    def _check_answer(self, headers: Headers) -> None:
        fields = dict(headers)
        code = int(fields[":status"])
        if code != 200:  # from a proxy, for example
            raise RpcError(rpc.status_of_http(code), f"the answer is HTTP status {code}, not gRPC")
        if not rpc.is_grpc(fields):
            raise RpcError(StatusCode.UNKNOWN, f"the answer is {fields.get('content-type', 'nothing')!r}, not gRPC")

    def on_reset(self, code: int, reason: str) -> None:
        """The stream was reset. A server that knows our deadline may do this a little before we notice the deadline."""
        self.is_refused = code == ErrorCode.REFUSED_STREAM
        left_s = self._deadline_s - asyncio.get_running_loop().time()
        if code == ErrorCode.CANCEL and left_s < DEADLINE_SLACK_S:
            self._fail(RpcError(StatusCode.DEADLINE_EXCEEDED, "the server says that the deadline has passed"))
        else:
            super().on_reset(code, reason)

    def on_end(self) -> None:
        if self.error is None and not self._has_status:
            self.error = RpcError(StatusCode.INTERNAL, "the call ended without a status")
        self._stop_timer()
        self._read_no_more()
        self._wake_writers()  # the server reads no more, so there is no point in waiting

    def on_refused(self, compressed: bool, size: int) -> None:
        if compressed:
            self._fail(RpcError(StatusCode.INTERNAL, "the server sent a compressed message, unasked"))
        else:
            self._fail(self._too_large(size))

    def on_crowded(self, size: int) -> None:
        self._fail(self._crowded(size))

    def _read_no_more(self) -> None:
        super()._read_no_more()
        if self.on_done is not None:
            self.on_done()
            self.on_done = None


class ServerCall(Call):
    """Our end of a call that somebody made. ``path`` names the method; ``host`` and ``port`` are the caller's."""

    def __init__(
        self,
        endpoint: Endpoint,
        stream: Stream,
        host: str,
        port: int,
        begin: Callable[[ServerCall, Headers], None],
        end: Callable[[Callable[[], None]], None],
        welcome: Callable[[], None],
    ) -> None:
        super().__init__(endpoint)
        self._stream = stream
        self._begin = begin
        self._end = end
        self._welcome = welcome
        self._answered = False
        self._finished = False
        self.path = ""
        self.host = host
        self.port = port
        self.task: asyncio.Task[None] | None = None
        self.has_begun = False  # its handler runs

    @property
    def peer(self) -> str:
        """``host:port`` of the caller."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def certificate(self) -> bytes | None:
        """What the caller showed, as DER. TLS has made sure that our CA issued it."""
        tls = self._endpoint.transport.get_extra_info("ssl_object")
        return None if tls is None else tls.getpeercert(binary_form=True)

    @property
    def _is_over(self) -> bool:
        return self._finished or self._stream.closed

    def write_nowait(self, message: bytes | memoryview, head: bytes = b"") -> None:
        self.send_initial()
        super().write_nowait(message, head)

    def write_now(self, message: bytes | memoryview, head: bytes = b"") -> None:
        if not self._answered:
            self.send_initial()
        self._stream.send(message, head)
        self._endpoint.flush_now()

    def send_initial(self, metadata: Metadata = ()) -> None:
        """Send the headers of the answer, if they were not sent yet."""
        if not self._answered:
            headers = [*rpc.RESPONSE, *rpc.written_metadata(metadata)]
            self._answered = True
            self._stream.send_headers(headers)
            self._endpoint.flush_soon()

    def widen(self) -> None:
        """We know the caller now: give it the full window. Before that, it has one small window."""
        self._welcome()
        self._stream.widen()
        self._endpoint.flush_soon()

    def set_deadline(self, timeout_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(timeout_s, self._late)

    def finish(self, status: StatusCode, details: str = "", metadata: Metadata = ()) -> None:
        """End the call after everything that waits was sent. Calling this again does nothing."""
        if self._finished:
            return
        trailers = rpc.trailers(status, details[:DETAILS_MAX], metadata)
        self._finished = True
        if self._answered:
            self._stream.end(trailers)
        else:
            self._answered = True
            self._stream.send_headers([*rpc.RESPONSE, *trailers], end=True)
        if self._stream.closed:
            self._stop_timer()  # while something waits, the timer goes on, in case the caller does not read it
        self._wake_writers()
        self._endpoint.flush_soon()

    def refuse_http(self) -> None:
        """Answer with an HTTP status, because this is not a gRPC call."""
        self._finished = True
        self._stream.send_headers(rpc.NOT_GRPC, end=True)

    def give_up(self, error: RpcError) -> None:
        """End the call now. Messages that wait are not sent, and the handler is cancelled."""
        if self._finished or self.has_sent_part:
            self._stream.reset()  # OK must not follow if messages are missing, and no status may come within a message
        self._stream.drop_waiting()
        self.finish(error.status, error.details, error.metadata)
        self._fail(error)
        self._endpoint.flush_soon()
        if self.task is not None:
            self.task.cancel()

    @property
    def has_sent_part(self) -> bool:
        """Whether a part of a message was sent, and the rest waits."""
        return self._stream.has_sent_part

    def _late(self) -> None:
        self.give_up(RpcError(StatusCode.DEADLINE_EXCEEDED, "the caller's deadline has passed"))

    # --- what the stream says ------------------------------------------------------------------------------------

    def on_headers(self, headers: Headers, ended: bool) -> None:
        if not self.path:
            self._begin(self, headers)

    def on_end(self) -> None:
        self._read_no_more()

    def on_reset(self, code: int, reason: str) -> None:
        """The stream was reset: nothing more is sent. The handler is told later, in its turn (``_Endings``)."""
        if self.has_begun:
            self._end(partial(self._caller_gone, code, reason))
        else:
            self._caller_gone(code, reason)

    def _caller_gone(self, code: int, reason: str) -> None:
        super().on_reset(code, reason)
        if self.task is not None:
            self.task.cancel()

    def on_refused(self, compressed: bool, size: int) -> None:
        self.give_up(NO_COMPRESSION if compressed else self._too_large(size))

    def on_crowded(self, size: int) -> None:
        self.give_up(self._crowded(size))
