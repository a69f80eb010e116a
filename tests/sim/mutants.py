"""Parts of a node with a bug planted in them. The simulation has to find each one, or it proves nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest import mock

from msgspec import structs

from weft import membership
from weft.core import Broker
from weft.core.groups import Groups
from weft.core.groups.effects import GroupEffect, PutAside
from weft.core.groups.group import Group
from weft.core.groups.hand import Given
from weft.core.groups.members import Member
from weft.core.groups.settling import Settling
from weft.core.messages import (
    Assigned,
    Copy,
    Deliver,
    Delivered,
    Effect,
    Input,
    Nacked,
    Past,
    PastRequest,
    Publish,
    PublishAll,
    Receipts,
    ReceivedCopies,
    ReceivedPlain,
    SendAcks,
    SendCopies,
    SendResume,
    StreamKey,
    Synced,
    TellInterest,
)
from weft.core.past import Pasts
from weft.core.plain import PLAIN_EPOCH
from weft.core.topics import EVERYWHERE, is_own, selects
from weft.errors import StorageError
from weft.limits import KIB
from weft.log import StreamInfo
from weft.log.log import Advanced
from weft.model import Batch, Epoch, Position, Stream
from weft.node.engine import Engine
from weft.node.storage import Storage
from weft.routing import finished, summarize
from weft.transport.peers.election import Election
from weft.transport.peers.outbox import DataQueue, Item

# --- the broker ------------------------------------------------------------------------------------------------------


class AcksBeforeSync(Broker):
    """Acknowledges copies as they come. Who counts on them counts on what a power cut takes."""

    def step(self, event: Input, now_s: float) -> list[Effect]:
        effects = super().step(event, now_s)
        if isinstance(event, ReceivedCopies):
            ends = {(copy.stream, copy.epoch): copy.batch.end_offset for copy in event.copies}
            acks = tuple(Position(stream, epoch, end) for (stream, epoch), end in ends.items())
            return [*effects, SendAcks(event.peer, acks)]
        return effects


class ResumesTooFar(Broker):
    """Asks a new parent to go on one event after the one that is missing."""

    def step(self, event: Input, now_s: float) -> list[Effect]:
        return [_one_further(each) if isinstance(each, SendResume) else each for each in super().step(event, now_s)]


def _one_further(resume: SendResume) -> SendResume:
    ahead = tuple(Position(each.stream, each.epoch, each.offset + 1) for each in resume.positions)
    return replace(resume, positions=ahead)


class DeliversBeforeSync(Broker):
    """Hands out what was published at once, with the offset that it has if nothing is lost."""

    def step(self, event: Input, now_s: float) -> list[Effect]:
        effects = super().step(event, now_s)
        if isinstance(event, PublishAll):
            for publish in event.publishes:
                effects += self._deliver(publish)
        return effects

    def _deliver(self, publish: Publish) -> list[Effect]:
        stream = Stream(publish.topic, self.me, publish.partition)
        state = self.log.find(stream, self.log.epoch)
        first = 0 if state is None else max(0, state.end - len(publish.batch))
        delivered = Delivered(stream, self.log.epoch, publish.batch.with_base_offset(first).data, first)
        if is_own(publish.topic):  # whoever reads these keeps accounts of what it was given
            return []
        readers = [each for each in self.subscriptions if not each.group and selects(each.pattern, publish.topic)]
        return [Deliver([each.id for each in readers], (delivered,))]


class PromisesBeforeSync(Broker):
    """Gives receipts for batches that are not durable yet."""

    def step(self, event: Input, now_s: float) -> list[Effect]:
        effects = super().step(event, now_s)
        if isinstance(event, PublishAll):
            effects += self._owed.synced(self.log.appended)
        return effects


class ForgetsProducers(Broker):
    """Does not recognise a batch that is sent again."""

    def step(self, event: Input, now_s: float) -> list[Effect]:
        if isinstance(event, PublishAll):
            event = PublishAll([structs.replace(each, batch=_nobodys(each.batch)) for each in event.publishes])
        return super().step(event, now_s)


def _nobodys(batch: Batch) -> Batch:
    return Batch.from_events(list(batch))


class ForgetsPieces(Broker):
    """Remembers only the first of the batches that were stored as one."""

    def step(self, event: Input, now_s: float) -> list[Effect]:
        if isinstance(event, PublishAll):
            later = [structs.replace(each, batch=_nobodys(each.batch)) for each in event.publishes[1:]]
            event = PublishAll([*event.publishes[:1], *later])
        return super().step(event, now_s)


class ExaggeratesCopies(Broker):
    """Says that a batch is on three nodes when it is on its way to them."""

    def step(self, event: Input, now_s: float) -> list[Effect]:
        effects = super().step(event, now_s)
        return [_exaggerated(each) if isinstance(each, Receipts) else each for each in effects]


def _exaggerated(receipts: Receipts) -> Receipts:
    return Receipts(tuple(each._replace(copies=3) for each in receipts.receipts))


class SkipsOnTakeover(Broker):
    """Lets whoever takes over a stream in a group begin one event too late."""

    def step(self, event: Input, now_s: float) -> list[Effect]:
        effects = super().step(event, now_s)
        return [_one_late(each) if isinstance(each, Assigned) else each for each in effects]


def _one_late(assigned: Assigned) -> Assigned:
    late = tuple(Position(each.stream, each.epoch, each.offset + 1) for each in assigned.positions)
    return replace(assigned, positions=late)


class SendsTwice(Broker):
    """Sends every copy twice: nobody loses anything by it, but the mesh is to be better than that."""

    def step(self, event: Input, now_s: float) -> list[Effect]:
        effects = super().step(event, now_s)
        return [*effects, *(each for each in effects if isinstance(each, SendCopies))]


class MixesEpochs(Broker):
    """Takes a stream for the same one when its origin has come back without its disk."""

    def step(self, event: Input, now_s: float) -> list[Effect]:
        if isinstance(event, ReceivedCopies):
            event = replace(event, copies=tuple(replace(each, epoch=self._epoch(each)) for each in event.copies))
        return super().step(event, now_s)

    def _epoch(self, copy: Copy) -> Epoch:
        return min((info.epoch for info in self.log.streams() if info.stream == copy.stream), default=copy.epoch)


class BelievesGaps(Broker):
    """Takes what a plain peer sends behind a gap, as if what lies between did not exist."""

    def step(self, event: Input, now_s: float) -> list[Effect]:
        if isinstance(event, ReceivedPlain):
            stream = Stream(event.event.topic, event.peer, 0)
            if self.log.find(stream, PLAIN_EPOCH) is not None:
                self.log.append_gap(stream, PLAIN_EPOCH, event.event.offset)
        return super().step(event, now_s)


class LeavesOneOut(Broker):
    """The summary of what it wants lacks one of the patterns."""

    def _tell_interest(self, now_s: float) -> list[Effect]:
        told: list[Effect] = []
        for effect in super()._tell_interest(now_s):
            if isinstance(effect, TellInterest) and effect.summary is not None:
                summary = finished(summarize([*sorted(self.subscriptions.wishes())[1:], *EVERYWHERE], KIB))
                effect = replace(effect, summary=summary)
            told.append(effect)
        return told


# --- the engine ------------------------------------------------------------------------------------------------------


class LosesWhatFollows(Engine):
    """Forgets what a step leads to, if that comes while it is busy with the step."""

    def feed_member(self, event: membership.Input) -> None:
        if not self._stepping:
            super().feed_member(event)


class LosesTrackOfTime(Engine):
    """Takes a timer that was cancelled for one that is set."""

    def _on_alarm(self) -> None:
        super()._on_alarm()
        if self._alarm is not None:
            self._alarm.cancel()


class IgnoresHealth(Engine):
    """Keeps links whose heartbeats are missed."""

    def _step_members(self, event: membership.Input) -> None:
        with mock.patch.object(self.links, "disconnect"):
            super()._step_members(event)


# --- the storage -----------------------------------------------------------------------------------------------------


class TellsTooSoon(Storage):
    """Says that everything is durable when it has only asked for it."""

    _told_of = 0

    def wake(self) -> None:
        super().wake()
        if self.log.appended > max(self.log.synced, self._told_of):
            self._told_of = self.log.appended
            ends = {(info.stream, info.epoch): info.end for info in self.log.streams()}
            self._loop.call_soon(self._on_synced, Synced(self.log.appended, ends))


class TellsOnlyOfTheLast(Storage):
    """When several syncs pass before the loop comes, it hears of what the last of them made durable."""

    def _note(self, advanced: Advanced) -> None:
        self._advanced = dict(advanced)


class KeepsFailuresToItself(Storage):
    """Nobody hears that the disk does not sync any more."""

    def _failed(self, error: StorageError) -> None:
        self.disk_full = None


# --- the outbox ------------------------------------------------------------------------------------------------------


class LetsTheRestFollow(DataQueue):
    """Sends what comes behind something that it threw away."""

    def put(self, item: Item) -> None:
        self._lost.discard(item.key)
        super().put(item)


class DropsAllOfTheOldest(DataQueue):
    """What a peer is behind in goes, all of it, and when it is sent again goes again. This was a real one."""

    _has_several = True


class LatestFirst(DataQueue):
    """Sends what came last, first."""

    def take(self, bytes_max: int) -> list[Item]:
        self._queue.reverse()
        return super().take(bytes_max)


# --- the election ----------------------------------------------------------------------------------------------------


class KeepsBoth(Election[Any]):
    """Takes a new connection and does not let go of the old one."""

    def on_commit(self, candidate: Any) -> list[Any] | None:
        return None if super().on_commit(candidate) is None else []


class NeverForgets(Election[Any]):
    """A connection that is gone stays the best one."""

    def on_closed(self, candidate: Any) -> None:
        pass


# --- settling ----------------------------------------------------------------------------------------------------


class ForgetsWhatIsDoneAhead(Settling):
    """Remembers the position and nothing beyond it: the next member gets again what was acknowledged out of order."""

    def advanced(self, key: StreamKey) -> list[GroupEffect]:
        effects = super().advanced(key)
        ledger = self._places.ledgers.get(key)
        if ledger is not None:
            ledger.done.clear()
        return effects


class NeverGivesUp(Settling):
    """Counts from one again whenever an event fails."""

    def nacked(self, member: Member, nacks: Iterable[Nacked], now_s: float) -> list[GroupEffect]:
        nacks = tuple(nacks)
        for each in nacks:
            ledger = self._places.ledgers.get((each.stream, each.epoch))
            if ledger is not None:
                ledger.tries.pop(each.offset, None)
        return super().nacked(member, nacks, now_s)


class ThrowsLettersAway(Settling):
    """Gives up on an event, and does not keep it."""

    def nacked(self, member: Member, nacks: Iterable[Nacked], now_s: float) -> list[GroupEffect]:
        return [each for each in super().nacked(member, nacks, now_s) if not isinstance(each, PutAside)]


class DoesNotWait(Settling):
    """Goes on behind an event that failed, though it is to be handled in order."""

    def next_run(self, member: Member, key: StreamKey, cursor: int, end: int, now_s: float) -> Given:
        policy, self.policy = self.policy, replace(self.policy, in_order=False)
        try:
            return super().next_run(member, key, cursor, end, now_s)
        finally:
            self.policy = policy


# --- the past --------------------------------------------------------------------------------------------------------


class SkipsThePast(Pasts):
    """Takes a copy that was begun in the middle for all there is."""

    def lacks(self, info: StreamInfo, *, since_us: int = 0, offset: int = 0) -> bool:
        return False


class TakesAPieceForThePast(Pasts):
    """Says that a stream begins where the first piece of its past does."""

    def _answer(self, request: PastRequest) -> Past | None:
        past = super()._answer(request)
        if past is None or not past.batches or request.first is not None:
            return past
        last = past.batches[-1]
        return replace(past, first=last.base_offset, batches=(last,), late_us=None)


# --- groups ----------------------------------------------------------------------------------------------------------


class IgnoresDrops(Groups):
    """Goes on with a group that was dropped elsewhere, and brings back its positions."""

    def _take_drop(self, name: str, era: int, known: int, now_s: float) -> list[GroupEffect]:
        return []


class GivesUpInSilence(Group):
    """Lets go of a stream, and says later where the group stands in it."""

    def _publish(self, at_s: float) -> None:
        super()._publish(at_s + 60.0)


# Where each part is looked up when a node is put together.
PLACES: Final[dict[type, str]] = {
    Broker: "weft.node.machinery.Broker",
    Engine: "weft.node.machinery.Engine",
    Storage: "weft.testing.sim.node.Storage",
    DataQueue: "weft.transport.peers.outbox.DataQueue",
    Election: "weft.transport.peers.links.Election",
    Settling: "weft.core.groups.group.Settling",
    Groups: "weft.core.group_work.Groups",
    Group: "weft.core.groups.groups.Group",
    Pasts: "weft.core.replication.Pasts",
}


@contextmanager
def planted(mutant: type) -> Iterator[None]:
    """Every node that is made meanwhile has the bug."""
    place = next(place for part, place in PLACES.items() if issubclass(mutant, part))
    with mock.patch(place, mutant):
        yield


MUTANTS: Final = (
    AcksBeforeSync,
    ResumesTooFar,
    DeliversBeforeSync,
    PromisesBeforeSync,
    ForgetsProducers,
    ForgetsPieces,
    ExaggeratesCopies,
    SkipsOnTakeover,
    SendsTwice,
    MixesEpochs,
    BelievesGaps,
    LeavesOneOut,
    LosesWhatFollows,
    LosesTrackOfTime,
    IgnoresHealth,
    TellsTooSoon,
    TellsOnlyOfTheLast,
    KeepsFailuresToItself,
    LetsTheRestFollow,
    DropsAllOfTheOldest,
    LatestFirst,
    KeepsBoth,
    NeverForgets,
    ForgetsWhatIsDoneAhead,
    NeverGivesUp,
    ThrowsLettersAway,
    DoesNotWait,
    IgnoresDrops,
    GivesUpInSilence,
    SkipsThePast,
    TakesAPieceForThePast,
)
