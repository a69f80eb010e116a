"""Which requests are under way, one class for each direction. The rules of EXM-05, EXM-06 and EXM-07 live here."""

from __future__ import annotations

from collections import deque
from typing import Final

from weft.errors import UsageError
from weft.wire.exmp.messages import BadMessage, ErrorCode, Request
from weft.wire.exmp.recent_ids import RecentIds

ANSWERED_IDS_KEPT: Final = 65_536  # EXM-05: the ruling's own number; an id that was answered before these is new again


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
    """The peer's requests: those that the application works on, and those that wait behind them.

    At most ``in_work_max`` are handed out at a time. With 1, as the document says, the next one is handed out when the
    last is answered. A peer that keeps to ``pending_max`` never makes it full: one more must come. The first one in
    work does not count for ``queue_bytes_max``: a request of any size can be worked on.

    A request that ends the connection does so in its turn, as if requests were read one by one: those before it are
    answered first, and nothing behind it happens (EXM-06). From then on ``verdict`` is why.
    """

    def __init__(self, pending_max: int, queue_bytes_max: int, in_work_max: int) -> None:
        self._pending_max = pending_max
        self._queue_bytes_max = queue_bytes_max
        self._in_work_max = in_work_max
        self._queue: deque[Request] = deque()
        self._in_work: deque[tuple[int, int]] = deque()  # id and bytes of those handed out, the oldest first
        self._bytes = 0  # of all but the first one in work
        self._ids = RecentIds()  # of those without an answer, and of the last that were answered
        self.verdict: BadMessage | None = None
        self.is_full = False

    def __len__(self) -> int:
        return len(self._queue) + len(self._in_work)

    @property
    def waiting(self) -> int:
        """Not handed out."""
        return len(self._queue)

    @property
    def is_over(self) -> bool:
        """The request that ends the connection is the next."""
        return self.verdict is not None and not self._in_work and not self._queue

    def accept_untrusted(self, request: Request) -> Request | None:
        """The request itself if it can be worked on now, else None: then it waits, or it is one too many."""
        if self.verdict is not None:
            return None
        request_id = request.id
        if not self._ids.add(request_id):  # EXM-05
            self.verdict = BadMessage(ErrorCode.INVALID_REQUEST_ID, "this request id was used before", id=request_id)
            return None
        queue, in_work, size = self._queue, self._in_work, len(request.data)
        is_next = not queue and len(in_work) < self._in_work_max
        if not is_next or in_work:
            self._bytes += size
        if is_next:
            in_work.append((request_id, size))
        else:
            queue.append(request)
        self.is_full = len(queue) + len(in_work) > self._pending_max or self._bytes > self._queue_bytes_max
        return request if is_next else None

    def condemn(self, verdict: BadMessage) -> None:
        """The last request handed out is not valid: nothing behind it is read."""
        self.verdict = verdict
        self._in_work.pop()
        self._queue.clear()
        self._bytes = sum(size for _, size in self._in_work) - (self._in_work[0][1] if self._in_work else 0)
        self._judge_again()

    def take(self) -> Request | None:
        """The next waiting request, unless there is none, or too many are unanswered (EXM-06)."""
        if not self._queue or len(self._in_work) >= self._in_work_max:
            return None
        request = self._queue.popleft()
        size = len(request.data)
        if not self._in_work:
            self._bytes -= size
        self._in_work.append((request.id, size))
        self._judge_again()
        return request

    def settle(self, request_id: int) -> None:
        """The first one in work is answered; UsageError if that is another one."""
        in_work = self._in_work
        if not in_work:
            raise UsageError("no request waits for a response", id=request_id)
        expected = in_work[0][0]
        if request_id != expected:
            raise UsageError("responses go out in the order of requests", id=request_id, expected=expected)
        in_work.popleft()
        if in_work:
            self._bytes -= in_work[0][1]
        if self._ids.count > ANSWERED_IDS_KEPT + len(in_work) + len(self._queue):
            self._ids.drop_oldest()
        if self.is_full:
            self._judge_again()

    def clear(self) -> None:
        self._queue.clear()
        self._in_work.clear()
        self._bytes = 0
        self._ids = RecentIds()
        self.is_full = False

    def _judge_again(self) -> None:
        self.is_full = len(self) > self._pending_max or self._bytes > self._queue_bytes_max
