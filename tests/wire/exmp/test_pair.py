"""Two connections back to back, doing whatever hypothesis thinks of, over a link that cuts bytes anywhere."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from weft.wire.exmp import (
    Closed,
    Connection,
    End,
    Event,
    Failure,
    HandshakeDone,
    Operation,
    Outcome,
    PongReceived,
    RequestReceived,
    ResponseReceived,
    Settings,
    State,
    Success,
)

PENDING_MAX = 3
SETTINGS = Settings(pending_max=PENDING_MAX)

# The codecs have tests of their own; here it is enough that messages differ.
OPERATIONS: st.SearchStrategy[Operation] = st.builds(Operation, st.sampled_from("abc"), st.just({}))
OUTCOMES: st.SearchStrategy[Outcome] = st.sampled_from([Success(), Success({"n": 1}), Failure("no")])


@dataclass
class Side:
    """One end: its connection, what is on the way to it, and what its application remembers."""

    connection: Connection
    inbox: bytearray = field(default_factory=bytearray)
    asked: deque[tuple[int, Operation]] = field(default_factory=deque)  # our requests without an answer
    answers: deque[tuple[int, Outcome]] = field(default_factory=deque)  # sent, not yet received by the other side
    working_on: int | None = None
    closed: Closed | None = None


class Pair(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.sides = (Side(Connection(SETTINGS, 0.0)), Side(Connection(SETTINGS, 0.0)))

    def other(self, side: Side) -> Side:
        return self.sides[1] if side is self.sides[0] else self.sides[0]

    def hear(self, side: Side, events: list[Event]) -> None:
        peer = self.other(side)
        for event in events:
            assert side.closed is None, "nothing follows Closed"
            match event:
                case RequestReceived(request_id, operation):
                    assert side.working_on is None, "one request at a time"
                    waiting = dict(peer.asked)
                    assert waiting[request_id] == operation
                    side.working_on = request_id
                case ResponseReceived(request_id, outcome):
                    assert (request_id, outcome) == peer.answers.popleft()
                    assert request_id == side.asked.popleft()[0]
                case Closed():
                    assert event.end in (End.BYE_SENT, End.BYE_RECEIVED, End.TIMEOUT, End.ERROR_RECEIVED), event
                    assert event.code in (None, 0), event
                    side.closed = event
                case HandshakeDone() | PongReceived():
                    pass
                case _:
                    raise AssertionError(f"two honest peers never cause {event}")

    def collect(self, side: Side) -> None:
        self.other(side).inbox += side.connection.data_to_send()

    which = st.integers(0, 1)

    @rule(which=which, size=st.integers(1, 200))
    def deliver(self, which: int, size: int) -> None:
        side = self.sides[which]
        data = bytes(side.inbox[:size])
        del side.inbox[:size]
        self.hear(side, side.connection.receive_data(data, self.now_s))
        self.collect(side)

    @rule(which=which, operation=OPERATIONS)
    def ask(self, which: int, operation: Operation) -> None:
        side = self.sides[which]
        if side.connection.state is State.OPEN and side.connection.backlog.requests_out < PENDING_MAX:
            side.asked.append((side.connection.send_request(operation.op, operation.data), operation))
            self.collect(side)

    @rule(which=which, outcome=OUTCOMES)
    def answer(self, which: int, outcome: Outcome) -> None:
        side = self.sides[which]
        if side.working_on is not None:
            request_id, side.working_on = side.working_on, None
            if side.closed is None:
                side.answers.append((request_id, outcome))
            self.hear(side, side.connection.send_response(request_id, outcome, self.now_s))
            self.collect(side)

    @rule(which=which)
    def wait_for_timer(self, which: int) -> None:
        side = self.sides[which]
        timer_s = side.connection.get_timer()
        if timer_s is not None:
            self.now_s = max(self.now_s, timer_s)
            self.hear(side, side.connection.handle_timer(self.now_s))
            self.collect(side)

    @precondition(lambda self: all(side.connection.state is State.OPEN for side in self.sides))
    @rule(which=which, luck=st.integers(0, 9))
    def close(self, which: int, luck: int) -> None:
        if luck == 0:
            side = self.sides[which]
            self.hear(side, side.connection.close())
            self.collect(side)

    @invariant()
    def counters_agree(self) -> None:
        for side in self.sides:
            backlog = side.connection.backlog
            assert backlog.requests_out == len(side.asked) <= PENDING_MAX
            assert backlog.requests_in <= PENDING_MAX
            assert not side.connection.is_held, "our own peer keeps to the limit"
            assert (side.closed is not None) == (side.connection.state is State.CLOSED)

    def teardown(self) -> None:
        """Let everything arrive and everybody answer: two open sides then agree that nothing is owed."""
        for _ in range(2 * PENDING_MAX):
            for which in (0, 1):
                self.deliver(which, 1 << 20)
                self.answer(which, Success())
        for side in self.sides:
            if all(each.closed is None for each in self.sides):
                assert not side.asked
                assert not side.answers
        if any(side.closed for side in self.sides):
            assert all(side.closed for side in self.sides), "the end reaches both sides"


TestPair = Pair.TestCase
TestPair.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
