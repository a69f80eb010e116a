"""The past of copies that begin in the middle, which is fetched from a parent once somebody wants it (ADR 39).

A copy for subscribers that want only new events begins with the first of these (``StreamInfo.late_us``). What came
before is the copy's past. A reader that wants it calls ``Pasts.lacks``, and calls it again whenever the stream
advances; meanwhile the past is fetched piece by piece. Parents answer from their logs. They remember a request only if
they lack the events themselves.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from weft.core.incoming import COPY_GAP_MAX, COPY_OFFSET_MAX
from weft.core.messages import (
    Effect,
    Past,
    PastRequest,
    ReceivedPast,
    ReceivedPastRequest,
    SendPast,
    SendPastRequest,
    StreamKey,
)
from weft.core.reading import LINK_READ_BYTES_MAX, read_behind_losses
from weft.errors import StorageError
from weft.limits import OFFSET_MAX
from weft.log import Log, StreamInfo
from weft.log.errors import PositionExpired
from weft.model import Batch, NodeId
from weft.routing import SINCE_EVER_US
from weft.routing.interest import SINCE_NEVER_US

PAST_RETRY_S: Final = 1.0  # how long to wait for an answer before asking again
PAST_ASKED_MAX: Final = 16  # streams asked for at once, 1 MiB each: a link's queue has that much room beside its window
PAST_PIECES: Final = 16  # pieces of one stream before others have their turn
PAST_WAITING_MAX: Final = 4096  # requests of one peer that wait for our own past; the peer repeats the others


@dataclass(slots=True)
class Need:
    """What is wanted of a stream: everything since a time, or from an offset on."""

    since_us: int = SINCE_NEVER_US
    offset: int = OFFSET_MAX
    lost_s: float | None = None  # since when the origin is lost, and no peer gives anything of the stream
    asked: NodeId | None = None
    tries: int = 0  # requests without an answer
    due_s: float = 0.0  # when to ask, or to ask again
    pieces_left: int = PAST_PIECES  # pieces to fetch until others have their turn
    is_answered: bool = True  # a piece has come since the last request

    def lacks(self, info: StreamInfo) -> bool:
        return is_lacking(info, self.since_us, self.offset)


def is_lacking(info: StreamInfo, since_us: int, offset: int) -> bool:
    return info.late_us is not None and (since_us < info.late_us or offset < info.start)


class Sources(Protocol):
    """Where to get a stream from."""

    def givers(self, key: StreamKey) -> list[NodeId]:
        """The nodes to ask, the best first."""

    def is_lost(self, key: StreamKey) -> bool:
        """Whether the stream's origin is out of reach, or has lost the stream."""


class Pasts:
    """The pasts that this node needs, and those that its peers ask for. ``timeout_s``: if an origin is lost, and no
    peer has given any of a stream's past for this long, the past counts as lost."""

    def __init__(self, log: Log, sources: Sources, timeout_s: float) -> None:
        self._log = log
        self._sources = sources
        self._timeout_s = timeout_s
        self._needs: OrderedDict[StreamKey, Need] = OrderedDict()  # in turn
        self._asking: dict[StreamKey, None] = {}  # the needs whose turn it is
        self._waiting: dict[NodeId, dict[StreamKey, PastRequest]] = {}  # peers' requests for what we lack ourselves
        self._gone: set[StreamKey] = set()  # streams whose past was given up
        self._given_up: list[StreamKey] = []

    # --- what is wanted ------------------------------------------------------------------------------------------

    def lacks(self, info: StreamInfo, *, since_us: int = SINCE_NEVER_US, offset: int = OFFSET_MAX) -> bool:
        """Whether a copy still lacks events since a time, or from an offset on. If so, the events are fetched, and the
        caller has to wait until the stream advances."""
        key = (info.stream, info.epoch)
        if not is_lacking(info, since_us, offset) or key in self._gone:
            return False
        need = self._needs.setdefault(key, Need())
        need.since_us, need.offset = min(need.since_us, since_us), min(need.offset, offset)
        return True

    def take_given_up(self) -> list[StreamKey]:
        """Take the streams given up since the last call, which go on without their past. The caller has to wake the
        readers that waited for it."""
        keys, self._given_up = self._given_up, []
        return keys

    def look_again(self) -> None:
        """Note that the mesh has changed: what was given up may be there again."""
        self._gone = {key for key in self._gone if self._sources.is_lost(key)}

    def _gives_up(self, key: StreamKey, need: Need, now_s: float) -> bool:
        """Whether to give up a past. Peers may have all of it, however long the origin has been away. So what counts is
        how long they have been asked in vain while the origin is lost."""
        if not self._sources.is_lost(key):
            need.lost_s = None
        elif need.lost_s is None:
            need.lost_s = now_s
        return need.lost_s is not None and now_s - need.lost_s >= self._timeout_s

    # --- asking --------------------------------------------------------------------------------------------------

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for the past of a copy, or has just given up."""
        return bool(self._needs or self._given_up)

    def get_timer(self) -> float | None:
        if len(self._asking) < min(len(self._needs), PAST_ASKED_MAX):
            return 0.0
        return min((self._needs[key].due_s for key in self._asking), default=None)

    def pump(self, now_s: float) -> list[Effect]:
        """Ask for what is due. There may be needs for a hundred thousand streams, so they take turns."""
        effects: list[Effect] = []
        for key in [key for key in self._asking if self._needs[key].due_s <= now_s]:
            need = self._needs[key]
            if len(self._needs) > len(self._asking) and not (need.is_answered and need.pieces_left > 0):
                del self._asking[key]
                self._needs.move_to_end(key)
            else:
                effects += self._ask(key, need, now_s)
        while len(self._asking) < PAST_ASKED_MAX:
            waiting = next((key for key in self._needs if key not in self._asking), None)
            if waiting is None:
                break
            self._asking[waiting] = None
            self._needs[waiting].pieces_left = PAST_PIECES
            effects += self._ask(waiting, self._needs[waiting], now_s)
        return effects

    def _ask(self, key: StreamKey, need: Need, now_s: float) -> list[Effect]:
        info = self._log.info(*key)
        first = self._log.past_end(*key)
        need.due_s = now_s + PAST_RETRY_S
        need.is_answered = False
        if not need.lacks(info):
            self._end(key)
            return []
        if first is not None and first >= info.start:  # all of it is here, and the next sync makes it part of the copy
            return []
        if self._gives_up(key, need, now_s):
            self._end(key)
            self._gone.add(key)
            self._given_up.append(key)
            return []
        givers = self._sources.givers(key)
        if not givers:
            return []
        need.asked = givers[need.tries % len(givers)]
        need.tries += 1
        if first is not None:
            return [SendPastRequest(need.asked, PastRequest(*key, info.start, first=first))]
        offset = need.offset if need.offset < info.start else None
        since_us = need.since_us if info.late_us is not None and need.since_us < info.late_us else None
        return [SendPastRequest(need.asked, PastRequest(*key, info.start, offset=offset, since_us=since_us))]

    def _end(self, key: StreamKey) -> None:
        del self._needs[key], self._asking[key]

    def received(self, received: ReceivedPast, now_s: float) -> None:
        """Keep what was asked for, and nothing else. If the disk is full, nothing is kept, and it is asked for
        again."""
        past = received.past
        need = self._needs.get((past.stream, past.epoch))
        if need is None or need.asked != received.peer:
            return
        try:
            kept = self._keep(past)
        except StorageError:
            return
        if kept:
            need.tries = max(need.tries - 1, 0)  # ask the same peer for the rest
            need.due_s, need.lost_s = now_s, None
            need.pieces_left -= 1
            need.is_answered = True

    def _keep(self, past: Past) -> bool:
        info = self._log.info(past.stream, past.epoch)
        begun = self._log.past_end(past.stream, past.epoch)
        if info.late_us is None or not (begun or 0) <= past.first <= min(past.end, info.start):
            return False
        batches = _following(past)
        if batches is None:
            return False
        if begun is None or begun < past.first:
            late_us = None if past.late_us is None else min(past.late_us, info.late_us)
            self._log.begin_past(past.stream, past.epoch, past.first, late_us if begun is None else None)
        if past.first < info.start:
            self._log.append_past(past.stream, past.epoch, batches, past.end, lost=past.lost)
        return True

    # --- answering -----------------------------------------------------------------------------------------------

    def requested(self, received: ReceivedPastRequest) -> list[Effect]:
        """Answer from the log, now or once the log has it."""
        request = received.request
        key = (request.stream, request.epoch)
        if self._log.find(*key) is None:
            return []
        past = self._answer(request)
        if past is not None:
            return [SendPast(received.peer, past)]
        waiting = self._waiting.setdefault(received.peer, {})
        if len(waiting) < PAST_WAITING_MAX:
            waiting[key] = request
        return []

    def link_down(self, peer: NodeId) -> None:
        self._waiting.pop(peer, None)

    def synced(self, advanced: Mapping[StreamKey, int], now_s: float) -> list[Effect]:
        """Ask for what is still missing of these streams, and answer the peers that waited for them."""
        if not (self._needs or self._waiting):
            return []
        for key in advanced:
            need = self._needs.get(key)
            if need is not None and self._log.past_end(*key) is None:  # the fetched part joined the copy
                need.due_s, need.is_answered = now_s, True
        effects: list[Effect] = []
        for peer, waiting in self._waiting.items():
            for key in [key for key in waiting if key in advanced]:
                past = self._answer(waiting[key])
                if past is not None:
                    del waiting[key]
                    effects.append(SendPast(peer, past))
        return effects

    def _answer(self, request: PastRequest) -> Past | None:
        """Answer a request; None if what was asked for is not here."""
        key = (request.stream, request.epoch)
        info = self._log.info(*key)
        since_us = SINCE_NEVER_US if request.since_us is None else request.since_us
        offset = min(each for each in (request.first, request.offset, OFFSET_MAX) if each is not None)
        if is_lacking(info, since_us, offset):
            self.lacks(info, since_us=since_us, offset=offset)
            return None
        if since_us <= SINCE_EVER_US:
            first = info.start
        elif since_us < SINCE_NEVER_US:
            first = min(offset, self._log.seek(*key, since_us))
        else:
            first = offset
        first = min(max(first, info.start), request.until)
        end = min(request.until, info.end)
        if first >= end and first < request.until:
            return None  # our own log does not reach that far yet
        begins = first <= info.start and info.late_us is None
        try:
            stored, losses = read_behind_losses(self._log, key, first, end, LINK_READ_BYTES_MAX)
        except (PositionExpired, StorageError):  # deleted in between, or damaged here, which is reported elsewhere
            return None
        batches = tuple(map(Batch.read_stored, stored))
        if batches and request.first is None:
            first = min(first, batches[0].base_offset)
        end = batches[-1].end_offset if batches else max(end, first)
        return Past(*key, first, end, batches, None if begins else since_us, lost=bool(losses))


def _following(past: Past) -> list[Batch] | None:
    """The batches of a piece, each following the one before it; None if they do not."""
    at = past.first
    batches = []
    for batch in past.batches:
        if batch.end_offset <= at or batch.base_offset - at > COPY_GAP_MAX or batch.end_offset > COPY_OFFSET_MAX:
            return None
        batches.append(batch.slice(at) if batch.base_offset < at else batch)
        at = batch.end_offset
    return batches if past.end - at <= COPY_GAP_MAX else None
