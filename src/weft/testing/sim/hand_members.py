"""Members of groups that settle event by event, and the book that is kept of it (CON-01, CON-02).

Some events are poison: every reader refuses them, always. Some fail once. Connections break with events in hand, which
is how a reader dies. What has to hold:

- What a node took as acknowledged, it does not hand out again while it lives. Nor does another node that takes over the
  stream: one that lives and no longer has the stream has said what was done, and a node that has heard everything it
  said knows. In a mesh where nothing is slow and nothing breaks, everybody has heard.
- No more than the window is in hand.
- In order, nothing behind a refused event comes before it comes again.
- A poisonous event is begun at most ``max_deliveries`` times, and once more for each of these: a reader died with it
  and others in hand; a member began with its stream, because a refusal that comes too late counts for nothing. Where
  two nodes served the stream at once, or one that served it died, or had said what the next one had not yet heard, each
  of them may have counted for itself.
- In the end, every event was handled, or was begun often enough and is a dead letter.
- Once the group is dropped, everything is handed out again, and counts from one: no ledger survives.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Final

from weft.core import messages as core
from weft.core.errors import GroupDropped
from weft.core.groups.names import topic_of
from weft.core.messages import Acked, Edge, Nacked
from weft.core.policy import GroupPolicy
from weft.model import Batch, Pattern, Position, Stream, matches
from weft.testing.sim.group_members import GroupBook
from weft.testing.sim.node import SimNode
from weft.testing.sim.schedule import Violation
from weft.testing.sim.sessions import Desk, Feed, SimFeed
from weft.testing.sim.subscribers import CREDIT_BYTES, SimSubscriber
from weft.testing.sim.truth import EndOf, StreamKey, Truth, is_internal, name_of

WINDOW: Final = 8
POISON_SHARE: Final = 11  # one event in so many is poison, and another one fails once
HANDLING_S_MAX: Final = 0.3
Life = tuple[str, int]  # of a node: its id, and which of its lives


class HandBook(GroupBook):
    """What one such group has handled and refused, by any of its members."""

    """``prompt``: nothing is slow in this mesh, and nothing breaks."""

    def __init__(self, name: str, pattern: Pattern, truth: Truth, policy: GroupPolicy, *, prompt: bool = False) -> None:
        super().__init__(name, pattern, truth)
        self.policy = policy
        self._prompt = prompt
        self.hands: list[HandMember] = []
        self.begun: defaultdict[StreamKey, Counter[int]] = defaultdict(Counter)
        self.refused: defaultdict[StreamKey, Counter[int]] = defaultdict(Counter)
        self.deaths_among: defaultdict[StreamKey, Counter[int]] = defaultdict(Counter)  # with others in hand
        self.begins: Counter[StreamKey] = Counter()  # how often a member began with a stream
        self.servers: defaultdict[StreamKey, set[tuple[SimNode, int]]] = defaultdict(set)  # nodes in their lives
        self.shared: set[StreamKey] = set()  # streams that two members had at once
        self.moved: set[StreamKey] = set()  # by hand, behind what expired: there the ledger began again
        self.acked: defaultdict[tuple[Life, StreamKey], set[int]] = defaultdict(set)  # as nodes took it
        self._done_before: dict[tuple[Life, StreamKey], set[int]] = {}  # at others, before a node began with a stream

    def move_back(self, desk: Desk, node: SimNode) -> None:
        """Not this one: a group that is moved begins with a clean ledger, and everything may come again."""

    def is_poison(self, offset: int) -> bool:
        return offset % POISON_SHARE == 3

    def fails(self, key: StreamKey, offset: int) -> bool:
        """Whether a member that begins with it now cannot handle it."""
        return self.is_poison(offset) or (offset % POISON_SHARE == 5 and not self.refused[key][offset])

    def begin(self, key: StreamKey, offset: int) -> None:
        """Somebody takes it in hand to handle it."""
        self.begun[key][offset] += 1
        deliveries = (1 + self.dropped) * self.policy.max_deliveries
        allowed = self._counts(key) * deliveries + self.deaths_among[key][offset] + self.begins[key]
        if self.begun[key][offset] > allowed and key not in self.moved:
            raise Violation(
                f"group {self.name} begins {name_of(key)}:{offset} for the {self.begun[key][offset]}th time, "
                f"of {allowed} at most"
            )

    def began(self, key: StreamKey, node: SimNode) -> None:
        self.begins[key] += 1
        if any(other is not node and self._has_not_heard(node, other) for other, _ in self.servers[key]):
            self.shared.add(key)
        self._done_before[(node.node_id, node.life), key] = self._done_elsewhere(key, node)
        self.servers[key].add((node, node.life))
        if sum(key in member.assigned for member in self.hands) > 1:
            self.shared.add(key)

    def _done_elsewhere(self, key: StreamKey, node: SimNode) -> set[int]:
        """What other nodes took as acknowledged and have said, so that this one has to know of it."""
        done: set[int] = set()
        for other, life in self.servers[key]:
            lives = other is not node and other.running and other.life == life
            if not lives or not other.broker.group_work.has_let_go(self.name, key):
                continue
            if not self._has_not_heard(node, other) or (self._prompt and key not in self.shared):
                done |= self.acked[(other.node_id, life), key]
        return done

    def _has_not_heard(self, node: SimNode, other: SimNode) -> bool:
        """Whether a node lacks some of what another one has said of the group: it counts without that."""
        if not other.running:
            return True
        said = Stream(topic_of(self.name), other.node_id, 0)
        ours, theirs = (each.log.find(said, other.log.epoch) for each in (node, other))
        return theirs is not None and (ours is None or ours.durable < theirs.end)

    def _counts(self, key: StreamKey) -> int:
        """How many nodes may have counted for themselves."""
        servers = self.servers[key]
        is_one = key not in self.shared and all(node.running and node.life == life for node, life in servers)
        return 1 if is_one else len(servers)

    def is_over(self, key: StreamKey, offset: int) -> bool:
        """Compaction took it, or another member handled it or gave it up while the mesh was split: it need not come
        again."""
        if self._truth.may_be_gone(key, offset) or offset in self._handled[key]:
            return True
        return self._truth.streams[key].payloads[offset] in self.letters()

    def given(self, life: Life, key: StreamKey, offset: int) -> None:
        if key in self._again:
            self._again[key].offsets.discard(offset)
        if offset in self.acked[life, key] and key not in self.moved and not self.dropped:
            raise Violation(f"{life[0]} hands out {name_of(key)}:{offset} again, which it took as acknowledged")
        if offset in self._done_before.get((life, key), ()) and key not in self.moved and not self.dropped:
            raise Violation(f"{life[0]} hands out {name_of(key)}:{offset}, which was acknowledged before it began")

    def letters(self) -> set[bytes]:
        """The payloads of all dead letters that ever were on a disk."""
        topic = self.policy.topic_of(self.name)
        streams = self._truth.streams.items()
        return {payload for (stream, _), history in streams if stream.topic == topic for payload in history.payloads}

    def unhandled(self, key: StreamKey, end: int) -> int | None:
        """Events that were begun as often as they may be are given up, and need not be handled; so are those that are
        dead letters: a reader that died before it began with one has tried it, too."""
        letters, payloads = self.letters(), self._truth.streams[key].payloads
        given_up = {o for o, times in self.begun[key].items() if times >= self.policy.max_deliveries}
        given_up |= {o for o in range(self._prefix[key], min(end, len(payloads))) if payloads[o] in letters}
        self._handled[key] |= given_up
        return super().unhandled(key, end)

    def lacks(self, end_of: EndOf) -> str:
        found = super().lacks(end_of)
        if found or self._truth.lost:  # with a disk, the only copy of a dead letter may be lost
            return found
        letters = self.letters()
        for key, history in self._truth.streams.items():
            if is_internal(key) or not matches(self.pattern, key[0].topic) or not end_of(key):
                continue
            for offset in self.refused[key]:
                is_there = self.is_poison(offset) and not self._truth.may_be_gone(key, offset)
                if is_there and history.payloads[offset] not in letters:
                    return f"{name_of(key)}:{offset} failed in group {self.name}, and is no dead letter"
        return ""


class HandMember(SimSubscriber):
    def __init__(self, name: str, desk: Desk, nodes: Sequence[SimNode], book: HandBook) -> None:
        super().__init__(name, desk, nodes, book.pattern, Edge.EARLIEST)
        self.assigned: dict[StreamKey, int] = {}  # as the node says
        self._book = book
        self._life: Life = ("", 0)
        self._given: set[tuple[StreamKey, int]] = set()  # on its way or here, as the node sees it
        self._pending: set[tuple[StreamKey, int]] = set()  # arrived, and not begun
        self._expected: dict[StreamKey, int] = {}  # where streams go on after a refusal
        self._generation = 0
        book.members.append(self)
        book.hands.append(self)

    def _open(self, feed: SimFeed) -> None:
        assert self.node is not None, "it has just connected"
        self.assigned, self._generation = {}, 0
        self._life = (self.node.node_id, self.node.life)
        self._given.clear()
        self._pending.clear()
        self._expected.clear()
        feed.open(self.pattern, Edge.EARLIEST, CREDIT_BYTES, self._book.name, self.name, WINDOW, self._book.policy)

    def _broken(self) -> None:
        """It died, for its node, with all that it was given."""
        if len(self._given) > 1:
            for key, offset in self._given:
                self._book.deaths_among[key][offset] += 1
        self.assigned = {}
        self._pending.clear()
        super()._broken()

    # --- as the node says it ---

    def said(self, effect: Feed) -> None:
        assert self.node is not None, "nobody speaks to a client that is not connected"
        match effect:
            case core.Assigned(_, _, positions):
                self._assign(positions)
            case core.Deliver(_, batches):
                for delivered in batches:
                    self._check(self.node.node_id, delivered)
            case core.Withdrawn(_, stream, epoch, offset, rest):
                self._given.discard(((stream, epoch), offset))
                if rest:
                    self._given = {each for each in self._given if each[0] != (stream, epoch) or each[1] < offset}
            case core.Ended(_, error):
                self._check_end(self.node, error)
            case core.Opened():
                pass

    def _assign(self, positions: tuple[Position, ...]) -> None:
        before = self.assigned
        self.assigned = {(each.stream, each.epoch): each.offset for each in positions}
        self._given = {each for each in self._given if each[0] in self.assigned}
        for position in positions:
            key = (position.stream, position.epoch)
            if key not in before:
                assert self.node is not None, "nobody speaks to a client that is not connected"
                self._book.began(key, self.node)
                self._book.check_start(self.name, position)

    def _check(self, node: object, delivered: core.Delivered) -> None:
        key = (delivered.stream, delivered.epoch)
        if key not in self.assigned:
            raise Violation(f"{self.name} gets {name_of(key)}, which it was not assigned")
        batch = Batch.read_stored(delivered.data)
        history = self._desk.truth.streams[key]
        for offset, event in enumerate(batch.events_from(delivered.first_offset), delivered.first_offset):
            if offset >= history.end or event.payload != history.payloads[offset]:
                raise Violation(f"{self.name} gets {event.payload!r} as {name_of(key)}:{offset}, which it is not")
            self._book.given(self._life, key, offset)
            self._given.add((key, offset))
        if len(self._given) > WINDOW:
            raise Violation(f"{self.name} is given {len(self._given)} events, and its window is {WINDOW}")

    def _check_end(self, node: SimNode, error: Exception) -> None:
        if not (isinstance(error, GroupDropped) and self._book.dropped):
            super()._check_end(node, error)

    def _expired(self, node: SimNode) -> dict[StreamKey, int]:
        found = {}
        for info in node.log.streams(self.pattern):
            stands = node.broker.group_work.groups.position(self._book.name, (info.stream, info.epoch))
            if stands is not None and stands < info.start:
                found[info.stream, info.epoch] = info.start
        return found

    def _restart(self) -> None:
        """Retention was faster. The person in charge moves the group to the first existing event, and this member joins
        again."""
        assert self.node is not None and self._session is not None, "only who is connected hears that it ended"
        self.restarts += 1
        positions = tuple(Position(*key, start) for key, start in self._expired(self.node).items())
        self._book.moved.update((each.stream, each.epoch) for each in positions)
        self._session.move_group(self._book.name, positions, lambda _: self.disconnect())

    # --- as it arrives ---

    def heard(self, effect: Feed) -> None:
        match effect:
            case core.Assigned(_, generation, positions):
                now = {(each.stream, each.epoch) for each in positions}
                self._pending = {each for each in self._pending if each[0] in now}
                self._expected = {key: offset for key, offset in self._expected.items() if key in now}
                self._generation = generation
                self._settle()
            case core.Deliver(_, batches):
                super().heard(effect)
                for delivered in batches:
                    self._arrive(delivered)
            case core.Withdrawn(_, stream, epoch, offset, rest):
                if rest:
                    key = (stream, epoch)
                    self._pending = {each for each in self._pending if each[0] != key or each[1] < offset}
                    self._expected[key] = offset
            case core.Opened():
                pass
            case core.Ended(_, GroupDropped()):
                self.disconnect()
            case _:
                super().heard(effect)

    def _take(self, delivered: core.Delivered) -> None:
        """Positions are the group's to remember."""

    def _arrive(self, delivered: core.Delivered) -> None:
        key = (delivered.stream, delivered.epoch)
        expected = self._expected.pop(key, None)
        if expected is not None and delivered.first_offset > expected and not self._book.is_over(key, expected):
            raise Violation(f"{self.name} gets {name_of(key)}:{delivered.first_offset} before {expected} comes again")
        for offset in range(delivered.first_offset, Batch.read_stored(delivered.data).end_offset):
            self._pending.add((key, offset))
            wait_s = self._desk.chance.random() * HANDLING_S_MAX
            self._desk.schedule.at(wait_s, partial(self._handle, self._feed, key, offset))

    def _handle(self, feed: SimFeed | None, key: StreamKey, offset: int) -> None:
        if self._session is None or feed is not self._feed or (key, offset) not in self._pending:
            return
        self._pending.discard((key, offset))
        self._book.begin(key, offset)
        if self._book.fails(key, offset):
            self._book.refused[key][offset] += 1
            self._settle(nacks=(Nacked(*key, offset, None, "poison"),))
        else:
            self._book.handle(key, offset, offset + 1)
            self._settle(acks=(Acked(*key, offset, offset + 1),))

    def _settle(self, acks: tuple[Acked, ...] = (), nacks: tuple[Nacked, ...] = ()) -> None:
        if self._session is not None and self._feed is not None:
            self._feed.settled(acks, nacks, self._generation, self._taken)

    def _taken(self, acks: tuple[Acked, ...]) -> None:
        """The node has got it. What it takes counts for as long as it lives, if the stream is still ours there."""
        groups = self.node.broker.group_work.groups if self.node is not None else None
        number = self._feed.number if self._feed is not None else None
        for each in acks:
            key = (each.stream, each.epoch)
            self._given.discard((key, each.first))
            if groups is not None and number is not None and key in self.assigned and groups.hand(number, key):
                self._book.acked[self._life, key].add(each.first)
