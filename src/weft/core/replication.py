"""Copies to and from peers. There is one link per peer. Each origin's streams come from one parent, and children are
served from the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Final, assert_never

from weft.core.errands import Errand, Errands
from weft.core.incoming import COPY_GAP_MAX, COPY_OFFSET_MAX, Incoming, Taken, end_of
from weft.core.messages import (
    Begin,
    Copy,
    DamageFound,
    DropLink,
    Effect,
    EventsGone,
    PeerFault,
    PeerRefused,
    ReceivedAcks,
    ReceivedBegins,
    ReceivedCopies,
    ReceivedPlain,
    ReceivedPlainAck,
    ReceivedResume,
    SendAcks,
    SendBegins,
    SendCopies,
    SendPlain,
    SendPlainAck,
    SendResume,
    StreamKey,
)
from weft.core.outgoing import Branch, Followers, Outgoing
from weft.core.past import Pasts
from weft.core.plain import PlainLink
from weft.core.resuming import RESUME_STREAMS_MAX, Resuming, resume, streams_of
from weft.core.routes import Routes
from weft.core.settings import BrokerSettings
from weft.core.timers import soonest
from weft.core.topics import is_own
from weft.errors import StorageError, UsageError
from weft.log import Log, StreamInfo
from weft.model import NodeId, Position, Topic

ORPHAN_DELAY_S: Final = 3.0  # after so long out of reach, an origin counts as an orphan; gossip is faster than this
MERGE_RETRY_S: Final = 1.0  # how long to wait after a full disk before the next try
UNBEGUN_MAX: Final = 100_000  # copies that found no room to begin: as many as a log has streams, about 50 MB


FAULTS: Final = {
    PeerFault.UNASKED: "events that another peer was asked for",
    PeerFault.OFFSET: f"an offset beyond {COPY_OFFSET_MAX}",
    PeerFault.GAP: f"a gap of more than {COPY_GAP_MAX} offsets",
    PeerFault.DIFFERS: "other events than those that are kept here",
    PeerFault.AHEAD: "events of this node that it never had",
}


@dataclass(slots=True)
class PeerFlows:
    """A peer that knows batches and positions."""

    incoming: Incoming
    outgoing: Outgoing
    past: bool  # the peer knows copies that begin in the middle
    resuming: Resuming = field(default_factory=Resuming)  # a resume that is not complete yet


class Replication:
    """All links of this node, and what goes over them. ``floors``: where each stream ended when its sender heard of our
    interest. ``is_wanted_here`` tells whether somebody at this node wants a topic."""

    def __init__(
        self,
        me: NodeId,
        log: Log,
        routes: Routes,
        settings: BrokerSettings,
        floors: MutableMapping[StreamKey, int],
        is_wanted_here: Callable[[Topic], bool],
    ) -> None:
        self.pasts = Pasts(log, self, settings.past_timeout_s)
        self.links: dict[NodeId, PeerFlows] = {}
        self.plain: dict[NodeId, PlainLink] = {}
        self._plain_gaps: dict[NodeId, dict[Topic, int]] = {}  # the ``gaps`` of ``PlainLink``; at most one per stream
        self._me = me
        self._log = log
        self._routes = routes
        self._settings = settings
        self._floors = floors
        self._is_wanted_here = is_wanted_here
        self.events_in_vain = 0  # copied to this node, although nobody here or further on wants them
        self._followers = Followers()
        self._errands = Errands()  # work on every stream of a link, as the peer's parent or as its child
        self._owing: dict[NodeId, None] = {}  # peers to which we owe acknowledgements
        self._acks_due_s: float | None = None  # when to look for late acknowledgements
        self._unbegun: dict[StreamKey, tuple[NodeId, Begin]] = {}  # copies that found no room, by stream, with the peer
        self._merge_due_s = 0.0  # when to try again what found no room
        self._origins = {info.stream.origin for info in log.streams()}
        self._lost_s: dict[NodeId, float] = {}  # origins that are out of reach, and since when
        self._orphans: set[NodeId] = set()
        self.orphans_due_s: float | None = None  # when to follow the routes again if nothing else happens

    # --- links ---------------------------------------------------------------------------------------------------

    def link_up(self, peer: NodeId, now_s: float, *, past: bool) -> None:
        if peer in self.links:
            self._close(self.links[peer])
        outgoing = Outgoing(
            peer,
            self._log,
            self._settings.window_bytes,
            Branch(
                lambda key: self._routes.wants(peer, key[0].origin, key[0].topic),
                (lambda key: self._routes.since(peer, key[0].origin, key[0].topic)) if past else None,
            ),
            self._followers,
            self.pasts,
        )
        outgoing.progress_s = now_s
        self.links[peer] = PeerFlows(Incoming(peer, self._me, self._log), outgoing, past)

    def plain_link_up(self, peer: NodeId) -> list[Effect]:
        gaps = self._plain_gaps.setdefault(peer, {})
        self.plain[peer] = PlainLink(peer, self._me, self._log, self._settings.plain_patterns, gaps, self._lacks)
        return self._send_plain(self.plain[peer])

    def link_down(self, peer: NodeId) -> None:
        link = self.links.pop(peer, None)
        if link is not None:
            self._close(link)
            self._owing.pop(peer, None)
            self._unbegun = {key: told for key, told in self._unbegun.items() if told[0] != peer}
            self.pasts.link_down(peer)
        self.plain.pop(peer, None)
        if not self._plain_gaps.get(peer):
            self._plain_gaps.pop(peer, None)

    def _close(self, link: PeerFlows) -> None:
        outgoing = link.outgoing
        self._errands.drop(link.incoming)
        self._errands.drop(outgoing)
        outgoing.close()
        self._errands.add(outgoing, (() for _ in outgoing.let_go()))

    # --- errands -------------------------------------------------------------------------------------------------

    @property
    def has_errands(self) -> bool:
        return bool(self._errands)

    def begin_turn(self) -> None:
        self._errands.begin_turn()

    def run_errands(self) -> list[Effect]:
        """Go on with the work on every stream, as far as this turn of the loop has time for it."""
        return self._errands.run()

    # --- trees ---------------------------------------------------------------------------------------------------

    def follow_routes(self, now_s: float) -> None:
        """Follow a change of the mesh: ask new parents for what they have, leave old ones, and serve the nodes that
        want something now. That takes several turns of the loop if there are many streams."""
        self._find_orphans(now_s)
        for link in self.links.values():
            link.outgoing.adopt(self._orphans)
            self._look_again_soon(link.outgoing)
        parents = {origin: self._parents(origin) for origin in self._known_origins()}
        for peer, link in self.links.items():
            asked = {origin for origin, peers in parents.items() if peer in peers}
            new, gone = asked - link.incoming.asked, link.incoming.asked - asked
            if new or gone:
                link.incoming.ask(asked, now_s)
                self._errands.add(link.incoming, resume(self._log, peer, new, self._origins, gone))

    def _look_again_soon(self, outgoing: Outgoing) -> None:
        """Plan to look at every stream again. If the mesh changes again before that has begun, once is enough."""
        if not outgoing.is_looked_at:
            outgoing.is_looked_at = True
            self._errands.add(outgoing, self._look_again(outgoing))

    def _look_again(self, outgoing: Outgoing) -> Errand:
        outgoing.is_looked_at = False
        for key in list(outgoing.cursors):
            outgoing.look_again(key, self._end_of(key))
            yield ()
        for info in streams_of(self._log, outgoing.orphans & self._origins):
            if info is not None and (info.stream, info.epoch) not in outgoing.cursors:
                outgoing.stream_known(info, info.end)
            yield ()

    def _known_origins(self) -> set[NodeId]:
        return {*self._routes.origins(), *self._origins} - {self._me}

    def _parents(self, origin: NodeId) -> set[NodeId]:
        """The peers from which to get an origin's streams: the parent in the origin's tree.

        An origin that is an orphan has no tree, and any node may have its streams, so all peers are asked. While there
        is no link to the parent, nothing changes.
        """
        if origin in self._orphans:
            return set(self.links)
        parent = self._routes.topology.parent(origin, self._me)
        if parent in self.links:
            return {parent}
        return {peer for peer, link in self.links.items() if origin in link.incoming.asked}

    def _find_orphans(self, now_s: float) -> None:
        """Find the orphans: origins whose streams we have and that have been out of reach for a while. Until then,
        gossip about a way to them may just be late."""
        topology = self._routes.topology
        lost = {origin for origin in self._origins - {self._me} if topology.parent(origin, self._me) is None}
        self._lost_s = {origin: self._lost_s.get(origin, now_s) for origin in lost}
        self._orphans = {origin for origin, since_s in self._lost_s.items() if since_s + ORPHAN_DELAY_S <= now_s}
        waiting_s = (since_s for origin, since_s in self._lost_s.items() if origin not in self._orphans)
        self.orphans_due_s = min((since_s + ORPHAN_DELAY_S for since_s in waiting_s), default=None)
        self.pasts.look_again()

    # --- the past of copies --------------------------------------------------------------------------------------

    def take_given_up(self) -> list[StreamKey]:
        """Take the streams whose past was given up, and let everything that waited for it go on without it."""
        keys = self.pasts.take_given_up()
        for key in keys:
            for outgoing in self._followers.of(key):
                outgoing.advanced(key)
            for plain in self.plain.values():
                plain.merge(key)
        return keys

    def givers(self, key: StreamKey) -> list[NodeId]:
        """The parents for the stream. If their versions are too old, or if the origin has lost its events, any peer."""
        able = sorted(peer for peer, link in self.links.items() if link.past)
        parents = [peer for peer in able if key[0].origin in self.links[peer].incoming.asked]
        return able if self._is_of_lost_log(key) else parents or able

    def is_lost(self, key: StreamKey) -> bool:
        return key[0].origin in self._lost_s or self._is_of_lost_log(key)

    def _is_of_lost_log(self, key: StreamKey) -> bool:
        """Whether the stream's origin is there, but with another log."""
        stream, epoch = key
        state = self._routes.states.get(stream.origin)
        return state is not None and state.epoch != epoch

    def _lacks(self, info: StreamInfo, offset: int) -> bool:
        return self.pasts.lacks(info, offset=offset)

    def received_resume(self, part: ReceivedResume) -> list[Effect]:
        link = self.links.get(part.peer)
        if link is None:
            return []
        if part.leave:
            link.outgoing.leave(part.leave)
            self._look_again_soon(link.outgoing)
        if not part.origins:
            for position in part.positions:
                link.outgoing.go_back(position)
            return self._ahead(link, part.positions)
        link.resuming.add(part)
        if link.resuming.is_too_large:
            link.resuming = Resuming()
            return [DropLink(part.peer, f"it resumes more than {RESUME_STREAMS_MAX} streams")]
        if not part.more:
            resuming, link.resuming = link.resuming, Resuming()
            link.outgoing.asked_for(resuming.origins)
            self._errands.add(link.outgoing, self._resumed(link, resuming))
        return []

    def _resumed(self, link: PeerFlows, resuming: Resuming) -> Errand:
        """Begin to serve each stream that the child asked for. The positions in ``resuming`` are freed along the way,
        because freeing them all at once would take long, too."""
        for info in streams_of(self._log, resuming.origins & self._origins):
            if info is None or not link.outgoing.serves(info.stream.origin):  # the child left it meanwhile
                yield ()
                continue
            key = (info.stream, info.epoch)
            has = resuming.has.pop(key, 0)
            link.outgoing.resume(info, has, resuming.began.pop(key, 0))
            yield self._ahead(link, (Position(*key, has),))

    # --- copies --------------------------------------------------------------------------------------------------

    def received_copies(self, received: ReceivedCopies, now_s: float) -> list[Effect]:
        """Keep the copies that follow what is here. If the disk is full, the rest is neither kept nor acknowledged, so
        the peer sends it again."""
        link = self.links.get(received.peer)
        if link is None:
            return []
        known = False
        missing: list[Position] = []
        refused: dict[PeerFault, list[Copy]] = {}
        self._owing[received.peer] = None
        for place, copy in enumerate(received.copies):
            key = (copy.stream, copy.epoch)
            try:
                taken = self._take(link.incoming, copy, now_s)
            except StorageError:
                link.incoming.no_room(received.copies[place:])
                break
            match taken:
                case Taken.KEPT:
                    self._floors[key] = max(copy.latest, self._floors.get(key, 0))
                    if self._is_in_vain(copy, received.peer):
                        self.events_in_vain += len(copy.batch)
                case Taken.KNOWN:
                    known = True
                case Taken.MISSING:
                    if link.incoming.tell_missing(key):
                        end = end_of(self._log, copy.stream, copy.epoch) or 0
                        missing.append(Position(copy.stream, copy.epoch, end))
                case PeerFault():
                    refused.setdefault(taken, []).append(copy)
                case _:
                    assert_never(taken)
        effects: list[Effect] = [SendResume(received.peer, (), tuple(missing))] if missing else []
        effects += self._refuse(link.incoming, refused)
        return [*effects, *self._acks(link)] if known else effects

    def received_begins(self, received: ReceivedBegins, now_s: float) -> list[Effect]:
        """Begin those copies of which nothing is here yet.

        A copy that is here and ends before its new beginning goes on where it ends. The peer does not know what we
        have: when we told it, it had nothing of the stream itself, perhaps after losing its disk.
        """
        link = self.links.get(received.peer)
        behind: list[Position] = []
        for begin in received.begins if link is not None else ():
            stream, epoch, offset = begin.position.stream, begin.position.epoch, begin.position.offset
            if stream.origin == self._me or offset > COPY_OFFSET_MAX:
                continue
            if link is None or not self._is_expected(link.incoming, stream.origin, now_s):
                continue
            end = end_of(self._log, stream, epoch)
            if not end:
                self._begin(received.peer, begin)
            elif end < offset:
                behind.append(Position(stream, epoch, end))
        if len(self._unbegun) > UNBEGUN_MAX:
            return [DropLink(received.peer, f"no room for the copies of more than {UNBEGUN_MAX} streams")]
        return [SendResume(received.peer, (), tuple(behind))] if behind else []

    def _begin(self, peer: NodeId, begin: Begin) -> bool:
        """Begin a copy; return whether there was room. If there was none, this node tries again later, because the peer
        announces a beginning only once."""
        key = _key(begin.position)
        try:
            self._log.begin_late(*key, begin.position.offset, begin.late_us)
        except StorageError:
            self._unbegun[key] = (peer, begin)
            return False
        self._floors[key] = max(begin.latest, self._floors.get(key, 0))
        self._unbegun.pop(key, None)
        return True

    def _begin_rest(self) -> None:
        for key, (peer, begin) in list(self._unbegun.items()):
            if end_of(self._log, *key):  # the copy has begun with a batch meanwhile
                del self._unbegun[key]
            elif not self._begin(peer, begin):
                return

    def _is_expected(self, incoming: Incoming, origin: NodeId, now_s: float) -> bool:
        """Whether to accept an origin's streams from a peer. We accept them if we asked this peer for them. If the
        origin is out of reach, we accept them from all peers, even before we ask, because we may not know that there
        are any."""
        return incoming.may_bring(origin, now_s) or self._routes.topology.parent(origin, self._me) is None

    def _take(self, incoming: Incoming, copy: Copy, now_s: float) -> Taken | PeerFault:
        origin = copy.stream.origin
        if origin == self._me or incoming.is_known(copy) or self._is_expected(incoming, origin, now_s):
            return incoming.take(copy)
        return PeerFault.UNASKED

    def _refuse(self, incoming: Incoming, refused: Mapping[PeerFault, list[Copy]]) -> list[Effect]:
        """Report what was refused, and tell the peer which of its events differ from ours, so that it does not count on
        our copy."""
        effects: list[Effect] = []
        for fault, copies in refused.items():
            first = copies[0]
            what = f"{FAULTS[fault]}: {first.stream} at offset {first.batch.base_offset}"
            effects.append(PeerRefused(incoming.peer, fault, what, len(copies)))
        keys = {(copy.stream, copy.epoch): None for copy in refused.get(PeerFault.DIFFERS, ())}
        differing = tuple(Position(*key, incoming.differs_at(key)) for key in keys)
        return [*effects, SendAcks(incoming.peer, (), differing)] if differing else effects

    def _ahead(self, link: PeerFlows, positions: Iterable[Position]) -> list[Effect]:
        """Report a peer that claims to have more of our own stream than exists: somebody made these events up."""
        effects: list[Effect] = []
        for position in positions:
            if position.stream.origin != self._me:
                continue
            end = end_of(self._log, position.stream, position.epoch)
            if end is not None and position.offset > end and link.outgoing.differs(Position(*_key(position), end)):
                what = f"{FAULTS[PeerFault.AHEAD]}: {position.stream} up to {position.offset}, and it ends at {end}"
                effects.append(PeerRefused(link.incoming.peer, PeerFault.AHEAD, what))
        return effects

    def _is_in_vain(self, copy: Copy, sender: NodeId) -> bool:
        """Whether nobody wants this copy: the sender guessed from a summary or wider patterns, or the last subscriber
        has just gone."""
        stream, epoch = copy.stream, copy.epoch
        if copy.keep or self._is_wanted_here(stream.topic) or self._followers.of((stream, epoch)):
            return False
        return not any(self._routes.wants(peer, stream.origin, stream.topic) for peer in self.links if peer != sender)

    def received_acks(self, acks: ReceivedAcks, now_s: float) -> tuple[list[StreamKey], list[Effect]]:
        """Take acknowledgements. Return the streams of which the peer has more now, and the effects."""
        link = self.links.get(acks.peer)
        if link is None:
            return [], []
        effects = self._ahead(link, acks.positions)
        for position in acks.differing:
            if link.outgoing.differs(position):
                what = f"its copy has other events: {position.stream} from offset {position.offset} on"
                effects.append(PeerRefused(acks.peer, PeerFault.DIFFERS, what))
        return [_key(each) for each in acks.positions if link.outgoing.acked(each, now_s)], effects

    def synced(self, advanced: Mapping[StreamKey, int], now_s: float) -> list[Effect]:
        """Acknowledge what a sync made durable, and pass it on to the peers that want it."""
        effects = self.pasts.synced(advanced, now_s)
        if not (self.links or self.plain):
            return effects
        for peer in list(self._owing):
            effects += self._acks(self.links[peer])
        for key in advanced:
            for outgoing in self._followers.of(key):
                outgoing.advanced(key)
        for plain in self.plain.values():
            for key in advanced:
                plain.advanced(key)
            effects += self._plain_acks(plain)
            effects += self._send_plain(plain)
        return effects

    def _acks(self, link: PeerFlows) -> list[Effect]:
        positions = link.incoming.acks()
        if not link.incoming.owes:
            self._owing.pop(link.incoming.peer, None)
        return [SendAcks(link.incoming.peer, positions)] if positions else []

    def stream_known(self, info: StreamInfo) -> None:
        """Offer our children a stream that is new here. Its events are all new to them, except those that were already
        old when the stream came here."""
        key = (info.stream, info.epoch)
        if info.stream.origin not in self._origins:
            self._origins.add(info.stream.origin)
            self.orphans_due_s = 0.0  # look at once: if the origin is out of reach, its streams have to be handed on
        for link in self.links.values():
            link.outgoing.stream_known(info, self._floors.get(key, 0))
        for plain in self.plain.values():
            plain.stream_known(key)

    def pump(self, now_s: float) -> list[Effect]:
        """Return what can be sent now: one turn for each peer."""
        effects: list[Effect] = []
        for outgoing in list(self._followers.ready):
            copies = outgoing.pump(lambda key: self._floors.get(key, 0), now_s)
            if begun := outgoing.take_begun():
                effects.append(SendBegins(outgoing.peer, begun))
            if copies:
                effects.append(SendCopies(outgoing.peer, tuple(copies)))
                if self._acks_due_s is None:
                    self._acks_due_s = now_s + self._settings.ack_timeout_s
            effects += map(DamageFound, outgoing.take_damage())
        for plain in self.plain.values():
            effects += map(DamageFound, plain.take_damage())
        return [*effects, *self.pasts.pump(now_s)]

    @property
    def busy(self) -> bool:
        return bool(self._followers.ready)

    @property
    def may_pump(self) -> bool:
        """Whether ``pump`` may have something to do. This is asked in every step, even by nodes without peers."""
        return bool(self._followers.ready or self.plain or self.pasts.is_wanted)

    # --- safety --------------------------------------------------------------------------------------------------

    def keep_copies(self, key: StreamKey, copies: int) -> None:
        """Make so many nodes, including this one, keep a stream of ours. Peers that want it anyway are chosen first."""
        candidates = sorted(self.links.values(), key=lambda link: (not _wants(link, key), link.outgoing.peer))
        for link in candidates[: copies - 1]:
            link.outgoing.keep(key)

    def copies_at(self, key: StreamKey, first: int, end: int) -> int:
        """On how many nodes, including this one, these events of a stream of ours are durable."""
        return 1 + sum(link.outgoing.has(key, first, end) for link in self.links.values())

    def neighbours_of(self, key: StreamKey, offset: int) -> tuple[tuple[NodeId, ...], tuple[NodeId, ...]]:
        """The peers from which this stream's events come now, and the peers that got this event from us and have synced
        it."""
        origin = key[0].origin
        sources = () if origin == self._me else tuple(sorted(self._parents(origin)))
        have = (peer for peer, link in self.links.items() if link.outgoing.has(key, offset, offset + 1))
        return sources, tuple(sorted(have))

    # --- when things go wrong --------------------------------------------------------------------------------------

    def frames_dropped(self, peer: NodeId, now_s: float) -> list[Effect]:
        if peer in self.plain:
            self.plain[peer].rewind()
            return self._send_plain(self.plain[peer])
        if peer in self.links:
            self.links[peer].outgoing.rewind(now_s)
        return []

    def get_timer(self) -> float | None:
        due_s = soonest(self._acks_due_s, self.pasts.get_timer()) if self.pasts.is_wanted else self._acks_due_s
        if self._unbegun:
            due_s = soonest(due_s, self._merge_due_s)
        for plain in self.plain.values():
            if plain.unmerged:
                due_s = soonest(due_s, self._merge_due_s)
            due_s = soonest(due_s, plain.gap_due_s)
        return due_s

    def expire(self, now_s: float) -> list[Effect]:
        """Send again what has not been acknowledged for too long, check whether there is room again, and drop the links
        to plain peers that do not go back to missing events."""
        if self._acks_due_s is not None and now_s >= self._acks_due_s:
            self._acks_due_s = None
            for link in self.links.values():
                self._expire(link.outgoing, now_s)
        if now_s >= self._merge_due_s:
            self._merge_due_s = now_s + MERGE_RETRY_S
            self._begin_rest()
            for plain in self.plain.values():
                plain.merge_rest()
        effects: list[Effect] = []
        for plain in list(self.plain.values()):
            if plain.gap_due_s is not None and plain.gap_due_s <= now_s:
                effects += self._drop_plain(plain.peer, f"events are missing: {plain.missing()}")
        return effects

    def _expire(self, outgoing: Outgoing, now_s: float) -> None:
        timeout_s = self._settings.ack_timeout_s
        outgoing.rewind_stalled(timeout_s)
        if outgoing.flying_bytes and now_s - outgoing.progress_s >= timeout_s:
            outgoing.rewind(now_s)
        elif outgoing.flying_bytes:
            self._acks_due_s = soonest(self._acks_due_s, outgoing.progress_s + timeout_s)

    # --- plain peers -----------------------------------------------------------------------------------------------

    def received_plain(self, received: ReceivedPlain, now_s: float, now_us: int) -> list[Effect]:
        peer, event = received.peer, received.event
        plain = self.plain.get(peer)
        if plain is None:
            return []
        if is_own(event.topic):
            return self._drop_plain(peer, f"topics below weft. are the mesh's own: {event.topic}")
        if event.offset >= COPY_OFFSET_MAX:
            what = f"{FAULTS[PeerFault.OFFSET]}: {event.topic} at offset {event.offset}"
            return [PeerRefused(peer, PeerFault.OFFSET, what), *self._drop_plain(peer, what)]
        effects: list[Effect] = []
        try:
            if (gone := plain.pass_gap(event)) is not None:
                effects.append(EventsGone(peer, event.topic, *gone))
            taken = plain.take(event, now_us)
        except UsageError as error:
            return [*effects, *self._drop_plain(peer, f"an event that cannot be kept: {error}")]
        except StorageError as error:  # the event is not acknowledged, so the peer sends it again on the next link
            return [*effects, *self._drop_plain(peer, f"no room for its events: {error}")]
        if taken is Taken.KNOWN or (taken is Taken.MISSING and plain.tell_missing(event, now_s)):
            effects += self._plain_acks(plain)
        return effects

    def _plain_acks(self, plain: PlainLink) -> list[Effect]:
        return [SendPlainAck(plain.peer, topic, offset) for topic, offset in plain.acks()]

    def _drop_plain(self, peer: NodeId, reason: str) -> list[Effect]:
        """Drop the link to a plain peer. Events that are still under way are ignored from here on: they follow an event
        that was not kept, and would look like a gap."""
        del self.plain[peer]
        return [DropLink(peer, reason)]

    def received_plain_ack(self, ack: ReceivedPlainAck) -> list[Effect]:
        plain = self.plain.get(ack.peer)
        if plain is None:
            return []
        plain.acked(ack.topic, ack.offset)
        return self._send_plain(plain)

    def _send_plain(self, plain: PlainLink) -> list[Effect]:
        events = plain.to_send()
        return [SendPlain(plain.peer, tuple(events))] if events else []

    def _end_of(self, key: StreamKey) -> int:
        stream, epoch = key
        return self._log.info(stream, epoch).end


def _key(position: Position) -> StreamKey:
    return (position.stream, position.epoch)


def _wants(link: PeerFlows, key: StreamKey) -> bool:
    cursor = link.outgoing.cursors.get(key)
    return cursor is not None and cursor.wanted
