"""Requests and replies in memory: who gets a request, what the asker hears, and that nobody else does (CON-04)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.call_messages import (
    CALL_WINDOW,
    Answer,
    Ask,
    CallEffect,
    CallFailed,
    CallFault,
    CallFrame,
    CallInput,
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
    TookReplies,
)
from weft.core.calls import CALLS_WAITING_MAX, EXPIRY_SLACK_S, Calls
from weft.core.passing import CALLS_PASSING_MAX
from weft.core.routes import Routes
from weft.membership import NodeState
from weft.model import Epoch, NodeId, Pattern, Topic

pytestmark = pytest.mark.req("CON-04")

A, B, C, D = NodeId("a"), NodeId("b"), NodeId("c"), NodeId("d")
SUMS = Topic("sums")
TIMEOUT_S = 5.0


def question(topic: Topic = SUMS, payload: bytes = b"1 2") -> Question:
    return Question(topic, payload, {}, TIMEOUT_S)


class Stage:
    """Nodes with links between them. What they send arrives at once, unless it is ``held``."""

    def __init__(self, *links: tuple[NodeId, NodeId]) -> None:
        self.links = set(links)
        self.nodes: dict[NodeId, Calls] = {}
        self._routes: dict[NodeId, Routes] = {}
        for name in sorted({each for link in links for each in link} | {A}):
            self._routes[name] = Routes(name)
            self.nodes[name] = Calls(name, self._routes[name])
        for one, other in links:
            self.nodes[one].link_up(other)
            self.nodes[other].link_up(one)
        self.heard: dict[NodeId, list[CallEffect]] = {name: [] for name in self.nodes}
        self.holds = False
        self.held: deque[tuple[NodeId, SendCall]] = deque()
        self._version = 0
        self.gossip()

    def gossip(self, gone: Iterable[NodeId] = ()) -> None:
        """Everybody hears what everybody serves, and which links there are."""
        self._version += 1
        for routes in self._routes.values():
            for name, calls in self.nodes.items():
                neighbours = sorted({each for link in self.links if name in link for each in link} - {name})
                told = NodeState(
                    name,
                    1,
                    self._version,
                    Epoch(1),
                    neighbours=tuple(neighbours),
                    interest=tuple(sorted(calls.patterns())),
                )
                routes.know(told)
            for name in gone:
                routes.forget(name)
        for name, calls in self.nodes.items():
            self._perform(name, calls.mesh_changed())

    def step(self, node: NodeId, event: CallInput, now_s: float = 0.0) -> list[CallEffect]:
        """What is said at that node because of it."""
        before = len(self.heard[node])
        self._perform(node, self.nodes[node].step(event, now_s))
        return self.heard[node][before:]

    def tick(self, node: NodeId, now_s: float) -> None:
        self._perform(node, self.nodes[node].tick(now_s))

    def cut(self, one: NodeId, other: NodeId) -> None:
        self.links -= {(one, other), (other, one)}
        for here, there in ((one, other), (other, one)):
            self._perform(here, self.nodes[here].link_down(there))

    def let_go(self) -> None:
        self.holds = False
        while self.held:
            source, effect = self.held.popleft()
            self._arrive(source, effect)

    def _perform(self, node: NodeId, effects: Iterable[CallEffect | SendCall]) -> None:
        for effect in effects:
            if not isinstance(effect, SendCall):
                self.heard[node].append(effect)
            elif self.holds:
                self.held.append((node, effect))
            else:
                self._arrive(node, effect)

    def _arrive(self, source: NodeId, effect: SendCall) -> None:
        peer = effect.peer
        if (source, peer) in self.links or (peer, source) in self.links:
            self._perform(peer, self.nodes[peer].step(ReceivedCall(source, effect.frame), 0.0))

    def handed(self, node: NodeId) -> list[Handed]:
        return [each for each in self.heard[node] if isinstance(each, Handed)]


def alone() -> Stage:
    return Stage()


def chain() -> Stage:
    return Stage((A, B), (B, C))


# --- one node --------------------------------------------------------------------------------------------------------


def test_a_request_is_handed_to_a_server_and_its_reply_comes_back() -> None:
    stage = alone()
    stage.step(A, Serve(1, Pattern("sums"), slots=1))
    assert stage.step(A, Ask(7, question())) == [Handed(1, 1, question())]
    assert stage.step(A, Answer(1, 1, Reply(b"3"))) == [Replied(7, Reply(b"3"))]
    assert stage.step(A, Answer(1, 1, Reply(b"again"))) == [], "it has its last reply"


def test_nobody_serves_is_told_at_once() -> None:
    stage = alone()
    stage.step(A, Serve(1, Pattern("other"), slots=1))
    (failed,) = stage.step(A, Ask(7, question()))
    assert isinstance(failed, CallFailed)
    assert failed.fault is CallFault.NO_SERVER
    (failed,) = stage.step(A, Ask(8, question(), probe=True))
    assert isinstance(failed, CallFailed)
    stage.step(A, Serve(2, Pattern("*"), slots=1))
    assert stage.step(A, Ask(9, question(), probe=True)) == [Replied(9, Reply(b""))]
    assert not stage.handed(A), "a probe is for nobody"


def test_servers_take_turns_as_far_as_they_have_room() -> None:
    stage = alone()
    stage.step(A, Serve(1, Pattern("sums"), slots=3))
    stage.step(A, Serve(2, Pattern("*"), slots=1))
    for number in range(6):
        stage.step(A, Ask(number, question()))
    assert Counter(each.server for each in stage.handed(A)) == {1: 3, 2: 1}
    assert stage.nodes[A].waiting == 2
    stage.step(A, Answer(2, stage.handed(A)[1].handle, Reply(b"")))
    assert [each.server for each in stage.handed(A)][4:] == [2]
    assert stage.nodes[A].waiting == 1


def test_a_server_that_is_lost_loses_what_it_has_in_hand_and_nothing_else() -> None:
    """Another one might do it a second time: the asker hears of it, and decides."""
    stage = alone()
    stage.step(A, Serve(1, Pattern("sums"), slots=1))
    stage.step(A, Serve(2, Pattern("sums"), slots=1))
    for number in range(3):
        stage.step(A, Ask(number, question()))
    first = stage.handed(A)[0]
    effects = stage.step(A, ServerGone(first.server))
    assert [(each.number, each.fault) for each in effects if isinstance(each, CallFailed)] == [(0, CallFault.LOST)]
    assert stage.nodes[A].waiting == 1, "the third one still waits"
    other = stage.handed(A)[1]
    stage.step(A, Answer(other.server, other.handle, Reply(b"")))
    assert [each.server for each in stage.handed(A)] == [first.server, other.server, other.server]


def test_what_waits_for_servers_that_are_gone_is_told_that_nobody_serves() -> None:
    stage = alone()
    stage.step(A, Serve(1, Pattern("sums"), slots=1))
    stage.step(A, Ask(1, question()))
    stage.step(A, Ask(2, question()))
    (failed,) = stage.step(A, StopServing(1))
    assert isinstance(failed, CallFailed)
    assert (failed.number, failed.fault) == (2, CallFault.NO_SERVER)
    assert stage.step(A, Answer(1, 1, Reply(b"3"))) == [Replied(1, Reply(b"3"))], "it may finish what it has"


def test_who_gives_up_frees_the_server() -> None:
    stage = alone()
    stage.step(A, Serve(1, Pattern("sums"), slots=1))
    stage.step(A, Ask(1, question()))
    stage.step(A, Ask(2, question()))
    stage.step(A, Ask(3, question()))
    assert stage.step(A, CancelCall(2)) == []
    assert stage.nodes[A].waiting == 1
    assert stage.step(A, CancelCall(1)) == [HandedOver(1, 1), Handed(1, 2, question())]
    assert stage.nodes[A].waiting == 0


def test_time_runs_out_even_if_nobody_gives_up() -> None:
    stage = alone()
    stage.step(A, Serve(1, Pattern("sums"), slots=1))
    stage.step(A, Ask(1, question()), now_s=10.0)
    assert stage.nodes[A].get_timer() == 10.0 + TIMEOUT_S + EXPIRY_SLACK_S
    stage.tick(A, 10.0 + TIMEOUT_S + EXPIRY_SLACK_S)
    assert stage.heard[A][-2:] == [HandedOver(1, 1), CallFailed(1, CallFault.TIMED_OUT, "")]
    assert stage.nodes[A].get_timer() is None


def test_a_line_that_is_full_is_told() -> None:
    stage = alone()
    stage.step(A, Serve(1, Pattern("sums"), slots=1))
    for number in range(CALLS_WAITING_MAX + 1):
        assert all(isinstance(each, Handed) for each in stage.step(A, Ask(number, question())))
    (failed,) = stage.step(A, Ask(CALLS_WAITING_MAX + 1, question()))
    assert isinstance(failed, CallFailed)
    assert failed.fault is CallFault.BUSY


def test_several_replies_end_with_the_last_one_and_are_sent_as_they_are_taken() -> None:
    stage = alone()
    stage.step(A, Serve(1, Pattern("sums"), slots=1))
    stage.step(A, Ask(1, question()))
    more = Reply(b"more", last=False)
    for _ in range(CALL_WINDOW):
        assert stage.step(A, Answer(1, 1, more)) == [Replied(1, more)]
    assert stage.step(A, TookReplies(1, 2)) == [HandedTook(1, 1, 2)]
    assert stage.step(A, Answer(1, 1, more)) == [Replied(1, more)]
    assert stage.step(A, Answer(1, 1, Reply(b"end"))) == [Replied(1, Reply(b"end"))]


def test_a_server_that_sends_more_than_the_asker_takes_is_stopped() -> None:
    stage = alone()
    stage.step(A, Serve(1, Pattern("sums"), slots=1))
    stage.step(A, Ask(1, question()))
    for _ in range(CALL_WINDOW):
        stage.step(A, Answer(1, 1, Reply(b"", last=False)))
    over, replied = stage.step(A, Answer(1, 1, Reply(b"", last=False)))
    assert over == HandedOver(1, 1)
    assert isinstance(replied, Replied)
    assert replied.reply.failed
    assert replied.reply.last


# --- several nodes ---------------------------------------------------------------------------------------------------


def test_a_request_crosses_a_node_in_between() -> None:
    stage = chain()
    stage.step(C, Serve(1, Pattern("sums"), slots=1))
    stage.gossip()
    stage.step(A, Ask(1, question()))
    assert stage.handed(C) == [Handed(1, 1, question())]
    stage.step(C, Answer(1, 1, Reply(b"3", last=False)))
    stage.step(A, TookReplies(1, 1))
    assert stage.heard[C][-1] == HandedTook(1, 1, 1)
    stage.step(C, Answer(1, 1, Reply(b"4")))
    assert stage.heard[A] == [Replied(1, Reply(b"3", last=False)), Replied(1, Reply(b"4"))]
    assert stage.heard[B] == [], "who passes it on hears nothing"


def test_work_is_shared_by_what_each_node_can_do() -> None:
    stage = Stage((A, B), (A, C))
    stage.step(B, Serve(1, Pattern("sums"), slots=1))
    stage.step(C, Serve(1, Pattern("sums"), slots=3))
    stage.gossip()
    for number in range(80):
        stage.step(A, Ask(number, question()))
        for node in (B, C):
            for each in stage.handed(node):
                stage.step(node, Answer(each.server, each.handle, Reply(b"")))
    shares = {node: len(stage.handed(node)) for node in (B, C)}
    assert sum(shares.values()) == 80
    assert shares[C] > 2 * shares[B] > 0, shares


def test_a_server_that_left_is_not_missed_if_another_is_there() -> None:
    """Gossip is late: the node that serves no more says so, and the next one is asked."""
    stage = chain()
    stage.step(B, Serve(1, Pattern("sums"), slots=1))
    stage.step(C, Serve(1, Pattern("sums"), slots=1))
    stage.gossip()
    stage.step(B, ServerGone(1))
    for number in range(4):
        stage.step(A, Ask(number, question()))
    assert len(stage.handed(C)) + stage.nodes[C].waiting == 4
    assert not [each for each in stage.heard[A] if isinstance(each, CallFailed)]
    stage.step(C, ServerGone(1))
    failed = {each.number: each.fault for each in stage.heard[A] if isinstance(each, CallFailed)}
    assert Counter(failed.values()) == {CallFault.LOST: 1, CallFault.NO_SERVER: 3}


def test_a_node_that_is_lost_with_a_request_in_hand_is_told() -> None:
    stage = chain()
    stage.step(C, Serve(1, Pattern("sums"), slots=1))
    stage.gossip()
    stage.step(A, Ask(1, question()))
    stage.links.discard((B, C))
    stage.gossip(gone=[C])
    (failed,) = stage.heard[A]
    assert isinstance(failed, CallFailed)
    assert failed.fault is CallFault.LOST
    assert stage.heard[C][-1] == HandedOver(1, 1), "nobody there waits for it any more"


def test_a_link_that_breaks_is_told() -> None:
    stage = chain()
    stage.step(C, Serve(1, Pattern("sums"), slots=1))
    stage.gossip()
    stage.step(A, Ask(1, question()))
    stage.cut(A, B)
    (failed,) = stage.heard[A]
    assert isinstance(failed, CallFailed)
    assert failed.fault is CallFault.LOST


def ring() -> Stage:
    """C serves. From A, B is on the way there; D would do as well."""
    stage = Stage((A, B), (B, C), (C, D), (D, A))
    stage.step(C, Serve(1, Pattern("sums"), slots=2))
    stage.gossip()
    return stage


def test_a_link_that_breaks_in_the_middle_of_the_way_is_told() -> None:
    """Both ends still reach each other, and whether the request has arrived is known to nobody but the server."""
    stage = ring()
    stage.step(A, Ask(1, question()))
    assert stage.handed(C) == [Handed(1, 1, question())]
    stage.cut(B, C)
    (failed,) = stage.heard[A]
    assert isinstance(failed, CallFailed)
    assert (failed.fault, failed.detail) == (CallFault.LOST, "a link to c broke on its way")
    stage.gossip()
    stage.step(A, Ask(2, question()))
    assert [each.handle for each in stage.handed(C)] == [1, 2], "there is another way"


def test_a_request_that_never_arrived_is_told_as_well() -> None:
    stage = ring()
    stage.holds = True
    stage.step(A, Ask(1, question()))
    stage.step(B, ReceivedCall(A, stage.held.popleft()[1].frame))
    stage.held.clear()
    stage.holds = False
    stage.cut(B, C)
    assert [each.fault for each in stage.heard[A] if isinstance(each, CallFailed)] == [CallFault.LOST]
    assert stage.handed(C) == []


def test_who_gives_up_because_of_a_link_frees_the_server_over_another_way() -> None:
    stage = ring()
    stage.step(A, Ask(1, question()))
    stage.links.discard((B, C))
    stage.gossip()  # it is quicker than the link
    stage.cut(B, C)
    assert stage.heard[C][-1] == HandedOver(1, 1), "nobody waits for it any more"
    stage = ring()
    stage.step(A, Ask(1, question()))
    stage.links.discard((A, B))
    stage.gossip()
    stage.cut(A, B)
    assert stage.heard[C][-1] == HandedOver(1, 1), "and likewise if the link was the asker's own"


@pytest.mark.parametrize("end", ["answered", "refused", "cancelled", "too late"])
def test_what_is_over_is_of_no_interest_when_a_link_breaks(end: str) -> None:
    stage = ring()
    stage.step(A, Ask(1, question()))
    match end:
        case "answered":
            stage.step(C, Answer(1, 1, Reply(b"3", last=False)))
            assert len(stage.nodes[B]._passing) == 1, "there is more to come"
            stage.step(C, Answer(1, 1, Reply(b"4")))
        case "refused":
            stage.step(C, ServerGone(1))
        case "cancelled":
            stage.step(A, CancelCall(1))
        case _:
            stage.step(B, ReceivedCall(A, CallFrame(A, C, 2, question())), now_s=TIMEOUT_S)
            stage.step(A, ReceivedCall(B, CallFrame(C, A, 1, Reply(b""))))
    before = list(stage.heard[A])
    assert len(stage.nodes[B]._passing) == (end == "too late"), "the other one"
    stage.cut(B, C)
    assert stage.heard[A] == before


def test_a_node_remembers_a_bounded_number_of_requests_that_pass() -> None:
    stage = ring()
    stage.links.discard((B, C))  # what goes there is of no interest here
    for number in range(CALLS_PASSING_MAX + 3):
        stage.step(B, ReceivedCall(A, CallFrame(A, C, number, question())))
    assert len(stage.nodes[B]._passing) == CALLS_PASSING_MAX
    told = [each.frame.number for each in stage.nodes[B].link_down(C) if isinstance(each, SendCall)]
    assert told == list(range(3, CALLS_PASSING_MAX + 3)), "the oldest went"


def test_a_node_in_between_that_knows_no_way_sends_it_back() -> None:
    """It was handed to nobody, so another may have it, or the asker hears that there is no way."""
    stage = chain()
    stage.step(C, Serve(1, Pattern("sums"), slots=1))
    stage.gossip()
    stage.nodes[B].link_down(C)
    stage._routes[B].forget(C)
    stage.step(A, Ask(1, question()))
    (failed,) = stage.heard[A]
    assert isinstance(failed, CallFailed)
    assert failed.fault is CallFault.UNREACHABLE


def test_a_request_that_is_cancelled_far_away_frees_the_server() -> None:
    stage = chain()
    stage.step(C, Serve(1, Pattern("sums"), slots=1))
    stage.gossip()
    stage.step(A, Ask(1, question()))
    stage.step(A, CancelCall(1))
    assert stage.heard[C] == [Handed(1, 1, question()), HandedOver(1, 1)]


def test_a_reply_of_a_node_that_was_not_asked_is_for_nobody() -> None:
    stage = chain()
    stage.step(C, Serve(1, Pattern("sums"), slots=1))
    stage.gossip()
    stage.step(A, Ask(1, question()))
    for body in (Reply(b"mine"), Refusal(CallFault.LOST)):
        assert stage.step(A, ReceivedCall(B, CallFrame(B, A, 1, body))) == []
        assert stage.step(A, ReceivedCall(B, CallFrame(C, A, 2, body))) == []


def test_a_reply_that_is_missing_is_noticed() -> None:
    stage = chain()
    stage.step(C, Serve(1, Pattern("sums"), slots=1))
    stage.gossip()
    stage.step(A, Ask(1, question()))
    stage.step(A, ReceivedCall(B, CallFrame(C, A, 1, Reply(b"", last=False), index=0)))
    assert stage.step(A, ReceivedCall(B, CallFrame(C, A, 1, Reply(b"", last=False), index=0))) == [], "it came twice"
    (failed,) = stage.step(A, ReceivedCall(B, CallFrame(C, A, 1, Reply(b"end"), index=2)))
    assert isinstance(failed, CallFailed)
    assert failed.fault is CallFault.LOST


def test_a_frame_that_comes_twice_is_handled_once() -> None:
    stage = chain()
    stage.step(C, Serve(1, Pattern("sums"), slots=2))
    stage.gossip()
    frame = CallFrame(A, C, 1, question())
    stage.step(C, ReceivedCall(B, frame))
    stage.step(C, ReceivedCall(B, frame))
    stage.step(C, Answer(1, 1, Reply(b"")))
    stage.step(C, ReceivedCall(B, frame))
    assert len(stage.handed(C)) == 1
    stage.step(C, ReceivedCall(B, CallFrame(A, C, 2, Cancel())))
    stage.step(C, ReceivedCall(B, CallFrame(A, C, 2, question())))
    assert len(stage.handed(C)) == 1, "it was called off before it came"


def test_a_frame_goes_in_circles_for_a_while_only() -> None:
    stage = Stage((A, B))
    stage._routes[B].know(NodeState(C, 1, 1, Epoch(1), neighbours=(A,), interest=(Pattern("weft.serve.sums"),)))
    stage._routes[B].know(NodeState(A, 1, 99, Epoch(1), neighbours=(B, C)))
    stage._routes[A].know(NodeState(C, 1, 1, Epoch(1), neighbours=(B,), interest=(Pattern("weft.serve.sums"),)))
    stage._routes[A].know(NodeState(B, 1, 99, Epoch(1), neighbours=(A, C)))
    stage.step(A, Ask(1, question()))
    (failed,) = stage.heard[A]
    assert isinstance(failed, CallFailed)
    assert failed.fault is CallFault.UNREACHABLE


# --- whatever happens ------------------------------------------------------------------------------------------------

NODES = (A, B, C)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from(NODES)),
        st.tuples(st.just("serve"), st.sampled_from(NODES)),
        st.tuples(st.just("gone"), st.sampled_from(NODES)),
        st.tuples(st.just("answer"), st.sampled_from(NODES)),
        st.tuples(st.just("gossip"), st.sampled_from(NODES)),
        st.tuples(st.just("hold"), st.sampled_from(NODES)),
        st.tuples(st.just("let go"), st.sampled_from(NODES)),
    ),
    max_size=60,
)


@given(ACTIONS)
def test_every_request_is_handed_out_once_at_most_and_ends_once(actions: list[tuple[str, NodeId]]) -> None:
    stage = chain()
    asked, servers = 0, 0
    for action, node in actions:
        match action:
            case "ask":
                asked += 1
                stage.step(node, Ask(asked, question(payload=str(asked).encode())))
            case "serve":
                servers += 1
                stage.step(node, Serve(servers, Pattern("sums"), slots=1 + servers % 2))
            case "gone":
                here = [each.server for each in stage.handed(node)]
                stage.step(node, ServerGone(here[-1] if here else servers))
            case "answer":
                for each in stage.handed(node):
                    stage.step(node, Answer(each.server, each.handle, Reply(each.question.payload)))
            case "gossip":
                stage.gossip()
            case "hold":
                stage.holds = True
            case _:
                stage.let_go()
    stage.let_go()
    for node in NODES:
        for server in range(1, servers + 1):
            stage.step(node, ServerGone(server))
    stage.let_go()
    handed = Counter(each.question.payload for node in NODES for each in stage.handed(node))
    assert all(times == 1 for times in handed.values()), handed
    ends: Counter[int] = Counter()
    for node in NODES:
        for heard in stage.heard[node]:
            if isinstance(heard, Replied):
                assert heard.reply.payload == str(heard.number).encode(), "it is the reply to another request"
            if isinstance(heard, Replied | CallFailed):
                ends[heard.number] += 1
    assert ends == Counter(range(1, asked + 1)), "every asker hears one end"
