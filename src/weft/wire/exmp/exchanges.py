"""Which requests are under way, one class for each direction. The rules of EXM-05, EXM-06 and EXM-07 live here."""

from __future__ import annotations

from collections import deque

from weft.errors import UsageError
from weft.wire.exmp.messages import BadMessage, ErrorCode, Request


class SentRequests:
    """Our requests. Ids are counted up and answers come in order, so those without an answer are a range."""

    def __init__(self) -> None:
        self._sent_last = 0
        self._answered_last = 0

    def __len__(self) -> int:
        return self._sent_last - self._answered_last

    @property
    def next_id(self) -> int:
        return self._sent_last + 1

    def add(self) -> None:
        self._sent_last += 1

    def settle_untrusted(self, request_id: int) -> None:
        """A response to this id came; raise only BadMessage."""
        expected = self._answered_last + 1
        if not expected <= request_id <= self._sent_last:  # EXM-07
            raise BadMessage(ErrorCode.INVALID_REQUEST_ID, "no request waits for this response", id=request_id)
        if request_id != expected:
            # EXM-06: the id is right, the flow is not.
            raise BadMessage(ErrorCode.PROTOCOL, "response out of order", id=request_id, expected=expected)
        self._answered_last = request_id


class ReceivedRequests:
    """The peer's requests: the one that the application works on, and those that wait behind it.

    A peer that keeps to ``pending_max`` never makes it full: one more must come.
    """

    def __init__(self, pending_max: int, queue_bytes_max: int) -> None:
        self._pending_max = pending_max
        self._queue_bytes_max = queue_bytes_max
        self._queue: deque[Request] = deque()
        self._queue_bytes = 0
        self._id_last = 0
        self._current: int | None = None  # handed out and not yet answered
        self.is_full = False

    def __len__(self) -> int:
        return len(self._queue) + (self._current is not None)

    def add_untrusted(self, request: Request) -> None:
        """Raise only BadMessage.

        Ids must rise. The document asks for unique ones and recommends a counter; that none was used before can be
        told with bounded memory only of ids that rise.
        """
        if request.id <= self._id_last:  # EXM-05
            raise BadMessage(
                ErrorCode.INVALID_REQUEST_ID, "request ids must rise", id=request.id, previous=self._id_last
            )
        self._id_last = request.id
        self._queue.append(request)
        self._queue_bytes += len(request.data)
        self._judge()

    def take(self) -> Request | None:
        """The next request to work on, unless there is none or the previous one has no answer yet (EXM-06)."""
        if self._current is not None or not self._queue:
            return None
        request = self._queue.popleft()
        self._queue_bytes -= len(request.data)
        self._current = request.id
        if self.is_full:
            self._judge()
        return request

    def check_answerable(self, request_id: int) -> None:
        if self._current is None:
            raise UsageError("no request waits for a response", id=request_id)
        if request_id != self._current:
            raise UsageError("responses go out in the order of requests", id=request_id, expected=self._current)

    def settle(self) -> None:
        """The current request has been answered."""
        self._current = None
        if self.is_full:
            self._judge()

    def clear(self) -> None:
        self._queue.clear()
        self._queue_bytes = 0
        self.settle()

    def _judge(self) -> None:
        self.is_full = len(self) > self._pending_max or self._queue_bytes > self._queue_bytes_max
