"""What one peer gets from this node's log. The peer is a child in the trees of some origins.

The child says how far it has each stream (``resume``). From there on, this node sends it every stream that somebody in
its branch wants, as far as the window allows. Everything is read from the log when it is sent, so a lost frame costs
only time.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Final

from weft.core.messages import Begin, Copy, StreamKey
from weft.core.past import Pasts
from weft.core.reading import LINK_READ_BYTES_MAX, read_behind_losses
from weft.errors import StorageError
from weft.log import Log, StreamInfo
from weft.log.errors import PositionExpired
from weft.model import Batch, NodeId, Position
from weft.routing import SINCE_EVER_US

BEGINS_MAX: Final = 512  # copies whose beginning is decided in one turn: a few milliseconds
LOOKS_MAX: Final = 1024  # streams looked at in one turn to find one with something to send: a few milliseconds


@dataclass(slots=True)
class Cursor:
    """How far the child is in one stream. ``latest``: where the stream ended when we heard that the child wants it.

    ``began``: where the child's copy begins, as far as we know; None: it has no copy, and we have not decided yet where
    one will begin. ``late_us``: if the copy begins in the middle, the time since which it has everything.
    """

    sent: int
    acked: int
    wanted: bool = False
    latest: int = 0
    began: int | None = None
    late_us: int | None = None

    def go_to(self, offset: int, began: int) -> None:
        """Go on from where the child's copy ends. If the child has nothing, its copy may begin elsewhere this time."""
        self.sent = self.acked = offset
        self.began = began if offset else None


@dataclass(slots=True)
class Flying:
    """A batch that was sent and is not acknowledged yet."""

    key: StreamKey
    end: int
    bytes: int
    sent_s: float


class Followers:
    """For all links together: which have something to send, and which follow which stream. So a step looks only at the
    links that it concerns, however many others there are."""

    def __init__(self) -> None:
        self.ready: dict[Outgoing, None] = {}  # in turn
        self._of: dict[StreamKey, dict[Outgoing, None]] = {}

    def of(self, key: StreamKey) -> Iterable[Outgoing]:
        return self._of.get(key, ())

    def follow(self, key: StreamKey, outgoing: Outgoing) -> None:
        self._of.setdefault(key, {})[outgoing] = None

    def unfollow(self, key: StreamKey, outgoing: Outgoing) -> None:
        followers = self._of.get(key)
        if followers is not None:
            followers.pop(outgoing, None)
            if not followers:
                del self._of[key]


@dataclass(frozen=True, slots=True)
class Branch:
    """What the child and the nodes behind it want. ``since`` tells since when they want a stream; it is None if the
    child does not know copies that begin in the middle."""

    wants: Callable[[StreamKey], bool]
    since: Callable[[StreamKey], int] | None


class Outgoing:
    """What one child gets. ``pasts``: fetches the past of our own copies."""

    def __init__(
        self,
        peer: NodeId,
        log: Log,
        window_bytes: int,
        branch: Branch,
        followers: Followers,
        pasts: Pasts,
    ) -> None:
        self.peer = peer
        self._followers = followers
        self.origins: set[NodeId] = set()  # whose streams the child wants from us
        self.orphans: set[NodeId] = set()  # origins out of reach, whose streams the child may not know we have
        self.cursors: dict[StreamKey, Cursor] = {}
        self.damaged: dict[StreamKey, StorageError] = {}  # streams with lost events: they go no further
        self.differing: dict[StreamKey, int] = {}  # from which offset on the child's events differ from ours
        self._untold: list[StorageError] = []
        self._begun: list[Begin] = []  # copies that begin in the middle, and that the child was not told of yet
        self._kept: set[StreamKey] = set()  # streams of which the child is to keep a safe copy
        self.is_looked_at = False  # all streams are to be looked at again, and that has not begun yet
        self._is_closed = False
        self._log = log
        self._window_bytes = window_bytes
        self._branch = branch
        self._pasts = pasts
        # Streams with more to send, in turn. A plain dict takes five seconds to be emptied from its front if it has a
        # hundred thousand entries.
        self._behind: OrderedDict[StreamKey, None] = OrderedDict()
        self._flying: dict[StreamKey, deque[Flying]] = {}
        self.flying_bytes = 0
        self.progress_s = 0.0  # when the child last acknowledged something, or had nothing to acknowledge
        self._acked_sent_s = -inf  # when the latest frame that it has acknowledged was sent

    # --- what the child wants ------------------------------------------------------------------------------------

    def asked_for(self, origins: Iterable[NodeId]) -> None:
        """Note that the child wants these origins' streams from us. ``resume`` follows for each stream that exists;
        streams that are new from now on are sent from their beginning."""
        self.origins |= set(origins)

    def resume(self, info: StreamInfo, has: int, began: int) -> None:
        """Note that the child has this stream up to ``has``, in a copy that begins at ``began``."""
        key = (info.stream, info.epoch)
        self._land(key)
        known = self.cursors.get(key)
        cursor = self.cursors[key] = Cursor(0, 0, latest=known.latest if known else 0)
        cursor.go_to(has, began)
        self._look(key, info.end)

    def go_back(self, position: Position) -> None:
        """Send one stream again from this position on, because the child lacks these events, whatever was sent
        already."""
        key = (position.stream, position.epoch)
        cursor = self.cursors.get(key)
        if cursor is not None:
            self._land(key)
            cursor.go_to(position.offset, cursor.began or 0)
            self._fall_behind(key)

    def leave(self, origins: Iterable[NodeId]) -> None:
        """Note that the child has another parent for these origins now. ``look_again`` removes their streams."""
        self.origins.difference_update(origins)

    def adopt(self, orphans: set[NodeId]) -> None:
        """Serve these origins, too. They are out of reach, so nobody is the child's parent for them, and any node that
        has their streams sends them. ``look_again`` removes the streams of origins that are no longer orphans."""
        self.orphans = orphans

    def serves(self, origin: NodeId) -> bool:
        """Whether the child gets this origin's streams from us."""
        return origin in self.origins or origin in self.orphans

    def close(self) -> None:
        """The link is down: nothing more is sent. ``let_go`` frees the streams."""
        self._is_closed = True
        self._followers.ready.pop(self, None)

    def let_go(self) -> Iterator[None]:
        """Free the streams, one in each step."""
        while self.cursors:
            key, _ = self.cursors.popitem()
            self._followers.unfollow(key, self)
            yield

    def stream_known(self, info: StreamInfo, latest: int) -> None:
        """Note a stream in our log that the child has not been sent yet."""
        if self.serves(info.stream.origin):
            key = (info.stream, info.epoch)
            self.cursors.setdefault(key, Cursor(0, 0))
            self._look(key, latest)

    def look_again(self, key: StreamKey, end: int) -> None:
        """Look at a stream again after the mesh has changed: the child and the nodes behind it may want it now or want
        it no longer, or get it elsewhere."""
        if self.serves(key[0].origin):
            self._look(key, end)
        else:
            self._land(key)
            del self.cursors[key]
            self._behind.pop(key, None)
            self._followers.unfollow(key, self)

    def keep(self, key: StreamKey) -> None:
        """Give the child this stream, whether it wants it or not."""
        self._kept.add(key)
        if key in self.cursors:
            self._look(key, self.cursors[key].latest)

    def _look(self, key: StreamKey, latest: int) -> None:
        cursor = self.cursors[key]
        wanted = key in self._kept or self._branch.wants(key)
        if wanted and not cursor.wanted:
            cursor.latest = latest
            if cursor.late_us is not None and cursor.sent == cursor.began:  # nothing was sent: what is new now is newer
                cursor.go_to(0, 0)
            self._fall_behind(key)
        if wanted:
            self._followers.follow(key, self)
        else:
            self._followers.unfollow(key, self)
        cursor.wanted = wanted

    # --- sending -------------------------------------------------------------------------------------------------

    def advanced(self, key: StreamKey) -> None:
        """Note that a stream that the child follows has more."""
        self._fall_behind(key)

    def _fall_behind(self, key: StreamKey) -> None:
        if self._is_closed:
            return
        self._behind[key] = None
        self._followers.ready[self] = None

    @property
    def ready(self) -> bool:
        return bool(self._behind) and self.flying_bytes < self._window_bytes

    def pump(self, floors: Callable[[StreamKey], int], now_s: float) -> list[Copy]:
        """Return what can be sent now: one turn of one stream."""
        copies = self._next(floors, now_s)
        if not self.ready:
            self._followers.ready.pop(self, None)
        return copies

    def _next(self, floors: Callable[[StreamKey], int], now_s: float) -> list[Copy]:
        for _ in range(LOOKS_MAX):
            if not self.ready or len(self._begun) >= BEGINS_MAX:
                break
            key, _ = self._behind.popitem(last=False)
            cursor = self.cursors.get(key)
            if cursor is None or not cursor.wanted or key in self.damaged or key in self.differing:
                continue
            try:
                copies = self._read(key, cursor, floors(key))
            except StorageError as error:
                self.damaged[key] = error
                self._untold.append(error)
                continue
            if copies:
                self._fly(key, copies, now_s)
                return copies
        return []

    def take_begun(self) -> tuple[Begin, ...]:
        """Take the copies that have begun since the last call. The child has to hear of them before it gets the copies
        that ``pump`` returns."""
        begun, self._begun = self._begun, []
        return tuple(begun)

    def take_damage(self) -> list[StorageError]:
        """Take the damage found since the last call."""
        untold, self._untold = self._untold, []
        return untold

    def _read(self, key: StreamKey, cursor: Cursor, floor: int) -> list[Copy]:
        stream, epoch = key
        info = self._log.info(stream, epoch)
        if cursor.began is None and not self._begin(key, cursor, info, floor):
            return []
        if cursor.sent >= info.end:
            return []
        expired = cursor.sent < info.start
        if expired and self._pasts.lacks(info, offset=cursor.sent):
            return []  # the stream goes on once we have its past
        follows = cursor.sent
        first = info.start if expired else cursor.sent
        bytes_max = min(LINK_READ_BYTES_MAX, self._window_bytes - self.flying_bytes)
        try:
            stored, losses = read_behind_losses(self._log, key, first, info.end, bytes_max)
        except PositionExpired:  # retention deleted the events in between
            self._fall_behind(key)
            return []
        self._untold += losses
        lost = bool(losses)
        copies = []
        for data in stored:
            batch = Batch.read_stored(data)
            latest = max(cursor.latest, floor)
            late_us = cursor.late_us if follows == cursor.began else None
            copies.append(Copy(stream, epoch, batch, follows, expired, key in self._kept, latest, late_us, lost))
            follows, expired, lost = batch.end_offset, False, False
        cursor.sent = follows if stored else info.end  # nothing stored: compaction deleted everything there
        if cursor.sent < info.end:
            self._fall_behind(key)
        return copies

    def _begin(self, key: StreamKey, cursor: Cursor, info: StreamInfo, floor: int) -> bool:
        """Decide where the child's copy begins: with the stream, or with the first event that somebody in its branch
        wants. Return False if that has to wait for the past of our own copy."""
        if self._branch.since is None and self._pasts.lacks(info, since_us=SINCE_EVER_US):
            return False
        since_us = SINCE_EVER_US
        if self._branch.since is not None and key not in self._kept:
            since_us = self._branch.since(key)
        first = info.start
        latest = max(cursor.latest, floor)
        if since_us > SINCE_EVER_US:
            found = info.end if since_us > info.latest_us else self._log.seek(*key, since_us)
            first = min(max(info.start, min(found, latest)), info.end)
        cursor.began, cursor.late_us = 0, None
        if first > info.start or (info.late_us is not None and self._branch.since is not None):
            cursor.sent = cursor.acked = cursor.began = first
            cursor.late_us = since_us if info.late_us is None else max(since_us, info.late_us)
            self._begun.append(Begin(Position(*key, first), cursor.late_us, latest))
        return True

    def _fly(self, key: StreamKey, copies: list[Copy], now_s: float) -> None:
        if not self.flying_bytes:
            self.progress_s = now_s
        flying = self._flying.setdefault(key, deque())
        for copy in copies:
            flying.append(Flying(key, copy.batch.end_offset, len(copy.batch.data), now_s))
            self.flying_bytes += len(copy.batch.data)

    # --- acknowledgements ----------------------------------------------------------------------------------------

    def acked(self, position: Position, now_s: float) -> bool:
        """The child has synced a stream up to there (PL-04); return whether that is new."""
        key = (position.stream, position.epoch)
        cursor = self.cursors.get(key)
        if cursor is None or position.offset <= cursor.acked:
            return False
        cursor.acked = position.offset
        cursor.sent = max(cursor.sent, cursor.acked)
        self.progress_s = now_s
        flying = self._flying.get(key)
        while flying and flying[0].end <= position.offset:
            landed = flying.popleft()
            self.flying_bytes -= landed.bytes
            self._acked_sent_s = max(self._acked_sent_s, landed.sent_s)
        if flying is not None and not flying:
            del self._flying[key]
        if self._behind:
            self._followers.ready[self] = None
        return True

    def differs(self, position: Position) -> bool:
        """Note that from this position on, the child keeps other events than we (SEC-06). It gets no more of that
        stream on this link, and does not count as a copy. Return whether that is new."""
        key = (position.stream, position.epoch)
        if key in self.differing or key not in self.cursors:
            return False
        self.differing[key] = position.offset
        self._land(key)
        return True

    def has(self, key: StreamKey, first: int, end: int) -> bool:
        """Whether the child has synced our events from ``first`` up to but not including ``end``."""
        cursor = self.cursors.get(key)
        if cursor is None or cursor.began is None or cursor.began > first:
            return False
        return cursor.acked >= end and self.differing.get(key, end) >= end

    def rewind(self, now_s: float) -> None:
        """Send again what was not acknowledged."""
        for key in list(self._flying):
            self._send_again(key)
        self.progress_s = now_s

    def rewind_stalled(self, timeout_s: float) -> None:
        """Send a stream again if the child has not acknowledged it, but has acknowledged copies of other streams that
        were sent much later. A link keeps the order, so the child has not kept the stream's copies: its disk may have
        been full."""
        for key in [key for key, each in self._flying.items() if each[0].sent_s + timeout_s <= self._acked_sent_s]:
            self._send_again(key)

    def _send_again(self, key: StreamKey) -> None:
        self._land(key)
        cursor = self.cursors[key]
        cursor.sent = cursor.acked
        self._fall_behind(key)

    def _land(self, key: StreamKey) -> None:
        """Forget everything of this stream that is under way."""
        self.flying_bytes -= sum(each.bytes for each in self._flying.pop(key, ()))
        if self._behind:
            self._followers.ready[self] = None
