"""Members of groups, and the book that is kept of what each group has handled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from weft.core import messages as core
from weft.core.errors import GroupDropped
from weft.core.messages import Edge
from weft.model import Epoch, Pattern, Position, matches
from weft.testing.sim.node import SimNode
from weft.testing.sim.schedule import Violation
from weft.testing.sim.sessions import Answer, Desk, Feed, SimFeed, SimSession
from weft.testing.sim.subscribers import CREDIT_BYTES, SimSubscriber, end_offset
from weft.testing.sim.truth import EndOf, StreamKey, Truth, is_internal, name_of


@dataclass(slots=True)
class Again:
    """A group was moved back or dropped at a node: these offsets have to be handled once more."""

    node: SimNode
    epoch: Epoch
    offsets: set[int]
    answered: bool = False


class GroupReader(Protocol):
    """A member of a group, whatever it does with events."""

    name: str
    node: SimNode | None
    assigned: dict[StreamKey, int]

    def selects(self, key: StreamKey) -> bool: ...

    def disconnect(self) -> None: ...


class GroupBook:
    """All that one group has handled, by any of its members. It began at the earliest event of every stream."""

    def __init__(self, name: str, pattern: Pattern, truth: Truth) -> None:
        self.name = name
        self.pattern = pattern
        self.members: list[GroupReader] = []
        self.moves = 0
        self.dropped = False  # somebody has tried to
        self.at_rest = False  # nobody drops it any longer
        self._truth = truth
        self._handled: defaultdict[StreamKey, set[int]] = defaultdict(set)
        self._prefix: defaultdict[StreamKey, int] = defaultdict(int)  # everything before is handled, or is no more
        self._again: dict[StreamKey, Again] = {}

    def handle(self, key: StreamKey, first: int, end: int) -> None:
        self._handled[key].update(range(first, end))
        if key in self._again:
            self._again[key].offsets.difference_update(range(first, end))

    # --- moving back ---

    def move_back(self, desk: Desk, node: SimNode) -> None:
        """Make the group handle the end of what it has handled again."""
        if not node.running:
            return
        ends = {(info.stream, info.epoch): (info.start, info.end) for info in node.log.streams(self.pattern)}
        for key, (_, end) in ends.items():
            self.unhandled(key, end)  # counts how far it has come
        keys = [key for key, (start, _) in ends.items() if self._prefix[key] > start and key not in self._again]
        if not keys:
            return
        key = desk.chance.choice(keys)
        first, end = desk.chance.randrange(ends[key][0], self._prefix[key]), self._prefix[key]
        self._again[key] = Again(node, node.log.epoch, set(range(first, end)))
        self.moves += 1
        session = desk.connect(node, partial(self._moved, key, None))
        session.move_group(self.name, (Position(*key, first),), partial(self._moved, key, session))

    def drop(self, desk: Desk, node: SimNode) -> None:
        """Let the group start again, once: everything it has handled is handled again, because it begins at the
        earliest."""
        if (
            self.dropped
            or self.at_rest
            or not node.running
            or not all(again.answered for again in self._again.values())
        ):
            return
        self.dropped = True
        keys = [key for key, offsets in self._handled.items() if offsets]
        for key in keys:
            self._again[key] = Again(node, node.log.epoch, set(self._handled[key]))
        session = desk.connect(node, partial(self._drop_done, keys, None))
        session.drop_group(self.name, partial(self._drop_done, keys, session))

    def _drop_done(self, keys: list[StreamKey], session: SimSession | None, answer: Answer = None) -> None:
        for key in keys:
            self._moved(key, session, answer)

    def _moved(self, key: StreamKey, session: SimSession | None, answer: Answer = None) -> None:
        """Without a session the call broke, and the group may or may not have been moved."""
        again = self._again[key]
        if session is None or answer is not None:
            again.offsets.clear()
        again.answered = True

    def _not_again(self, end_of: EndOf) -> str:
        """What a lost disk took with it can not be handled again: only what a running node has counts."""
        for key, again in self._again.items():
            if not again.answered:
                return f"{again.node.node_id} has not said whether group {self.name} was moved or dropped"
            if again.node.retired or again.node.log.epoch != again.epoch:
                continue  # nobody else may have known
            there = sorted(offset for offset in again.offsets if offset < (end_of(key) or 0))
            left = [offset for offset in there if not self._truth.may_be_gone(key, offset)]
            if left:
                return f"group {self.name} began again in {name_of(key)}, but has not handled {left[0]} again"
        return ""

    # --- what has to hold ---

    def unhandled(self, key: StreamKey, end: int) -> int | None:
        """The first offset before ``end`` that nobody has handled, though it has to be there."""
        handled = self._handled[key]
        while self._prefix[key] < end:
            offset = self._prefix[key]
            if offset not in handled and not self._truth.may_be_gone(key, offset):
                return offset
            self._prefix[key] = offset + 1
        return None

    def check_start(self, member: str, position: Position) -> None:
        """Check that a member that takes over a stream leaves nothing out."""
        key = (position.stream, position.epoch)
        missed = self.unhandled(key, position.offset)
        if missed is not None:
            raise Violation(f"{member} begins {name_of(key)} at {position.offset}, but nobody has handled {missed}")

    def lacks(self, end_of: EndOf) -> str:
        """What is not right yet: every stream has one holder, and every event of it is handled."""
        members = [member for member in self.members if member.node is not None]
        if len(members) < len(self.members):
            return f"members of group {self.name} are not connected"
        for key in self._truth.streams:
            end = 0 if is_internal(key) or not matches(self.pattern, key[0].topic) else end_of(key)
            if not end:
                continue
            holders = [member.name for member in members if key in member.assigned]
            if len(holders) != 1:
                return f"{name_of(key)} has {len(holders)} holders in group {self.name}: {holders}"
            missed = self.unhandled(key, end)
            if missed is not None:
                return f"nobody in group {self.name} has handled {missed} of {name_of(key)}; {holders[0]} holds it"
        return self._not_again(end_of)


class Member(SimSubscriber):
    """Handles what it gets when it arrives, and says so a little later; if it is gone by then, another does it again.

    ``assigned`` is what the node says it has; what it takes itself to hold follows when word of that arrives.
    """

    def __init__(self, name: str, desk: Desk, nodes: Sequence[SimNode], book: GroupBook) -> None:
        super().__init__(name, desk, nodes, book.pattern, Edge.EARLIEST)
        self.assigned: dict[StreamKey, int] = {}  # as the node says
        self._book = book
        self._holding: dict[StreamKey, int] = {}  # as it arrives: how far it has handled each
        self._generation = 0
        book.members.append(self)

    def _open(self, feed: SimFeed) -> None:
        self.assigned, self._holding, self._generation = {}, {}, 0
        self._offered.clear()
        feed.open(self.pattern, Edge.EARLIEST, CREDIT_BYTES, self._book.name, self.name)

    def _broken(self) -> None:
        self.assigned = {}
        super()._broken()

    def said(self, effect: Feed) -> None:
        match effect:
            case core.Assigned(_, _, positions):
                self._assign(positions)
            case core.Deliver(_, batches):
                for delivered in batches:
                    key = (delivered.stream, delivered.epoch)
                    if key not in self.assigned:
                        raise Violation(f"{self.name} gets {name_of(key)}, which it was not assigned")
                super().said(effect)
            case _:
                super().said(effect)

    def _assign(self, positions: tuple[Position, ...]) -> None:
        before = self.assigned
        self.assigned = {(each.stream, each.epoch): each.offset for each in positions}
        for position in positions:
            key = (position.stream, position.epoch)
            if not self.selects(key):
                raise Violation(f"{self.name} wants {self.pattern} and is assigned {name_of(key)}")
            if key not in before:
                self._book.check_start(self.name, position)
                if not self._waits(position):
                    self._offered[key] = position.offset
        self._offered = {key: offset for key, offset in self._offered.items() if key in self.assigned}

    def _waits(self, position: Position) -> bool:
        """For the past of its node's copy: where that begins is not known yet."""
        assert self.node is not None, "nobody speaks to a client that is not connected"
        return not position.offset and self.node.log.info(position.stream, position.epoch).late_us is not None

    def heard(self, effect: Feed) -> None:
        match effect:
            case core.Assigned(_, generation, positions):
                now = {(each.stream, each.epoch): each.offset for each in positions}
                self._holding = {key: self._holding.get(key, offset) for key, offset in now.items()}
                self._generation = generation
                self._tell_soon()
            case core.Opened():
                pass
            case core.Ended(_, GroupDropped()):
                self.disconnect()
            case core.Deliver():
                super().heard(effect)
                self._tell_soon()
            case _:
                super().heard(effect)

    def _check_end(self, node: SimNode, error: Exception) -> None:
        if not (isinstance(error, GroupDropped) and self._book.dropped):
            super()._check_end(node, error)

    def _expired(self, node: SimNode) -> dict[StreamKey, int]:
        """Streams in which the group stands, or this member reads, before what the node has left."""
        found = {}
        for info in node.log.streams(self.pattern):
            key = (info.stream, info.epoch)
            stands = node.broker.group_work.groups.position(self._book.name, key)
            if min(info.end if stands is None else stands, self._offered.get(key, info.end)) < info.start:
                found[key] = info.start
        return found

    def _restart(self) -> None:
        """Retention was faster. The person in charge moves the group to the first existing event, and this member joins
        again."""
        assert self.node is not None and self._session is not None, "only who is connected hears that it ended"
        self.restarts += 1
        positions = tuple(Position(*key, start) for key, start in self._expired(self.node).items())
        self._session.move_group(self._book.name, positions, lambda _: self.disconnect())

    def _take(self, delivered: core.Delivered) -> None:
        key = (delivered.stream, delivered.epoch)
        end = end_offset(delivered)
        self._book.handle(key, delivered.first_offset, end)
        self._holding[key] = end

    def _tell_soon(self) -> None:
        wait_s = self._desk.chance.random() * 0.3
        self._desk.schedule.at(wait_s, partial(self._tell, self._feed, self._generation))

    def _tell(self, feed: SimFeed | None, generation: int) -> None:
        if self._session is not None and feed is not None and feed is self._feed and generation == self._generation:
            feed.handled(tuple(Position(*key, offset) for key, offset in self._holding.items()), generation)
