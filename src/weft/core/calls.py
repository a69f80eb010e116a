"""Requests and replies in memory: who serves a topic, which of them gets a request, and the way back (CON-04).

1. A client that serves topics is a server of its node. The node announces this to the mesh as interest in
   ``weft.serve.<pattern>``; there are no events on such topics.
2. The asker's node picks one of the nodes that serve the topic, in turns weighted by how much each can do at once. That
   node gives the request to one of its servers, or queues it until a server is free.
3. A request goes to at most one server. Until a server has it, it may go to another node. After that, no other server
   gets it, and the asker hears of anything that goes wrong.
4. Frames go from node to node along the shortest paths. Nothing of a call is in any log, so a frame that was on a
   broken link is lost for good. The asker's node notices this if the link was its own, or if the server's node is out
   of reach. If another link breaks, the nodes in between tell the asker's node (``passing``).
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import Final, assert_never

from weft.core.call_messages import (
    CALL_HOPS_MAX,
    CALL_WINDOW,
    RETRIED,
    Answer,
    Ask,
    CallEffect,
    CallFailed,
    CallFault,
    CallFrame,
    CallInput,
    CallKey,
    Cancel,
    CancelCall,
    Handed,
    HandedOver,
    HandedTook,
    Question,
    ReceivedCall,
    Refusal,
    Replied,
    Reply,
    SendCall,
    Serve,
    ServerGone,
    StopServing,
    Took,
    TookReplies,
)
from weft.core.passing import Passing
from weft.core.routes import Routes
from weft.limits import MIB
from weft.model import NodeId, Pattern, Topic
from weft.routing import Trie

SERVE_PREFIX: Final = "weft.serve."
CALLS_WAITING_MAX: Final = 4096  # requests at one node that wait for a server; more are refused
CALLS_RECENT_MAX: Final = 16_384  # finished calls that are remembered, so that a repeated frame counts once
CALLS_WAITING_BYTES_MAX: Final = 64 * MIB  # in total, for the payloads of such requests
TURNS_KEPT_MAX: Final = 4096  # topics whose turns are remembered; the turns of others start over
EXPIRY_SLACK_S: Final = 1.0  # nodes drop a call this much later than the asker gives up

Effects = list[CallEffect | SendCall]


def serving(name: Topic | Pattern) -> Pattern:
    """The interest that a node with this server announces."""
    return Pattern(f"{SERVE_PREFIX}{name}")


@dataclass(slots=True)
class Server:
    """A client of this node that serves. ``turn``: when it last got a request."""

    id: int
    pattern: Pattern
    slots: int
    hands: dict[int, CallKey] = field(default_factory=dict)  # requests in hand, by handle
    is_open: bool = True
    turn: int = 0

    @property
    def free(self) -> int:
        return self.slots - len(self.hands) if self.is_open else 0


@dataclass(slots=True)
class Asked:
    """A call of a client of this node. ``at``: the node that has the request. ``via``: the peer to which it was
    sent."""

    question: Question
    tried: set[NodeId] = field(default_factory=set)
    at: NodeId | None = None
    via: NodeId | None = None
    replies: int = 0  # replies that have come
    busy: bool = False  # a node that serves the topic had no room
    broken: bool = False  # there was no way to a node that serves the topic


@dataclass(slots=True)
class Taken:
    """A call that one of our servers has, or that waits for a free one (``server`` is None)."""

    question: Question
    server: Server | None = None
    handle: int = 0
    replies: int = 0  # replies that were sent
    untaken: int = 0  # replies that were sent and that the asker has not taken yet


class Calls:
    """``me`` is this node."""

    def __init__(self, me: NodeId, routes: Routes) -> None:
        self._me = me
        self._routes = routes
        self._links: set[NodeId] = set()  # peers that know calls
        self._servers: dict[int, Server] = {}
        self._patterns: Trie[int] = Trie()
        self._asked: dict[int, Asked] = {}
        self._taken: dict[CallKey, Taken] = {}
        self._waiting: OrderedDict[Topic, deque[CallKey]] = OrderedDict()
        self._waiting_count = 0
        self._waiting_bytes = 0
        self._recent: OrderedDict[CallKey, None] = OrderedDict()
        self._handles = 0
        self._slots: dict[tuple[NodeId, Topic], int] = {}  # how many slots each node has for a topic, as it said last
        self._outside: Counter[tuple[NodeId, Topic]] = Counter()  # how many of our calls each node has
        self._turns: OrderedDict[Topic, dict[NodeId, float]] = OrderedDict()
        self._passing = Passing()
        self._deadlines: list[tuple[float, NodeId, int]] = []  # of calls, including some that are over

    # --- what there is to see ------------------------------------------------------------------------------------

    def patterns(self) -> set[Pattern]:
        """What this node announces to the mesh."""
        return {serving(each.pattern) for each in self._servers.values() if each.is_open}

    @property
    def servers(self) -> int:
        return len(self._servers)

    @property
    def in_hand(self) -> int:
        """How many requests the servers of this node have."""
        return len(self._taken) - self._waiting_count

    @property
    def waiting(self) -> int:
        return self._waiting_count

    def who(self, topic: Topic) -> list[NodeId]:
        """The nodes that serve a topic, in order; this one among them if it does."""
        found = set(self._routes.interested(Topic(serving(topic)))) - {self._me}
        return sorted(found | {self._me} if self._here(topic) else found)

    def count(self, topic: Topic) -> int:
        """How many servers this node has for a topic."""
        return len(self._here(topic))

    def next_hop(self, target: NodeId) -> NodeId | None:
        """The peer to which frames for this node go; None if there is no way."""
        if target in self._links:
            return target
        hop = self._routes.topology.parent(target, self._me)
        return hop if hop in self._links else None

    # --- inputs and time -----------------------------------------------------------------------------------------

    def get_timer(self) -> float | None:
        return self._deadlines[0][0] if self._deadlines else None

    def step(self, event: CallInput, now_s: float) -> Effects:
        match event:
            case Ask(number, question, probe):
                return self._ask(number, question, probe, now_s)
            case CancelCall(number):
                return self._cancel(number)
            case TookReplies(number, count):
                return self._took(number, count)
            case Serve(server, pattern, slots):
                return self._serve(Server(server, pattern, slots))
            case StopServing(number):
                return self._stop(number)
            case ServerGone(number):
                return self._gone(number)
            case Answer(server, handle, reply):
                return self._answer(server, handle, reply)
            case ReceivedCall(_, frame):
                return self._received(frame, now_s)
            case _:
                assert_never(event)

    def tick(self, now_s: float) -> Effects:
        """Drop the calls whose time is over, and that nobody has ended."""
        effects: Effects = []
        while self._deadlines and self._deadlines[0][0] <= now_s:
            _, origin, number = heappop(self._deadlines)
            if origin == self._me and number in self._asked:
                effects += [*self._cancel(number), CallFailed(number, CallFault.TIMED_OUT, "")]
            elif origin != self._me:
                effects += self._drop(CallKey(origin, number))
        return effects

    def _expect(self, key: CallKey, question: Question, now_s: float) -> None:
        if len(self._deadlines) > 2 * (len(self._asked) + len(self._taken)) + CALLS_WAITING_MAX:
            live = [each for each in self._deadlines if self._lives(CallKey(each[1], each[2]))]
            self._deadlines = live
            heapify(self._deadlines)
        heappush(self._deadlines, (now_s + question.timeout_s + EXPIRY_SLACK_S, *key))

    def _lives(self, key: CallKey) -> bool:
        return key in self._taken or (key.origin == self._me and key.number in self._asked)

    # --- asking --------------------------------------------------------------------------------------------------

    def _ask(self, number: int, question: Question, probe: bool, now_s: float) -> Effects:
        asked = Asked(question)
        if probe:
            found = self._candidates(asked)
            return [Replied(number, Reply(b""))] if found else [self._nobody(number, asked)]
        self._asked[number] = asked
        self._expect(CallKey(self._me, number), question, now_s)
        return self._place(number, asked)

    def _candidates(self, asked: Asked) -> dict[NodeId, tuple[int, NodeId | None]]:
        """Nodes that were not tried yet: how much each can do at once, and the way there."""
        topic = asked.question.topic
        found: dict[NodeId, tuple[int, NodeId | None]] = {}
        for node in self.who(topic):
            if node in asked.tried:
                continue
            if node == self._me:
                found[node] = sum(each.slots for each in self._here(topic)), None
            elif (hop := self.next_hop(node)) is not None:
                found[node] = self._slots.get((node, topic), 1), hop
            else:
                asked.broken = True
        return found

    def _place(self, number: int, asked: Asked) -> Effects:
        """Give the request to the next node that may have room."""
        key, topic = CallKey(self._me, number), asked.question.topic
        effects: Effects = []
        while candidates := self._candidates(asked):
            node = self._pick(topic, {each: slots for each, (slots, _) in candidates.items()})
            self._send_to(asked, node, candidates[node][1])
            if asked.via is not None:
                frame = CallFrame(self._me, node, number, asked.question)
                return [*effects, SendCall(asked.via, frame)]
            taken = self._take(key, asked.question)
            if not isinstance(taken, Refusal):
                return [*effects, *taken]
            self._come_back(asked)
            asked.busy = asked.busy or taken.fault is CallFault.BUSY
        del self._asked[number]
        return [*effects, self._nobody(number, asked)]

    def _send_to(self, asked: Asked, node: NodeId, via: NodeId | None) -> None:
        asked.tried.add(node)
        asked.at, asked.via = node, via
        self._outside[node, asked.question.topic] += 1

    def _come_back(self, asked: Asked) -> None:
        """Note that no node has the request now."""
        if asked.at is not None:
            place = asked.at, asked.question.topic
            self._outside[place] -= 1
            if not self._outside[place]:
                del self._outside[place]
            asked.at = asked.via = None

    def _forget(self, number: int) -> None:
        """Forget a call that is over."""
        asked = self._asked.pop(number, None)
        if asked is not None:
            self._come_back(asked)

    def _pick(self, topic: Topic, slots: dict[NodeId, int]) -> NodeId:
        """Pick the next node in turn. A node with more slots comes up more often, in proportion (smooth weighted round
        robin)."""
        if len(slots) == 1:
            return next(iter(slots))
        weights = {node: max(count - self._outside[node, topic], 0) for node, count in slots.items()}
        if not any(weights.values()):
            weights = {node: max(count, 1) for node, count in slots.items()}
        turns = self._turns.setdefault(topic, {})
        self._turns.move_to_end(topic)
        if len(self._turns) > TURNS_KEPT_MAX:
            self._turns.popitem(last=False)
        for node in turns.keys() - slots.keys():
            del turns[node]
        for node, weight in weights.items():
            turns[node] = turns.get(node, 0.0) + weight
        best = max(slots, key=lambda node: (turns[node], weights[node], node))
        turns[best] -= sum(weights.values())
        return best

    def _nobody(self, number: int, asked: Asked) -> CallFailed:
        if asked.busy:
            return CallFailed(number, CallFault.BUSY, "all its servers have as many requests as they can take")
        if asked.broken:
            return CallFailed(number, CallFault.UNREACHABLE, "it has a server, but there is no path to it now")
        return CallFailed(number, CallFault.NO_SERVER, "this node knows no server of it")

    def _cancel(self, number: int) -> Effects:
        asked = self._asked.get(number)
        if asked is None:
            return []
        at = asked.at
        self._forget(number)
        if at == self._me:
            return self._drop(CallKey(self._me, number))
        return self._to(at, number, Cancel())

    def _took(self, number: int, count: int) -> Effects:
        asked = self._asked.get(number)
        if asked is None:
            return []
        if asked.at == self._me:
            return self._taken_by_asker(CallKey(self._me, number), count)
        return self._to(asked.at, number, Took(count))

    def _to(self, node: NodeId | None, number: int, body: Cancel | Took) -> Effects:
        hop = None if node is None else self.next_hop(node)
        return [] if hop is None or node is None else [SendCall(hop, CallFrame(self._me, node, number, body))]

    def _lose(self, numbers: Iterable[int], detail: str) -> Effects:
        effects: Effects = []
        for number in list(numbers):
            at = self._asked[number].at
            self._forget(number)
            effects += [*self._to(at, number, Cancel()), CallFailed(number, CallFault.LOST, detail)]
        return effects

    # --- serving -------------------------------------------------------------------------------------------------

    def _here(self, topic: Topic) -> list[Server]:
        return [self._servers[each] for each in self._patterns.match(topic)]

    def _serve(self, server: Server) -> Effects:
        self._servers[server.id] = server
        self._patterns.add(server.pattern, server.id)
        return self._work(server)

    def _stop(self, number: int) -> Effects:
        server = self._servers.get(number)
        if server is None or not server.is_open:
            return []
        server.is_open = False
        self._patterns.remove(server.pattern, server.id)
        return self._unserved()

    def _gone(self, number: int) -> Effects:
        effects = self._stop(number)
        server = self._servers.pop(number, None)
        if server is None:
            return effects
        for key in server.hands.values():
            topic = self._taken.pop(key).question.topic
            effects += self._refuse(key, Refusal(CallFault.LOST, "its server is gone, with the request in hand"), topic)
        return effects

    def _unserved(self) -> Effects:
        """Send waiting requests elsewhere if no server for their topic is left here."""
        effects: Effects = []
        for topic in [each for each in self._waiting if not self._here(each)]:
            for key in self._waiting.pop(topic):
                taken = self._taken.pop(key)
                self._count_waiting(taken.question, -1)
                effects += self._refuse(key, Refusal(CallFault.NO_SERVER), topic)
        return effects

    def _take(self, key: CallKey, question: Question) -> Effects | Refusal:
        """Give a request to one of our servers, or let it wait until one is free."""
        servers = self._here(question.topic)
        if not servers:
            return Refusal(CallFault.NO_SERVER)
        best = max(servers, key=lambda each: (each.free > 0, each.free / each.slots, -each.turn))
        if best.free > 0:
            taken = self._taken[key] = Taken(question)
            return [self._hand(best, key, taken)]
        if self._waiting_count >= CALLS_WAITING_MAX or self._waiting_bytes + question.size > CALLS_WAITING_BYTES_MAX:
            return Refusal(CallFault.BUSY)
        self._taken[key] = Taken(question)
        self._waiting.setdefault(question.topic, deque()).append(key)
        self._count_waiting(question, 1)
        return []

    def _count_waiting(self, question: Question, sign: int) -> None:
        self._waiting_count += sign
        self._waiting_bytes += sign * question.size

    def _hand(self, server: Server, key: CallKey, taken: Taken) -> Handed:
        self._handles += 1
        server.turn = taken.handle = self._handles
        server.hands[taken.handle] = key
        taken.server = server
        return Handed(server.id, taken.handle, taken.question)

    def _work(self, server: Server) -> Effects:
        """Give a server that has room the requests that have waited longest, one topic after the other."""
        effects: Effects = []
        for topic in [each for each in self._waiting if server.id in self._patterns.match(each)]:
            line = self._waiting[topic]
            while line and server.free > 0:
                key = line.popleft()
                self._count_waiting(self._taken[key].question, -1)
                effects.append(self._hand(server, key, self._taken[key]))
            if not line:
                del self._waiting[topic]
            else:
                self._waiting.move_to_end(topic)
        return effects

    def _answer(self, number: int, handle: int, reply: Reply) -> Effects:
        server = self._servers.get(number)
        key = None if server is None else server.hands.get(handle)
        if server is None or key is None:
            return []  # nobody waits for it any longer
        taken = self._taken[key]
        if not reply.last:
            taken.untaken += 1
            if taken.untaken <= CALL_WINDOW:
                return self._reply(key, reply, taken)
            flood = Reply(f"more than {CALL_WINDOW} replies that were not taken".encode(), failed=True)
            return [HandedOver(number, handle), *self._answer(number, handle, flood)]
        del server.hands[handle], self._taken[key]
        return [*self._reply(key, reply, taken), *self._work(server)]

    def _reply(self, key: CallKey, reply: Reply, taken: Taken) -> Effects:
        taken.replies += 1
        if key.origin != self._me:
            return self._back(key, reply, taken.question.topic, taken.replies - 1)
        if reply.last:
            self._forget(key.number)
        return [Replied(key.number, reply)]

    def _refuse(self, key: CallKey, refusal: Refusal, topic: Topic) -> Effects:
        if key.origin != self._me:
            return self._back(key, refusal, topic)
        return self._refused(key.number, refusal)

    def _back(self, key: CallKey, body: Reply | Refusal, topic: Topic, index: int = 0) -> Effects:
        """Send a reply or refusal to the asker's node. The frame also says how many requests this node can handle at
        once."""
        hop = self.next_hop(key.origin)
        slots = sum(each.slots for each in self._here(topic))
        frame = CallFrame(self._me, key.origin, key.number, body, 0, slots, index)
        return [] if hop is None else [SendCall(hop, frame)]

    def _drop(self, key: CallKey) -> Effects:
        """Drop a call, because nobody waits for its replies any longer."""
        taken = self._taken.pop(key, None)
        if taken is None:
            return []
        if taken.server is None:
            line = self._waiting[taken.question.topic]
            line.remove(key)
            if not line:
                del self._waiting[taken.question.topic]
            self._count_waiting(taken.question, -1)
            return []
        del taken.server.hands[taken.handle]
        return [HandedOver(taken.server.id, taken.handle), *self._work(taken.server)]

    def _taken_by_asker(self, key: CallKey, count: int) -> Effects:
        taken = self._taken.get(key)
        if taken is None or taken.server is None:
            return []
        taken.untaken = max(taken.untaken - count, 0)
        return [HandedTook(taken.server.id, taken.handle, count)]

    # --- peers ---------------------------------------------------------------------------------------------------

    def _received(self, frame: CallFrame, now_s: float) -> Effects:
        if frame.target != self._me:
            return self._pass_on(frame, now_s)
        key = CallKey(frame.source, frame.number)
        match frame.body:
            case Question() as question:
                if not self._is_new(key):
                    return []
                taken = self._take(key, question)
                if isinstance(taken, Refusal):
                    return self._back(key, taken, question.topic)
                self._expect(key, question, now_s)
                return taken
            case Reply() as reply:
                return self._replied(frame, reply)
            case Refusal() as refusal:
                return self._refused(frame.number, refusal) if self._hear(frame) else []
            case Cancel():
                self._is_new(key)  # the request may still come
                return self._drop(key)
            case Took(count):
                return self._taken_by_asker(key, count)
            case _:
                assert_never(frame.body)

    def _hear(self, frame: CallFrame) -> bool:
        """Whether the frame comes from the node that was asked; others cannot answer."""
        asked = self._asked.get(frame.number)
        if asked is None or asked.at != frame.source:
            return False
        if frame.slots:
            if len(self._slots) >= TURNS_KEPT_MAX:
                self._slots.clear()
            self._slots[frame.source, asked.question.topic] = frame.slots
        return True

    def _replied(self, frame: CallFrame, reply: Reply) -> Effects:
        if not self._hear(frame):
            return []
        asked = self._asked[frame.number]
        if frame.index < asked.replies:
            return []
        if frame.index > asked.replies:
            return self._lose([frame.number], "a reply was lost on its way")
        asked.replies += 1
        if reply.last:
            self._forget(frame.number)
        return [Replied(frame.number, reply)]

    def _is_new(self, key: CallKey) -> bool:
        """Whether nothing of this call has come before."""
        if key in self._recent or key in self._taken:
            return False
        self._recent[key] = None
        if len(self._recent) > CALLS_RECENT_MAX:
            self._recent.popitem(last=False)
        return True

    def _refused(self, number: int, refusal: Refusal) -> Effects:
        """The node that was asked has refused: try another one, unless a server had the request."""
        asked = self._asked[number]
        if refusal.fault not in RETRIED:
            return self._lose([number], refusal.detail)
        asked.busy = asked.busy or refusal.fault is CallFault.BUSY
        asked.broken = asked.broken or refusal.fault is CallFault.UNREACHABLE
        self._come_back(asked)
        return self._place(number, asked)

    def _pass_on(self, frame: CallFrame, now_s: float) -> Effects:
        hop = self.next_hop(frame.target)
        if hop is not None and frame.hops < CALL_HOPS_MAX:
            self._passing.pass_on(frame, hop, now_s)
            return [SendCall(hop, replace(frame, hops=frame.hops + 1))]
        back = self.next_hop(frame.source)
        if not isinstance(frame.body, Question) or back is None:
            return []
        # In the name of the node that it is for, because the asker's node waits for an answer from that one.
        refusal = Refusal(CallFault.UNREACHABLE, f"{self._me} knows no way to {frame.target}")
        return [SendCall(back, CallFrame(frame.target, frame.source, frame.number, refusal))]

    def link_up(self, peer: NodeId) -> None:
        self._links.add(peer)

    def link_down(self, peer: NodeId) -> Effects:
        """Fail the calls that were sent over this link, and tell the askers of requests that passed through this node.
        The requests may have arrived or not."""
        self._links.discard(peer)
        lost = [number for number, asked in self._asked.items() if asked.via == peer]
        effects = self._lose(lost, f"the link to {peer} broke")
        for frame in self._passing.link_down(peer):
            back = self.next_hop(frame.target)
            effects += [] if back is None else [SendCall(back, frame)]
        return effects

    def mesh_changed(self) -> Effects:
        """End calls with nodes that are out of reach."""
        effects: Effects = []
        ways: dict[NodeId, bool] = {self._me: True}

        def is_reached(node: NodeId) -> bool:
            if node not in ways:
                ways[node] = self.next_hop(node) is not None
            return ways[node]

        lost = [number for number, asked in self._asked.items() if asked.at is not None and not is_reached(asked.at)]
        effects += self._lose(lost, "the node of its server is out of reach")
        for key in [each for each in self._taken if not is_reached(each.origin)]:
            effects += self._drop(key)
        return effects
